"""Labelled graphs as the learners use them, with the map from weights to scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.graph.learning_form import LearningForm, learning_form
from intarsia.losses import TrainingLabels, training_labels


class ScoreMap(Protocol):
    """Interface of the model of one example: weights to theta, and the gradient in theta back to the weights."""

    @property
    def graph(self) -> FactorGraph:
        """Factor graph of the example."""

    @property
    def n_weights(self) -> int:
        """Number of weights."""

    def theta(self, weights: FloatArray) -> FloatArray:
        """Return the scores theta of the graph under these weights."""

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient in the weights for a gradient in theta."""


@dataclass(frozen=True, eq=False)
class Example:
    """One labelled graph in learning form; create it with `example`.

    Attributes
    ----------
    scores : ScoreMap
        Map from weights to theta.
    form : LearningForm
        Map from that theta to the form in which losses are computed.
    labels : TrainingLabels
        True labels of the variables in learning form, with the weights of the variables.
    weight : float
        Weight of the example in the risk.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.models import LinearScores
    >>> chain = example(LinearScores(chain_graph(3, 2), [[0.0], [1.0], [2.0]]), [0, -1, 1])
    >>> chain.labels.hidden.tolist(), chain.has_labelled_factor     # the hidden variable is in both factors
    ([False, True, False], False)
    """

    scores: ScoreMap
    form: LearningForm
    labels: TrainingLabels
    weight: float = 1.0

    @property
    def n_labelled(self) -> int:
        """Number of variables whose label is not hidden."""
        return int((~self.labels.hidden).sum())

    @property
    def has_labelled_factor(self) -> bool:
        """Whether some factor has no hidden variable, so that a loss over factors has a term."""
        graph = self.form.graph
        if graph.n_factors == 0:
            return False
        return not bool(np.logical_or.reduceat(self.labels.hidden[graph.scope_idx], graph.scope_ptr[:-1]).all())

    @property
    def mass(self) -> float:
        """Weight of the example times the sum of the weights of its labelled variables."""
        weights = self.labels.weights
        return self.weight * (self.n_labelled if weights is None else float(weights[~self.labels.hidden].sum()))


def example(scores: ScoreMap, y: ArrayLike, weight: float = 1.0, variable_weights: ArrayLike | None = None) -> Example:
    """Create a labelled example from a map to scores and its labels.

    Parameters
    ----------
    scores : ScoreMap
        Map from weights to the theta of a graph.
    y : int array (n_variables,), or bool array of allowed states
        Labels, -1 where hidden; or a mask of the states that each variable may have.
    weight : float
        Weight of the example; 2 has the same effect as passing the example twice.
    variable_weights : (n_variables,) array, optional
        Weight of each variable, for losses that are sums over variables or factors.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.models import LinearScores
    >>> chain = example(LinearScores(chain_graph(3, 2), [[0.0], [1.0], [2.0]]), [0, -1, 1], weight=3.0)
    >>> chain.n_labelled, chain.mass
    (2, 6.0)
    """
    check_number(weight, "example: weight", low=0.0, high=np.inf, open_high=True)
    form = learning_form(scores.graph)
    lowered_labels = form.lower_labels(y)
    if variable_weights is None:
        return Example(scores, form, training_labels(form.graph, lowered_labels), float(weight))
    weights = as_float_array(variable_weights, "example: variable_weights")
    if weights.shape != (scores.graph.n_variables,):
        raise InvalidInputError(
            f"example: variable_weights has shape {weights.shape}, but the graph has {scores.graph.n_variables} "
            f"variables. Pass one weight per variable."
        )
    return Example(
        scores, form, training_labels(form.graph, lowered_labels, weights[form.reduction.free_variables]), float(weight)
    )


def data_sums(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Compute sizes and checksums of each example, to detect changed data when a fit resumes."""
    rows = []
    for instance in examples:
        scores, graph, labels = instance.scores, instance.form.graph, instance.labels
        theta = scores.theta(np.cos(np.arange(scores.n_weights)))
        # Scores at fixed weights stand for the features. No term is negative, so that none cancel; other signs or
        # positions give other sums.
        magnitudes = np.where(np.isfinite(theta), np.maximum(theta, -0.5 * theta), 0.0)
        weighted_sum = magnitudes @ (1.5 + np.sin(np.arange(theta.size)))
        digest = hashlib.blake2b(digest_size=4)
        for array in (labels.allowed, labels.weights, graph.scope_ptr, graph.scope_idx):
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
        rows.append((float(theta.size), float(weighted_sum), float(int(digest.hexdigest(), 16)), instance.mass))
    return np.array(rows).reshape(-1, 4)
