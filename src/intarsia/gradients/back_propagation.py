"""Back-propagation through converged inference without stored messages, and the base of such rules."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import warn_caller
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.reversal import Reversal, converge, reversal_of
from intarsia.gradients.rule import GradientResult, GradientRule, LossFunction, infeasible_result
from intarsia.graph import FactorGraph
from intarsia.inference.method import InferenceMethod, Iteration


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Converged inference with its marginals, the loss at these, and the gradient of the loss in them."""

    graph: FactorGraph
    theta: FloatArray
    inference: InferenceMethod
    run: Reversal
    loop: Iteration
    mu: FloatArray
    value: float
    slope: FloatArray
    uses_factors: bool


class ConvergedRule(GradientRule):
    """Base class of the rules for converged inference; `tol` is its convergence tolerance."""

    tol: float

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; extended by subclasses."""
        check_number(self.tol, f"{type(self).__name__}: tol", low=0.0)

    def _differentiate(
        self, graph: FactorGraph, theta: FloatArray, loss_function: LossFunction, inference: InferenceMethod
    ) -> GradientResult:
        run = reversal_of(graph, theta, inference)
        loop = converge(run, inference, float(self.tol))
        mu = None if loop.status is Status.INFEASIBLE else run.marginals()
        if mu is None:
            return infeasible_result(graph)
        value, slope = loss_function.evaluate(mu)
        return self._pull_back(
            FixedPoint(graph, theta, inference, run, loop, mu, float(value), slope, loss_function.uses_factors)
        )

    @abstractmethod
    def _pull_back(self, point: FixedPoint) -> GradientResult:
        """Return the gradient in theta at a fixed point."""


# An adjoint that has grown by this factor diverges.
GROWTH = 1e6


class BackPropagation(ConvergedRule):
    """Gradient of a loss of converged marginals, by reversing sweeps at the fixed point until the adjoint vanishes.

    Choose it if memory is short: no messages are stored, since at a fixed point every sweep leaves the messages
    unchanged. It needs inference that converges; the backward pass then converges at the same rate. For few sweeps,
    `TruncatedGradient` is faster and exact for the computed marginals.

    Parameters
    ----------
    tol : float
        Inference runs until no message (or marginal) changes by more, for at most its `max_iter` sweeps; the backward
        pass runs until the adjoint has fallen to this fraction of its largest size.
    max_iter : int
        Maximum number of sweeps in the backward pass.

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
    >>> result = BackPropagation().value_and_gradient(graph, graph.zeros(), None, FirstState(), "tree_reweighted")
    >>> result.gradient[:2].tolist()
    [0.25, -0.25]
    """

    name: ClassVar[str] = "back_propagation"
    summary: ClassVar[str] = "converged inference with little memory"
    differentiates: ClassVar[tuple[str, ...]] = ("mean_field", "belief_propagation", "tree_reweighted")

    def __init__(self, *, tol: float = 1e-10, max_iter: int = 1000) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_iter, "BackPropagation: max_iter", low=0, integer=True)

    def _pull_back(self, point: FixedPoint) -> GradientResult:
        run, loop, mu = point.run, point.loop, point.mu
        run.stand_at(run.position())
        run.pull_beliefs(mu, np.ascontiguousarray(point.slope, dtype=np.float64), point.uses_factors)
        residual, first, largest = np.inf, 0.0, 0.0
        for sweep in range(int(self.max_iter)):
            residual = run.back_one_sweep()
            first = residual if sweep == 0 else first
            largest = max(largest, residual)
            if residual <= self.tol * largest or not residual <= GROWTH * first:
                break
        status = loop.status
        if not residual <= self.tol * largest:
            status = Status.MAX_ITER if residual <= GROWTH * first else Status.STALLED
            warn_caller(
                f"BackPropagation: the backward pass did not converge. After at most {self.max_iter} sweeps the "
                f"adjoint is {residual:.2e}, against {self.tol:g} x {largest:.2e}. Raise max_iter. If it grows, the "
                f"fixed point is not stable: use TruncatedGradient.",
                ConvergenceWarning,
            )
        return GradientResult(point.value, run.gradient(), mu, status, loop.n_iter, float(residual))
