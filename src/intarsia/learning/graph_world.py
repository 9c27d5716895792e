"""World of a factor graph: a labelling, random relabellings, and how score and performance change."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.learning.examples import Example
from intarsia.worlds.world import World


@dataclass(frozen=True, eq=False)
class Relabelling:
    """New states of some variables, with the entries of the statistics that are removed and added."""

    variables: IntArray
    states: IntArray
    removed: IntArray
    added: IntArray


class GraphWorld(World):
    """Labellings of one graph; performance F is the weighted fraction of right labels, without hidden ones.

    A walk starts at random labels, or at the truth if hard constraints forbid them. The cost of a proposal is
    proportional to the number of factors of the variables it changes; after a change of weights the scores of the whole
    graph are computed again.

    Parameters
    ----------
    example : Example
        The labelled graph.
    block : int
        Maximum number of variables that change at once; each further one is a neighbour of an earlier one.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import LinearScores
    >>> world = GraphWorld(example(LinearScores(chain_graph(2, 2), [[1.0], [1.0]]), [1, 1]))
    >>> move = world.relabelling([0], [1])
    >>> world.performance(), world.performance_change(move)
    (0.0, 0.5)
    >>> world.apply(move)
    >>> world.labels.tolist()
    [1, 0]
    """

    def __init__(self, example: Example, block: int = 1) -> None:
        self.example = example
        self.block = block
        graph, labels = example.form.graph, example.labels
        self._graph = graph
        self.n_weights, self.n_sites = example.scores.n_weights, graph.n_variables
        self._ptr, self._idx = graph.pairs_by_variable
        weights = np.ones(graph.n_variables) if labels.weights is None else labels.weights
        weights = np.where(labels.hidden, 0.0, weights)
        total = weights.sum()
        self._label_value = labels.allowed * np.repeat(weights / total if total > 0.0 else weights, graph.n_states)
        self._free = np.flatnonzero(graph.n_states > 1)
        self._strides = _strides(graph.scope_ptr, graph.n_states[graph.scope_idx])
        self._weights: FloatArray | None = None
        self._theta = graph.zeros()
        self._undo_stack: list[tuple[IntArray, IntArray]] = []
        self.labels: IntArray = np.zeros(graph.n_variables, dtype=np.int64)

    @property
    def state(self) -> IntArray:
        """Current label of each variable."""
        return self.labels

    @state.setter
    def state(self, labels: IntArray) -> None:
        self.labels, self._undo_stack = labels, []

    def restart(self, rng: np.random.Generator) -> None:
        """Go to random labels, or to the true ones if the model forbids the draw."""
        graph = self._graph
        self._undo_stack = []
        fixed = self._scores(np.zeros(self.n_weights))
        self.labels = rng.integers(0, graph.n_states)
        if self._possible(fixed):
            return
        starts = graph.variable_ptr[:-1]
        allowed = np.flatnonzero(self.example.labels.allowed)
        self.labels = np.asarray(allowed[np.searchsorted(allowed, starts)] - starts)
        if not self._possible(fixed):
            raise InvalidInputError(
                "SampleRank: the labels of an example have a score of -inf for all weights. Correct them, label the "
                "hidden ones, or remove the hard constraint that forbids them."
            )

    def relabelling(self, variables: IntArray | list[int], states: IntArray | list[int]) -> Relabelling:
        """Return the move that sets some variables to new states."""
        graph = self._graph
        changed, new_states = np.asarray(variables, dtype=np.int64), np.asarray(states, dtype=np.int64)
        new_labels = self.labels.copy()
        new_labels[changed] = new_states
        factors = np.unique(np.concatenate([self._factors_of(v) for v in changed]))
        removed, added = graph.variable_ptr[changed] + self.labels[changed], graph.variable_ptr[changed] + new_states
        entries = [[self._entry(c, labels) for c in factors] for labels in (self.labels, new_labels)]
        return Relabelling(
            changed,
            new_states,
            np.concatenate([removed, np.array(entries[0], dtype=np.int64)]),
            np.concatenate([added, np.array(entries[1], dtype=np.int64)]),
        )

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Relabelling | None:
        """Return new states for a random variable or a few neighbours; None if the model forbids them."""
        if self._free.size == 0:
            return None
        graph = self._graph
        changed = [int(rng.choice(self._free))]
        for _ in range(int(rng.integers(1, self.block + 1)) - 1):
            factors = self._factors_of(changed[int(rng.integers(len(changed)))])
            if factors.size:
                neighbour = int(rng.choice(graph.scope(int(rng.choice(factors)))))
                if neighbour not in changed and graph.n_states[neighbour] > 1:
                    changed.append(neighbour)
        shift = rng.integers(1, graph.n_states[changed])  # every variable gets another state
        move = self.relabelling(changed, (self.labels[changed] + shift) % graph.n_states[changed])
        return None if (self._scores(weights)[move.added] == -np.inf).any() else move

    def features(self) -> FloatArray:
        """Return the features of the current labels."""
        return self.example.scores.pull_back(self.example.form.pull_back(self._graph.statistics(self.labels)))

    def feature_change(self, move: Relabelling) -> FloatArray:
        """Return the features after the move minus those before."""
        difference = self._graph.zeros()
        np.add.at(difference, move.added, 1.0)
        np.add.at(difference, move.removed, -1.0)
        return self.example.scores.pull_back(self.example.form.pull_back(difference))

    def score_change(self, move: Relabelling, weights: FloatArray) -> float:
        """Return the score after the move minus the score before."""
        theta = self._scores(weights)
        return float(theta[move.added].sum() - theta[move.removed].sum())

    def performance_change(self, move: Relabelling) -> float:
        """Return the fraction of right labels after the move minus that before."""
        n = move.variables.size
        return float(self._label_value[move.added[:n]].sum() - self._label_value[move.removed[:n]].sum())

    def apply(self, move: Relabelling) -> None:
        """Apply the move to the labels."""
        self._undo_stack.append((move.variables, self.labels[move.variables]))
        self.labels[move.variables] = move.states

    def undo(self) -> None:
        """Undo the last move."""
        if not self._undo_stack:
            raise InvalidInputError("GraphWorld.undo: there is no move to undo. Call apply first.")
        variables, states = self._undo_stack.pop()
        self.labels[variables] = states

    def performance(self) -> float:
        """Return the weighted fraction of right labels."""
        return float(self._label_value[self._graph.variable_ptr[:-1] + self.labels].sum())

    def _scores(self, weights: FloatArray) -> FloatArray:
        """Return the scores of the graph; computed again only if the weights have changed."""
        if self._weights is None or not np.array_equal(self._weights, weights):
            self._weights = weights.copy()
            self._theta = self.example.form.lower(self.example.scores.theta(weights))
        return self._theta

    def _possible(self, theta: FloatArray) -> bool:
        """Return whether the current labels have a finite score."""
        return bool((theta[self._graph.statistics(self.labels) != 0.0] > -np.inf).all())

    def _factors_of(self, variable: int) -> IntArray:
        """Return the factors of a variable."""
        return self._graph.factor_of_pair[self._idx[self._ptr[variable] : self._ptr[variable + 1]]]

    def _entry(self, factor: int, labels: IntArray) -> int:
        """Return the position in the statistics of the entry of a factor that the labels select."""
        graph = self._graph
        first, last = graph.scope_ptr[factor], graph.scope_ptr[factor + 1]
        offset = labels[graph.scope_idx[first:last]] @ self._strides[first:last]
        return int(graph.table_ptr[graph.table_of_factor[factor]] + offset)


def _strides(scope_ptr: IntArray, sizes: IntArray) -> IntArray:
    """Return the stride of each variable of a scope in the table of its factor (C order)."""
    strides = np.ones(sizes.size, dtype=np.int64)
    for first, last in pairwise(scope_ptr):
        strides[first : last - 1] = np.cumprod(sizes[last - 1 : first : -1])[::-1]
    return strides
