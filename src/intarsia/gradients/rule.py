"""Base class of the gradient rules: settings, supported inference, and a function to value and gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference.messages.message_passing import MessagePassing
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import METHODS, method_class
from intarsia.losses.registry import LOSSES


class LossOfMarginals(Protocol):
    """Interface of a loss that a rule can differentiate: a function of the marginals with its gradient."""

    needs: ClassVar[str]
    uses_factors: ClassVar[bool]

    def value_and_gradient(self, graph: FactorGraph, mu: FloatArray, labels: Any) -> tuple[float, FloatArray]:
        """Compute the value, and the gradient in the layout of mu."""


@dataclass(frozen=True, eq=False)
class GradientResult:
    """A loss, its gradient in theta, and how they were computed.

    Attributes
    ----------
    value : float
        Value of the loss; +inf if the model is infeasible.
    gradient : (n_theta,) array
        Derivative of the value in every entry of theta; 0 at impossible states.
    mu : (n_theta,) array or None
        Marginals at which the loss was evaluated; None if the model is infeasible. Those of factors may be 0 if the
        loss does not use them.
    status : Status
        Status of the inference, or of the backward pass if only that failed. A truncated run is CONVERGED by
        definition.
    n_iter : int
        Number of sweeps of the forward pass.
    residual : float
        Size of the adjoint when the backward pass stopped; 0 if the gradient is exact.

    Examples
    --------
    One variable without scores has marginals of 1/2: the loss of its label is log 2, the gradient is the marginals
    minus the label.

    >>> from intarsia.gradients.truncated import TruncatedGradient
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses import UnivariateLogistic, training_labels
    >>> graph, rule = chain_graph(1, 2), TruncatedGradient(n_iter=1)
    >>> labels = training_labels(graph, [1])
    >>> result = rule.value_and_gradient(graph, graph.zeros(), labels, UnivariateLogistic(), "belief_propagation")
    >>> round(result.value, 4), result.gradient.tolist(), result.mu.tolist()
    (0.6931, [0.5, -0.5], [0.5, 0.5])
    """

    value: float
    gradient: FloatArray
    mu: FloatArray | None
    status: Status
    n_iter: int = 0
    residual: float = 0.0


@dataclass(frozen=True)
class LossFunction:
    """A loss with fixed labels: a function from marginals to value and gradient."""

    evaluate: Callable[[FloatArray], tuple[float, FloatArray]]
    uses_factors: bool


class GradientRule(Settings, ABC):
    """Base class of all gradient rules: how the gradient of a loss of marginals is propagated to theta.

    A rule is a settings object (scikit-learn conventions). Its arguments are in learning form, see
    `intarsia.graph.learning_form`.
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """One line on when to choose it."""
    differentiates: ClassVar[tuple[str, ...]]
    """Names of the inference methods it supports."""

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""

    @abstractmethod
    def _differentiate(
        self, graph: FactorGraph, theta: FloatArray, loss_function: LossFunction, inference: InferenceMethod
    ) -> GradientResult:
        """Compute value and gradient for theta already divided by the temperature."""

    def value_and_gradient(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: Any,
        loss: LossOfMarginals,
        inference: str | InferenceMethod,
    ) -> GradientResult:
        """Compute the loss of the marginals that inference returns for theta, and its gradient in theta.

        Parameters
        ----------
        graph : FactorGraph
            Factor graph in learning form.
        theta : (graph.n_theta,) array
            Scores (log-potentials); -inf marks impossible states.
        labels : object
            True labels, passed on to the loss.
        loss : MarginalLoss
            Loss with `needs = "marginals"`.
        inference : str or InferenceMethod
            One of the methods in `differentiates`.

        Raises
        ------
        NotSupportedError
            If loss, inference and rule do not work together; the message lists alternatives.
        """
        method = METHODS.resolve(inference, {}) if isinstance(inference, str) else inference
        self.check_loss(loss)
        loss_function = LossFunction(lambda mu: loss.value_and_gradient(graph, mu, labels), bool(loss.uses_factors))
        return self.differentiate(graph, theta, loss_function, method)

    def fits_loss(self, loss: Any) -> bool:
        """Return whether this rule can differentiate such a loss."""
        return getattr(loss, "needs", None) == "marginals"

    def check_loss(self, loss: Any) -> None:
        """Raise NotSupportedError if this rule cannot differentiate the loss; the message lists losses that it can."""
        if not self.fits_loss(loss):
            usable = [name for name in LOSSES.names if self.fits_loss(LOSSES.resolve(name))]
            raise NotSupportedError(
                f"{type(self).__name__} cannot differentiate {type(loss).__name__}, which needs "
                f"{getattr(loss, 'needs', 'other input')}. Use one of: {', '.join(usable)}."
            )

    def differentiate(
        self, graph: FactorGraph, theta: FloatArray, loss_function: LossFunction, inference: InferenceMethod
    ) -> GradientResult:
        """Check all arguments, divide theta by the temperature, and differentiate."""
        scores = self.check(graph, theta, inference)
        if graph.n_variables == 0:
            return GradientResult(
                float(loss_function.evaluate(graph.zeros())[0]), graph.zeros(), graph.zeros(), Status.EXACT
            )
        if has_impossible_variable(graph, scores):
            return infeasible_result(graph)
        result = self._differentiate(graph, scores, loss_function, inference)
        if inference.temperature in (None, 1.0):
            return result
        return replace(result, gradient=result.gradient / float(inference.temperature))

    def check(self, graph: FactorGraph, theta: FloatArray, inference: InferenceMethod) -> FloatArray:
        """Raise if the arguments do not match; return theta divided by the temperature."""
        name = type(self).__name__
        self.check_settings()
        self.check_fits(inference)
        inference.check_settings()
        if graph.n_tables != graph.n_factors or graph.table_kind.any():
            raise InvalidInputError(
                f"{name}: the graph shares tables or has parametric ones. Pass the graph of learning_form(graph)."
            )
        temperature = 1.0 if inference.temperature is None else float(inference.temperature)
        if temperature == 0.0:
            raise NotSupportedError(
                f"{name}: at temperature 0 the marginals are a labelling, which has no gradient. "
                f"Use a temperature above 0."
            )
        scores = graph.check_theta(theta)
        return scores if temperature == 1.0 else scores / temperature

    def check_fits(self, inference: InferenceMethod) -> None:
        """Raise NotSupportedError if this rule cannot differentiate the inference."""
        if not isinstance(inference, InferenceMethod) or inference.name not in self.differentiates:
            usable = ", ".join(method_class(name).__name__ for name in self.differentiates)
            raise NotSupportedError(
                f"{type(self).__name__} cannot differentiate {type(inference).__name__}. Use one of: {usable}."
            )
        if isinstance(inference, MessagePassing) and inference.schedule != "forward_backward":
            raise NotSupportedError(
                f"{type(self).__name__} supports only forward-backward sweeps, but {type(inference).__name__} has "
                f"schedule={inference.schedule!r}. Set schedule='forward_backward'."
            )


def has_impossible_variable(graph: FactorGraph, theta: FloatArray) -> bool:
    """Return whether some variable has no possible state."""
    scores = theta[: int(graph.variable_ptr[-1])]
    if scores.min() > -np.inf:
        return False
    return bool(np.maximum.reduceat(scores, graph.variable_ptr[:-1]).min() == -np.inf)


def infeasible_result(graph: FactorGraph) -> GradientResult:
    """Return the result for a model without any possible labelling."""
    return GradientResult(np.inf, graph.zeros(), None, Status.INFEASIBLE)
