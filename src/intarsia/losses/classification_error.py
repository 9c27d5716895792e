"""Smoothed classification error: how many labels would be predicted wrongly, made differentiable."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from intarsia._validation import FloatArray, IntArray, check_number
from intarsia.graph import FactorGraph
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import MarginalLoss
from intarsia.losses.terms import Terms, variable_terms


class SmoothedClassificationError(MarginalLoss):
    r"""Number of variables whose most probable label is wrong, with the step smoothed to a sigmoid.

    Choose it when the error rate itself is the goal and good weights to start from are at hand; it is not convex in
    the marginals and catches on local minima. As `alpha` grows, it tends to the error count.

    .. math:: L(\mu) = \sum_i \sigma(\alpha (\max_{x \ne y_i} \mu_i(x) - \mu_i(y_i)))

    over the observed variables. With a label set, the best state outside it is held against the best one inside.
    Where several states are best, the first takes the whole gradient.

    Parameters
    ----------
    alpha : float
        Steepness of the sigmoid, above 0.

    Notes
    -----
    Domke2013 prints the true label's marginal in both places; the best *wrong* label's is meant.

    References
    ----------
    Domke2013 section 4.2.2; hidden variables, section 4.2.4.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses import training_labels
    >>> graph = chain_graph(2, 2)
    >>> mu = graph.pack([[0.9, 0.1], [0.9, 0.1]], [[[0.81, 0.09], [0.09, 0.01]]])
    >>> labels = training_labels(graph, [0, 1])
    >>> loss = SmoothedClassificationError(alpha=50.0)
    >>> round(loss.value_and_gradient(graph, mu, labels)[0], 6)     # one right, one wrong
    1.0
    """

    name: ClassVar[str] = "smoothed_classification_error"
    summary: ClassVar[str] = "the error count itself, from good weights onwards"

    def __init__(self, *, alpha: float = 10.0) -> None:
        self.alpha = alpha

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        check_number(self.alpha, "SmoothedClassificationError: alpha", low=0.0, high=1e300, open_low=True)

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        terms = variable_terms(graph, labels)
        used = np.flatnonzero(terms.weight > 0)
        wrong = terms.part(mu).copy()
        wrong[terms.at] = -np.inf
        right = np.full(wrong.size, -np.inf)
        right[terms.at] = mu[terms.at]
        wrong_at, right_at = _first_best(terms, wrong)[used], _first_best(terms, right)[used]
        error = expit(self.alpha * (mu[wrong_at] - mu[right_at]))
        slope = terms.weight[used] * self.alpha * error * (1.0 - error)
        gradient = np.zeros(mu.size)
        gradient[wrong_at] = slope
        gradient[right_at] = -slope
        return float(terms.weight[used] @ error), gradient


def _first_best(terms: Terms, values: FloatArray) -> IntArray:
    """Position of the first highest entry of each variable's block."""
    best = np.flatnonzero(values == terms.spread(terms.reduce(np.maximum, values)))
    block = np.searchsorted(terms.ptr, best, side="right") - 1
    first = np.append(True, block[1:] != block[:-1])
    return best[first] if terms.size else best
