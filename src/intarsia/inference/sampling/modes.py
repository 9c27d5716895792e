"""Search for local maxima of the score that matter and that the chains of a sampler have not visited."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray
from intarsia.inference.method import Problem
from intarsia.inference.sampling.icm import climb, random_labelling

_N_RANDOM = 32  # climbs from random labellings
_MAX_FORCED = 64  # climbs that force a variable into a rare state
_NEGLIGIBLE = 0.01  # fraction of the tolerance: the probability below which a maximum does not matter


def unvisited_mode(
    problem: Problem, states: list[IntArray], rare: NDArray[np.bool_], tried: set[bytes], tol: float
) -> IntArray | None:
    """Return the best local maximum with a rare statistic, or None if none has a probability that matters.

    Chains that all stay in one mode agree with each other; only the scores can show that there are other modes.
    `states` are those of the chains, `rare` marks entries of mu that they hardly visited, `tried` are earlier answers.
    """
    graph, theta = problem.graph, problem.theta
    if not rare.any():
        return None
    reference = max(float(graph.score(theta, _climbed(problem, y))) for y in states)
    best, best_score = None, -np.inf
    for y in _maxima(problem, states[0], rare):
        score = float(graph.score(theta, y))
        if score > best_score and y.tobytes() not in tried and (graph.statistics(y) != 0.0)[rare].any():
            best, best_score = y, score
        reference = max(reference, score)
    return best if best_score >= reference + math.log(_NEGLIGIBLE * max(tol, 1e-6)) else None


def _maxima(problem: Problem, state: IntArray, rare: NDArray[np.bool_]) -> Iterator[IntArray]:
    """Yield local maxima near random labellings, and near a state with a variable forced to a rare state."""
    graph, theta = problem.graph, problem.theta
    for _ in range(_N_RANDOM):
        if problem.clock.expired:
            return
        yield _climbed(problem, random_labelling(graph, theta, problem.rng))
    split = int(graph.variable_ptr[-1])
    entries = np.flatnonzero(rare[:split] & (theta[:split] > -np.inf))
    for entry in problem.rng.permutation(entries)[:_MAX_FORCED].tolist():
        if problem.clock.expired:
            return
        v = int(np.searchsorted(graph.variable_ptr, entry, "right")) - 1
        forced, y = theta.copy(), state.copy()
        forced[int(graph.variable_ptr[v]) : int(graph.variable_ptr[v + 1])] = -np.inf
        y[v], forced[entry] = entry - int(graph.variable_ptr[v]), 0.0
        climb(graph, forced, y)
        yield _climbed(problem, y)


def _climbed(problem: Problem, y: IntArray) -> IntArray:
    """Return the local maximum that is reached from a labelling."""
    result = y.copy()
    climb(problem.graph, problem.theta, result)
    return result
