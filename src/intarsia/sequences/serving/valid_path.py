"""Best labelling of one sequence under automata with NumPy alone, for processes that must start fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.sequences.constraints.automaton import Automaton
from intarsia.sequences.serving.chain_arrays import best_path

# Limit of positions times joint states times labels squared, which take about a second.
_MAX_SIZE = 10**8


def best_valid_path(
    nodes: FloatArray, transitions: FloatArray, automata: Sequence[Automaton], max_size: int = _MAX_SIZE
) -> list[int] | None:
    """Return the labels with the highest score that all automata accept, or None if there are none or it is too large.

    Automata are added as answers violate them: an answer that all accept is the best of all. The search is that of
    Viterbi over pairs of a joint state of the active automata and a label.

    Parameters
    ----------
    nodes : (T, k) float array
        Scores of labels, including those of the first and last label; T is at least 1.
    transitions : (k, k) float array
        Scores of a label (row) followed by another (column).
    automata : sequence of Automaton
        Automata that accept or reject and charge no penalties.
    max_size : int
        Limit of T times joint states times k squared.

    Examples
    --------
    At most one segment of label 1:

    >>> from intarsia.sequences import once
    >>> nodes = np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]])
    >>> best_valid_path(nodes, np.zeros((2, 2)), [once("x").automaton(["O", "x"], 3)])
    [1, 1, 1]
    """
    path, score = best_path(nodes, transitions)
    active: list[int] = []
    while score > -np.inf:
        violated = [i for i, automaton in enumerate(automata) if automaton.score(path) == -np.inf]
        if not violated:
            return path
        active = sorted({*active, *violated})
        members = [automata[i] for i in active]
        n_joint = int(np.prod([float(automaton.n_states) for automaton in members]))
        if n_joint * nodes.size * nodes.shape[1] > max_size:
            return None
        path, score = _search(nodes, transitions, members, n_joint)
    return None


def _search(
    nodes: FloatArray, transitions: FloatArray, automata: list[Automaton], n_joint: int
) -> tuple[list[int], float]:
    """Return the best labels that all automata accept, and their score; -inf if there are none."""
    (length, k), labels = nodes.shape, np.arange(nodes.shape[1])
    targets = [_joint_steps(automata, t, n_joint) for t in range(length)]
    prefix = np.full((length, n_joint, k), -np.inf)
    is_accepted = targets[0][0] >= 0
    prefix[0, targets[0][0][is_accepted], labels[is_accepted]] = nodes[0, is_accepted]
    for t in range(1, length):
        scores = (prefix[t - 1][:, :, None] + transitions).max(axis=1) + nodes[t]
        state, label = np.nonzero(targets[t] >= 0)
        np.maximum.at(prefix[t], (targets[t][state, label], label), scores[state, label])
    final = np.zeros(1)
    for automaton in automata:
        final = (final[:, None] + automaton.final).ravel()
    last = prefix[-1] + final[:, None]
    state, y = divmod(int(last.argmax()), k)
    score, path = float(last[state, y]), [y]
    for t in range(length - 1, 0, -1):
        before = np.where((targets[t][:, y] == state)[:, None], prefix[t - 1] + transitions[:, y], -np.inf)
        state, y = divmod(int(before.argmax()), k)
        path.append(y)
    return path[::-1], score


def _joint_steps(automata: list[Automaton], t: int, n_joint: int) -> IntArray:
    """Return the next joint state (n_joint, k) from each joint state by each label at position t; -1 rejects."""
    joint, is_rejected = np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.bool_)
    for automaton in automata:
        symbols = automaton.symbols[0 if automaton.kinds is None else int(automaton.kinds[t])]
        step = automaton.step[:, symbols]  # (n_states, k)
        shape = (-1, step.shape[1])
        joint = (joint[:, None] * automaton.n_states + np.maximum(step, 0)).reshape(shape)
        is_rejected = (is_rejected[:, None] | (step < 0)).reshape(shape)
    return np.where(is_rejected, -1, joint).reshape(n_joint, -1)
