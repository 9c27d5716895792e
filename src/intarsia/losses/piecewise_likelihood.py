"""Piecewise likelihood: fits every variable and every factor separately."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.graph import FactorGraph
from intarsia.inference import InferenceMethod
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import DirectLoss
from intarsia.losses.terms import Terms, factor_terms, variable_terms


class PiecewiseLikelihood(DirectLoss):
    r"""Piecewise likelihood: log Z is replaced by the sum of those of single variables and factors.

    It needs no inference: choose it for speed, or for starting weights of another fit. Several pieces explain the same
    evidence, so that predictions are overconfident.

    .. math:: L(\theta) = \sum_c (A_c(\theta) - \theta(y_c)) + \sum_i (A_i(\theta) - \theta(y_i))

    with :math:`A_c = \log \sum_{x_c} e^{\theta(x_c)}`. Since :math:`A \le \sum_c A_c + \sum_i A_i`, it is an upper
    bound on the negative log-likelihood if no label is hidden. Pieces with a hidden variable are excluded; for a label
    set the probabilities of its states are summed.

    References
    ----------
    Domke2013 section 4.1.5; hidden variables, section 4.2.4.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> labels = training_labels(graph, [0, 1])
    >>> round(PiecewiseLikelihood().value_and_gradient_theta(graph, graph.zeros(), labels)[0], 4)    # 2 log 2 + log 4
    2.7726
    """

    name: ClassVar[str] = "piecewise_likelihood"
    summary: ClassVar[str] = "fastest: no inference, each factor separately"
    needs: ClassVar[str] = "labels only"
    takes_weights: ClassVar[bool] = True

    @property
    def bound_is_when_observed(self) -> str:
        """Upper bound, for weights of 1."""
        return "upper bound"

    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        gradient = np.zeros(theta.size)
        value = 0.0
        for terms in (variable_terms(graph, labels), factor_terms(graph, labels)):
            term_value = add_local_likelihoods(terms, theta, gradient)
            if term_value is None:
                return None
            value += term_value
        return value, gradient


def add_local_likelihoods(terms: Terms, theta: FloatArray, gradient: FloatArray) -> float | None:
    """Return the sum of negative log-probabilities of the true entries of each block under its softmax.

    The derivative is added to `gradient`. None if the true entries of a term are all impossible.
    """
    if terms.size == 0:
        return 0.0
    active = terms.weight > 0
    scores = terms.entries(theta)
    largest = terms.reduce(np.maximum, scores)
    # Blocks that are not terms may be impossible; they must not produce NaN.
    safe_largest = np.where(largest > -np.inf, largest, 0.0)
    weights = np.exp(scores - terms.spread(safe_largest))
    total = terms.reduce(np.add, weights)
    # The true entries need a separate maximum: far below the best entry they would underflow.
    true_largest = np.full(terms.size, -np.inf)
    np.maximum.at(true_largest, terms.block, theta[terms.true_entries])
    if (true_largest[active] == -np.inf).any():
        return None
    safe_true_largest = np.where(true_largest > -np.inf, true_largest, 0.0)
    true_weights = np.exp(theta[terms.true_entries] - safe_true_largest[terms.block])
    true_total = np.bincount(terms.block, true_weights, terms.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = safe_largest + np.log(total) - safe_true_largest - np.log(true_total)
        weights *= terms.spread(np.where(active, terms.weight / total, 0.0))
        gradient[terms.true_entries] -= true_weights * np.where(active, terms.weight / true_total, 0.0)[terms.block]
    terms.entries(gradient)[:] += weights
    return float(terms.weight[active] @ value[active])
