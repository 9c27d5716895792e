"""What can be learned by ranking: a world with a present state, neighbours, a score and a measure of performance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from intarsia._validation import FloatArray, IntArray


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
