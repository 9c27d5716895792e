"""Second-order steps for blocks on which ADMM is slow: the proximal method of multipliers with Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csc_array, csr_array, diags_array, eye_array, vstack

from intarsia._core.validation import FloatArray
from intarsia._kernels.hinge_admm import EQUALITY, INEQUALITY, SQUARED
from intarsia.softlogic.admm.plan import AdmmPlan

_MAX_NEWTON = 50  # Newton steps per minimization
_MIN_CHANGE = 1e-13  # smaller changes of x are rounding errors
_SHRINK, _MIN_PROXIMAL = 0.1, 1e-9  # weight of both quadratic terms: factor per step, smallest per unit of force


class NewtonSteps:
    r"""Steps of the proximal method of multipliers on an independent block (Rockafellar1976).

    With the rows scaled to length 1, the box written as rows, and multipliers y, one step is

    .. math:: x^+ = \arg\min_x \sum_j \max_{0 \le t \le top_j}
              \big[ t\, \ell_j(x) - \tfrac{curve_j}{2} t^2 - \tfrac{\delta}{2} (t - y_j)^2 \big]
              + \tfrac{\epsilon}{2} |x - x^-|^2, \qquad y^+_j = t_j(x^+).

    The function is strictly convex, differentiable and piecewise quadratic, so Newton's method with an exact line
    search finds its minimum in finitely many steps, also for weights and coefficients of very different sizes and for
    multipliers that are not unique. A smaller :math:`\delta = \epsilon` needs fewer steps. Every Newton step solves a
    sparse linear system in variables and active rows, so the method is used only for small blocks.

    Parameters
    ----------
    plan : AdmmPlan
        Order of variables and rows.
    rows : tuple of arrays
        Rows from `AdmmPlan.weighted_rows`.
    block : int
        Number of the block.
    fine : bool
        Continue until the quadratic terms are small beside the lightest hinge, not only beside the mean of all.
    """

    def __init__(self, plan: AdmmPlan, rows: tuple[Any, ...], block: int, fine: bool = False) -> None:
        r0, r1 = plan.row_start[block : block + 2]
        v0, v1 = plan.variable_start[block : block + 2]
        _, _, _, const, curve, top, kind = rows
        self._pulls = np.flatnonzero((curve[r0:r1] < np.inf) & (top[r0:r1] > 0.0))
        active_rows = r0 + self._pulls
        matrix = plan.block_matrix(block)[self._pulls]
        self._length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).reshape(-1)
        n, self._n_rows = int(v1 - v0), int(r1 - r0)
        force = (
            np.where(
                kind[active_rows] == SQUARED,
                0.5 / np.where(curve[active_rows] > 0.0, curve[active_rows], 1.0),
                top[active_rows],
            )
            * self._length
        )
        force = force[kind[active_rows] < INEQUALITY]
        mean = float(force.mean()) if force.size else 1.0
        self._unit = unit = float(force.min()) if force.size and fine else mean
        box = eye_array(n, format="csr")
        scaled = csr_array(matrix / self._length[:, None])
        self._matrix = csr_array(vstack([scaled, box, -box]))
        unbounded = np.full(2 * n, np.inf)
        self._const: FloatArray = np.concatenate([const[active_rows] / self._length, -np.ones(n), np.zeros(n)])
        self._curve: FloatArray = np.append(curve[active_rows] / self._length**2 * unit, np.zeros(2 * n))
        self._low: FloatArray = np.append(np.where(kind[active_rows] == EQUALITY, -np.inf, 0.0), np.zeros(2 * n))
        self._top: FloatArray = np.append(top[active_rows] * self._length / unit, unbounded)
        self._box = np.zeros(2 * n)
        self._weight = 1e-2 * mean / unit

    def advance(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Make a step from the variables of the block and multipliers of its rows; return their new values."""
        start = np.append(y[self._pulls] * self._length / self._unit, self._box)
        start = np.clip(start, self._low, self._top)
        x, t = self._minimise(x, start, self._weight)
        self._weight = max(_SHRINK * self._weight, _MIN_PROXIMAL)
        self._box = t[self._pulls.size :]
        multipliers = np.zeros(self._n_rows)
        multipliers[self._pulls] = t[: self._pulls.size] * self._unit / self._length
        return np.clip(x, 0.0, 1.0), multipliers

    def _minimise(self, center: FloatArray, y: FloatArray, weight: float) -> tuple[FloatArray, FloatArray]:
        """Minimize with Newton's method from `center`; return x and its multipliers t."""
        matrix, curved = self._matrix, self._curve + weight
        x, value = center.copy(), self._const + self._matrix @ center + weight * y
        t, inside = self._multipliers(value, curved)
        for _ in range(_MAX_NEWTON):
            gradient = matrix.T @ t + weight * (x - center)
            direction, change = self._direction(gradient, inside, curved, weight)
            slopes = matrix @ direction
            drift = weight * float(direction @ (x - center)), weight * float(direction @ direction)
            length = self._line_search(value, slopes, curved, *drift)
            x = x + length * direction
            value = self._const + matrix @ x + weight * y
            previous = t
            t, new_inside = self._multipliers(value, curved)
            full_step = abs(length - 1.0) <= 1e-9
            if full_step and (np.array_equal(new_inside, inside) or np.abs(direction).max() <= _MIN_CHANGE):
                t = np.clip(previous + change, self._low, self._top)  # recompute t without a division by a small number
                break
            inside = new_inside
            if length * np.abs(direction).max() <= _MIN_CHANGE:
                break
        return x, t

    def _direction(
        self, gradient: FloatArray, inside: NDArray[np.bool_], curved: FloatArray, weight: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return Newton's direction and the changes of the multipliers, which solve a common sparse system.

        Eliminating the multipliers would lose half of the digits if `weight` is small.
        """
        n, curve = gradient.size, curved[inside]
        scale = 1.0 / np.sqrt(np.maximum(curve, 1.0))
        active = csr_array(diags_array(scale) @ self._matrix[inside])
        system = block_array(
            [[weight * eye_array(n), active.T], [active, -diags_array(curve * scale**2)]], format="csc"
        )
        right_side = np.append(-gradient, np.zeros(active.shape[0]))
        solution = _solved(system, right_side)
        change = np.zeros(curved.size)
        change[inside] = solution[n:] * scale
        return solution[:n], change

    def _multipliers(self, value: FloatArray, curved: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the multipliers, and which of them are strictly inside their bounds."""
        free = value / curved
        t = np.clip(free, self._low, self._top)
        return t, t == free

    def _line_search(
        self, value: FloatArray, slopes: FloatArray, curved: FloatArray, linear: float, square: float
    ) -> float:
        """Return the step length at which the piecewise linear derivative along a direction is 0."""

        def derivative(length: float) -> float:
            """Return the derivative at a step length."""
            t, _ = self._multipliers(value + length * slopes, curved)
            return float(slopes @ t) + linear + length * square

        with np.errstate(divide="ignore", invalid="ignore"):
            breakpoints = np.concatenate([(self._low * curved - value) / slopes, (self._top * curved - value) / slopes])
        breakpoints = np.unique(breakpoints[np.isfinite(breakpoints) & (breakpoints > 0.0)])
        low, high = 0, breakpoints.size  # the root lies between breakpoint low - 1 and breakpoint high
        while low < high:
            middle = (low + high) // 2
            if derivative(breakpoints[middle]) < 0.0:
                low = middle + 1
            else:
                high = middle
        left = breakpoints[low - 1] if low > 0 else 0.0
        right = breakpoints[low] if low < breakpoints.size else left + 1.0
        at_left, at_right = derivative(left), derivative(right)
        if at_left >= 0.0:
            return float(left)
        return float(left - at_left * (right - left) / (at_right - at_left))


def _solved(system: csc_array, right: FloatArray) -> FloatArray:
    """Solve a sparse system; return zeros if it is singular or numbers overflow."""
    from scipy.sparse.linalg import splu

    try:
        solution: FloatArray = splu(system).solve(right)
    except RuntimeError:  # singular
        return np.zeros_like(right)
    return solution if np.isfinite(solution).all() else np.zeros_like(right)
