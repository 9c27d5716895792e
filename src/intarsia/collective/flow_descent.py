"""Mirror descent on flows: single trial steps, and many steps at a time for squared errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, read_only
from intarsia._kernels.arguments import FlowErrors, FlowScratch
from intarsia._kernels.mirror_flows import UNSAFE, descend_mirror_flows
from intarsia.collective.oracle import SAFE
from intarsia.collective.problem import CollectiveProblem, Point
from intarsia.exceptions import IntarsiaError


@dataclass(frozen=True, eq=False)
class Trial:
    """A point with the noise there: its value, its slope, and the slope times the walkers."""

    point: Point
    value: float
    slope: FloatArray
    along: float


class MirrorSteps:
    """Steps of any problem.

    Parameters
    ----------
    problem : CollectiveProblem
        Noise with a slope.
    """

    def __init__(self, problem: CollectiveProblem) -> None:
        self.problem = problem

    def judge(self, point: Point) -> Trial:
        """The noise at a point."""
        value, slope = self.problem.noise.value_and_slope(point.walkers, self.problem.y)
        return Trial(point, value, slope, float(slope @ point.walkers))

    def step(self, now: Trial, steepness: float) -> tuple[Trial, float, float] | None:
        """Where a step leads, what f rises above its tangent, and the divergence; None when no path is possible."""
        problem, old, w = self.problem, now.point, self.problem.model_weight
        if w == 0:  # nothing pulls back: the slope adds up
            tilt = old.tilt + now.slope / steepness
        else:
            tilt = (steepness * old.tilt + now.slope) / (steepness + w)
        new = problem.evaluate(tilt)
        if new is None:
            return None
        found = self.judge(new)
        rise = found.value - now.value - float(now.slope @ (new.walkers - old.walkers))
        return found, rise, _divergence(problem, float((old.tilt - tilt) @ new.walkers), old, new)


def _divergence(problem: CollectiveProblem, along: float, old: Point, new: Point) -> float:
    """N times the relative entropy of the new distribution to the old: `<old tilt - new tilt, n> - N log Z / Z_old`."""
    return along - problem.n_walkers * (new.log_partition - old.log_partition)


# Entries of tables that are worked between two looks at the clock: some hundredths of a second.
_BLOCK = 4.0e6


class FlowDescent:
    """Descent on what fitting noisy marginals amounts to; see `CollectiveProblem.is_least_squares_of_flows`.

    Parameters
    ----------
    problem : CollectiveProblem
        Squared errors of everything, without the model's pull.
    relief : float
        What is left of the steepness after an accepted step, once a step had to be repeated.

    Attributes
    ----------
    most : int
        Steps of one call of `advance` at most.
    """

    def __init__(self, problem: CollectiveProblem, relief: float) -> None:
        self.problem, self.relief = problem, relief
        self.most = int(min(max(_BLOCK / problem.y.size, 1), 1000))
        shape, theta = problem.scores.shape, problem.tables.theta
        self._tables, self._slopes = np.empty_like(theta), np.empty((2, problem.y.size))
        self._messages = np.empty(shape), np.empty(shape), np.empty(shape)
        self._constant = float(problem.noise.value_and_slope(problem.noise.expected(problem.y), problem.y)[0])
        self._numbers = np.zeros(7)

    def begin(self, at: Trial, steepness: float, relief: float) -> None:
        """Go on from a point that was reached otherwise."""
        problem = self.problem
        n = problem.scores.size
        self._cells = problem.scores - at.point.tilt[:n].reshape(problem.scores.shape)
        self._moves = problem.tables.theta - at.point.tilt[n:].reshape(problem.tables.theta.shape)
        self._shift = self._moves.reshape(len(self._moves), -1).max(axis=1, initial=-np.inf)
        self._slopes[0] = at.slope
        self._numbers[:] = at.point.log_partition, at.value, steepness, relief, self.relief, 0, 0

    def advance(self, n_iter: int, tol: float) -> tuple[FloatArray, bool]:
        """Make steps; what each led to (value, relative fall, calls of the oracle), and whether more can be made so."""
        problem, history = self.problem, np.empty((n_iter, 3))
        rate, sigma = problem.noise.linear_gaussian or (1.0, 1.0)
        self._numbers[5] = problem.n_calls
        errors = FlowErrors(read_only(problem.y), rate, sigma**-2, self._constant, problem.n_walkers)
        scratch = FlowScratch(self._shift, self._tables, *self._messages)
        made, why = descend_mirror_flows(
            n_iter, tol, SAFE, self._cells, self._moves, self._slopes, self._numbers, errors, scratch, history
        )
        problem.n_calls = int(self._numbers[5])
        return history[:made], why != UNSAFE

    @property
    def steepness(self) -> float:
        """That of the next step."""
        return float(self._numbers[2])

    def where(self) -> Trial:
        """The point that was reached, by a call of the oracle."""
        problem = self.problem
        scores = np.concatenate([self._cells.reshape(-1), self._moves.reshape(-1)])
        given = np.concatenate([problem.scores.reshape(-1), problem.tables.theta.reshape(-1)])
        tilt = np.zeros(given.size)
        np.subtract(given, scores, out=tilt, where=given > -np.inf)
        point = problem.evaluate(tilt)
        if point is None:
            raise IntarsiaError("FlowDescent: a point that was possible is not any more.")
        value, slope = problem.noise.value_and_slope(point.walkers, problem.y)
        return Trial(point, value, slope, float(slope @ point.walkers))
