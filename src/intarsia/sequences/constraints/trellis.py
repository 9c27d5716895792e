"""Exact inference on one sequence under automata: best labellings, log partition function, marginals, samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.automaton_arguments import AutomatonTables, Layers, PrefixScores
from intarsia._kernels.chain_automata import (
    add_marginals,
    build_layers,
    draw_nodes,
    find_best_nodes,
    highest_to_nodes,
    rank_states,
    score_paths,
    sum_to_nodes,
)
from intarsia.sequences.constraints.automaton import Automaton

# Limit of joint states times labels, summed over the positions of a sequence: about 250 MB.
MAX_SIZE = 2 * 10**7


@dataclass(frozen=True, eq=False)
class Trellis:
    """Labellings of one sequence that several automata accept, as paths through layers of joint states.

    The automata are deterministic, so that labellings and paths are in one-to-one correspondence. Joint states that
    accept the same continuations are merged, and those that cannot be reached or cannot end are left out. The cost of
    inference is the number of joint states times the number of labels squared. Scores are passed to each method, so
    a trellis can be used again while the weights of a model change.

    Attributes
    ----------
    layers : Layers
        Joint states by layer.
    """

    layers: Layers

    @property
    def is_possible(self) -> bool:
        """Whether the automata accept at least one labelling by alive labels."""
        return bool(self.layers.final.size)

    @property
    def accepts_all(self) -> bool:
        """Whether the automata accept every labelling with score 0."""
        layers = self.layers
        return bool((layers.step >= 0).all() and not layers.gain.any() and not layers.final.any())

    def _alpha(self, nodes: FloatArray, tables: FloatArray, is_sum: bool) -> FloatArray:
        alpha = np.empty((int(self.layers.ptr[-1]), nodes.shape[1]))
        (sum_to_nodes if is_sum else highest_to_nodes)(self.layers, nodes, tables, alpha)
        return alpha

    def best(self, nodes: FloatArray, tables: FloatArray, n_best: int = 1) -> tuple[IntArray, FloatArray]:
        """Return the best accepted labellings (n, length) and their scores (n,), with n at most `n_best`.

        Parameters
        ----------
        nodes : (length, n_labels) float array
            Scores of positions, including those of the first and last label.
        tables : (1 or length - 1, n_labels, n_labels) float array
            Scores of transitions.
        n_best : int
            Number of labellings.
        """
        length, k = nodes.shape
        path_nodes, scores = np.full((n_best, length), -1, dtype=np.int64), np.full(n_best, -np.inf)
        if self.is_possible:
            waiting = np.empty(n_best), np.empty((n_best, 3), dtype=np.int64)
            alpha = self._alpha(nodes, tables, is_sum=False)
            find_best_nodes(self.layers, nodes, tables, alpha, path_nodes, scores, *waiting)
        n = int((scores > -np.inf).sum())
        return path_nodes[:n] % k, scores[:n]

    def log_partition(self, nodes: FloatArray, tables: FloatArray) -> float:
        """Return the logarithm of the summed exponential scores of accepted labellings; -inf if there are none."""
        return self._log_partition(self._alpha(nodes, tables, is_sum=True)) if self.is_possible else -np.inf

    def _log_partition(self, alpha: FloatArray) -> float:
        last = alpha[int(self.layers.ptr[-2]) :] + self.layers.final[:, None]
        maximum = float(last.max(initial=-np.inf))
        return maximum if maximum == -np.inf else maximum + float(np.log(np.exp(last - maximum).sum()))

    def marginals(
        self, nodes: FloatArray, tables: FloatArray, n_tables: int = 0
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return log Z, the probabilities of labels, and those of transitions.

        Parameters
        ----------
        nodes, tables : float arrays
            As in `best`.
        n_tables : int
            0 for no transitions, 1 for their sum over all steps, or the number of steps for a table per step.
        """
        length, k = nodes.shape
        node_marginals, step_marginals = np.zeros((length, k)), np.zeros((n_tables, k, k))
        if not self.is_possible:
            return -np.inf, node_marginals, step_marginals
        alpha = self._alpha(nodes, tables, is_sum=True)
        log_partition = self._log_partition(alpha)
        if log_partition > -np.inf:
            add_marginals(self.layers, nodes, tables, alpha, log_partition, node_marginals, step_marginals)
        return log_partition, node_marginals, step_marginals

    def sample(self, nodes: FloatArray, tables: FloatArray, n_samples: int, rng: np.random.Generator) -> IntArray:
        """Draw independent labellings (n_samples, length); -1 if there is none."""
        paths = np.full((n_samples, nodes.shape[0]), -1, dtype=np.int64)
        if self.is_possible:
            draw_nodes(self.layers, nodes, tables, self._alpha(nodes, tables, is_sum=True), rng, paths)
        return paths


class Automata:
    """Automata of one sequence, with their tables.

    Parameters
    ----------
    members : sequence of Automaton
        Automata with scores that are not positive.
    """

    def __init__(self, members: Sequence[Automaton]) -> None:
        self.members = list(members)

    def __len__(self) -> int:
        """Return the number of automata."""
        return len(self.members)

    @cached_property
    def has_penalties(self) -> bool:
        """Whether an automaton charges finite penalties, so that the best labelling may be a penalized one."""
        return any(
            automaton.scores is not None or bool(((automaton.final < 0) & (automaton.final > -np.inf)).any())
            for automaton in self.members
        )

    @cached_property
    def _tables(self) -> AutomatonTables:
        return pack_automata(self.members)

    def subset(self, indices: Sequence[int]) -> Automata:
        """Return some of the automata."""
        return Automata([self.members[i] for i in indices])

    def scores(self, ptr: IntArray, labels: IntArray, n_labels: int) -> FloatArray:
        """Return the scores (n_sequences, n_automata) of labellings, one after the other; -inf if rejected."""
        scores = np.empty((ptr.size - 1, len(self)))
        score_paths(self._tables, ptr, labels, n_labels, scores)
        return scores

    def trellis(self, alive: NDArray[np.bool_], max_size: int = MAX_SIZE) -> Trellis | None:
        """Return the trellis of a sequence, or None if it would be larger than `max_size`.

        Parameters
        ----------
        alive : (length, n_labels) bool array
            Labels that are possible at each position; length is at least 1.
        max_size : int
            Limit of the number of joint states times the number of labels.
        """
        k = alive.shape[1]
        no_scores = PrefixScores(np.zeros((1, k)), np.zeros((1, k, k)), np.zeros((1, k)))
        return self._build(alive, max_size, no_scores, 0.0)[0]

    def likely_trellis(self, scores: PrefixScores, max_size: int, threshold: float) -> tuple[Trellis | None, float]:
        """Return the trellis without joint states of low probability, and the probability that was left out."""
        return self._build(scores.nodes > -np.inf, max_size, scores, threshold)

    def _build(
        self, alive: NDArray[np.bool_], max_size: int, scores: PrefixScores, threshold: float
    ) -> tuple[Trellis | None, float]:
        (length, k), tables = alive.shape, self._tables
        n_states = int(tables.state_ptr[-1])
        if (length + 1) * max(n_states, k) > max(max_size, MAX_SIZE):
            return None, 0.0
        tables = tables._replace(kinds=np.ascontiguousarray(np.broadcast_to(tables.kinds, (len(self), length))))
        ranks = np.empty((length + 1, n_states), dtype=np.int32)
        states = np.empty((length + 1, n_states), dtype=np.int32)
        alive = read_only(np.ascontiguousarray(alive))
        scores = PrefixScores(*(read_only(np.ascontiguousarray(array)) for array in scores))
        rank_states(tables, alive, ranks, states)
        has_scores = bool(tables.step_scores.any())
        is_complete, layers, mass = build_layers(
            tables, alive, ranks, states, max_size // k, has_scores, scores, threshold
        )
        return (Trellis(layers) if is_complete else None), float(mass)


def pack_automata(automata: Sequence[Automaton]) -> AutomatonTables:
    """Return the tables of several automata one after the other."""
    sizes = [automaton.n_states for automaton in automata]
    n_symbols = np.array([automaton.step.shape[1] for automaton in automata], dtype=np.int64)
    length = max((automaton.kinds.size for automaton in automata if automaton.kinds is not None), default=1)
    kinds = np.zeros((len(automata), length), dtype=np.int64)
    for r, automaton in enumerate(automata):
        if automaton.kinds is not None:
            kinds[r] = automaton.kinds
    flat_symbols = [automaton.symbols.ravel() for automaton in automata]
    return AutomatonTables(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        _offsets([size * n for size, n in zip(sizes, n_symbols.tolist(), strict=True)]),
        n_symbols,
        _flat([automaton.step for automaton in automata], np.int64),
        _flat([automaton.step_scores for automaton in automata], np.float64),
        _flat([automaton.final for automaton in automata], np.float64),
        _offsets([symbols.size for symbols in flat_symbols]),
        _flat(flat_symbols, np.int64),
        kinds,
    )


def _offsets(sizes: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.zeros(0, dtype=np.int64)


def _flat(arrays: Sequence[NDArray[np.generic]], dtype: type) -> NDArray[np.generic]:
    return np.concatenate([np.empty(0, dtype), *(array.ravel() for array in arrays)]).astype(dtype)
