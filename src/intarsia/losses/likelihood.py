"""Negative log-likelihood, exact or surrogate, also with hidden labels (surrogate EM)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray
from intarsia.graph import FactorGraph
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.losses.clamping import choose_method, free_minus_clamped
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import DirectLoss

_DEFAULT = "tree_reweighted"


class LogPartitionLoss(DirectLoss):
    """Base class of losses that are a log-partition function over all labellings minus that over allowed ones."""

    needs: ClassVar[str] = "log_partition"
    uses_factors: ClassVar[bool] = True

    @abstractmethod
    def methods(self, inference: str | InferenceMethod | None) -> tuple[InferenceMethod, InferenceMethod]:
        """Return the inference methods of the free and of the clamped term, for a model with this inference."""

    def check_fits(self, graph: FactorGraph, inference: str | InferenceMethod | None) -> None:
        """Raise unless both inference methods compute log Z."""
        self.methods(inference)

    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        return free_minus_clamped(graph, theta, labels, *self.methods(inference), "marginals", rng)


class Likelihood(LogPartitionLoss):
    r"""Negative log-likelihood of the labels, with log Z and marginals from one inference method.

    Exact if inference is ("tree", "junction_tree"), as in a conditional random field (CRF); otherwise the *surrogate*
    likelihood, whose gradient is exact for the approximate log-partition function once inference has converged. Choose
    it if the model is nearly correct and inference nearly exact; otherwise marginal losses are better.

    .. math:: L(\theta) = A(\theta) - A(\theta, y), \qquad \nabla L = \mu(\theta) - \mu(\theta, y)

    :math:`A(\theta, y)` is log Z over the labellings that the labels allow; with no hidden label it is the score of the
    labels and needs no inference. Tree-reweighted inference gives an upper bound on the negative log-likelihood if no
    label is hidden, mean field a lower bound. With `TruncatedGradient` it becomes the truncated likelihood (section
    7.3): its gradient is exact without convergence, but it is not a bound, and may fall below 0 after too few sweeps.

    Parameters
    ----------
    inference : str or InferenceMethod, optional
        Inference method; by default that of the model, or tree-reweighted.

    References
    ----------
    Domke2013 Eq. 19-21, sections 4.1.1 and 4.1.2.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> loss = Likelihood(inference="tree")
    >>> value, gradient = loss.value_and_gradient_theta(graph, graph.zeros(), training_labels(graph, [0, 1]))
    >>> round(value, 4), gradient.round(2).tolist()       # log 4; expected minus observed statistics
    (1.3863, [-0.5, 0.5, 0.5, -0.5, 0.25, -0.75, 0.25, 0.25])
    """

    name: ClassVar[str] = "likelihood"
    summary: ClassVar[str] = "a nearly correct model with nearly exact inference"

    _parts: ClassVar[Parts] = {"inference": METHODS}

    def __init__(self, *, inference: str | InferenceMethod | None = None) -> None:
        self.inference = inference

    @property
    def bound_is(self) -> str:
        """See `DirectLoss.bound_is`; "estimate" if the inference is that of the model."""
        kind = _kind(self.inference)
        return combine_bounds(kind, kind)

    @property
    def bound_is_when_observed(self) -> str:
        """Value of `bound_is` if no label is hidden: then the clamped term is exact."""
        return combine_bounds(_kind(self.inference), "exact")

    def methods(self, inference: str | InferenceMethod | None) -> tuple[InferenceMethod, InferenceMethod]:
        """Return one method for both terms."""
        method = choose_method("Likelihood", "marginals", self.inference, inference, _DEFAULT)
        return method, method


class SurrogateEM(LogPartitionLoss):
    r"""Negative log-likelihood with hidden labels summed out, with separate inference for its two terms.

    The defaults, mean field for the clamped term (a lower bound) and tree-reweighted for the free one (an upper bound),
    make the value an upper bound on the true negative log-likelihood. Choose it for hidden (unlabelled) variables. One
    method for both terms (as in `Likelihood`) gives no bound but often works as well.

    .. math:: L(\theta) = A_{free}(\theta) - A_{clamped}(\theta, y)

    Parameters
    ----------
    free : str or InferenceMethod, optional
        Inference over all labellings; None for that of the model.
    clamped : str or InferenceMethod, optional
        Inference over the labellings that the labels allow; None for that of the model.

    Notes
    -----
    `bound_is` states the guarantee of the two methods once both have converged. With no hidden label the clamped term
    is the score of the labels, without inference.

    References
    ----------
    Domke2013 Eq. 21, section 4.1.2.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(3, 2)
    >>> loss = SurrogateEM()
    >>> loss.bound_is
    'upper bound'
    >>> value, gradient = loss.value_and_gradient_theta(graph, graph.zeros(), training_labels(graph, [0, -1, 1]))
    >>> round(value, 4)                                  # log 8 - log 2
    1.3863
    """

    name: ClassVar[str] = "surrogate_em"
    summary: ClassVar[str] = "hidden labels, with a bound where the two methods give one"

    _parts: ClassVar[Parts] = {"free": METHODS, "clamped": METHODS}

    def __init__(
        self,
        *,
        free: str | InferenceMethod | None = "tree_reweighted",
        clamped: str | InferenceMethod | None = "mean_field",
    ) -> None:
        self.free = free
        self.clamped = clamped

    @property
    def bound_is(self) -> str:
        """See `DirectLoss.bound_is`; "estimate" if one of the methods is that of the model."""
        return combine_bounds(_kind(self.free), _kind(self.clamped))

    @property
    def bound_is_when_observed(self) -> str:
        """Value of `bound_is` if no label is hidden: then the clamped term is exact."""
        return combine_bounds(_kind(self.free), "exact")

    def methods(self, inference: str | InferenceMethod | None) -> tuple[InferenceMethod, InferenceMethod]:
        """Return the methods of the settings; where None, that of the model."""
        free = choose_method("SurrogateEM", "marginals", self.free, inference, _DEFAULT)
        clamped = choose_method("SurrogateEM", "marginals", self.clamped, inference, _DEFAULT)
        return free, clamped


def combine_bounds(free: str, clamped: str) -> str:
    """Return the kind of bound of a difference of two log-partition functions, from the kinds of each.

    Examples
    --------
    >>> combine_bounds("upper bound", "lower bound")
    'upper bound'
    >>> combine_bounds("upper bound", "upper bound")
    'estimate'
    """
    if free == clamped == "exact":
        return "exact"
    if free in ("exact", "upper bound") and clamped in ("exact", "lower bound"):
        return "upper bound"
    if free in ("exact", "lower bound") and clamped in ("exact", "upper bound"):
        return "lower bound"
    return "estimate"


def _kind(method: str | InferenceMethod | None) -> str:
    """Return the guarantee of a method on log Z; none at temperatures other than 1, where the model is another."""
    if method is None:
        return "estimate"
    settings = METHODS.resolve(method, {})
    if settings.temperature not in (None, 1):
        return "estimate"
    return settings.log_partition_is or "estimate"
