"""Minima of a batch of hinge-loss MRFs: residuals of the optimality conditions, refinement and derivatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, diags_array

from intarsia._core.validation import FloatArray
from intarsia._kernels.hinge_admm import EQUALITY, LINEAR, SQUARED

if TYPE_CHECKING:
    from intarsia.softlogic.admm.sensitivity import HingeProblems

_SHIFT = 1e-7  # shift of the diagonal, relative to the system's entries, that makes the system regular
_N_REFINEMENTS = 12  # steps that remove the effect of the shift
_EXACT = 1e-11  # residual at which a solution counts as exact
_MAX_PASSES = 10  # changes of the set of tight rows
_LARGEST = 1e5  # larger solutions belong to systems that are singular


@dataclass(frozen=True, eq=False)
class HingeSolutions:
    """Minima of a batch of hinge-loss MRFs, with multipliers and derivatives.

    Attributes
    ----------
    problems : HingeProblems
        What the examples have in common.
    const : float array (batch, n_rows)
        Constants of all rows, with the observed values inserted.
    weight : float array (batch, n_terms)
        Weights of all terms.
    x : float array (batch, n_free)
        Inferred values.
    multipliers : float array (batch, n_rows)
        Multiplier of each row: the derivative of the objective in its constant.
    """

    problems: HingeProblems
    const: FloatArray
    weight: FloatArray
    x: FloatArray
    multipliers: FloatArray

    @cached_property
    def _unit(self) -> FloatArray:
        """Typical force of a hinge in each example (batch, 1), which makes multipliers and values comparable."""
        mean = self.weight.mean(axis=1, keepdims=True) if self.weight.shape[1] else np.zeros((len(self.x), 1))
        return np.where(mean > 0.0, mean, 1.0)

    @cached_property
    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest multiplier of each row (batch, n_rows)."""
        kind = self.problems.kind
        high = np.full(self.const.shape, np.inf)
        n_terms = self.problems.n_terms
        linear = np.flatnonzero(kind[:n_terms] == LINEAR)
        high[:, linear] = self.weight[:, linear]
        squared = np.flatnonzero(kind[:n_terms] == SQUARED)
        high[:, squared] = np.where(self.weight[:, squared] > 0.0, np.inf, 0.0)
        return np.where(kind == EQUALITY, -np.inf, np.zeros(self.const.shape)), high

    @cached_property
    def row_values(self) -> FloatArray:
        """Value of each row (batch, n_rows) at x."""
        values: FloatArray = (self.problems.matrix @ self.x.T).T + self.const
        return values

    @cached_property
    def _curved_values(self) -> FloatArray:
        """Row values minus the derivative of the conjugate: multiplier / (2 weight) for squared hinges."""
        squared = self.problems.kind == SQUARED
        columns = np.flatnonzero(squared)
        values = self.row_values.copy()
        values[:, columns] -= self._inverse_curvature[:, columns] * self.multipliers[:, columns]
        return values

    @cached_property
    def _inverse_curvature(self) -> FloatArray:
        """1 / (2 weight) for squared hinges with a weight above 0, else 0."""
        inverse = np.zeros(self.const.shape)
        columns = np.flatnonzero(self.problems.kind[: self.problems.n_terms] == SQUARED)
        weight = self.weight[:, columns]
        inverse[:, columns] = np.where(weight > 0.0, 0.5 / np.where(weight > 0.0, weight, 1.0), 0.0)
        return inverse

    @cached_property
    def _forces(self) -> FloatArray:
        """Gradient of the Lagrangian in x (batch, n_free)."""
        forces: FloatArray = (self.problems.matrix.T @ self.multipliers.T).T
        return forces

    @cached_property
    def residual(self) -> FloatArray:
        """Largest violation of the optimality conditions of each example (batch,)."""
        low, high = self._limits
        steps = self.multipliers + self._unit * self._curved_values
        of_rows = np.abs(self.multipliers - np.clip(steps, low, high)) / self._unit
        of_variables = np.abs(self.x - np.clip(self.x - self._forces / self._unit, 0.0, 1.0))
        worst: FloatArray = np.maximum(of_rows.max(axis=1, initial=0.0), of_variables.max(axis=1, initial=0.0))
        return worst

    @cached_property
    def _system(self) -> _ActiveSystem:
        """Linear system of the optimality conditions for the rows that are tight, and variables inside the box."""
        low, high = self._limits
        steps = self.multipliers + self._unit * self._curved_values
        tight = (steps > low) & (steps < high)
        target = self.x - self._forces / self._unit
        return _ActiveSystem(self, tight, (target > 0.0) & (target < 1.0))

    def refined(self) -> HingeSolutions:
        """Solve the optimality conditions for the tight rows until these no longer change; keep the best solution."""
        x, multipliers, residual = self.x.copy(), self.multipliers.copy(), self.residual.copy()
        remaining, current = np.arange(len(x)), self
        for _ in range(_MAX_PASSES):
            inexact = residual[remaining] > _EXACT
            if not inexact.any():
                break
            remaining, current = remaining[inexact], current._selected(inexact)._with_tight_rows()
            better = current.residual < residual[remaining]
            improved = remaining[better]
            x[improved], multipliers[improved] = current.x[better], current.multipliers[better]
            residual[improved] = current.residual[better]
        return replace(self, x=np.clip(x, 0.0, 1.0), multipliers=multipliers)

    def _selected(self, mask: NDArray[np.bool_]) -> HingeSolutions:
        """Return the examples in a mask."""
        if mask.all():
            return self
        arrays = (array[mask] for array in (self.const, self.weight, self.x, self.multipliers))
        return HingeSolutions(self.problems, *arrays)

    def _with_tight_rows(self) -> HingeSolutions:
        """Return the solution of the optimality conditions, if the tight rows are those of this point."""
        low, high = self._limits
        steps = self.multipliers + self._unit * self._curved_values
        system = self._system
        y = np.where(system.tight, self.multipliers, np.clip(steps, low, high))
        x = np.where(system.inside, self.x, np.clip(np.rint(self.x - self._forces / self._unit), 0.0, 1.0))
        return system.minimum(replace(self, x=x, multipliers=y))

    def pull(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradients in observed values (batch, n_observed) and weights (batch, n_groups).

        Where the minimum is not unique, the gradient is that of the solution that moves least (minimal norm).
        """
        problems, n_batch = self.problems, len(self.x)
        n_groups = problems.mrf.n_groups
        if not self.x.size:
            return np.zeros((n_batch, problems.observed.size)), np.zeros((n_batch, n_groups))
        of_x, of_rows = self._system.adjoint(gradient)
        excess = np.maximum(self.row_values[:, : problems.n_terms], 0.0)
        slope = np.where(problems.kind[: problems.n_terms] == SQUARED, 2.0 * excess, excess > 0.0)
        tight = self._system.tight[:, : problems.n_terms] & (problems.kind[: problems.n_terms] == LINEAR)
        change = (problems.matrix[: problems.n_terms] @ of_x.T).T  # of the linear functions inside the hinges
        of_terms = np.where(tight, 0.0, -slope * change)
        n_terms = problems.n_terms
        members = csr_array((np.ones(n_terms), problems.group, np.arange(n_terms + 1)), shape=(n_terms, n_groups + 1))
        return -(problems.of_observed.T @ of_rows.T).T, (members.T @ of_terms.T).T[:, :n_groups]


class _ActiveSystem:
    """The equations of the tight rows and of the forces on the variables inside the box, for all examples."""

    def __init__(self, solutions: HingeSolutions, tight: NDArray[np.bool_], inside: NDArray[np.bool_]) -> None:
        self.solutions, self.tight, self.inside = solutions, tight, inside
        problems = solutions.problems
        matrix = problems.matrix.tocoo()
        row, column = matrix.coords
        n_inside = int(inside.sum())
        number_of_x = np.cumsum(inside.reshape(-1)).reshape(inside.shape) - 1
        number_of_row = n_inside + np.cumsum(tight.reshape(-1)).reshape(tight.shape) - 1
        in_both = tight[:, row] & inside[:, column]
        first, second = number_of_row[:, row][in_both], number_of_x[:, column][in_both]
        entries = np.broadcast_to(matrix.data, in_both.shape)[in_both]
        # Multipliers in units of the typical force, so that all entries are of the order of the coefficients.
        curvature = (solutions._inverse_curvature * solutions._unit)[tight]
        n = n_inside + int(tight.sum())
        diagonal = np.concatenate([np.zeros(n_inside), -curvature])
        self.n_inside = n_inside
        self.matrix = csc_array(
            coo_array((np.append(entries, entries), (np.append(first, second), np.append(second, first))), shape=(n, n))
            + diags_array(diagonal, shape=(n, n))
        )
        examples = np.arange(len(inside))[:, None]
        self.example = np.concatenate(
            [np.broadcast_to(examples, inside.shape)[inside], np.broadcast_to(examples, tight.shape)[tight]]
        )

    @cached_property
    def _factor(self) -> Any:
        """Factorization of the system with a shifted diagonal, which is never singular."""
        from scipy.sparse.linalg import splu

        n = self.matrix.shape[0]
        shift = np.full(n, _SHIFT)
        shift[self.n_inside :] *= -1.0
        return splu(
            csc_array(self.matrix + diags_array(shift)),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=1e-3,
            options={"SymmetricMode": True},
        )

    def _solve(self, right_side: FloatArray) -> FloatArray:
        """Solve the system; iterative refinement removes the effect of the shift."""
        if not right_side.size:
            return right_side
        solution = np.zeros(right_side.size)
        rest, scale = right_side, np.abs(right_side).max()
        for _ in range(_N_REFINEMENTS):
            solution = solution + self._factor.solve(rest)
            rest = right_side - self.matrix @ solution
            if np.abs(rest).max() <= 1e-14 * scale:
                break
        return solution

    def minimum(self, start: HingeSolutions) -> HingeSolutions:
        """Return the point that satisfies the equations, nearest to `start`, whose fixed entries it keeps."""
        x, y, unit = start.x.copy(), start.multipliers.copy(), start._unit
        forces = (start._forces / unit)[self.inside]
        step = self._solve(-np.concatenate([forces, start._curved_values[self.tight]]))
        x[self.inside] += step[: self.n_inside]
        y[self.tight] += step[self.n_inside :] * np.broadcast_to(unit, y.shape)[self.tight]
        bad = ~np.isfinite(x).all(axis=1) | ~np.isfinite(y).all(axis=1)
        if bad.any():
            x[bad], y[bad] = start.x[bad], start.multipliers[bad]
        return replace(start, x=x, multipliers=y)

    def adjoint(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the adjoint variables of x and of the rows, in units without the typical force."""
        from scipy.linalg import lstsq

        right_side = np.zeros(self.matrix.shape[0])
        right_side[: self.n_inside] = gradient[self.inside]
        solution = self._solve(right_side)
        rest = np.abs(right_side - self.matrix @ solution)
        size = max(float(np.abs(right_side).max(initial=0.0)), 1e-300)
        suspect = np.unique(self.example[(rest > 1e-9 * size) | (np.abs(solution) > _LARGEST * size)])
        for example in suspect:  # singular: the minimum is not unique, or tight rows depend on each other
            unknowns = np.flatnonzero(self.example == example)
            dense = self.matrix[unknowns][:, unknowns].toarray()
            solution[unknowns] = lstsq(dense, right_side[unknowns], cond=1e-10, lapack_driver="gelsy")[0]
        of_x, of_rows = np.zeros(self.inside.shape), np.zeros(self.tight.shape)
        of_x[self.inside] = solution[: self.n_inside]
        of_rows[self.tight] = solution[self.n_inside :]
        return of_x / self.solutions._unit, of_rows
