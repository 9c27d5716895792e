"""MAP states of a hinge-loss MRF for many observations and weights at once, and their derivatives.

At the minimum, a piecewise linear function of the data, some rows are tight. Given which, the optimality conditions
are a linear system: it refines the result of ADMM to machine precision, and its transpose yields gradients.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from intarsia._core.settings import clone
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import EQUALITY, INEQUALITY, SQUARED
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.admm.feasibility import describe_constraints
from intarsia.softlogic.admm.hinge_solutions import HingeSolutions
from intarsia.softlogic.admm.newton import NewtonSteps
from intarsia.softlogic.admm.plan import AdmmPlan, _all_rows, plan_admm
from intarsia.softlogic.admm.state import MIDDLE, fresh_state
from intarsia.softlogic.hinge.linear_rows import LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF

_FIRST_TOL = 1e-3  # tolerance of ADMM before the rows that are tight are first guessed
_N_NEWTON = 15  # steps of the last attempt
_ACCEPTED = 1e-9  # residual above which an example is solved again with a smaller tolerance


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
                return replace(solutions)
        x, multipliers = self._run_newton(const[remaining], weight[remaining])
        last = HingeSolutions(self, const[remaining], weight[remaining], x, multipliers).refined()
        better = last.residual < start.residual[start.residual > _ACCEPTED]
        solutions.x[remaining[better]], solutions.multipliers[remaining[better]] = (
            last.x[better],
            last.multipliers[better],
        )
        return replace(solutions)

    def _run_newton(self, const: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values and multipliers by second-order steps, which degenerate problems do not slow down."""
        model = self._stacked(const, weight)
        plan = plan_admm(model)
        rows = plan.weighted_rows(model)
        z, y = np.full(plan.variables.size, MIDDLE), np.zeros(plan.const.size)
        for block in range(plan.n_blocks):
            steps = NewtonSteps(plan, rows, block)
            of_x, of_y = slice(*plan.variable_start[block : block + 2]), slice(*plan.row_start[block : block + 2])
            for _ in range(_N_NEWTON):
                z[of_x], y[of_y] = steps.advance(z[of_x], y[of_y])
        all_multipliers = np.zeros(plan.constants.size)
        all_multipliers[plan.row_of] = y
        return plan.to_model(z, MIDDLE).reshape(len(const), -1), self._by_example(all_multipliers, len(const))

    def _by_example(self, multipliers: FloatArray, n_batch: int) -> FloatArray:
        """Return the multipliers of a stacked model as rows (batch, n_rows)."""
        rows, start = np.empty((n_batch, self.kind.size)), 0
        for columns in self._columns:
            size = n_batch * (columns.stop - columns.start)
            rows[:, columns] = multipliers[start : start + size].reshape(n_batch, -1)
            start += size
        return rows

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
        return result.x.reshape(n_batch, -1), self._by_example(result.state.multipliers(), n_batch)

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
