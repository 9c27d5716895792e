"""Plain iterations of ADMM between which the weights of rules change."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.hinge_admm import INEQUALITY, advance_plainly, sum_local_hinges, weigh_rows
from intarsia._kernels.hinge_sums import sum_hinges
from intarsia._validation import FloatArray, read_only
from intarsia.softlogic.admm_plan import AdmmPlan
from intarsia.softlogic.admm_state import AdmmState
from intarsia.softlogic.hinge_mrf import HingeLossMRF


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

    >>> from intarsia.softlogic import ConsensusADMM, LinearRows
    >>> model = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0.0, 1.0]), 1.0, 1, term_group=[0, 1])
    >>> state = ConsensusADMM(step=4.0).start(model)
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
