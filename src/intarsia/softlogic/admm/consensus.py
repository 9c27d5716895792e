"""MAP inference in hinge-loss Markov random fields by consensus ADMM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.error_context import warn_caller
from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_n_jobs, check_number
from intarsia._kernels.hinge_admm import advance_plainly, distance_of_copies
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.softlogic.admm.plan import plan_admm
from intarsia.softlogic.admm.run import AdmmRun, BlockRules
from intarsia.softlogic.admm.state import AdmmState, carried_state, fresh_state
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.hinge.result import HingeResult


class ConsensusADMM(Settings):
    r"""MAP inference in a hinge-loss Markov random field by consensus ADMM (alternating directions of multipliers).

    Use it to compute the most probable state; the problem is convex, so a converged run has the global minimum. Every
    hinge and every constraint has local copies of its variables; the updates of the copies are in closed form, and
    multipliers enforce that copies agree (Bach2015, section 2.2; Boyd2011, section 7.1). Each convergence check
    compares the objective at a feasible point with the Lagrangian dual, which is a lower bound. A run has converged
    when the two differ by at most

    .. math:: \texttt{tol} \cdot (\text{objective} + \text{smallest positive weight})

    and no constraint is violated by more than `tol`. Beside heavy hinges this would leave the variables free that only
    light hinges determine. So the gaps of single rows and variables, whose sum is the gap, must also be small beside
    the smallest weight: at the default `tol` variables with a unique optimum are then within about 1e-3 of it. All this
    holds for the returned point, after its projection onto the constraints. If weights differ by more than a factor of
    about 1e12, rounding errors can prevent the proof; the status is then MAX_ITER.

    An iteration costs a pass over the entries of the rows; memory is linear. Independent blocks of variables are solved
    separately, each to its fraction of the tolerance. Blocks of at most 20,000 entries that have not converged after
    1,000 iterations, for example because weights differ by orders of magnitude, are solved with Newton's method (the
    proximal method of multipliers, Rockafellar1976). The iterates do not depend on the scale of the weights.

    Parameters
    ----------
    max_iter : int
        Maximum number of iterations.
    tol : float
        Tolerance for the duality gap and for violations of constraints, as defined above.
    step_size : float, optional
        Step size :math:`\rho` (:math:`\eta` in Bach2015). By default, for each block, the mean over its hinges of the
        weight times the absolute coefficient.
    adaptive_step : bool
        Adapt the step size at restarts to the ratio of the distances that multipliers and variables have moved since
        the last restart; only in the first half of `max_iter`, which preserves convergence.
    over_relaxation : float in [1, 2)
        Over-relaxation parameter alpha; 1 is plain ADMM.
    anchored : bool, optional
        Pull the iterates towards the point of the last restart (Lu2024). This needs several times fewer iterations if
        hinges are linear, and twice as many if they are squared. By default used in blocks with less than a quarter of
        squared hinges.
    check_every : int
        Number of iterations between convergence checks.
    n_jobs : int, optional
        Number of threads, as in joblib: across independent blocks, and within blocks of more than 200,000 entries. The
        result does not depend on it.

    Examples
    --------
    Two squared hinges pull x0 and x1 together, one pulls x0 to 1, and a constraint requires x1 <= 1/2:

    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> terms = LinearRows([0, 1, 3, 5], [0, 0, 1, 0, 1], [-1.0, 1.0, -1.0, -1.0, 1.0], [1.0, 0.0, 0.0])
    >>> model = HingeLossMRF(2, terms, [1.0, 1.0, 1.0], 2, inequalities=LinearRows([0, 1], [1], [1.0], [-0.5]))
    >>> result = ConsensusADMM(tol=1e-8).solve(model)
    >>> result.x.round(3), round(result.objective, 4)          # the minimum of (1 - x)^2 + (x - 1/2)^2 is at 3/4
    (array([0.75, 0.5 ]), 0.125)
    """

    def __init__(
        self,
        *,
        max_iter: int = 25_000,
        tol: float = 1e-5,
        step_size: float | None = None,
        adaptive_step: bool = True,
        over_relaxation: float = 1.8,
        anchored: bool | None = None,
        check_every: int = 20,
        n_jobs: int | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.step_size = step_size
        self.adaptive_step = adaptive_step
        self.over_relaxation = over_relaxation
        self.anchored = anchored
        self.check_every = check_every
        self.n_jobs = n_jobs

    def solve(
        self,
        mrf: HingeLossMRF,
        warm_start: HingeResult | AdmmState | None = None,
        time_limit: float | None = None,
        report: Callable[[int, float], None] | None = None,
    ) -> HingeResult:
        """Minimize the objective over the unit box, subject to the constraints.

        Parameters
        ----------
        mrf : HingeLossMRF
            The model.
        warm_start : HingeResult or AdmmState, optional
            Result or state of a model with the same number of variables and rows, from which to start; it is not
            changed.
        time_limit : float, optional
            Time limit in seconds; the best point so far is returned when it is reached.
        report : callable, optional
            Function called at every check with the number of iterations and the relative gap.

        Returns
        -------
        HingeResult
            The best point with bounds and status; INTERRUPTED after Ctrl-C.

        Warns
        -----
        ConvergenceWarning
            The run stops before it reaches the tolerance, or the constraints contradict each other.
        """
        self._check()
        if time_limit is not None:
            check_number(time_limit, "ConsensusADMM.solve: time_limit", low=0.0)
        clock = Clock(time_limit)
        state = self._first_state(mrf, warm_start)
        rules = BlockRules(
            int(self.max_iter), float(self.tol), float(self.over_relaxation), bool(self.adaptive_step), self.anchored,
            int(self.check_every), self.n_jobs,
        )  # fmt: skip
        result = AdmmRun(mrf, state, rules, clock).result(report)
        self._warn(result)
        return result

    def start(self, mrf: HingeLossMRF) -> AdmmState:
        """Return the initial state: every variable at 1/2, all multipliers 0."""
        self._check()
        return fresh_state(mrf, self.step_size)

    def advance(self, mrf: HingeLossMRF, state: AdmmState, n_iter: int = 1) -> tuple[float, float]:
        """Run exactly `n_iter` iterations of ADMM in place, with constant step size and without anchoring.

        The weights may differ between calls (`HingeLossMRF.with_weights`); the rows must be those of the state's model.

        Returns
        -------
        tuple of float
            Primal and dual residual, as in `HingeResult`.

        Examples
        --------
        >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
        >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
        >>> mrf = HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 1.0, 1)
        >>> solver = ConsensusADMM(step_size=4.0, over_relaxation=1.0)
        >>> state = solver.start(mrf)
        >>> solver.advance(mrf, state)                          # the hinge moves x from 1/2 by 1/4
        (0.0, 1.0)
        """
        check_number(n_iter, "ConsensusADMM.advance: n_iter", low=1, integer=True)
        rows = self._rows(mrf, state, "advance")
        plan, alpha = state.plan, float(self.over_relaxation)
        work = np.empty(plan.variables.size)
        _, dual = advance_plainly(
            int(n_iter), -1.0, alpha, plan.blocks, rows, plan.degree, state.arrays, work, state.step
        )
        state.n_iter += int(n_iter)
        primal = distance_of_copies(plan.blocks, rows, state.z, state.ahead, state.change, state.step)
        return float(primal), float(dual)

    def local_values(self, mrf: HingeLossMRF, state: AdmmState) -> FloatArray:
        """Return the linear function of each term at its local copies, after the last iteration.

        Examples
        --------
        >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
        >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
        >>> mrf = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0.0, 1.0]), 1.0, 1)
        >>> solver = ConsensusADMM(step_size=4.0, over_relaxation=1.0)
        >>> state = solver.start(mrf)
        >>> _ = solver.advance(mrf, state)
        >>> solver.local_values(mrf, state)                     # the local copies of x are 1/4 and 3/4
        array([0.25, 0.25])
        """
        self._rows(mrf, state, "local_values")
        return state.row_values()[: mrf.n_terms]

    def _rows(self, mrf: HingeLossMRF, state: AdmmState, method: str) -> tuple[Any, ...]:
        """Return the weighted rows of a model; raise if the state belongs to another model."""
        if not state.plan.fits(mrf):
            raise InvalidInputError(
                f"ConsensusADMM.{method}: the state belongs to another model. Pass the model it was started with, or "
                f"a copy of it from `with_weights`."
            )
        return state.plan.weighted_rows(mrf)

    def _first_state(self, mrf: HingeLossMRF, warm_start: HingeResult | AdmmState | None) -> AdmmState:
        """Return the state to start from: the initial state, or a copy of an earlier one."""
        if warm_start is None:
            return fresh_state(mrf, self.step_size)
        earlier = warm_start.state if isinstance(warm_start, HingeResult) else warm_start
        if not isinstance(earlier, AdmmState):
            raise InvalidInputError(
                f"ConsensusADMM.solve: warm_start must be a HingeResult or an AdmmState, got {type(earlier).__name__}."
            )
        if earlier.plan.fits(mrf):
            return earlier.copy()
        plan = plan_admm(mrf)
        sizes = (earlier.plan.model.n_variables, earlier.plan.constants.size), (mrf.n_variables, plan.constants.size)
        if sizes[0] != sizes[1]:
            raise InvalidInputError(
                f"ConsensusADMM.solve: warm_start has {sizes[0][0]} variables and {sizes[0][1]} rows, but the model "
                f"has {sizes[1][0]} and {sizes[1][1]}. Remove warm_start."
            )
        return carried_state(mrf, earlier, plan.weighted_rows(mrf), plan)

    def _check(self) -> None:
        """Raise if a setting is invalid."""
        check_number(self.max_iter, "ConsensusADMM: max_iter", low=0, integer=True)
        check_number(self.tol, "ConsensusADMM: tol", low=0.0)
        if self.step_size is not None:
            check_number(
                self.step_size, "ConsensusADMM: step_size", low=0.0, high=np.inf, open_low=True, open_high=True
            )
        check_number(self.over_relaxation, "ConsensusADMM: over_relaxation", low=1.0, high=2.0, open_high=True)
        check_number(self.check_every, "ConsensusADMM: check_every", low=1, integer=True)
        check_n_jobs(self.n_jobs, "ConsensusADMM: n_jobs")

    def _warn(self, result: HingeResult) -> None:
        """Warn if the constraints contradict each other, or the run stopped before it reached the tolerance."""
        if result.status is Status.INFEASIBLE:
            warn_caller(
                f"ConsensusADMM: no point satisfies all constraints, so the values mean nothing. {result.note} Give "
                f"one of these rules a weight instead of making it hard, or correct the data.",
                ConvergenceWarning,
            )
        if result.status not in (Status.MAX_ITER, Status.TIME_LIMIT):
            return
        setting = "max_iter" if result.status is Status.MAX_ITER else "time_limit"
        warn_caller(
            f"ConsensusADMM {result.status.message} after {result.n_iter} iterations: objective {result.objective:.6g} "
            f"is at most {result.objective - result.lower_bound:.2g} above the optimum, constraints are violated by "
            f"up to {result.max_violation:.2g}, tol={self.tol:g}. Consider increasing {setting} or tol.",
            ConvergenceWarning,
        )


HINGE_INFERENCE: Registry[ConsensusADMM] = Registry(
    "inference", "intarsia.softlogic.admm", {"consensus_admm": "consensus:ConsensusADMM"}, ConsensusADMM
)
