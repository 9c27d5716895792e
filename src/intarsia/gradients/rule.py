"""What every gradient rule is: settings, the inference it can differentiate, and one function to value and gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference.messages.message_passing import MessagePassing
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import METHODS, method_class
from intarsia.losses.registry import LOSSES


class LossOfMarginals(Protocol):
    """What a rule reads of a loss: a function of the marginals, with its gradient in them."""

    needs: ClassVar[str]
    uses_factors: ClassVar[bool]

    def value_and_gradient(self, graph: FactorGraph, mu: FloatArray, labels: Any) -> tuple[float, FloatArray]:
        """Value, and gradient in the layout of mu."""


@dataclass(frozen=True, eq=False)
class GradientResult:
    """A loss, its gradient in theta, and how they were reached.

    Attributes
    ----------
    value : float
        The loss; +inf when the model is infeasible.
    gradient : (n_theta,) array
        Derivative of the value in every entry of theta; 0 at impossible states.
    mu : (n_theta,) array or None
        The marginals that were judged; None when the model is infeasible. Those of factors may be 0 if the loss does
        not read them.
    status : Status
        How the inference ended, or what came first of it and the way back. A truncated run is CONVERGED by definition.
    n_iter : int
        Sweeps forward.
    residual : float
        What was left of the adjoint when the way back stopped; 0 where the gradient is exact.

    Examples
    --------
    One variable without scores has marginals of 1/2: the loss of its label is log 2, the gradient the marginals less
    the label.

    >>> from intarsia.gradients.truncated import TruncatedGradient
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses import UnivariateLogistic, training_labels
    >>> graph, rule = chain_graph(1, 2), TruncatedGradient(n_iter=1)
    >>> labels = training_labels(graph, [1])
    >>> found = rule.value_and_gradient(graph, graph.zeros(), labels, UnivariateLogistic(), "belief_propagation")
    >>> round(found.value, 4), found.gradient.tolist(), found.mu.tolist()
    (0.6931, [0.5, -0.5], [0.5, 0.5])
    """

    value: float
    gradient: FloatArray
    mu: FloatArray | None
    status: Status
    n_iter: int = 0
    residual: float = 0.0


@dataclass(frozen=True)
class Judge:
    """A loss with its labels: from marginals to value and gradient."""

    evaluate: Callable[[FloatArray], tuple[float, FloatArray]]
    uses_factors: bool


class GradientRule(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all gradient rules: how a loss of marginals flows back to theta.

    A rule is a settings object (scikit-learn conventions). Everything it is given is in learning form, see
    `intarsia.graph.learning_form`.
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    differentiates: ClassVar[tuple[str, ...]]
    """Names of the inference methods it fits."""

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant."""

    @abstractmethod
    def _differentiate(
        self, graph: FactorGraph, theta: FloatArray, judge: Judge, inference: InferenceMethod
    ) -> GradientResult:
        """Value and gradient for theta already divided by the temperature."""

    def value_and_gradient(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: Any,
        loss: LossOfMarginals,
        inference: str | InferenceMethod,
    ) -> GradientResult:
        """Loss of the marginals that the inference gives for theta, and its gradient in theta.

        Parameters
        ----------
        graph : FactorGraph
            In learning form.
        theta : (graph.n_theta,) array
            Scores; -inf marks the impossible.
        labels : object
            What the loss compares with, handed on to it.
        loss : MarginalLoss
            With `needs = "marginals"`.
        inference : str or InferenceMethod
            One of those in `differentiates`.

        Raises
        ------
        NotSupportedError
            If loss, inference and rule do not fit; the message names those that do.
        """
        method = METHODS.resolve(inference, {}) if isinstance(inference, str) else inference
        self.check_loss(loss)
        judge = Judge(lambda mu: loss.value_and_gradient(graph, mu, labels), bool(loss.uses_factors))
        return self.differentiate(graph, theta, judge, method)

    def fits_loss(self, loss: Any) -> bool:
        """Whether this rule knows how such a loss flows back."""
        return getattr(loss, "needs", None) == "marginals"

    def check_loss(self, loss: Any) -> None:
        """Raise NotSupportedError, naming the losses that fit, if this is none of them."""
        if not self.fits_loss(loss):
            able = [name for name in LOSSES.names if self.fits_loss(LOSSES.resolve(name))]
            raise NotSupportedError(
                f"{type(self).__name__} does not know how {type(loss).__name__} flows back: it needs "
                f"{getattr(loss, 'needs', 'something else')}. These losses fit: {', '.join(able)}."
            )

    def differentiate(
        self, graph: FactorGraph, theta: FloatArray, judge: Judge, inference: InferenceMethod
    ) -> GradientResult:
        """Check that everything fits, take the temperature out of theta, and differentiate."""
        scores = self.check(graph, theta, inference)
        if graph.n_variables == 0:
            return GradientResult(float(judge.evaluate(graph.zeros())[0]), graph.zeros(), graph.zeros(), Status.EXACT)
        if nothing_left(graph, scores):
            return infeasible(graph)
        found = self._differentiate(graph, scores, judge, inference)
        if inference.temperature in (None, 1.0):
            return found
        return replace(found, gradient=found.gradient / float(inference.temperature))

    def check(self, graph: FactorGraph, theta: FloatArray, inference: InferenceMethod) -> FloatArray:
        """Raise unless everything fits; otherwise theta over the temperature."""
        here = type(self).__name__
        self.check_settings()
        self.check_fits(inference)
        inference.check_settings()
        if graph.n_tables != graph.n_factors or graph.table_kind.any():
            raise InvalidInputError(
                f"{here}: the graph shares tables or has parametric ones. Give the graph of learning_form(graph)."
            )
        temperature = 1.0 if inference.temperature is None else float(inference.temperature)
        if temperature == 0.0:
            raise NotSupportedError(
                f"{here}: at temperature 0 marginals are a labelling, which does not change smoothly. "
                f"Use a temperature above 0."
            )
        scores = graph.check_theta(theta)
        return scores if temperature == 1.0 else scores / temperature

    def check_fits(self, inference: InferenceMethod) -> None:
        """Raise NotSupportedError if this rule cannot differentiate the inference."""
        if not isinstance(inference, InferenceMethod) or inference.name not in self.differentiates:
            able = ", ".join(method_class(name).__name__ for name in self.differentiates)
            raise NotSupportedError(
                f"{type(self).__name__} cannot differentiate {type(inference).__name__}. Differentiable: {able}."
            )
        if isinstance(inference, MessagePassing) and inference.schedule != "forward_backward":
            raise NotSupportedError(
                f"{type(self).__name__} undoes forward-backward sweeps, but {type(inference).__name__} has "
                f"schedule={inference.schedule!r}. Set schedule='forward_backward'."
            )


def nothing_left(graph: FactorGraph, theta: FloatArray) -> bool:
    """Whether some variable has no possible state."""
    scores = theta[: int(graph.variable_ptr[-1])]
    if scores.min() > -np.inf:
        return False
    return bool(np.maximum.reduceat(scores, graph.variable_ptr[:-1]).min() == -np.inf)


def infeasible(graph: FactorGraph) -> GradientResult:
    """What comes back for a model that nothing satisfies."""
    return GradientResult(np.inf, graph.zeros(), None, Status.INFEASIBLE)
