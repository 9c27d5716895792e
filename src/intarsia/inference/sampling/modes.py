"""Search for local maxima of the score that matter and that the chains of a sampler have not visited."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.inference.method import Problem
from intarsia.inference.sampling.icm import climb, random_labelling

_N_RANDOM = 32  # climbs from random labellings
_MAX_FORCED = 64  # climbs that force a variable into a rare state
_RARE = 0.01  # or the tolerance, if it is smaller
_N_ERRORS = 4.0  # standard errors by which a marginal may be below a proven one
_NEGLIGIBLE = 0.01  # fraction of the tolerance: the probability below which a maximum does not matter


def check_modes(
    problem: Problem,
    states: list[IntArray],
    mean: FloatArray,
    error: FloatArray,
    earlier_starts: set[bytes],
    tol: float,
) -> tuple[bool, IntArray | None]:
    """Return whether marginals agree with the local maxima of the score, and the best maximum still to start from.

    Chains that all stay in one mode agree with each other; only the scores can show that there are other modes. A
    chain must have started from each maximum that has a rare statistic and a score at which its probability can matter
    (`earlier_starts`, in bytes), and no marginal may be below the probability that follows from the score of a maximum.
    """
    graph, theta = problem.graph, problem.theta
    rare = np.abs(mean) <= min(tol, _RARE)
    if not rare.any():
        return True, None
    maxima = {y.tobytes(): y for y in [*(_climbed(problem, y) for y in states), *_maxima(problem, states[0], rare)]}
    labels = np.stack(list(maxima.values()))
    gap = np.asarray(graph.score(theta, labels))
    best = int(gap.argmax())
    gap = gap - gap[best]
    candidates = [
        (gap[i], i)
        for i, (key, y) in enumerate(maxima.items())
        if gap[i] >= math.log(_NEGLIGIBLE * max(tol, 1e-6))
        and key not in earlier_starts
        and graph.statistics(y)[rare].any()
    ]
    if candidates:
        return False, labels[max(candidates)[1]]
    # The best maximum has at least the probability `certain`, and the others in proportion.
    entries = graph.variable_ptr[:-1] + labels
    certain = 1.0 - float((1.0 - mean[entries[best]]).sum())
    missing = np.exp(gap)[:, None] * certain - mean[entries]
    return not (missing > _N_ERRORS * error[entries]).any(), None


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
