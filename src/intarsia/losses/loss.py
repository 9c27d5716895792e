"""Base classes of the losses: settings, declared requirements, and a function to value and gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, as_float_array, as_generator, read_only
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph, FactorKind
from intarsia.inference import InferenceMethod
from intarsia.losses.labels import TrainingLabels


class Loss(Settings, ABC):
    """Base class of all losses: settings objects whose class attributes state their requirements. Lower is better.

    Examples
    --------
    >>> from intarsia.losses.marginal_losses import CliqueLogistic
    >>> from intarsia.losses.pseudo_likelihood import PseudoLikelihood
    >>> [(loss.needs, loss.uses_factors) for loss in (CliqueLogistic, PseudoLikelihood)]
    [('marginals', True), ('labels only', False)]
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """One line on when to choose it."""
    needs: ClassVar[str]
    """Result of inference that it needs: "marginals", "log_partition", "map", or "labels only" for none."""
    uses_factors: ClassVar[bool] = False
    """Whether it uses the marginals of factors, not only those of variables."""
    handles_hidden: ClassVar[bool] = True
    """Whether it supports hidden labels and label sets."""
    takes_weights: ClassVar[bool] = False
    """Whether it is a sum of terms, each multiplied by the weights of its variables."""
    gradient_is_of_value: ClassVar[bool] = True
    """Whether the gradient is that of the value, so that values can be compared and line searches work."""

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; extended by subclasses."""

    def check_fits(self, graph: FactorGraph, inference: str | InferenceMethod | None) -> None:
        """Raise if the loss needs another inference or another form of graph, as an evaluation would.

        Learners call it before any computation; extended by subclasses.
        """


class MarginalLoss(Loss):
    """Base class of losses of marginals; a gradient rule propagates their gradient to theta."""

    needs: ClassVar[str] = "marginals"
    takes_weights: ClassVar[bool] = True

    def value_and_gradient(
        self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels
    ) -> tuple[float, FloatArray]:
        """Compute the loss and its derivative in the marginals mu.

        Parameters
        ----------
        graph : FactorGraph
            Factor graph with a full table for each factor.
        mu : float array (n_theta,)
            Marginals of variables, then of factors.
        labels : TrainingLabels
            True labels, with optional weights of the variables; hidden variables have no term (Domke2013 section
            4.2.4).

        Returns
        -------
        value : float
        gradient : float array (n_theta,)
        """
        check_pair(self, graph, labels)
        return self._evaluate(graph, check_mu(self, graph, mu), labels)

    @abstractmethod
    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        """Compute loss and derivative of arguments that have been checked."""


class DirectLoss(Loss):
    """Base class of losses of the scores, which compute their gradient in theta themselves."""

    random_state: int | np.random.Generator | None = None
    """Seed used if the call passes none; a setting of losses that draw samples."""

    @property
    def bound_is(self) -> str:
        """How a converged value relates to the true negative log-likelihood, also with hidden labels.

        One of "exact", "upper bound", "lower bound" and "estimate"; the last guarantees nothing.
        """
        return "estimate"

    @property
    def bound_is_when_observed(self) -> str:
        """Value of `bound_is` if no label is hidden, which is often a stronger guarantee."""
        return self.bound_is

    def value_and_gradient_theta(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        *,
        inference: str | InferenceMethod | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[float, FloatArray]:
        """Compute the loss and its derivative in theta.

        Parameters
        ----------
        graph : FactorGraph
            Factor graph with a full table for each factor.
        theta : float array (n_theta,)
            Scores (log-potentials).
        labels : TrainingLabels
            True labels, with optional weights of the variables.
        inference : str or InferenceMethod, optional
            Inference of the model, used if the settings of the loss set none.
        random_state : int or Generator, optional
            Seed that replaces the one of the settings.

        Returns
        -------
        value : float
        gradient : float array (n_theta,)

        Raises
        ------
        InvalidInputError
            If theta makes the labels impossible.
        NotSupportedError
            If the loss does not support hidden labels or weights, or the inference does not compute what it needs; the
            message lists alternatives.
        """
        check_pair(self, graph, labels)
        rng = as_generator(self.random_state if random_state is None else random_state)
        result = self._evaluate(graph, read_only(graph.check_theta(theta)), labels, inference, rng)
        if result is None:
            raise impossible_labels(self)
        return result

    @abstractmethod
    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        """Compute loss and derivative, or None if the labels are impossible; only the inference is not checked yet."""


def check_pair(loss: Loss, graph: FactorGraph, labels: TrainingLabels) -> None:
    """Raise unless settings are valid, each factor has a table, and the loss supports these labels of the graph."""
    loss.check_settings()
    separate_tables = graph.n_tables == graph.n_factors and not graph.table_kind.any()
    if not separate_tables or not np.array_equal(graph.table_of_factor, np.arange(graph.n_factors)):
        kinds = sorted({FactorKind(int(k)).name.lower() for k in np.unique(graph.table_kind)})
        raise InvalidInputError(
            f"{type(loss).__name__} needs a full table for each factor, but {graph.n_factors} factors have "
            f"{graph.n_tables} tables of kind {', '.join(kinds)}. Use intarsia.graph.learning_form(graph)."
        )
    if not isinstance(labels, TrainingLabels):
        raise InvalidInputError(
            f"{type(loss).__name__}: labels must be TrainingLabels, got {type(labels).__name__}. "
            f"Use training_labels(graph, y)."
        )
    if labels.variable_ptr is not graph.variable_ptr and not np.array_equal(labels.variable_ptr, graph.variable_ptr):
        raise InvalidInputError(
            f"{type(loss).__name__}: the labels are of {labels.observed.size} variables with other states than the "
            f"{graph.n_variables} of this graph. Make them with training_labels(graph, y)."
        )
    if not loss.handles_hidden and not labels.complete:
        v = int(np.argmin(labels.observed))
        raise NotSupportedError(
            f"{type(loss).__name__} needs exactly one label per variable, but variable {v} has a hidden label or a "
            f"label set. Use one of: {_names_with('handles_hidden')}."
        )
    if labels.weights is not None and not loss.takes_weights:
        raise NotSupportedError(
            f"{type(loss).__name__} is not a sum over variables, so it supports no weights of variables. Use one of: "
            f"{_names_with('takes_weights')}; or set weights of whole examples."
        )


def impossible_labels(loss: Loss) -> InvalidInputError:
    """Return the error for labels that theta forbids."""
    return InvalidInputError(
        f"{type(loss).__name__}: theta gives the labels a score of -inf. Correct the labels, or allow them in theta."
    )


def check_mu(loss: Loss, graph: FactorGraph, mu: FloatArray) -> FloatArray:
    """Return mu as a float64 vector in the layout of the graph; raise if its shape is wrong."""
    flat = as_float_array(mu, f"{type(loss).__name__}: mu")
    if flat.shape != (graph.n_theta,):
        raise InvalidInputError(
            f"{type(loss).__name__}: mu has shape {flat.shape}, but this graph needs ({graph.n_theta},). "
            f"Pass the marginals of this graph, such as InferenceResult.mu."
        )
    return flat


def _names_with(attribute: str) -> str:
    """Return the names of the losses whose class attribute is True, for messages."""
    from intarsia.losses.registry import LOSSES

    return ", ".join(name for name in LOSSES.names if getattr(LOSSES.get(name), attribute))
