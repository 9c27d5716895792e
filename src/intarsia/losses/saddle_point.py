"""Saddle-point approximation of the likelihood: all probability on the best labelling."""

from __future__ import annotations

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


class SaddlePoint(DirectLoss):
    r"""Score of the best labelling minus that of the labels (the loss of the structured perceptron).

    Choose it if the model is sharply peaked and a good method for MAP inference is available; otherwise the gradient is
    a poor approximation of that of the likelihood.

    .. math:: L(\theta) = \max_x \theta \cdot f(x) - \theta \cdot f(y), \qquad \nabla L = f(x^*) - f(y)

    With hidden labels or label sets, :math:`y` is the best labelling that they allow.

    Parameters
    ----------
    inference : str or InferenceMethod, optional
        Any method that computes a best labelling; by default that of the model, or ICM.

    Notes
    -----
    No score of a labelling exceeds log Z, so that with no hidden label the value is a lower bound on the negative
    log-likelihood, however good the labelling is. It is negative if inference returns a labelling with a lower score
    than the labels.

    References
    ----------
    Domke2013 section 4.1.3.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> theta = graph.pack(variables=[[0, 2], [0, 1]])
    >>> loss = SaddlePoint(inference="tree")
    >>> value, gradient = loss.value_and_gradient_theta(graph, theta, training_labels(graph, [0, 1]))
    >>> value, gradient.tolist()                        # the best labelling is (1, 1)
    (2.0, [-1.0, 1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0])
    """

    name: ClassVar[str] = "saddle_point"
    summary: ClassVar[str] = "sharply peaked models with a good MAP method"
    needs: ClassVar[str] = "map"

    _parts: ClassVar[Parts] = {"inference": METHODS}

    def __init__(self, *, inference: str | InferenceMethod | None = None) -> None:
        self.inference = inference

    @property
    def bound_is_when_observed(self) -> str:
        """Lower bound on the negative log-likelihood."""
        return "lower bound"

    def check_fits(self, graph: FactorGraph, inference: str | InferenceMethod | None) -> None:
        """Raise unless the inference computes a best labelling."""
        self._method(inference)

    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        method = self._method(inference)
        return free_minus_clamped(graph, theta, labels, method, method, "map", rng)

    def _method(self, inference: str | InferenceMethod | None) -> InferenceMethod:
        """Return the inference of the settings, of the model, or ICM."""
        return choose_method("SaddlePoint", "map", self.inference, inference, "icm")
