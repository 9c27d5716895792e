"""ADMM on one of the two problems of learning, warm-started from weights to weights."""

from __future__ import annotations

import warnings

import numpy as np

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
    """As `ConsensusADMM.advance` and `local_values`, for one iteration after another with new weights each time.

    Nothing is brought into the order of the model on the way, so that weights and features cost less than the
    iteration between them.

    Parameters
    ----------
    model : HingeLossMRF
        Its terms have groups.
    plan : AdmmPlan
        Of that model.
    alpha : float
        Over-relaxation.

    Examples
    --------
    x and 1 - x pull with the same weight; each moves its own copy by a quarter.

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
        # Terms without variables are in no block; their value never changes.
        empty = np.diff(model.terms.ptr) == 0
        self._constant = np.zeros(model.n_groups)
        sum_hinges(
            read_only(model.terms.const[empty]), read_only(model.power[empty]), read_only(group[empty]), self._constant
        )

    def advance(self, state: AdmmState, weights: FloatArray, n_iter: int, tol: float) -> int:
        """Make so many iterations in place, fewer where both residuals fall to `tol`; returns how many."""
        plan = self._plan
        weigh_rows(self._group, plan.kind, weights, self._rows[4], self._rows[5])
        made, _ = advance_plainly(
            n_iter, tol, self._alpha, plan.blocks, self._rows, plan.degree, state.arrays, self._work, state.step
        )
        state.n_iter += int(made)
        return int(made)

    def features(self, state: AdmmState) -> FloatArray:
        """Sum of the hinges of each group at their own copies, after the last `advance`."""
        summed = self._constant.copy()
        sum_local_hinges(
            self._plan.blocks, self._rows, state.y, state.ahead, state.change, state.step, self._alpha, self._group,
            summed,
        )  # fmt: skip
        return summed


class SideRun:
    """The state of inference on one side, which outlives changes of the weights; counts its iterations.

    Attributes
    ----------
    features : float array (n_weights,)
        Of the last `advance` or `solve`.
    objective : float
        Minimum of the side's model at the last `solve`.
    n_iter : int
        ADMM iterations made, as passes over the whole model.
    n_solved, n_stopped : int
        Calls of `solve`, and those that stopped before convergence.
    """

    def __init__(self, problem: PairedProblem, side: Side, method: ConsensusADMM) -> None:
        self.problem, self.side, self.method = problem, side, method
        self.features, self.objective, self.n_iter = side.fixed, 0.0, 0
        self.n_solved = self.n_stopped = 0
        self._found: FloatArray | None = None
        self._state: AdmmState | None = None
        self._steps: GroupSteps | None = None
        # Labels alone decide a side without terms: nothing to infer.
        self._settled = side.model.n_terms == 0 and side.model.n_constraints == 0

    @property
    def point(self) -> FloatArray:
        """Values of the side's variables after the last `advance` or `solve`."""
        if self._found is None:
            self._found = np.full(self.side.model.n_variables, MIDDLE) if self._state is None else self._state.consensus
        return self._found

    def advance(self, weights: FloatArray, n_iter: int, at_copies: bool = True) -> FloatArray:
        """Make so many iterations, fewer where it converges; features at the terms' own copies, or at the consensus."""
        if self._settled:
            return self.features
        if self._state is None:
            self._state = self.method.start(self.problem.weighted(self.side, weights))
        if self._steps is None:
            self._steps = GroupSteps(self.side.model, self._state.plan, float(self.method.over_relaxation))
        by_group = np.concatenate([weights, self.problem.surrogate])
        self.n_iter += self._steps.advance(self._state, by_group, n_iter, float(self.method.tol))
        self._found = None
        if at_copies:
            self.features = self._steps.features(self._state)[: weights.size] + self.side.fixed
        else:
            self.features = self.problem.features(self.side, self.side.model.terms.values(self.point))
        return self.features

    def solve(self, weights: FloatArray) -> FloatArray:
        """Go on to convergence; features at the solution."""
        if self._settled:
            return self.features
        model = self.problem.weighted(self.side, weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = self.method.solve(model, warm_start=self._state)
        if found.status is Status.INFEASIBLE:
            which = "labels clamped" if self.side is self.problem.clamped else "labels free"
            raise InvalidInputError(
                f"Learning: the problem with {which} has no solution. {found.note} Correct the labels, or give one of "
                f"the rules a weight instead of making it hard."
            )
        self.n_solved += 1
        self.n_stopped += not found.converged
        self._state = found.state
        self.n_iter += int(np.ceil(found.n_passes))  # blocks that were done earlier cost nothing more
        self._found, self.objective = found.x, found.objective
        self.features = self.problem.features(self.side, model.terms.values(found.x))
        return self.features
