"""SampleRank's loop over proposals (Algorithm 1): compare two states, update the weights, accept or reject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from intarsia.worlds.world import World


@dataclass(eq=False)
class RankingState:
    """Weights while they are learned by ranking, with the memory of the update rule; changed in place.

    Attributes
    ----------
    weights : float array
        Current weights.
    update_sums : float array (2, n_weights)
        Sums of squared changes (AdaGrad), and of steps times the number of proposals before each (averaging).
    counters : int array
        Numbers of proposals, valid proposals, accepted ones, pairs of unequal F, pairs ranked wrongly, and updates.
    rule, walk : int
        Update rule and acceptance rule, as numbered in `_kernels.partition`.
    rate, required, temperature : float
        Learning rate (for MIRA the largest step), required margin, and temperature of the walk (0: hill climbing).
    """

    weights: FloatArray
    update_sums: FloatArray
    counters: IntArray
    rule: int
    walk: int
    rate: float
    required: float
    temperature: float


def rank_neighbours(world: World, state: RankingState, n_steps: int, rng: np.random.Generator) -> None:
    """Run Algorithm 1 of Rohanimanesh2009 in Python for `n_steps` proposals; world and state are changed in place."""
    counters = state.counters
    for _ in range(n_steps):
        n_before = int(counters[PROPOSED])
        counters[PROPOSED] += 1
        move = world.propose(rng, state.weights)
        if move is None:
            continue
        counters[VALID] += 1
        score_gain, performance_gain = world.score_change(move, state.weights), world.performance_change(move)
        if np.isnan(performance_gain):
            raise InvalidInputError(
                f"{type(world).__name__}.performance_change returned NaN for the move {move!r:.80}. Change it to "
                f"return a number."
            )
        if abs(performance_gain) > EQUAL_METRIC:
            counters[RANKED] += 1
            sign = float(np.sign(performance_gain))
            margin = sign * score_gain
            counters[ERRORS] += margin <= 0.0
            if margin <= 0.0 or margin < state.required:
                change = np.ascontiguousarray(world.feature_change(move), dtype=np.float64)
                arguments = (state.weights, state.update_sums, change, sign, margin)
                counters[UPDATES] += mend(*arguments, state.rule, state.rate, state.required, n_before)
                score_gain = world.score_change(move, state.weights)
        if state.walk == BY_MODEL:
            if state.temperature > 0.0:
                accept = np.log(rng.random()) < score_gain / state.temperature
            else:
                accept = score_gain > EQUAL_SCORE
        else:
            accept = state.walk == ALWAYS or performance_gain > EQUAL_METRIC
        if accept:
            counters[ACCEPTED] += 1
            world.apply(move)
