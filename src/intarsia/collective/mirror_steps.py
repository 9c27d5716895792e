"""Trial steps of mirror descent: where they lead, and what is needed to accept them."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia._validation import FloatArray
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


def _divergence(problem: CollectiveProblem, along: float, old: Point, new: Point) -> float:
    """N times the relative entropy of the new distribution to the old: `<old tilt - new tilt, n> - N log Z / Z_old`."""
    return along - problem.n_walkers * (new.log_partition - old.log_partition)
