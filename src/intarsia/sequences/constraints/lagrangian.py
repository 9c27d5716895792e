r"""Lagrangian relaxation for automata whose joint states are too many: an upper bound and the best labelling so far.

The automata are divided into groups whose joint states are few. With multipliers :math:`\lambda_g` on the labels of
positions, :math:`\sum_g \lambda_g = 0`,

.. math:: \max_y \Bigl(s(y) + \sum_g a_g(y)\Bigr) \le \sum_g \max_y \Bigl(\tfrac1G s(y) + \lambda_g(y) + a_g(y)\Bigr),

where s is the score of the chain and :math:`a_g` the score of the automata of group g. The right side is minimized by
subgradient steps (dual decomposition, Sontag2011). Where all groups agree, their labelling is the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.sequences.constraints.automaton import Automaton
from intarsia.sequences.constraints.trellis import Automata, Trellis

MAX_ITER = 150
# Joint states times labels of one group, relative to the limit for all; each group is solved in each iteration.
GROUP_FRACTION = 0.02
BEAM = 200


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Best labelling and upper bound of a Lagrangian relaxation.

    Attributes
    ----------
    path : (length,) int array
        Best accepted labelling; -1 if none was found.
    score : float
        Its score, -inf if none was found.
    bound : float
        Upper bound on the score of every accepted labelling; -inf proves that there is none.
    n_iter : int
        Number of subgradient steps.
    """

    path: IntArray
    score: float
    bound: float
    n_iter: int


def path_score(nodes: FloatArray, tables: FloatArray, path: IntArray) -> float:
    """Return the score of a labelling without automata."""
    steps = tables[np.arange(path.size - 1) % len(tables), path[:-1], path[1:]]
    return float(nodes[np.arange(path.size), path].sum() + steps.sum())


def decompose(
    nodes: FloatArray, tables: FloatArray, automata: Automata, max_size: int, max_iter: int = MAX_ITER
) -> Relaxation:
    """Return the best labelling and the upper bound of a Lagrangian relaxation.

    Parameters
    ----------
    nodes : (length, n_labels) float array
        Scores of positions.
    tables : (1 or length - 1, n_labels, n_labels) float array
        Scores of transitions.
    automata : Automata
        Automata with scores that are not positive.
    max_size : int
        Limit of joint states times labels.
    max_iter : int
        Maximum number of subgradient steps.
    """
    (length, k), alive = nodes.shape, nodes > -np.inf
    groups = _divide(automata.members, nodes, max_size)
    ptr = np.array([0, length])

    def value_of(path: IntArray) -> float:
        return path_score(nodes, tables, path) + float(automata.scores(ptr, path, k).sum())

    path, score, bound = np.full(length, -1, dtype=np.int64), -np.inf, np.inf
    for candidate in _beam(nodes, tables, automata.members):
        candidate_score = value_of(candidate)
        if candidate_score > score:
            path, score = candidate, candidate_score
    n_groups = len(groups)
    multipliers = np.zeros((n_groups, length, k))
    shared_nodes, shared_tables = np.where(alive, nodes, 0.0) / n_groups, tables / n_groups
    shared_nodes[~alive] = -np.inf
    spread = float(np.ptp(nodes[alive])) if alive.any() else 1.0
    rate, n_iter, positions = 1.0, 0, np.arange(length)
    for n_iter in range(1, max_iter + 1):
        total, answers = 0.0, []
        for trellis, multiplier in zip(groups, multipliers, strict=True):
            paths, scores = trellis.best(shared_nodes + multiplier, shared_tables)
            if not scores.size:
                return Relaxation(np.full(length, -1, dtype=np.int64), -np.inf, -np.inf, n_iter)
            total += float(scores[0])
            answers.append(paths[0])
        rate = rate if total < bound - 1e-12 else 0.9 * rate
        bound = min(bound, total)
        for answer in answers:
            answer_score = value_of(answer)
            if answer_score > score:
                path, score = answer, answer_score
        tolerance = 1e-10 * max(1.0, abs(bound))
        if bound - score <= tolerance:
            break
        direction = np.zeros((n_groups, length, k))
        for g, answer in enumerate(answers):
            direction[g, positions, answer] = 1.0
        direction -= direction.mean(axis=0)
        norm = float((direction**2).sum())
        if norm == 0.0:
            break
        gap = total - score if score > -np.inf else max(spread, 1.0)
        multipliers -= rate * gap / norm * direction
    return Relaxation(path, score, max(bound, score), n_iter)


def _divide(automata: Sequence[Automaton], nodes: FloatArray, max_size: int) -> list[Trellis]:
    """Return the trellises of groups of automata; an automaton that is too large alone is left out of the bound."""
    alive, size = nodes > -np.inf, max(int(GROUP_FRACTION * max_size), 8 * nodes.size)
    groups: list[tuple[list[Automaton], Trellis]] = []
    for automaton in automata:
        for i, (members, _) in enumerate(groups):
            trellis = Automata([*members, automaton]).trellis(alive, size)
            if trellis is not None:
                groups[i] = [*members, automaton], trellis
                break
        else:
            trellis = Automata([automaton]).trellis(alive, max_size)
            if trellis is not None:
                groups.append(([automaton], trellis))
    if not groups:
        trellis = Automata([]).trellis(alive, max(max_size, 2 * nodes.size + 2 * nodes.shape[1]))
        return [trellis] if trellis is not None else []
    return [trellis for _, trellis in groups]


def _beam(nodes: FloatArray, tables: FloatArray, automata: Sequence[Automaton], width: int = BEAM) -> list[IntArray]:
    """Return labellings found by a beam search over joint states; none if all candidates were rejected."""
    length, k = nodes.shape
    suffix = np.zeros((length, k))
    for t in range(length - 2, -1, -1):
        suffix[t] = (tables[t % len(tables)] + nodes[t + 1] + suffix[t + 1]).max(axis=1)
    states, scores = np.zeros((1, len(automata)), dtype=np.int64), np.zeros(1)
    last = np.zeros(1, dtype=np.int64)
    history: list[tuple[IntArray, IntArray]] = []
    for t in range(length):
        totals = scores[:, None] + nodes[t]
        if t:
            totals = totals + tables[(t - 1) % len(tables)][last]
        following = np.empty((len(scores), k, len(automata)), dtype=np.int64)
        for r, automaton in enumerate(automata):
            symbols = automaton.symbols[0 if automaton.kinds is None else automaton.kinds[t]]
            following[:, :, r] = automaton.step[states[:, r, None], symbols]
            totals = totals + automaton.step_scores[states[:, r, None], symbols]
            totals = np.where(following[:, :, r] >= 0, totals, -np.inf)
            if t == length - 1:
                totals = totals + automaton.final[following[:, :, r]]
        outlook = (totals + suffix[t]).ravel()
        order = np.argsort(-outlook, kind="stable")
        order = order[outlook[order] > -np.inf][: 4 * width]
        if not order.size:
            return []
        beam_rows, labels = order // k, order % k
        # Of equal joint states with equal labels only the best continues.
        keys = np.column_stack([labels, following[beam_rows, labels]])
        _, first = np.unique(keys, axis=0, return_index=True)
        selected = np.sort(first)[:width]
        beam_rows, last = beam_rows[selected], labels[selected]
        states, scores = following[beam_rows, last], totals[beam_rows, last]
        history.append((beam_rows, last))
    path, row = np.empty(length, dtype=np.int64), int(np.argmax(scores))
    for t in range(length - 1, -1, -1):
        beam_rows, labels = history[t]
        path[t], row = labels[row], int(beam_rows[row])
    return [path]
