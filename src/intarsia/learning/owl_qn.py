"""L-BFGS for a smooth function plus the sum of absolute weights: sparse solutions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, check_number
from intarsia.learning.lbfgs import MAX_IDLE, has_pairs, lbfgs_direction, remember_pair
from intarsia.learning.minimum import Minimum, Objective, Search, largest, rounding
from intarsia.learning.optimizer import Optimizer

DECREASE = 1e-4
MAX_HALVINGS = 40
# Where the penalty is weak, entries come and go one after the other: a prediction from those at present falls short.
WINDOW = 20


class OWLQN(Optimizer):
    r"""Minimum of :math:`f(w) + l_1 \sum_i |w_i|` with f smooth, by orthant-wise L-BFGS.

    Many entries of the solution are exactly 0. The direction is that of L-BFGS for the pseudo-gradient (the
    subgradient of least length), kept where it agrees with the way down; steps stay within the orthant in which they
    begin, entries that would leave it become 0. Where the search reports value and gradient, they are those of the
    whole function: no entry of the pseudo-gradient beyond `tol` means that 0 is (nearly) a subgradient.

    `MaximumLikelihood(l1=...)` calls it; use it by itself for any smooth function.

    Parameters
    ----------
    l1 : float
        Weight of the absolute values.
    max_iter, tol, memory
        As in `LBFGS`; the tolerance is for the pseudo-gradient and for the decrease predicted with it, and also for
        the decrease in the last 20 iterations, relative to the value.

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
        """Raise for settings that cannot be meant."""
        check_number(self.l1, "OWLQN: l1", low=0.0, high=np.inf, open_high=True)
        check_number(self.max_iter, "OWLQN: max_iter", low=0, integer=True)
        check_number(self.tol, "OWLQN: tol", low=0.0)
        check_number(self.memory, "OWLQN: memory", low=1, integer=True)

    def minimize(self, objective: Objective, start: FloatArray, **how: Any) -> Minimum:
        """Lowest point found from `start`; `objective` is the smooth part alone."""
        self.check_settings()
        return super().minimize(_Penalised(objective, float(self.l1)), start, **how)

    def advance(self, search: Search) -> None:
        """One step; where none can be found, once more without the curvature that was gathered."""
        slope = self._slope(search)
        found = self._step(search)
        if found is None and has_pairs(search.memory):
            search.n_restarts += 1
            search.memory = {}
            found = self._step(search)
        if found is None:
            search.stalled = True
            return
        point, value, gradient, new_slope = found
        remember_pair(search.memory, (point, search.point), (new_slope, slope), int(self.memory))
        gained = search.value - value > rounding(value) or largest(gradient) < search.best_norm
        idle = 0 if gained else int(search.memory.get("idle", np.array(0))) + 1
        search.memory["idle"], search.memory["slope"] = np.array(idle), new_slope
        search.stalled = idle >= MAX_IDLE
        search.accept(point, value, gradient)

    def settled(self, search: Search) -> bool:
        """Whether the curvature promises no further decrease, and there was none for many iterations."""
        past = search.rows[max(0, len(search.rows) - 1 - WINDOW)][0]
        return search.settled(float(self.tol)) and past - search.value <= float(self.tol) * search.scale

    def _slope(self, search: Search) -> FloatArray:
        """Gradient of the smooth part at the present point."""
        if "slope" in search.memory:
            return search.memory["slope"]
        whole: Any = search.objective
        return np.array(whole.smooth(search.point)[1])

    def _step(self, search: Search) -> tuple[FloatArray, float, FloatArray, FloatArray] | None:
        """Point, value, pseudo-gradient and gradient of the smooth part after a step that lowers the value enough."""
        whole: Any = search.objective
        down = -search.gradient
        length = float(np.linalg.norm(down))
        if not np.isfinite(length) or length == 0.0:
            return None
        curved = has_pairs(search.memory)
        direction = lbfgs_direction(search.gradient, search.memory) if curved else down
        direction = np.where(direction * down > 0.0, direction, 0.0)
        if curved:
            search.predict(direction, float(self.tol))
        orthant = np.where(search.point != 0.0, np.sign(search.point), np.sign(down))
        step = 1.0 if curved else 1.0 / length
        for _ in range(MAX_HALVINGS):
            point = search.point + step * direction
            point[point * orthant <= 0.0] = 0.0
            value, gradient = search.evaluate(point)
            decrease = DECREASE * float(search.gradient @ (point - search.point))
            even = 0.0 if decrease < -rounding(search.value) else rounding(search.value)
            if np.isfinite(gradient).all() and value <= search.value + decrease + even:
                return point, value, gradient, whole.slope
            step *= 0.5
        return None


class _Penalised:
    """Value with the penalty, and pseudo-gradient; `slope` is the smooth part's gradient where it was called last."""

    def __init__(self, smooth: Objective, l1: float) -> None:
        self.smooth = smooth
        self.l1 = l1
        self.slope = np.empty(0)

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        value, slope = self.smooth(point)
        self.slope = np.array(slope)
        return value + self.l1 * float(np.abs(point).sum()), pseudo_gradient(self.slope, point, self.l1)


def pseudo_gradient(slope: FloatArray, point: FloatArray, l1: float) -> FloatArray:
    """The subgradient of least length of a smooth function plus `l1` times the absolute values (Andrew2007 Eq. 4).

    Examples
    --------
    >>> pseudo_gradient(np.array([0.5, -3.0, 0.5]), np.array([0.0, 0.0, 2.0]), 1.0)
    array([ 0. , -2. ,  1.5])
    """
    shrunk = np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0)
    return np.where(point != 0.0, slope + l1 * np.sign(point), shrunk)
