"""What every loss is: settings, declared needs, and one function to a value and a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.validation import FloatArray, as_float_array, as_generator, read_only
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph, FactorKind
from intarsia.inference import InferenceMethod
from intarsia.losses.labels import TrainingLabels


class Loss(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all losses: settings objects whose class attributes say what they need. Lower is better.

    Examples
    --------
    >>> from intarsia.losses.marginal_losses import CliqueLogistic
    >>> from intarsia.losses.pseudo_likelihood import PseudoLikelihood
    >>> [(one.needs, one.uses_factors) for one in (CliqueLogistic, PseudoLikelihood)]
    [('marginals', True), ('labels only', False)]
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    needs: ClassVar[str]
    """What inference must give: "marginals", "log_partition", "map" or "labels only"."""
    uses_factors: ClassVar[bool] = False
    """Whether it reads the marginals of factors, not only those of variables."""
    handles_hidden: ClassVar[bool] = True
    """Whether labels may be hidden or sets."""
    takes_weights: ClassVar[bool] = False
    """Whether it is a sum of terms that count with the weights of their variables."""
    gradient_is_of_value: ClassVar[bool] = True
    """Whether the gradient is that of the value, so that a lower value is better and a line search can be made."""

    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant; extended by subclasses."""

    def check_fits(self, graph: FactorGraph, inference: str | InferenceMethod | None) -> None:
        """Raise as an evaluation would if the model's inference or the graph's form is not what the loss needs.

        Learners ask before any work; extended by subclasses.
        """


class MarginalLoss(Loss):
    """A loss of predicted marginals; how its gradient reaches theta is the gradient rule's business."""

    needs: ClassVar[str] = "marginals"
    takes_weights: ClassVar[bool] = True

    def value_and_gradient(
        self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels
    ) -> tuple[float, FloatArray]:
        """Loss and its derivative by mu.

        Parameters
        ----------
        graph : FactorGraph
            With a full table for each factor.
        mu : float array (n_theta,)
            Marginals of variables, then of factors.
        labels : TrainingLabels
            The truth, with weights if the variables count differently; terms of hidden variables are left out
            (Domke2013 section 4.2.4).

        Returns
        -------
        value : float
        gradient : float array (n_theta,)
        """
        check_pair(self, graph, labels)
        return self._evaluate(graph, check_mu(self, graph, mu), labels)

    @abstractmethod
    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        """Loss and derivative; everything has been checked."""


class DirectLoss(Loss):
    """A loss of the scores themselves, with its own gradient in theta."""

    random_state: int | np.random.Generator | None = None
    """Seed where the call gives none; a setting of losses that draw samples."""

    @property
    def bound_is(self) -> str:
        """What a converged value is of the true negative log-likelihood, whether or not labels are hidden.

        One of "exact", "upper bound", "lower bound" and "estimate"; the last where nothing is promised.
        """
        return "estimate"

    @property
    def bound_is_when_observed(self) -> str:
        """The same when no label is hidden, where more can often be promised."""
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
        """Loss and its derivative by theta.

        Parameters
        ----------
        graph : FactorGraph
            With a full table for each factor.
        theta : float array (n_theta,)
            Scores.
        labels : TrainingLabels
            The truth, with weights if the variables count differently.
        inference : str or InferenceMethod, optional
            The model's inference, used where the settings name none of their own.
        random_state : int or Generator, optional
            Seed for whatever is random, instead of that of the settings.

        Returns
        -------
        value : float
        gradient : float array (n_theta,)

        Raises
        ------
        InvalidInputError
            If theta makes the labels impossible.
        NotSupportedError
            If labels are hidden or have weights, or the inference does not give what is needed; the message names
            what fits.
        """
        check_pair(self, graph, labels)
        rng = as_generator(self.random_state if random_state is None else random_state)
        found = self._evaluate(graph, read_only(graph.check_theta(theta)), labels, inference, rng)
        if found is None:
            raise impossible_labels(self)
        return found

    @abstractmethod
    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        """Loss and derivative, None when the labels are impossible; everything but the inference has been checked."""


def check_pair(loss: Loss, graph: FactorGraph, labels: TrainingLabels) -> None:
    """Raise unless the settings are good, each factor has a table, and the labels are the graph's and can be taken."""
    loss.check_settings()
    own = graph.n_tables == graph.n_factors and not graph.table_kind.any()
    if not own or not np.array_equal(graph.table_of_factor, np.arange(graph.n_factors)):
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
            f"{type(loss).__name__} needs every label, but that of variable {v} is hidden or a set. These handle "
            f"hidden labels: {_able('handles_hidden')}."
        )
    if labels.weights is not None and not loss.takes_weights:
        raise NotSupportedError(
            f"{type(loss).__name__} is not a sum over variables, so it takes no weights of variables. These do: "
            f"{_able('takes_weights')}. Or weight whole examples."
        )


def impossible_labels(loss: Loss) -> InvalidInputError:
    """The error for labels that theta forbids."""
    return InvalidInputError(
        f"{type(loss).__name__}: theta gives the labels a score of -inf. Correct the labels, or allow them in theta."
    )


def check_mu(loss: Loss, graph: FactorGraph, mu: FloatArray) -> FloatArray:
    """Return mu as a float64 vector of the graph's layout."""
    flat = as_float_array(mu, f"{type(loss).__name__}: mu")
    if flat.shape != (graph.n_theta,):
        raise InvalidInputError(
            f"{type(loss).__name__}: mu has shape {flat.shape}, but this graph needs ({graph.n_theta},)."
        )
    return flat


def _able(ability: str) -> str:
    from intarsia.losses.registry import LOSSES

    return ", ".join(name for name in LOSSES.names if getattr(LOSSES.get(name), ability))
