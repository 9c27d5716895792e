"""What inference in a hinge-loss MRF returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.softlogic.admm.state import AdmmState


@dataclass(frozen=True, eq=False, repr=False)
class HingeResult(ShownResult):
    """The state that minimises a hinge-loss MRF, and how far it can be trusted.

    Attributes
    ----------
    x : float array (n_variables,)
        The best point found; where a point satisfies the constraints, none that does not is preferred to it.
    objective : float
        Its weighted sum of hinges.
    lower_bound : float
        No point that satisfies the constraints has a smaller objective: the Lagrangian dual at the best multipliers,
        less its rounding errors. It does not depend on the start. Never above `objective`.
    max_violation : float
        By how much x breaks its worst constraint.
    status : Status
        CONVERGED means that at x, as returned, `objective - lower_bound` is within the tolerance and that no constraint
        is broken by more than `tol`. INFEASIBLE means a proof that the constraints contradict each other, and that no
        point was found that breaks them by `tol` at most.
    n_iter : int
        Iterations made; of the block that took most.
    primal_residual, dual_residual : float
        Root mean squares, over all local copies, of their distance from the consensus and of the last change of the
        consensus times the step.
    history : dict of float arrays
        At every check: "n_iter", "objective", "lower_bound", "max_violation", "primal_residual", "dual_residual",
        "seconds".
    seconds : float
        Wall time.
    state : AdmmState
        Where the iterations ended, for `warm_start` and for learners.
    note : str
        Anything else worth knowing; at INFEASIBLE, which constraints contradict each other.
    n_passes : float
        Iterations as passes over all rows: blocks that were done earlier count for less. At most `n_iter`.

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
        """Whether the tolerance was reached and the constraints hold."""
        return self.status in (Status.EXACT, Status.CONVERGED)

    def __repr__(self) -> str:
        return (
            f"HingeResult({self.x.size} variables; {self.status.name}; objective {self.objective:.8g}, bound "
            f"{self.lower_bound:.8g}, violation {self.max_violation:.1e}; {self.n_iter} iterations, "
            f"{self.seconds:.3g} s)"
        )
