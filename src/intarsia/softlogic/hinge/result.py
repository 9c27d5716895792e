"""Result of MAP inference in a hinge-loss Markov random field."""

from __future__ import annotations

from dataclasses import dataclass, field

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.softlogic.admm.state import AdmmState


@dataclass(frozen=True, eq=False, repr=False)
class HingeResult(ShownResult):
    """Result of MAP inference in a hinge-loss Markov random field: the best point with bounds and status.

    Attributes
    ----------
    x : float array (n_variables,)
        The best point. A feasible point is always preferred to an infeasible one.
    objective : float
        Weighted sum of the hinges at `x`.
    lower_bound : float
        Lower bound on the objective of every feasible point: the Lagrangian dual at the best multipliers, minus its
        rounding errors. It does not depend on the starting point and is never above `objective`.
    max_violation : float
        Largest violation of a constraint at `x`.
    status : Status
        CONVERGED: at the returned `x`, `objective - lower_bound` is within the tolerance and no constraint is violated
        by more than `tol`. INFEASIBLE: the constraints are proved to be contradictory, and no point violates them by
        `tol` or less.
    n_iter : int
        Number of iterations of the block that needed most.
    primal_residual, dual_residual : float
        Root mean square, over all local copies, of the distance from the consensus, and of the last change of the
        consensus times the step size.
    history : dict of float arrays
        Values at every convergence check: "n_iter", "objective", "lower_bound", "max_violation", "primal_residual",
        "dual_residual", "seconds".
    seconds : float
        Wall time.
    state : AdmmState
        Final state of the iterations, for `warm_start` and for learners.
    note : str
        Additional information; if the status is INFEASIBLE, the contradictory constraints.
    n_passes : float
        Iterations counted as passes over all rows: a block that converges early adds less. At most `n_iter`.

    Examples
    --------
    >>> from intarsia.softlogic.admm.consensus import ConsensusADMM
    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> up, down = [-1.0], [1.0]                            # 3 max(0, 1 - x) + max(0, x)
    >>> model = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], up + down, [1.0, 0.0]), [3.0, 1.0], 1)
    >>> result = ConsensusADMM().solve(model)
    >>> result.x.round(3), round(result.objective, 3), result.converged
    (array([1.]), 1.0, True)
    """

    x: FloatArray
    objective: float
    lower_bound: float
    max_violation: float
    status: Status
    n_iter: int
    primal_residual: float
    dual_residual: float
    state: AdmmState
    history: dict[str, FloatArray] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""
    n_passes: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached and the constraints are satisfied."""
        return self.status in (Status.EXACT, Status.CONVERGED)

    def __repr__(self) -> str:
        return (
            f"HingeResult({self.x.size} variables; {self.status.name}; objective {self.objective:.8g}, bound "
            f"{self.lower_bound:.8g}, violation {self.max_violation:.1e}; {self.n_iter} iterations, "
            f"{self.seconds:.3g} s)"
        )
