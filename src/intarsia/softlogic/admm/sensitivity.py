"""MAP states of a hinge-loss MRF for many observations and weights at once, and their derivatives.

At the minimum, a piecewise linear function of the data, some rows are tight. Given which, the optimality conditions
are a linear system: it refines the result of ADMM to machine precision, and its transpose yields gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, diags_array, eye_array, vstack

from intarsia._core.settings import clone
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import EQUALITY, INEQUALITY, LINEAR, SQUARED
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.admm.feasibility import describe_constraints
from intarsia.softlogic.admm.plan import AdmmPlan, _all_rows, plan_admm
from intarsia.softlogic.admm.state import MIDDLE, fresh_state
from intarsia.softlogic.hinge.linear_rows import LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF

_SHIFT = 1e-7  # shift of the diagonal, relative to the system's entries, that makes the system regular
_N_REFINEMENTS = 12  # steps that remove the effect of the shift
_EXACT = 1e-11  # residual at which a solution counts as exact
_MAX_PASSES = 10  # changes of the set of tight rows
_FIRST_TOL = 1e-3  # tolerance of ADMM before the rows that are tight are first guessed
_ACCEPTED = 1e-9  # residual above which an example is solved again with a smaller tolerance
_LARGEST = 1e5  # larger solutions belong to systems that are singular


class HingeProblems:
    """Hinge-loss MRFs that differ in the values of observed variables and in the weights of groups.

    Parameters
    ----------
    mrf : HingeLossMRF
        Model over all variables, observed ones included.
    observed : int array
        Variables whose values are inputs.
    proximal : float
        Weight epsilon of an additional term epsilon / 2 |x - 1/2|^2 over the free variables. If it is above 0, the
        minimum is unique.

    Attributes
    ----------
    free : int array
        Variables that are inferred.
    """

    def __init__(self, mrf: HingeLossMRF, observed: IntArray, proximal: float = 0.0) -> None:
        self.mrf, self.observed, self.proximal = mrf, observed, proximal
        self.free: IntArray = np.setdiff1d(np.arange(mrf.n_variables), observed)
        rows, kind = _all_rows(mrf)
        matrix = rows.to_scipy(mrf.n_variables)
        self.all_rows = csr_array(matrix[:, self.free]), csr_array(matrix[:, observed]), rows.const
        group = np.arange(mrf.n_terms) if mrf.term_group is None else np.asarray(mrf.term_group)
        has_free = np.diff(self.all_rows[0].indptr) > 0
        self.fixed_constraints: IntArray = np.flatnonzero(~has_free & (kind >= INEQUALITY))
        matrix, of_observed, const = self.all_rows[0][has_free], self.all_rows[1][has_free], rows.const[has_free]
        self.row_of: IntArray = np.flatnonzero(has_free)  # row of the model, -1 for proximal terms
        self.kind, self.group = kind[has_free], group[has_free[: mrf.n_terms]]
        n, t = self.free.size, self.group.size
        if proximal > 0.0:  # (x - 1/2)^2 as two squared hinges, in front of the constraints
            identity = csr_array(eye_array(n))
            matrix = vstack([matrix[:t], identity, -identity, matrix[t:]])
            of_observed = vstack([of_observed[:t], csr_array((2 * n, observed.size)), of_observed[t:]])
            const = np.concatenate([const[:t], np.full(n, -MIDDLE), np.full(n, MIDDLE), const[t:]])
            self.kind = np.insert(self.kind, t, np.full(2 * n, SQUARED, np.int8))
            self.row_of = np.insert(self.row_of, t, np.full(2 * n, -1))
            self.group = np.append(self.group, np.full(2 * n, mrf.n_groups))
        self.matrix, self.of_observed, self.const = csr_array(matrix), csr_array(of_observed), const
        self.n_terms = self.group.size
        self._plans: dict[int, AdmmPlan] = {}

    def solve(self, values: FloatArray, weights: FloatArray, solver: ConsensusADMM) -> HingeSolutions:
        """Infer the free variables for rows of observed values and rows of group weights.

        Parameters
        ----------
        values : float array (batch, n_observed)
            Values of the observed variables.
        weights : float array (batch, n_groups)
            Weights, at least 0.
        solver : ConsensusADMM
            Settings of the first phase; the second is exact.

        Raises
        ------
        InvalidInputError
            The constraints contradict each other for the observed values.
        """
        self._check_fixed(values)
        const = self.const + (self.of_observed @ values.T).T
        with_proximal = np.concatenate([weights, np.full((len(weights), 1), self.proximal / 2)], axis=1)
        weight = with_proximal[:, self.group]
        n_batch = len(values)
        solutions = HingeSolutions(
            self, const, weight, np.full((n_batch, self.free.size), MIDDLE), np.zeros(const.shape)
        )
        if not n_batch or not self.kind.size:
            return solutions
        remaining = np.arange(n_batch)
        for tol in self._tolerances(float(solver.tol)):
            x, multipliers = self._run_admm(const[remaining], weight[remaining], clone(solver).set_params(tol=tol))
            start = HingeSolutions(self, const[remaining], weight[remaining], x, multipliers).refined()
            solutions.x[remaining], solutions.multipliers[remaining] = start.x, start.multipliers
            remaining = remaining[start.residual > _ACCEPTED]
            if not remaining.size:
                break
        return replace(solutions)

    def _tolerances(self, tol: float) -> list[float]:
        """Return tolerances of ADMM, to be tried until the tight rows of all examples have been found.

        A curved objective shows its tight rows early; with linear hinges alone, only an accurate solution does.
        """
        is_curved = 4 * int((self.kind == SQUARED).sum()) >= self.n_terms
        return [max(_FIRST_TOL, tol), tol, 1e-3 * tol] if is_curved else [0.1 * tol, 1e-3 * tol]

    def _check_fixed(self, values: FloatArray) -> None:
        """Raise if the observed values alone violate a constraint."""
        rows = self.fixed_constraints
        if not rows.size or not len(values):
            return
        _, of_observed, const = self.all_rows
        off = const[rows] + (of_observed[rows] @ values.T).T
        is_equality = rows < self.mrf.n_terms + (0 if self.mrf.equalities is None else self.mrf.equalities.n_rows)
        off = np.where(is_equality, np.abs(off), off)
        if off.max() > 1e-5:
            example, k = np.unravel_index(int(np.argmax(off)), off.shape)
            name = describe_constraints(self.mrf, rows[[k]])
            raise InvalidInputError(
                f"the observed values of example {example} alone violate a constraint by {off.max():.3g}: {name}. Give "
                f"the rule a weight instead of making it hard."
            )

    def _run_admm(self, const: FloatArray, weight: FloatArray, solver: ConsensusADMM) -> tuple[FloatArray, FloatArray]:
        """Return values (batch, n_free) and multipliers (batch, n_rows) from one run on all examples."""
        n_batch = len(const)
        model = self._stacked(const, weight)
        plan = self._plans.get(n_batch)
        if plan is None:
            if len(self._plans) >= 4:  # batch sizes in use: training, its last batch, and validation
                self._plans.clear()
            plan = self._plans[n_batch] = plan_admm(model)
        all_const = np.concatenate([const[:, columns].reshape(-1) for columns in self._columns])
        plan = replace(plan, model=model, const=all_const[plan.row_of], constants=all_const)
        result = solver.solve(model, warm_start=fresh_state(model, solver.step_size, plan))
        if result.status is Status.INFEASIBLE:
            raise InvalidInputError(
                f"the observed values contradict the constraints. {result.note} Give the rule a weight instead of "
                f"making it hard, or bound the output of the network."
            )
        all_multipliers = result.state.multipliers()
        multipliers, start = np.empty(const.shape), 0
        for columns in self._columns:
            size = n_batch * (columns.stop - columns.start)
            multipliers[:, columns] = all_multipliers[start : start + size].reshape(n_batch, -1)
            start += size
        return result.x.reshape(n_batch, -1), multipliers

    @cached_property
    def _columns(self) -> list[slice]:
        """Rows of terms, equalities and inequalities."""
        n_equalities = int((self.kind == EQUALITY).sum())
        ends = [0, self.n_terms, self.n_terms + n_equalities, self.kind.size]
        return [slice(ends[k], ends[k + 1]) for k in range(3)]

    def _stacked(self, const: FloatArray, weight: FloatArray) -> HingeLossMRF:
        """Return all examples as one model, whose independent blocks they are."""
        n_batch, n = len(const), self.free.size
        row_sets: list[LinearRows] = []
        for columns in self._columns:
            rows = self.matrix[columns]
            shifts = np.arange(n_batch)[:, None]
            ptr = np.append((rows.indptr[:-1] + shifts * rows.nnz).reshape(-1), n_batch * rows.nnz)
            idx = (rows.indices + shifts * n).reshape(-1)
            data, constants = np.tile(rows.data, n_batch), const[:, columns].reshape(-1)
            row_sets.append(LinearRows(ptr, idx, data, constants))
        terms, equalities, inequalities = row_sets
        power = np.tile(np.where(self.kind[: self.n_terms] == SQUARED, 2, 1), n_batch)
        equality_group, inequality_group = (
            None if group is None else np.tile(group, n_batch) for group in self._constraint_groups
        )
        return HingeLossMRF(
            n * n_batch,
            terms,
            weight.reshape(-1),
            power,
            None,
            equalities,
            inequalities,
            equality_group,
            inequality_group,
            self.mrf.group_names,
        )

    @cached_property
    def _constraint_groups(self) -> list[Any]:
        """Groups (rules) of equalities and inequalities, or None where the model has none."""
        groups, start = [], self.mrf.n_terms
        for rows, group in (
            (self.mrf.equalities, self.mrf.equality_group),
            (self.mrf.inequalities, self.mrf.inequality_group),
        ):
            n_rows = 0 if rows is None else rows.n_rows
            free_rows = self.row_of[(self.row_of >= start) & (self.row_of < start + n_rows)] - start
            groups.append(None if group is None or not free_rows.size else group[free_rows])
            start += n_rows
        return groups


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
