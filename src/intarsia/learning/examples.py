"""One labelled graph as the learners see it."""

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
    """What a learner reads of a model of one example: from weights to theta, and a gradient back."""

    @property
    def graph(self) -> FactorGraph:
        """What is connected."""

    @property
    def n_weights(self) -> int:
        """Length of the weights."""

    def theta(self, weights: FloatArray) -> FloatArray:
        """Scores of the graph."""

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the weights from one in theta."""


@dataclass(frozen=True, eq=False)
class Example:
    """One labelled graph in learning form; make it with `example`.

    Attributes
    ----------
    scores : ScoreMap
        From weights to theta.
    form : LearningForm
        From that theta to the form in which losses are computed.
    labels : TrainingLabels
        The truth, of the variables in learning form, with their weights.
    weight : float
        How much the example counts, next to the others.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.models import LinearScores
    >>> one = example(LinearScores(chain_graph(3, 2), [[0.0], [1.0], [2.0]]), [0, -1, 1])
    >>> one.labels.hidden.tolist(), one.has_labelled_factor     # the one in the middle is in both factors
    ([False, True, False], False)
    """

    scores: ScoreMap
    form: LearningForm
    labels: TrainingLabels
    weight: float = 1.0

    @property
    def n_labelled(self) -> int:
        """Number of variables whose label says something."""
        return int((~self.labels.hidden).sum())

    @property
    def has_labelled_factor(self) -> bool:
        """Whether some factor has no hidden variable, so that losses of factors have a term."""
        graph = self.form.graph
        if graph.n_factors == 0:
            return False
        return not bool(np.logical_or.reduceat(self.labels.hidden[graph.scope_idx], graph.scope_ptr[:-1]).all())

    @property
    def mass(self) -> float:
        """The example's weight times the sum of the weights of its labelled variables."""
        weights = self.labels.weights
        return self.weight * (self.n_labelled if weights is None else float(weights[~self.labels.hidden].sum()))


def example(scores: ScoreMap, y: ArrayLike, weight: float = 1.0, variable_weights: ArrayLike | None = None) -> Example:
    """Labelled example from a map to scores and its labels.

    Parameters
    ----------
    scores : ScoreMap
        From weights to the theta of a graph.
    y : int array (n_variables,), or bool array of allowed states
        Labels, -1 where hidden; or which states each variable may have.
    weight : float
        How much the example counts: 2 is as good as giving it twice.
    variable_weights : (n_variables,) array, optional
        How much each variable counts, for losses that are sums over variables or factors.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.models import LinearScores
    >>> one = example(LinearScores(chain_graph(3, 2), [[0.0], [1.0], [2.0]]), [0, -1, 1], weight=3.0)
    >>> one.n_labelled, one.mass
    (2, 6.0)
    """
    check_number(weight, "example: weight", low=0.0, high=np.inf, open_high=True)
    form = learning_form(scores.graph)
    lowered = form.lower_labels(y)
    if variable_weights is None:
        return Example(scores, form, training_labels(form.graph, lowered), float(weight))
    each = as_float_array(variable_weights, "example: variable_weights")
    if each.shape != (scores.graph.n_variables,):
        raise InvalidInputError(
            f"example: variable_weights has shape {each.shape}, but the graph has {scores.graph.n_variables} "
            f"variables. Give one weight for each."
        )
    return Example(scores, form, training_labels(form.graph, lowered, each[form.reduction.kept]), float(weight))


def data_sums(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Sizes and sums of each example: scores at fixed weights, with their places, stand for the features."""
    rows = []
    for one in examples:
        theta, graph, labels = one.scores.theta(np.cos(np.arange(one.scores.n_weights))), one.form.graph, one.labels
        # Never below 0, so that nothing cancels; other signs and other places give other sums.
        sizes = np.where(np.isfinite(theta), np.maximum(theta, -0.5 * theta), 0.0)
        placed = sizes @ (1.5 + np.sin(np.arange(theta.size)))
        exact = hashlib.blake2b(digest_size=4)
        for array in (labels.allowed, labels.weights, graph.scope_ptr, graph.scope_idx):
            if array is not None:
                exact.update(np.ascontiguousarray(array).tobytes())
        rows.append((float(theta.size), float(placed), float(int(exact.hexdigest(), 16)), one.mass))
    return np.array(rows).reshape(-1, 4)
