"""Orthant-wise L-BFGS (OWL-QN) for a smooth function plus an L1 penalty: sparse solutions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, check_number
from intarsia.learning.lbfgs import MAX_IDLE, has_pairs, lbfgs_direction, remember_pair
from intarsia.learning.minimum import Minimum, Objective, Search, largest, rounding
from intarsia.learning.optimizer import Optimizer

DECREASE = 1e-4
MAX_HALVINGS = 40
# With a weak penalty, entries become zero or nonzero one by one, so a prediction from the current ones is too small.
WINDOW = 20


class OWLQN(Optimizer):
    r"""Orthant-wise L-BFGS (OWL-QN): minimizes :math:`f(w) + l_1 \sum_i |w_i|` with f smooth.

    Choose it for L1 regularization: many entries of the solution are exactly 0. The direction is that of L-BFGS for the
    pseudo-gradient (the subgradient of minimum norm), set to 0 in entries that do not point downhill. Steps stay within
    the orthant in which they start; entries that would leave it become 0. Reported values and gradients are those of
    the whole function: if no entry of the pseudo-gradient exceeds `tol`, 0 is (nearly) a subgradient.

    `MaximumLikelihood(l1=...)` uses it; it also works on its own for any smooth function.

    Parameters
    ----------
    l1 : float
        Coefficient of the L1 penalty.
    max_iter, tol, memory
        As in `LBFGS`. The tolerance applies to the pseudo-gradient, to the decrease predicted with it, and to the
        decrease in the last 20 iterations relative to the value.

    References
    ----------
    Andrew2007.

    Examples
    --------
    The minimum of (x - 3)^2 / 2 + (y - 1/2)^2 / 2 + |x| + |y| is at x = 2, y = 0.

    >>> shift = np.array([3.0, 0.5])
    >>> OWLQN(l1=1.0).minimize(lambda w: (0.5 * float((w - shift) @ (w - shift)), w - shift), np.zeros(2)).point
    array([2., 0.])
    """

    name: ClassVar[str] = "owl_qn"

    def __init__(self, *, l1: float = 0.0, max_iter: int = 1000, tol: float = 1e-5, memory: int = 10) -> None:
        self.l1 = l1
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_number(self.l1, "OWLQN: l1", low=0.0, high=np.inf, open_high=True)
        check_number(self.max_iter, "OWLQN: max_iter", low=0, integer=True)
        check_number(self.tol, "OWLQN: tol", low=0.0)
        check_number(self.memory, "OWLQN: memory", low=1, integer=True)

    def minimize(self, objective: Objective, start: FloatArray, **settings: Any) -> Minimum:
        """Minimize from `start`; `objective` is the smooth part alone, without the L1 penalty."""
        self.check_settings()
        return super().minimize(_PenalizedObjective(objective, float(self.l1)), start, **settings)

    def advance(self, search: Search) -> None:
        """Make one step; if there is none, try again without the stored curvature."""
        slope = self._slope(search)
        step = self._step(search)
        if step is None and has_pairs(search.memory):
            search.n_restarts += 1
            search.memory = {}
            step = self._step(search)
        if step is None:
            search.stalled = True
            return
        point, value, gradient, new_slope = step
        remember_pair(search.memory, (point, search.point), (new_slope, slope), int(self.memory))
        improved = search.value - value > rounding(value) or largest(gradient) < search.best_norm
        n_idle = 0 if improved else int(search.memory.get("idle", np.array(0))) + 1
        search.memory["idle"], search.memory["slope"] = np.array(n_idle), new_slope
        search.stalled = n_idle >= MAX_IDLE
        search.accept(point, value, gradient)

    def confirms_convergence(self, search: Search) -> bool:
        """Return whether the curvature predicts no further decrease and the last iterations brought none."""
        earlier_value = search.rows[max(0, len(search.rows) - 1 - WINDOW)][0]
        return (
            search.is_near_minimum(float(self.tol)) and earlier_value - search.value <= float(self.tol) * search.scale
        )

    def _slope(self, search: Search) -> FloatArray:
        """Return the gradient of the smooth part at the current point."""
        if "slope" in search.memory:
            return search.memory["slope"]
        objective: Any = search.objective
        return np.array(objective.smooth(search.point)[1])

    def _step(self, search: Search) -> tuple[FloatArray, float, FloatArray, FloatArray] | None:
        """Return point, value, pseudo-gradient and smooth gradient after a step that lowers the value sufficiently."""
        objective: Any = search.objective
        downhill = -search.gradient
        length = float(np.linalg.norm(downhill))
        if not np.isfinite(length) or length == 0.0:
            return None
        has_curvature = has_pairs(search.memory)
        direction = lbfgs_direction(search.gradient, search.memory) if has_curvature else downhill
        direction = np.where(direction * downhill > 0.0, direction, 0.0)
        if has_curvature:
            search.predict(direction, float(self.tol))
        orthant = np.where(search.point != 0.0, np.sign(search.point), np.sign(downhill))
        step = 1.0 if has_curvature else 1.0 / length
        for _ in range(MAX_HALVINGS):
            point = search.point + step * direction
            point[point * orthant <= 0.0] = 0.0
            value, gradient = search.evaluate(point)
            decrease = DECREASE * float(search.gradient @ (point - search.point))
            tolerance = 0.0 if decrease < -rounding(search.value) else rounding(search.value)
            if np.isfinite(gradient).all() and value <= search.value + decrease + tolerance:
                return point, value, gradient, objective.slope
            step *= 0.5
        return None


class _PenalizedObjective:
    """The objective with its L1 penalty; `slope` is the gradient of the smooth part at the last call."""

    def __init__(self, smooth: Objective, l1: float) -> None:
        self.smooth = smooth
        self.l1 = l1
        self.slope = np.empty(0)

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Compute value and pseudo-gradient."""
        value, slope = self.smooth(point)
        self.slope = np.array(slope)
        return value + self.l1 * float(np.abs(point).sum()), pseudo_gradient(self.slope, point, self.l1)


def pseudo_gradient(slope: FloatArray, point: FloatArray, l1: float) -> FloatArray:
    """Return the minimum-norm subgradient of a smooth function plus an L1 penalty (Andrew2007 Eq. 4).

    Examples
    --------
    >>> pseudo_gradient(np.array([0.5, -3.0, 0.5]), np.array([0.0, 0.0, 2.0]), 1.0)
    array([ 0. , -2. ,  1.5])
    """
    soft_threshold = np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0)
    return np.where(point != 0.0, slope + l1 * np.sign(point), soft_threshold)
