"""Search through the states of a world: counts, limits, and the best state so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._kernels.partition import ACCEPTED, PROPOSED

if TYPE_CHECKING:
    from intarsia.worlds.world import World


class OutOfTime(Exception):
    """Signal that ends a search at its time limit; `decode` catches it."""


class Search:
    """Bookkeeping of one search: score, counts, time limit, and the best visited state.

    A decoder moves through `world` with `step`, or by itself and then calls `count`.

    Parameters
    ----------
    world : World
        World, changed in place.
    weights : float array (n_weights,)
        Weights of the score.
    rng : Generator
        Random number generator.
    deadline : float
        Time of `time.perf_counter` after which `step` and `count` end the search.
    report : function, optional
        Shows progress: called with the number of proposals and the best score.

    Attributes
    ----------
    score, best_score : float
        Score of the current state and of the best one.
    n_proposed, n_accepted : int
        Numbers of moves.
    best_state : object or None
        Copy of the best state; None if the current state is the best one and was not copied.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [2.0]), ClusterModel(absent=False))
    >>> search = Search(world, np.array([1.0]), np.random.default_rng(0))
    >>> search.step(10), search.best_score
    (1, 2.0)
    """

    def __init__(
        self,
        world: World,
        weights: FloatArray,
        rng: np.random.Generator,
        *,
        deadline: float = np.inf,
        report: Callable[[int, float], None] | None = None,
    ) -> None:
        self.world = world
        self.weights = weights
        self.rng = rng
        self.n_proposed = self.n_accepted = 0
        self.score = self.best_score = self._exact_score(0.0)
        self._deadline = deadline
        self._report = report
        # None: the current state is the best one. Compiled hill climbing never leaves it, so that it needs no copy.
        self.best_state: Any = None
        if not world.compiled:
            self.store_best()

    def step(self, n_steps: int, temperature: float = 0.0, cooling: float = 1.0) -> int:
        """Run proposals in one call of `World.search`; return how many were accepted."""
        if temperature > 0.0:
            self.store_best()
        gain, counters = self.world.search(self.weights, n_steps, self.rng, temperature, cooling)
        n_accepted = int(counters[ACCEPTED])
        self._update(gain, int(counters[PROPOSED]), n_accepted, climbing=temperature == 0.0)
        return n_accepted

    def count(self, n_proposed: int, n_accepted: int, gain: float | None = None) -> None:
        """Count moves that a decoder made itself, which changed the score by `gain`; None computes it from features.

        A decoder that makes moves which lower the score calls `store_best` before the first one.
        """
        if gain is None:
            gain = self._exact_score(self.score) - self.score
        self._update(gain, n_proposed, n_accepted, climbing=self.best_state is None)

    def store_best(self) -> None:
        """Store a copy of the best state before the search leaves it."""
        if self.best_state is None:
            self.best_state = self.world.snapshot()

    def restore_best(self) -> None:
        """Go back to the best state."""
        if self.best_state is not None:
            self.world.restore(self.best_state)
            self.score = self.best_score
            if self.world.compiled:
                self.best_state = None

    def finish(self) -> None:
        """Leave the world at the best state and compute its score without rounding errors of many updates."""
        self.restore_best()
        self.world.refresh()
        self.score = self._exact_score(self.best_score)

    def _update(self, gain: float, n_proposed: int, n_accepted: int, *, climbing: bool) -> None:
        """Update counts, score and best state; raise at the time limit."""
        self.score += gain
        self.n_proposed += n_proposed
        self.n_accepted += n_accepted
        if self.score > self.best_score:
            self.best_score = self.score
            self.best_state = None
            if not (climbing and self.world.compiled):
                self.store_best()
        if self._report is not None:
            self._report(self.n_proposed, self.best_score)
        if time.perf_counter() > self._deadline:
            raise OutOfTime

    def _exact_score(self, fallback: float) -> float:
        """Return the score from the features of the current state, or a fallback if the world has no features."""
        return self.world.score(self.weights) if self.world.has_features else fallback
