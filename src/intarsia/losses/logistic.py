"""Logistic losses: the negative logarithm of the marginals that are predicted for the truth."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray
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
    >>> from intarsia.losses import training_labels
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
    >>> from intarsia.losses import training_labels
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
