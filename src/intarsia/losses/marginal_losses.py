"""Losses of marginals: logistic, quadratic, and smoothed classification error."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.graph import FactorGraph
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import MarginalLoss
from intarsia.losses.terms import Terms, factor_terms, variable_terms

LEAST_MARGINAL = 1e-300
"""The logarithm's argument is never taken below this, in value and gradient."""


class UnivariateLogistic(MarginalLoss):
    r"""Negative log marginal of each variable's true label, summed.

    Choose it when single labels will be predicted from their marginals, the usual case; it asks nothing of pairs. With
    exact marginals it is a proper score of each of them.

    .. math:: L(\mu) = -\sum_i \log \mu_i(y_i)

    over the observed variables. For a label set the marginals of its states are added before the logarithm. A
    marginal below 1e-300 counts as 1e-300, in the gradient :math:`-1 / \mu_i(y_i)` too.

    References
    ----------
    Domke2013 section 4.2.1; hidden variables, section 4.2.4.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> mu = graph.pack([[0.5, 0.5], [0.2, 0.8]], [[[0.1, 0.4], [0.1, 0.4]]])
    >>> value, gradient = UnivariateLogistic().value_and_gradient(graph, mu, training_labels(graph, [-1, 1]))
    >>> round(value, 4), gradient[:4].tolist()          # -log 0.8 and its derivative
    (0.2231, [0.0, 0.0, 0.0, -1.25])
    """

    name: ClassVar[str] = "univariate_logistic"
    summary: ClassVar[str] = "labels predicted one by one from their marginals"

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        return _logistic(variable_terms(graph, labels), mu)


class CliqueLogistic(MarginalLoss):
    r"""Negative log marginal of each factor's true joint label, summed.

    Choose it when pairs of labels matter, or as the stronger training signal: with an exact model it is consistent
    for the whole joint distribution. Variables without a factor have no term.

    .. math:: L(\mu) = -\sum_c \log \mu_c(y_c)

    over the factors whose variables are all observed. For label sets the marginals of the allowed joint states are
    added before the logarithm. A marginal below 1e-300 counts as 1e-300, in the gradient too.

    References
    ----------
    Domke2013 section 4.2.3; hidden variables, section 4.2.4.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> mu = graph.pack([[0.5, 0.5], [0.2, 0.8]], [[[0.1, 0.4], [0.1, 0.4]]])
    >>> value, gradient = CliqueLogistic().value_and_gradient(graph, mu, training_labels(graph, [0, 1]))
    >>> round(value, 4), gradient[4:].tolist()          # -log 0.4 and its derivative
    (0.9163, [0.0, -2.5, 0.0, 0.0])
    """

    name: ClassVar[str] = "clique_logistic"
    summary: ClassVar[str] = "joint labels of neighbours; the strongest signal of the marginal losses"
    uses_factors: ClassVar[bool] = True

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        return _logistic(factor_terms(graph, labels), mu)


def _logistic(terms: Terms, mu: FloatArray) -> tuple[float, FloatArray]:
    mass = np.maximum(terms.true_mass(mu), LEAST_MARGINAL)
    used = terms.weight > 0
    value = -float(terms.weight[used] @ np.log(mass[used]))
    gradient = np.zeros(mu.size)
    gradient[terms.at] = -(terms.weight / mass)[terms.block]
    return value, gradient


class UnivariateQuadratic(MarginalLoss):
    r"""Squared distance of each variable's marginal from its true label, summed (the Brier score).

    Choose it where some labels are plainly wrong: a term is at most 2, while a logistic term has no bound. It is
    flat where predictions are far off, so start from weights fitted otherwise.

    .. math:: L(\mu) = \sum_i \sum_x (\mu_i(x) - [x = y_i])^2

    over the observed variables. The states of a label set count as one outcome: their marginals are added first.

    References
    ----------
    Domke2013 section 4.2.2 names it; section 4.2.4 for hidden variables. Label sets are ours.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> mu = graph.pack([[0.5, 0.5], [0.25, 0.75]], [[[0.125, 0.375], [0.125, 0.375]]])
    >>> value, gradient = UnivariateQuadratic().value_and_gradient(graph, mu, training_labels(graph, [-1, 1]))
    >>> value, gradient[:4].tolist()                    # 0.25^2 + (1 - 0.75)^2
    (0.125, [0.0, 0.0, 0.5, -0.5])
    """

    name: ClassVar[str] = "univariate_quadratic"
    summary: ClassVar[str] = "labels one by one, with bounded harm from wrong labels"

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        return _quadratic(variable_terms(graph, labels), mu)


class CliqueQuadratic(MarginalLoss):
    r"""Squared distance of each factor's marginal from its true joint label, summed.

    As `UnivariateQuadratic`, for the joint labels of factors whose variables are all observed:

    .. math:: L(\mu) = \sum_c \sum_{x_c} (\mu_c(x_c) - [x_c = y_c])^2

    The joint states that label sets allow count as one outcome. Variables without a factor have no term.

    References
    ----------
    Domke2013 sections 4.2.2 to 4.2.4. Label sets are ours.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> mu = graph.pack([[0.5, 0.5], [0.5, 0.5]], [[[0.5, 0.0], [0.0, 0.5]]])
    >>> CliqueQuadratic().value_and_gradient(graph, mu, training_labels(graph, [0, 0]))[0]    # 0.5^2 + 0.5^2
    0.5
    """

    name: ClassVar[str] = "clique_quadratic"
    summary: ClassVar[str] = "joint labels of neighbours, with bounded harm from wrong labels"
    uses_factors: ClassVar[bool] = True

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        return _quadratic(factor_terms(graph, labels), mu)


def _quadratic(terms: Terms, mu: FloatArray) -> tuple[float, FloatArray]:
    missing = 1.0 - terms.true_mass(mu)
    wrong = terms.part(mu).copy()
    wrong[terms.at - terms.ptr[0]] = 0.0
    value = float(terms.weight @ (terms.reduce(np.add, wrong * wrong) + missing * missing))
    gradient = np.zeros(mu.size)
    terms.part(gradient)[:] = 2.0 * wrong * terms.spread(terms.weight)
    gradient[terms.at] = (-2.0 * terms.weight * missing)[terms.block]
    return value, gradient


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
    >>> from intarsia.losses.labels import training_labels
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
