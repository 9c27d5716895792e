"""The gradient through inference at convergence, without a stack."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from intarsia._validation import check_number
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.converged import ConvergedRule, FixedPoint
from intarsia.gradients.rule import GradientResult
from intarsia.inference.result import Status

# An adjoint that has grown by this factor will not come down again.
GROWTH = 1e6


class BackPropagation(ConvergedRule):
    """Gradient of a loss of converged marginals, by undoing sweeps at the fixed point until nothing more comes back.

    Choose it when memory is short: there is no stack, since every sweep before the last leaves the messages where they
    are. It needs inference that converges; the way back then converges at the same rate. Where sweeps are few,
    `TruncatedGradient` is faster and exact for what is actually computed.

    Parameters
    ----------
    tol : float
        Inference runs until no message (or marginal) changes by more, for at most its own `max_iter` sweeps; the way
        back until the adjoint has fallen to this share of the first.
    max_iter : int
        Most sweeps back.

    References
    ----------
    Domke2013, section 7.2, end.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> class FirstState:
    ...     needs, uses_factors = "marginals", False
    ...     def value_and_gradient(self, graph, mu, labels):
    ...         return mu[0], np.eye(mu.size)[0]
    >>> graph = chain_graph(2, 2)
    >>> found = BackPropagation().value_and_gradient(graph, graph.zeros(), None, FirstState(), "tree_reweighted")
    >>> found.gradient[:2].tolist()
    [0.25, -0.25]
    """

    name: ClassVar[str] = "back_propagation"
    summary: ClassVar[str] = "converged inference with little memory"
    differentiates: ClassVar[tuple[str, ...]] = ("mean_field", "belief_propagation", "tree_reweighted")

    def __init__(self, *, tol: float = 1e-10, max_iter: int = 1000) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.max_iter, "BackPropagation: max_iter", low=0, integer=True)

    def _pull_back(self, point: FixedPoint) -> GradientResult:
        run, loop, mu = point.run, point.loop, point.mu
        run.stand_at(run.position())
        run.pull_beliefs(mu, np.ascontiguousarray(point.slope, dtype=np.float64), point.uses_factors)
        residual, first, largest = np.inf, 0.0, 0.0
        for sweep in range(int(self.max_iter)):
            residual = run.back_once()
            first = residual if sweep == 0 else first
            largest = max(largest, residual)
            if residual <= self.tol * largest or not residual <= GROWTH * first:
                break
        status = loop.status
        if not residual <= self.tol * largest:
            status = Status.MAX_ITER if residual <= GROWTH * first else Status.STALLED
            warnings.warn(
                f"BackPropagation: after at most {self.max_iter} sweeps back the adjoint is {residual:.2e}, against "
                f"{self.tol:g} x {largest:.2e}. Raise max_iter, or use TruncatedGradient: one that grows belongs to a "
                f"fixed point that is not stable.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return GradientResult(point.value, run.gradient(), mu, status, loop.n_iter, float(residual))
