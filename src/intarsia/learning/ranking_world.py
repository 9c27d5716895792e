"""Worlds in which SampleRank learns: a present state, neighbours, a score, a performance; labelled graphs as worlds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.partition import (
    ACCEPTED,
    ALWAYS,
    BY_MODEL,
    EQUAL_METRIC,
    EQUAL_SCORE,
    ERRORS,
    PROPOSED,
    RANKED,
    UPDATES,
    VALID,
    mend,
)
from intarsia.exceptions import InvalidInputError
from intarsia.learning.examples import Example


@dataclass(eq=False)
class RankingState:
    """Weights while they are learned by ranking, with what the update rule keeps; changed in place.

    Attributes
    ----------
    weights : float array
        The present weights.
    learned : float array (2, n_weights)
        Sums of squared changes (AdaGrad), and of steps times the number of proposals before each (averaging).
    counters : int array
        Proposals, those that were possible, accepted, of unequal F, ranked wrongly, and updates.
    rule, walk : int
        Update rule and way to go on, as numbered in `_kernels.partition`.
    rate, required, temperature : float
        Length of a step (with MIRA the greatest), required margin, and temperature of the walk (0: climb).
    """

    weights: FloatArray
    learned: FloatArray
    counters: IntArray
    rule: int
    walk: int
    rate: float
    required: float
    temperature: float


class RankingWorld(ABC):
    """A world for `SampleRank`: proposes a neighbour, tells how score and performance F would change, and goes there.

    Derive from it to learn by ranking over states of your own; only the abstract methods are needed. A move is whatever
    `propose` returns. `walk` is the loop over proposals, which a world with compiled loops replaces.
    """

    @property
    @abstractmethod
    def n_weights(self) -> int:
        """Length of the feature vector."""

    @property
    @abstractmethod
    def n_sites(self) -> int:
        """Size of the world, in records or variables: proposals are counted by it."""

    @abstractmethod
    def restart(self, rng: np.random.Generator) -> None:
        """Go to the state in which a walk begins."""

    @abstractmethod
    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Any | None:
        """A move from the present state, or None if what was drawn cannot be done."""

    @abstractmethod
    def feature_change(self, move: Any) -> FloatArray:
        """Features after the move, less those before."""

    @abstractmethod
    def performance_change(self, move: Any) -> float:
        """F after the move, less F before."""

    @abstractmethod
    def apply(self, move: Any) -> None:
        """Make the move."""

    @abstractmethod
    def undo(self) -> None:
        """Take back the last move."""

    @abstractmethod
    def performance(self) -> float:
        """F of the present state; 1 is perfect."""

    def score_change(self, move: Any, weights: FloatArray) -> float:
        """Score after the move, less that before."""
        return float(weights @ self.feature_change(move))

    def walk(self, state: RankingState, n_steps: int, rng: np.random.Generator) -> None:
        """Algorithm 1 of Rohanimanesh2009 for some proposals: compare, mend the weights, go on."""
        counters = state.counters
        for _ in range(n_steps):
            at = int(counters[PROPOSED])
            counters[PROPOSED] += 1
            move = self.propose(rng, state.weights)
            if move is None:
                continue
            counters[VALID] += 1
            gain, better = self.score_change(move, state.weights), self.performance_change(move)
            if abs(better) > EQUAL_METRIC:
                counters[RANKED] += 1
                sign = float(np.sign(better))
                margin = sign * gain
                counters[ERRORS] += margin <= 0.0
                if margin <= 0.0 or margin < state.required:
                    change = self.feature_change(move)
                    parts = (state.weights, state.learned, change, sign, margin)
                    counters[UPDATES] += mend(*parts, state.rule, state.rate, state.required, at)
                    gain = self.score_change(move, state.weights)
            if state.walk == BY_MODEL:
                if state.temperature > 0.0:
                    accept = np.log(rng.random()) < gain / state.temperature
                else:
                    accept = gain > EQUAL_SCORE
            else:
                accept = state.walk == ALWAYS or better > EQUAL_METRIC
            if accept:
                counters[ACCEPTED] += 1
                self.apply(move)


@dataclass(frozen=True, eq=False)
class Relabelling:
    """New states of some variables, and the entries of the statistics that go and come."""

    variables: IntArray
    states: IntArray
    gone: IntArray
    come: IntArray


class GraphWorld(RankingWorld):
    """Labellings of one graph; performance is the weighted share of right labels, hidden ones left out.

    A walk begins at random labels, or at the truth where hard constraints forbid those. A proposal costs the factors of
    the variables it changes; after a change of weights the scores of the whole graph are computed anew.

    Parameters
    ----------
    example : Example
        The labelled graph.
    block : int
        Most variables that change at once: each further one is a neighbour of one before.

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
        graph, given = example.form.graph, example.labels
        self._graph = graph
        self._ptr, self._idx = graph.pairs_by_variable
        weights = np.ones(graph.n_variables) if given.weights is None else given.weights
        weights = np.where(given.hidden, 0.0, weights)
        total = weights.sum()
        self._value = given.allowed * np.repeat(weights / total if total > 0.0 else weights, graph.n_states)
        self._free = np.flatnonzero(graph.n_states > 1)
        self._strides = _strides(graph.scope_ptr, graph.n_states[graph.scope_idx])
        self._weights: FloatArray | None = None
        self._theta = graph.zeros()
        self._past: list[tuple[IntArray, IntArray]] = []
        self.labels: IntArray = np.zeros(graph.n_variables, dtype=np.int64)

    @property
    def n_weights(self) -> int:
        """Length of the weights."""
        return self.example.scores.n_weights

    @property
    def n_sites(self) -> int:
        """Number of variables."""
        return self._graph.n_variables

    def restart(self, rng: np.random.Generator) -> None:
        """Go to random labels; to those of the truth, where the model forbids what was drawn."""
        graph = self._graph
        self._past = []
        fixed = self._scores(np.zeros(self.n_weights))
        self.labels = rng.integers(0, graph.n_states)
        if self._possible(fixed):
            return
        starts = graph.variable_ptr[:-1]
        allowed = np.flatnonzero(self.example.labels.allowed)
        self.labels = np.asarray(allowed[np.searchsorted(allowed, starts)] - starts)
        if not self._possible(fixed):
            raise InvalidInputError(
                "SampleRank: the labels of an example have a score of -inf whatever the weights. Correct them, label "
                "the hidden ones, or take out of the model what forbids them."
            )

    def relabelling(self, variables: IntArray | list[int], states: IntArray | list[int]) -> Relabelling:
        """The move that gives some variables new states."""
        graph = self._graph
        chosen, new = np.asarray(variables, dtype=np.int64), np.asarray(states, dtype=np.int64)
        after = self.labels.copy()
        after[chosen] = new
        factors = np.unique(np.concatenate([self._factors_of(v) for v in chosen]))
        gone, come = graph.variable_ptr[chosen] + self.labels[chosen], graph.variable_ptr[chosen] + new
        entries = [[self._entry(c, labels) for c in factors] for labels in (self.labels, after)]
        return Relabelling(
            chosen,
            new,
            np.concatenate([gone, np.array(entries[0], dtype=np.int64)]),
            np.concatenate([come, np.array(entries[1], dtype=np.int64)]),
        )

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Relabelling | None:
        """Other states for a variable drawn at random, or for a few neighbours; None where the model forbids them."""
        if self._free.size == 0:
            return None
        graph = self._graph
        chosen = [int(rng.choice(self._free))]
        for _ in range(int(rng.integers(1, self.block + 1)) - 1):
            factor = self._factors_of(chosen[int(rng.integers(len(chosen)))])
            if factor.size:
                near = int(rng.choice(graph.scope(int(rng.choice(factor)))))
                if near not in chosen and graph.n_states[near] > 1:
                    chosen.append(near)
        shift = rng.integers(1, graph.n_states[chosen])  # each to another state
        move = self.relabelling(chosen, (self.labels[chosen] + shift) % graph.n_states[chosen])
        return None if (self._scores(weights)[move.come] == -np.inf).any() else move

    def feature_change(self, move: Relabelling) -> FloatArray:
        """Features after the move, less those before."""
        difference = self._graph.zeros()
        np.add.at(difference, move.come, 1.0)
        np.add.at(difference, move.gone, -1.0)
        return self.example.scores.pull_back(self.example.form.pull_back(difference))

    def score_change(self, move: Relabelling, weights: FloatArray) -> float:
        """Score after the move, less that before."""
        theta = self._scores(weights)
        return float(theta[move.come].sum() - theta[move.gone].sum())

    def performance_change(self, move: Relabelling) -> float:
        """Share of right labels after the move, less that before."""
        n = move.variables.size
        return float(self._value[move.come[:n]].sum() - self._value[move.gone[:n]].sum())

    def apply(self, move: Relabelling) -> None:
        """Make the move."""
        self._past.append((move.variables, self.labels[move.variables]))
        self.labels[move.variables] = move.states

    def undo(self) -> None:
        """Take back the last move."""
        if not self._past:
            raise InvalidInputError("GraphWorld.undo: nothing to take back. Apply a move first.")
        variables, states = self._past.pop()
        self.labels[variables] = states

    def performance(self) -> float:
        """Weighted share of right labels."""
        return float(self._value[self._graph.variable_ptr[:-1] + self.labels].sum())

    def _scores(self, weights: FloatArray) -> FloatArray:
        """Scores of the graph, anew only when the weights have changed."""
        if self._weights is None or not np.array_equal(self._weights, weights):
            self._weights = weights.copy()
            self._theta = self.example.form.lower(self.example.scores.theta(weights))
        return self._theta

    def _possible(self, theta: FloatArray) -> bool:
        return bool((theta[self._graph.statistics(self.labels) != 0.0] > -np.inf).all())

    def _factors_of(self, variable: int) -> IntArray:
        return self._graph.factor_of_pair[self._idx[self._ptr[variable] : self._ptr[variable + 1]]]

    def _entry(self, factor: int, labels: IntArray) -> int:
        graph = self._graph
        first, last = graph.scope_ptr[factor], graph.scope_ptr[factor + 1]
        at = labels[graph.scope_idx[first:last]] @ self._strides[first:last]
        return int(graph.table_ptr[graph.table_of_factor[factor]] + at)


def _strides(scope_ptr: IntArray, sizes: IntArray) -> IntArray:
    """How far apart states of each variable in a scope lie in the factor's table (C order)."""
    found = np.ones(sizes.size, dtype=np.int64)
    for first, last in pairwise(scope_ptr):
        found[first : last - 1] = np.cumprod(sizes[last - 1 : first : -1])[::-1]
    return found
