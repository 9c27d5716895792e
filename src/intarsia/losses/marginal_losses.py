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
"""Lower limit of the argument of the logarithm, in value and gradient."""


class UnivariateLogistic(MarginalLoss):
    r"""Negative log marginal of the true label of each variable, summed.

    Choose it if single labels are predicted from their marginals, the usual case; it ignores pairs of labels. With
    exact marginals it is a proper scoring rule for each of them.

    .. math:: L(\mu) = -\sum_i \log \mu_i(y_i)

    over the observed variables. For a label set the marginals of its states are summed before the logarithm. A marginal
    below 1e-300 counts as 1e-300, also in the gradient :math:`-1 / \mu_i(y_i)`.

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
    r"""Negative log marginal of the true joint label of each factor, summed.

    Choose it if pairs of labels matter, or as the stronger training signal: with an exact model it is consistent for
    the whole joint distribution. Variables without a factor have no term.

    .. math:: L(\mu) = -\sum_c \log \mu_c(y_c)

    over the factors whose variables are all observed. For label sets the marginals of the allowed joint states are
    summed before the logarithm. A marginal below 1e-300 counts as 1e-300, also in the gradient.

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
    """Return the weighted sum of negative logarithms of the true marginals, with its gradient."""
    mass = np.maximum(terms.true_mass(mu), LEAST_MARGINAL)
    active = terms.weight > 0
    value = -float(terms.weight[active] @ np.log(mass[active]))
    gradient = np.zeros(mu.size)
    gradient[terms.true_entries] = -(terms.weight / mass)[terms.block]
    return value, gradient


class UnivariateQuadratic(MarginalLoss):
    r"""Squared distance of the marginal of each variable from its true label, summed (the Brier score).

    Choose it if some labels are wrong: a term is at most 2, while a logistic term has no bound. It is flat if
    predictions are far off, so start from weights fitted with another loss.

    .. math:: L(\mu) = \sum_i \sum_x (\mu_i(x) - [x = y_i])^2

    over the observed variables. The states of a label set count as one outcome: their marginals are summed first.

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
    summary: ClassVar[str] = "labels one by one, with a bounded effect of wrong labels"

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        return _quadratic(variable_terms(graph, labels), mu)


class CliqueQuadratic(MarginalLoss):
    r"""Squared distance of the marginal of each factor from its true joint label, summed.

    Like `UnivariateQuadratic`, for the joint labels of factors whose variables are all observed:

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
    summary: ClassVar[str] = "joint labels of neighbours, with a bounded effect of wrong labels"
    uses_factors: ClassVar[bool] = True

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        return _quadratic(factor_terms(graph, labels), mu)


def _quadratic(terms: Terms, mu: FloatArray) -> tuple[float, FloatArray]:
    """Return the weighted sum of squared distances from the true labels, with its gradient."""
    missing = 1.0 - terms.true_mass(mu)
    wrong = terms.entries(mu).copy()
    wrong[terms.true_entries - terms.ptr[0]] = 0.0
    value = float(terms.weight @ (terms.reduce(np.add, wrong * wrong) + missing * missing))
    gradient = np.zeros(mu.size)
    terms.entries(gradient)[:] = 2.0 * wrong * terms.spread(terms.weight)
    gradient[terms.true_entries] = (-2.0 * terms.weight * missing)[terms.block]
    return value, gradient


class SmoothedClassificationError(MarginalLoss):
    r"""Number of variables whose most probable label is wrong, with the step smoothed to a sigmoid.

    Choose it if the error rate is the goal and good starting weights are available; it is not convex in the marginals
    and has local minima. As `alpha` grows, it approaches the number of errors.

    .. math:: L(\mu) = \sum_i \sigma(\alpha (\max_{x \ne y_i} \mu_i(x) - \mu_i(y_i)))

    over the observed variables. With a label set, the best state outside it is compared with the best one inside. If
    several states are best, the first receives the whole gradient.

    Parameters
    ----------
    alpha : float
        Steepness of the sigmoid, above 0.

    Notes
    -----
    Domke2013 prints the marginal of the true label in both places; the first must be that of the best *wrong* label.

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
    summary: ClassVar[str] = "the number of errors, from good starting weights"

    def __init__(self, *, alpha: float = 10.0) -> None:
        self.alpha = alpha

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_number(self.alpha, "SmoothedClassificationError: alpha", low=0.0, high=1e300, open_low=True)

    def _evaluate(self, graph: FactorGraph, mu: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray]:
        terms = variable_terms(graph, labels)
        active = np.flatnonzero(terms.weight > 0)
        wrong = terms.entries(mu).copy()
        wrong[terms.true_entries] = -np.inf
        right = np.full(wrong.size, -np.inf)
        right[terms.true_entries] = mu[terms.true_entries]
        wrong_entry, right_entry = _first_best(terms, wrong)[active], _first_best(terms, right)[active]
        error = expit(self.alpha * (mu[wrong_entry] - mu[right_entry]))
        slope = terms.weight[active] * self.alpha * error * (1.0 - error)
        gradient = np.zeros(mu.size)
        gradient[wrong_entry] = slope
        gradient[right_entry] = -slope
        return float(terms.weight[active] @ error), gradient


def _first_best(terms: Terms, values: FloatArray) -> IntArray:
    """Return the position of the first highest entry in the block of each variable."""
    best = np.flatnonzero(values == terms.spread(terms.reduce(np.maximum, values)))
    block = np.searchsorted(terms.ptr, best, side="right") - 1
    first = np.append(True, block[1:] != block[:-1])
    return best[first] if terms.size else best
