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
    """Base of the losses that are a difference of two log-partitions: of all labellings, and of those allowed."""

    needs: ClassVar[str] = "log_partition"
    uses_factors: ClassVar[bool] = True

    @abstractmethod
    def methods(self, inference: str | InferenceMethod | None) -> tuple[InferenceMethod, InferenceMethod]:
        """Inference for the free and for the clamped term, when this is the model's."""

    def check_fits(self, graph: FactorGraph, inference: str | InferenceMethod | None) -> None:
        """Both must give log Z."""
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

    Exact where inference is ("tree", "junction_tree"); otherwise the *surrogate* likelihood, whose gradient is exact
    for the approximate log Z once inference has converged. Choose it for a model that is about right and inference
    that is about exact; marginal losses are better where either is not.

    .. math:: L(\theta) = A(\theta) - A(\theta, y), \qquad \nabla L = \mu(\theta) - \mu(\theta, y)

    :math:`A(\theta, y)` is log Z over the labellings that the labels allow; with none hidden it is the score of the
    labels and costs no inference. Tree-reweighted gives an upper bound on the negative log-likelihood when no label is
    hidden, mean field a lower bound. Through `TruncatedGradient` it becomes the truncated likelihood (section 7.3):
    its gradient is exact without convergence, but it is no bound, and may fall below 0 where the sweeps are too few.

    Parameters
    ----------
    inference : str or InferenceMethod, optional
        By default that of the model, or tree-reweighted.

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
    summary: ClassVar[str] = "a model that is about right, with inference that is about exact"

    _parts: ClassVar[Parts] = {"inference": METHODS}

    def __init__(self, *, inference: str | InferenceMethod | None = None) -> None:
        self.inference = inference

    @property
    def bound_is(self) -> str:
        """See `DirectLoss.bound_is`; "estimate" while the inference is the model's."""
        kind = _kind(self.inference)
        return combine_bounds(kind, kind)

    @property
    def bound_is_when_observed(self) -> str:
        """The same when no label is hidden: then the clamped term is exact."""
        return combine_bounds(_kind(self.inference), "exact")

    def methods(self, inference: str | InferenceMethod | None) -> tuple[InferenceMethod, InferenceMethod]:
        """The same for both terms."""
        method = choose_method("Likelihood", "marginals", self.inference, inference, _DEFAULT)
        return method, method


class SurrogateEM(LogPartitionLoss):
    r"""Negative log-likelihood with hidden labels summed out, the two log-partitions by methods chosen apart.

    The defaults, mean field below the clamped term and tree-reweighted above the free one, make the value an upper
    bound on the true negative log-likelihood. The same method for both (as in `Likelihood`) gives no bound but often
    works as well.

    .. math:: L(\theta) = A_{free}(\theta) - A_{clamped}(\theta, y)

    Parameters
    ----------
    free : str or InferenceMethod, optional
        Inference for all labellings; None for that of the model.
    clamped : str or InferenceMethod, optional
        Inference for the labellings that the labels allow; None likewise.

    Notes
    -----
    `bound_is` says what the chosen pair promises once both have converged. With no label hidden the clamped term is
    the score of the labels, without inference.

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
        """See `DirectLoss.bound_is`; "estimate" while one of the methods is the model's."""
        return combine_bounds(_kind(self.free), _kind(self.clamped))

    @property
    def bound_is_when_observed(self) -> str:
        """The same when no label is hidden: then the clamped term is exact."""
        return combine_bounds(_kind(self.free), "exact")

    def methods(self, inference: str | InferenceMethod | None) -> tuple[InferenceMethod, InferenceMethod]:
        """Those that were chosen; the model's where none was."""
        free = choose_method("SurrogateEM", "marginals", self.free, inference, _DEFAULT)
        clamped = choose_method("SurrogateEM", "marginals", self.clamped, inference, _DEFAULT)
        return free, clamped


def combine_bounds(free: str, clamped: str) -> str:
    """What a difference of two log-partitions is, from what each of them is.

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
    """What a method promises of log Z; with a temperature other than 1 it is the log Z of another model."""
    if method is None:
        return "estimate"
    chosen = METHODS.resolve(method, {})
    if chosen.temperature not in (None, 1):
        return "estimate"
    return chosen.log_partition_is or "estimate"
