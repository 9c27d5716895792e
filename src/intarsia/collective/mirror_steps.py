"""Trial steps of mirror descent: where they lead, and what is needed to accept them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._kernels.mirror_flows import step_mirror_flows
from intarsia._validation import FloatArray
from intarsia.collective.oracle import SAFE
from intarsia.collective.problem import CollectiveProblem, Point


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


class FlowSteps(MirrorSteps):
    """Steps on squared errors of all cells and moves of a chain without the model's pull, by one fused kernel.

    That is what fitting noisy marginals amounts to; see `CollectiveProblem.is_least_squares_of_flows`. A step that
    leaves the safe range of doubles is made as any other.
    """

    def __init__(self, problem: CollectiveProblem) -> None:
        super().__init__(problem)
        tables = problem.tables
        self._shift = tables.maxima
        self._room = np.empty_like(tables.theta)
        self._messages = np.empty_like(problem.scores), np.empty_like(problem.scores)
        self._constant = float(problem.noise.value_and_slope(problem.noise.expected(problem.y), problem.y)[0])

    def step(self, now: Trial, steepness: float) -> tuple[Trial, float, float] | None:
        """By the kernel, if that is safe."""
        problem, old = self.problem, now.point
        rate, sigma = problem.noise.linear_gaussian or (1.0, 1.0)
        scores, n = problem.scores, problem.n_walkers
        tilt, walkers, slope = np.empty_like(problem.y), np.empty_like(problem.y), np.empty_like(problem.y)
        log_z, least, squares, along, along_new = step_mirror_flows(
            problem.tables.theta, scores, old.tilt, now.slope, 1.0 / steepness, self._shift, problem.y, rate,
            sigma**-2, n, tilt, self._room, *self._messages, walkers, slope,
        )  # fmt: skip
        if not least > SAFE:
            self._shift = problem.tables.maxima
            return super().step(now, steepness)
        problem.n_calls += 1
        new = Point(tilt, walkers, log_z)
        found = Trial(new, 0.5 * squares / sigma**2 + self._constant, slope, along_new)
        rise = found.value - now.value - (along - now.along)
        return found, rise, _divergence(problem, -along / steepness, old, new)


def _divergence(problem: CollectiveProblem, along: float, old: Point, new: Point) -> float:
    """N times the relative entropy of the new distribution to the old: `<old tilt - new tilt, n> - N log Z / Z_old`."""
    return along - problem.n_walkers * (new.log_partition - old.log_partition)
