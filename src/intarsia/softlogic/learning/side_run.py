"""ADMM on one of the two inference problems of learning, warm-started when the weights change."""

from __future__ import annotations

import numpy as np

from intarsia._core.error_context import without_warnings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, read_only
from intarsia._kernels.hinge_admm import INEQUALITY, advance_plainly, sum_local_hinges, weigh_rows
from intarsia._kernels.hinge_sums import sum_hinges
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.admm.plan import AdmmPlan
from intarsia.softlogic.admm.state import MIDDLE, AdmmState
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.paired_problem import PairedProblem, Side


class GroupSteps:
    """ADMM iterations with new weights at each call; a fast version of `ConsensusADMM.advance` and `local_values`.

    Arrays stay in the order of the plan, so setting weights and computing features costs less than an iteration.

    Parameters
    ----------
    model : HingeLossMRF
        The model, whose terms have groups.
    plan : AdmmPlan
        Plan of the model.
    alpha : float
        Over-relaxation parameter.

    Examples
    --------
    The hinges x and 1 - x have the same weight; each moves its local copy by a quarter.

    >>> from intarsia.softlogic.admm.consensus import ConsensusADMM
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> model = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0.0, 1.0]), 1.0, 1, term_group=[0, 1])
    >>> state = ConsensusADMM(step_size=4.0).start(model)
    >>> steps = GroupSteps(model, state.plan, alpha=1.0)
    >>> steps.advance(state, np.array([1.0, 1.0]), n_iter=1, tol=0.0)
    1
    >>> steps.features(state)
    array([0.25, 0.25])
    """

    def __init__(self, model: HingeLossMRF, plan: AdmmPlan, alpha: float) -> None:
        group = np.arange(model.n_terms, dtype=np.int32) if model.term_group is None else model.term_group
        hinge = plan.kind < INEQUALITY
        self._group = np.zeros(plan.kind.size, dtype=np.int32)
        self._group[hinge] = group[plan.row_of[hinge]]
        self._plan, self._alpha = plan, alpha
        curve, top = np.empty(plan.kind.size), np.empty(plan.kind.size)
        self._rows = plan.ptr, plan.idx, plan.coef, plan.const, curve, top, plan.kind
        self._work = np.empty(plan.variables.size)
        # Terms without variables belong to no block; their value is constant.
        empty = np.diff(model.terms.ptr) == 0
        self._constant = np.zeros(model.n_groups)
        sum_hinges(
            read_only(model.terms.const[empty]), read_only(model.power[empty]), read_only(group[empty]), self._constant
        )

    def advance(self, state: AdmmState, weights: FloatArray, n_iter: int, tol: float) -> int:
        """Run `n_iter` iterations in place, fewer if both residuals fall to `tol`; return the number of iterations."""
        plan = self._plan
        weigh_rows(self._group, plan.kind, weights, self._rows[4], self._rows[5])
        n_done, _ = advance_plainly(
            n_iter, tol, self._alpha, plan.blocks, self._rows, plan.degree, state.arrays, self._work, state.step
        )
        state.n_iter += int(n_done)
        return int(n_done)

    def features(self, state: AdmmState) -> FloatArray:
        """Return the sum of the hinges of each group at their local copies, after the last `advance`."""
        summed = self._constant.copy()
        sum_local_hinges(
            self._plan.blocks, self._rows, state.y, state.ahead, state.change, state.step, self._alpha, self._group,
            summed,
        )  # fmt: skip
        return summed


class SideRun:
    """Inference on one side of the learning problem, which continues when the weights change.

    Attributes
    ----------
    features : float array (n_weights,)
        Features after the last `advance` or `solve`.
    objective : float
        Minimum of the model at the last `solve`.
    n_iter : int
        Number of ADMM iterations, counted as passes over the whole model.
    n_solved, n_stopped : int
        Number of calls of `solve`, and of those that stopped before convergence.
    """

    def __init__(self, problem: PairedProblem, side: Side, method: ConsensusADMM) -> None:
        self.problem, self.side, self.method = problem, side, method
        self.features, self.objective, self.n_iter = side.fixed, 0.0, 0
        self.n_solved = self.n_stopped = 0
        self._point: FloatArray | None = None
        self._state: AdmmState | None = None
        self._steps: GroupSteps | None = None
        # Without terms and constraints there is nothing to infer.
        self._is_constant = side.model.n_terms == 0 and side.model.n_constraints == 0

    @property
    def point(self) -> FloatArray:
        """Values of the variables after the last `advance` or `solve`."""
        if self._point is None:
            self._point = np.full(self.side.model.n_variables, MIDDLE) if self._state is None else self._state.consensus
        return self._point

    def advance(self, weights: FloatArray, n_iter: int, at_copies: bool = True) -> FloatArray:
        """Run `n_iter` iterations, fewer on convergence; return the features at local copies or at the consensus."""
        if self._is_constant:
            return self.features
        if self._state is None:
            self._state = self.method.start(self.problem.weighted(self.side, weights))
        if self._steps is None:
            self._steps = GroupSteps(self.side.model, self._state.plan, float(self.method.over_relaxation))
        by_group = np.concatenate([weights, self.problem.surrogate])
        self.n_iter += self._steps.advance(self._state, by_group, n_iter, float(self.method.tol))
        self._point = None
        if at_copies:
            self.features = self._steps.features(self._state)[: weights.size] + self.side.fixed
        else:
            self.features = self.problem.features(self.side, self.side.model.terms.values(self.point))
        return self.features

    def solve(self, weights: FloatArray) -> FloatArray:
        """Run inference to convergence and return the features at the solution."""
        if self._is_constant:
            return self.features
        model = self.problem.weighted(self.side, weights)
        with without_warnings(ConvergenceWarning):
            result = self.method.solve(model, warm_start=self._state)
        if result.status is Status.INFEASIBLE:
            side_name = "labels clamped" if self.side is self.problem.clamped else "labels free"
            raise InvalidInputError(
                f"Learning: the inference problem with {side_name} is infeasible. {result.note} Correct the labels, or "
                f"give one of the rules a weight instead of making it hard."
            )
        self.n_solved += 1
        self.n_stopped += not result.converged
        self._state = result.state
        self.n_iter += int(np.ceil(result.n_passes))  # blocks that converged early cost nothing more
        self._point, self.objective = result.x, result.objective
        self.features = self.problem.features(self.side, model.terms.values(result.x))
        return self.features
