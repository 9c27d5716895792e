"""Generalized expectation criteria: weights whose own expectations on unlabelled data are close to the targets."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray
from intarsia.exceptions import NotSupportedError
from intarsia.learning.expectations.corpus import BoundExpectations, Corpus, ExpectationRow, ExpectationTable
from intarsia.learning.expectations.method import (
    ExpectationMethod,
    ExpectationResult,
    Report,
    check_reachable,
    minimize_with_report,
)
from intarsia.learning.minimum import LARGEST_WEIGHT, largest
from intarsia.learning.optimizer import Optimizer, warn_unless_converged


class GeneralizedExpectation(ExpectationMethod):
    r"""Generalized expectation criteria: the penalties apply to the expectations of the model itself.

    Choose it for smooth penalties ("squared", "kl"), such as label proportions beside a few labelled examples; it has
    no auxiliary distribution, and each iteration costs two or three passes over the data. It minimizes

    .. math:: -\log p_w(y_{known} | x) + \sum_j \psi_j f_j(E_w[a_j]) + \frac{l_2}2 \lVert w \rVert^2 .

    The gradient of an expectation is the covariance of the features with the measurement, which is computed exactly on
    chains. The objective is not convex, so that the result depends on the start.

    References
    ----------
    Mann2010; Vilnis2015, section 5.

    Examples
    --------
    >>> from intarsia import ChainCRF
    >>> from intarsia.learning.expectations import label_given
    >>> X = [[["smith"], ["runs"]], [["jones"], ["runs"]]]
    >>> names = [label_given("smith", {"NAME": 0.9}), label_given("runs", {"NAME": 0.1})]
    >>> crf = ChainCRF(l2=1e-4, classes=["NAME", "O"]).fit(X, expectations=names, method="generalized_expectation")
    >>> [round(row.model, 2) for row in crf.expectations_[:2]]
    [0.9, 0.1]
    """

    name: ClassVar[str] = "generalized_expectation"
    summary: ClassVar[str] = "smooth penalties of the model's own expectations; few passes over the data"

    def __init__(self) -> None:
        pass

    def check_settings(self) -> None:
        """Accept the settings: the optimizer is that of the learner."""

    def check_expectations(self, expectations: BoundExpectations) -> None:
        """Raise if a penalty has a kink or is infinite."""
        smooth = expectations.functions.differentiable & np.isfinite(expectations.psi)
        if not smooth.all():
            name = expectations.names[int(np.argmin(smooth))]
            raise NotSupportedError(
                f"GeneralizedExpectation needs smooth penalties, but {name} has a kink or is a hard constraint. Use "
                f"distance='squared' with a finite strength, or method='posterior_regularization'."
            )

    def learn(
        self,
        corpus: Corpus,
        expectations: BoundExpectations,
        l2: float,
        optimizer: Optimizer,
        start: FloatArray,
        report: Report | None = None,
    ) -> ExpectationResult:
        """Return the weights that the optimizer reaches from `start`."""
        self.check_expectations(expectations)
        check_reachable(corpus, expectations, clamped=False)
        objective = GeneralizedExpectationRisk(corpus, expectations, l2)
        minimum = minimize_with_report(optimizer, objective, start, report)
        with errors_in("GeneralizedExpectation"):
            warn_unless_converged(minimum, optimizer, "max_iter")
        model = expectations.values(corpus.moments(minimum.point).marginals).tolist()
        columns = (expectations.names, expectations.low.tolist(), expectations.high.tolist(), model)
        rows = (ExpectationRow(*row, None, None) for row in zip(*columns, strict=True))
        return ExpectationResult(minimum, ExpectationTable(rows))


class GeneralizedExpectationRisk:
    """Objective of generalized expectation criteria per position; a call with weights returns value and gradient.

    Parameters
    ----------
    corpus : Corpus
        Examples with hidden and known labels.
    expectations : BoundExpectations
        Expectations with smooth penalties.
    l2 : float
        L2 regularization of the summed objective.
    """

    def __init__(self, corpus: Corpus, expectations: BoundExpectations, l2: float) -> None:
        self.corpus, self.expectations, self.l2 = corpus, expectations, l2

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient at these weights; the value is infinite if a weight is too large."""
        if not largest(weights) < LARGEST_WEIGHT:
            return np.inf, np.zeros(weights.size)
        corpus, expectations = self.corpus, self.expectations
        free = corpus.moments(weights)
        values = expectations.values(free.marginals)
        value = float(expectations.penalties(values).sum()) + 0.5 * self.l2 * float(weights @ weights)
        slopes = expectations.psi * expectations.functions.derivative(values)
        gradient = corpus.covariance(weights, expectations.tilt(slopes)) + self.l2 * weights
        if corpus.has_labels:
            clamped = corpus.moments(weights, clamped=True)
            value += free.log_partition - clamped.log_partition
            gradient += free.statistics - clamped.statistics
        return value / corpus.mass, gradient / corpus.mass
