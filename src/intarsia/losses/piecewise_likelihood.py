"""Piecewise likelihood: every variable and every factor is fitted as if it stood alone."""

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
    r"""Negative log-likelihood with log Z replaced by the sum of those of single variables and factors.

    Needs no inference: choose it for speed, or to start another fit. What one piece explains the others explain
    again, so predictions are too sure of themselves.

    .. math:: L(\theta) = \sum_c (A_c(\theta) - \theta(y_c)) + \sum_i (A_i(\theta) - \theta(y_i))

    with :math:`A_c = \log \sum_{x_c} e^{\theta(x_c)}`. Since :math:`A \le \sum_c A_c + \sum_i A_i`, it is an upper
    bound on the negative log-likelihood when no label is hidden. Pieces with a hidden variable are left out; for a
    label set the probabilities of its states are added.

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
    summary: ClassVar[str] = "quickest of all: no inference, each factor on its own"
    needs: ClassVar[str] = "labels only"
    takes_weights: ClassVar[bool] = True

    @property
    def bound_is_when_observed(self) -> str:
        """An upper bound, with weights 1."""
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
            part = add_local_likelihoods(terms, theta, gradient)
            if part is None:
                return None
            value += part
        return value, gradient


def add_local_likelihoods(terms: Terms, theta: FloatArray, gradient: FloatArray) -> float | None:
    """Sum of the negative log-probabilities of each block's true entries under its own softmax.

    The derivative is added to `gradient`. None when a term's true entries are all impossible.
    """
    if terms.size == 0:
        return 0.0
    used = terms.weight > 0
    inside = terms.part(theta)
    top = terms.reduce(np.maximum, inside)
    # Blocks that are no term may be impossible altogether; they must not give NaN.
    safe_top = np.where(top > -np.inf, top, 0.0)
    shares = np.exp(inside - terms.spread(safe_top))
    total = terms.reduce(np.add, shares)
    # The true entries get a maximum of their own: far below the best entry they would underflow.
    true_top = np.full(terms.size, -np.inf)
    np.maximum.at(true_top, terms.block, theta[terms.at])
    if (true_top[used] == -np.inf).any():
        return None
    safe_true_top = np.where(true_top > -np.inf, true_top, 0.0)
    true_shares = np.exp(theta[terms.at] - safe_true_top[terms.block])
    true_total = np.bincount(terms.block, true_shares, terms.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = safe_top + np.log(total) - safe_true_top - np.log(true_total)
        shares *= terms.spread(np.where(used, terms.weight / total, 0.0))
        gradient[terms.at] -= true_shares * np.where(used, terms.weight / true_total, 0.0)[terms.block]
    terms.part(gradient)[:] += shares
    return float(terms.weight[used] @ value[used])
