"""Proximal L-BFGS for a smooth function plus an L1 penalty: sparse solutions."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_number, read_only
from intarsia.learning.lbfgs import MAX_IDLE, has_pairs, remember_pair, stored_rows
from intarsia.learning.minimum import Minimum, Objective, Search, largest, rounding
from intarsia.learning.optimizer import Optimizer

DECREASE = 1e-4
MAX_HALVINGS = 40
# Entries become zero or nonzero one by one, so a prediction from the current ones is too small; see `PERIOD`.
PERIOD = 20
# Limits of coordinate descent: passes, and slopes relative to the largest entry of the pseudo-gradient.
MAX_PASSES, RELATIVE_SLOPE = 100, 0.02


class _Model(NamedTuple):
    """Minimizer of the quadratic model plus the penalty over the active entries, and the decrease that it predicts."""

    active: IntArray
    target: FloatArray
    slope: float
    decrease: float


class ProximalLBFGS(Optimizer):
    r"""Proximal L-BFGS: minimizes :math:`f(w) + l_1 \sum_i |w_i|` with f smooth.

    Choose it for L1 regularization: many entries of the solution are exactly 0. Each iteration minimizes the quadratic
    model of f with the Hessian B of L-BFGS, plus the penalty, by coordinate descent:

    .. math:: u = \arg\min_u \; \nabla f(w)^\top (u - w) + \tfrac12 (u - w)^\top B (u - w) + l_1 \lVert u \rVert_1,

    over the active entries only: those that are not 0, or whose slope exceeds l1. Since B is a multiple of the identity
    less a matrix of low rank, a pass over the active entries costs little beside an evaluation of f. A step towards u
    is halved until the value decreases sufficiently; the full step nearly always does. It needs several times fewer
    evaluations than orthant-wise L-BFGS (OWL-QN, Andrew2007), which CRFsuite uses. Reported values and gradients are
    those of the whole function, with the subgradient of minimum norm (the pseudo-gradient): if no entry exceeds `tol`,
    0 is (nearly) a subgradient.

    `MaximumLikelihood(l1=...)` uses it; it also works on its own for any smooth function.

    Parameters
    ----------
    l1 : float
        Coefficient of the L1 penalty.
    max_iter, tol, memory
        As in `LBFGS`. The tolerance applies to the pseudo-gradient, to the decrease that the model predicts, and to the
        decrease in the last 20 iterations, both relative to the value.

    References
    ----------
    Lee2014, for proximal quasi-Newton methods; Scheinberg2016, for coordinate descent with the L-BFGS matrix;
    Byrd1994, Theorem 2.3, for the compact form of B.

    Examples
    --------
    The minimum of (x - 3)^2 / 2 + (y - 1/2)^2 / 2 + |x| + |y| is at x = 2, y = 0.

    >>> shift = np.array([3.0, 0.5])
    >>> smooth = lambda w: (0.5 * float((w - shift) @ (w - shift)), w - shift)
    >>> ProximalLBFGS(l1=1.0).minimize(smooth, np.zeros(2)).point
    array([2., 0.])
    """

    name: ClassVar[str] = "proximal_lbfgs"

    def __init__(self, *, l1: float = 0.0, max_iter: int = 1000, tol: float = 1e-5, memory: int = 10) -> None:
        self.l1 = l1
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_number(self.l1, "ProximalLBFGS: l1", low=0.0, high=np.inf, open_high=True)
        check_number(self.max_iter, "ProximalLBFGS: max_iter", low=0, integer=True)
        check_number(self.tol, "ProximalLBFGS: tol", low=0.0)
        check_number(self.memory, "ProximalLBFGS: memory", low=1, integer=True)

    def minimize(self, objective: Objective, start: FloatArray, **settings: Any) -> Minimum:
        """Minimize from `start`; `objective` is the smooth part alone, without the L1 penalty."""
        self.check_settings()
        return super().minimize(_PenalizedObjective(objective, float(self.l1)), start, **settings)

    def advance(self, search: Search) -> None:
        """Make one step; if there is none, try again without the stored curvature."""
        slope = self._slope(search)
        step = self._step(search, slope)
        if step is None and has_pairs(search.memory):
            search.n_restarts += 1
            search.memory = {}
            step = self._step(search, slope)
        if step is None:
            search.stalled = True
            return
        point, value, gradient, new_slope = step
        remember_pair(search.memory, (point, search.point), (new_slope, slope), int(self.memory), products=True)
        improved = search.value - value > rounding(value) or largest(gradient) < search.best_norm
        n_idle = 0 if improved else int(search.memory.get("idle", np.array(0))) + 1
        search.memory["idle"], search.memory["slope"] = np.array(n_idle), new_slope
        search.stalled = n_idle >= MAX_IDLE
        search.accept(point, value, gradient)

    def confirms_convergence(self, search: Search) -> bool:
        """Return whether the model predicts no further decrease and the last iterations brought none."""
        return search.is_near_minimum(float(self.tol)) and search.decreased_within(PERIOD) <= self.tol

    def _slope(self, search: Search) -> FloatArray:
        """Return the gradient of the smooth part at the current point."""
        if "slope" in search.memory:
            return search.memory["slope"]
        objective: Any = search.objective
        return np.array(objective.smooth(search.point)[1])

    def _step(self, search: Search, slope: FloatArray) -> tuple[FloatArray, float, FloatArray, FloatArray] | None:
        """Return point, value, pseudo-gradient and smooth gradient after a step that lowers the value sufficiently."""
        objective: Any = search.objective
        model = self._minimize_model(search, slope)
        if model is None or not model.slope < 0.0:
            return None
        if has_pairs(search.memory):
            search.predict(model.decrease, float(self.tol))
        step = 1.0
        for _ in range(MAX_HALVINGS):
            point = search.point.copy()
            if step == 1.0:
                point[model.active] = model.target  # exact zeros
            else:
                point[model.active] += step * (model.target - point[model.active])
            value, gradient = search.evaluate(point)
            decrease = DECREASE * step * model.slope
            tolerance = 0.0 if decrease < -rounding(search.value) else rounding(search.value)
            if np.isfinite(gradient).all() and value <= search.value + decrease + tolerance:
                return point, value, gradient, objective.slope
            step *= 0.5
        return None

    def _minimize_model(self, search: Search, slope: FloatArray) -> _Model | None:
        """Minimize the quadratic model plus the penalty over the active entries; None if it is not finite."""
        from intarsia._kernels.coordinate_descent import descend_coordinates

        length = float(np.linalg.norm(search.gradient))
        if not np.isfinite(length) or length == 0.0:
            return None
        active = np.flatnonzero((search.point != 0.0) | (search.gradient != 0.0))
        scale, factors, scaled_factors = length, np.zeros((active.size, 0)), np.zeros((active.size, 0))
        if has_pairs(search.memory):
            scale, factors, scaled_factors = _hessian(search.memory, active)
        start, gradient, l1 = search.point[active], slope[active], float(self.l1)
        target = np.empty(active.size)
        descend_coordinates(
            read_only(start), read_only(gradient), scale, read_only(factors), read_only(scaled_factors), l1, MAX_PASSES,
            RELATIVE_SLOPE * largest(search.gradient), target,
        )  # fmt: skip
        direction = target - start
        model_slope = float(gradient @ direction) + l1 * float(np.abs(target).sum() - np.abs(start).sum())
        square = scale * float(direction @ direction)
        square -= float((direction @ factors) @ (scaled_factors.T @ direction))
        if not np.isfinite(model_slope + square):
            return None
        return _Model(active, target, model_slope, -model_slope - 0.5 * square)


def _hessian(memory: dict[str, Any], active: IntArray) -> tuple[float, FloatArray, FloatArray]:
    """Return scale, F and G of the L-BFGS matrix B = scale I - F G^T, with the rows of F and G of the active entries.

    With the steps S and changes of gradient Y as columns, F = [scale S, Y] and G = F M^-1, where M consists of the
    inner products of S and Y (Byrd1994, Theorem 2.3).
    """
    rows = stored_rows(memory)
    (steps, changes), (step_products, mixed_products) = memory["ring"], memory["products"]
    scale = float(changes[rows[-1]] @ changes[rows[-1]]) / float(memory["curvature"][rows[-1]])
    pairs = np.ix_(rows, rows)
    lower = np.tril(mixed_products[pairs], -1)
    middle = np.block([[scale * step_products[pairs], lower], [lower.T, -np.diag(np.diag(mixed_products)[rows])]])
    factors = np.concatenate([scale * steps[rows][:, active], changes[rows][:, active]])
    # The pseudo-inverse ignores directions that are lost by rounding if steps are nearly parallel.
    scaled = np.linalg.pinv(middle, rcond=1e-14, hermitian=True) @ factors
    return scale, np.ascontiguousarray(factors.T), np.ascontiguousarray(scaled.T)


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
