"""Quadratic losses: the squared distance of marginals from the truth."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray
from intarsia.graph import FactorGraph
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import MarginalLoss
from intarsia.losses.terms import Terms, factor_terms, variable_terms


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
    >>> from intarsia.losses import training_labels
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
    >>> from intarsia.losses import training_labels
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
