"""A step along a direction that satisfies the strong Wolfe conditions, for functions that may be infinite or NaN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._validation import FloatArray
from intarsia.learning.search import Search, rounding

DECREASE, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 20


@dataclass(frozen=True, eq=False)
class Trial:
    """A step that was tried: value and gradient there, and the slope along the direction."""

    step: float
    value: float
    slope: float
    point: FloatArray
    gradient: FloatArray

    @property
    def finite(self) -> bool:
        """Whether all of it is a number."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


def wolfe_step(search: Search, direction: FloatArray, first: float) -> Trial | None:
    """A better point along `direction`, or None if there is none.

    A bracket that holds an acceptable step is narrowed by cubic interpolation. What is not finite counts as too far.
    When no step satisfies both conditions within `MAX_TRIALS`, the lowest that satisfies the first is taken.
    """
    start = Trial(0.0, search.value, float(search.gradient @ direction), search.point, search.gradient)
    if not start.slope < 0.0:
        return None
    low, high, best = start, None, None
    step, too_far = first, np.inf
    for _ in range(MAX_TRIALS):
        trial = _try(search, direction, step)
        if not trial.finite:
            too_far, high = step, None
            step = low.step + 0.1 * (step - low.step)
            continue
        lower = trial.value <= start.value + DECREASE * step * start.slope
        if lower and trial.value < (start.value - rounding(start.value) if best is None else best.value):
            best = trial
        # Close to the minimum values differ by rounding only, but slopes still tell.
        even = trial.value <= start.value + rounding(start.value)
        if (lower or even) and abs(trial.slope) <= -CURVATURE * start.slope:
            return trial
        if not lower or trial.value >= low.value:
            high = trial
        else:
            ahead = 1.0 if high is None or high.step > low.step else -1.0
            high, low = (low if ahead * trial.slope >= 0.0 else high), trial
        if high is None:
            step = min(4.0 * step, 0.5 * (step + too_far))
        elif max(high.step, low.step) <= 1e-12 * first:
            break
        else:
            step = _between(low, high)
    return best


def _try(search: Search, direction: FloatArray, step: float) -> Trial:
    point = step * direction
    point += search.point
    value, gradient = search.evaluate(point)
    return Trial(step, value, float(gradient @ direction), point, gradient)


def _between(low: Trial, high: Trial) -> float:
    """Where the cubic through both ends is lowest, kept away from the ends."""
    width = high.step - low.step
    mean = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    root = mean * mean - low.slope * high.slope
    share = 0.5
    if root >= 0.0:
        turn = np.copysign(np.sqrt(root), width)
        below = high.slope - low.slope + 2.0 * turn
        if below != 0.0:
            share = 1.0 - (high.slope + turn - mean) / below
    if not np.isfinite(share):
        share = 0.5
    return float(low.step + min(max(share, 0.1), 0.9) * width)
