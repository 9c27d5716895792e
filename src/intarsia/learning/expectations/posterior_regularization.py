"""Posterior regularization: expectation maximization whose E step projects the posterior onto expectations."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning.expectations.corpus import BoundExpectations, Corpus, ExpectationRow, ExpectationTable
from intarsia.learning.expectations.method import (
    ExpectationMethod,
    ExpectationResult,
    Report,
    check_reachable,
    minimize_with_report,
)
from intarsia.learning.expectations.projection import Projection, project
from intarsia.learning.minimum import COLUMNS, LARGEST_WEIGHT, Minimum, Objective, largest
from intarsia.learning.optimizer import Optimizer, warn_unless_converged

# Tolerance of projections during a fit: the error of the objective is of the order of its square.
_PROJECTION_TOLERANCE = 1e-7


class PosteriorRegularization(ExpectationMethod):
    r"""Posterior regularization: EM in which the posterior is projected onto the expectations.

    Choose it for hard constraints, for penalties with kinks, and for constraints on every example; its objective never
    increases. It minimizes, over the weights w and a distribution q of the labels that agrees with the known ones,

    .. math:: \sum_s KL(q_s \,\|\, p_w(\cdot | x_s)) + \sum_j \psi_j f_j(E_q[a_j]) + \frac{l_2}2 \lVert w \rVert^2 .

    The E step is the projection of the posterior through the dual, exact with exact inference and joint over all
    examples. The M step is maximum likelihood with the projected marginals as soft labels, a convex problem. Rounds of
    both converge slowly. By default, L-BFGS therefore minimizes the objective as a function of w alone, with the best q
    for each w: its gradient is the difference of the expected features under p and q. The minima are those of EM.
    An expectation whose positions all have known labels has no effect. Without expectations it is plain EM, which
    learns nothing from unlabelled data of a conditional model.

    Parameters
    ----------
    algorithm : {"lbfgs", "em"}
        Optimizer of the estimator's learner (L-BFGS), which projects once per evaluation; or rounds of E and M steps.
    max_iter : int
        Maximum number of rounds of EM. For "lbfgs", set `max_iter` of the optimizer.
    tol : float
        EM stops when a round decreases the objective by less, relative to its value.
    projection_iter : int
        Maximum number of evaluations of the dual in a projection, each a pass over the data.
    step_iter : int
        Maximum number of iterations of the optimizer in an M step; the next M step continues from its result.

    References
    ----------
    Ganchev2010; Vilnis2015, section 5.

    Examples
    --------
    >>> from intarsia import ChainCRF
    >>> from intarsia.learning.expectations import label_given
    >>> X = [[["smith"], ["runs"]], [["jones"], ["runs"]]]
    >>> crf = ChainCRF(l2=0.1).fit(X, None, expectations=[
    ...     label_given("smith", {"NAME": 1.0}), label_given("jones", {"NAME": 1.0}), label_given("runs", {"O": 1.0})])
    >>> crf.predict(X)[0].tolist()
    ['NAME', 'O']
    """

    name: ClassVar[str] = "posterior_regularization"
    summary: ClassVar[str] = "hard constraints, kinks, constraints on each example; a monotone objective"

    def __init__(
        self,
        *,
        algorithm: str = "lbfgs",
        max_iter: int = 500,
        tol: float = 1e-5,
        projection_iter: int = 200,
        step_iter: int = 20,
    ) -> None:
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol
        self.projection_iter = projection_iter
        self.step_iter = step_iter

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_choice(self.algorithm, ("lbfgs", "em"), "PosteriorRegularization: algorithm")
        for key in ("max_iter", "projection_iter", "step_iter"):
            check_number(getattr(self, key), f"PosteriorRegularization: {key}", low=1, integer=True)
        check_number(self.tol, "PosteriorRegularization: tol", low=0.0)

    def check_expectations(self, expectations: BoundExpectations) -> None:
        """Accept all expectations: the dual supports kinks and hard constraints."""

    def learn(
        self,
        corpus: Corpus,
        expectations: BoundExpectations,
        l2: float,
        optimizer: Optimizer,
        start: FloatArray,
        report: Report | None = None,
    ) -> ExpectationResult:
        """Return the weights of lowest objective, with the projected values of the expectations."""
        self.check_settings()
        expectations = _without_constants(corpus, expectations)
        check_reachable(corpus, expectations, clamped=True)
        risk = _ProjectedRisk(corpus, expectations, l2, int(self.projection_iter))
        if self.algorithm == "lbfgs":
            minimum = minimize_with_report(optimizer, risk, start, report)
            with errors_in("PosteriorRegularization"):
                warn_unless_converged(minimum, optimizer, "max_iter of the optimizer")
        else:
            minimum = self._alternate(risk, optimizer, start, report)
        return ExpectationResult(minimum, risk.table(minimum.point))

    def _alternate(
        self, risk: _ProjectedRisk, optimizer: Optimizer, start: FloatArray, report: Report | None
    ) -> Minimum:
        """Run rounds of E and M steps."""
        m_step = type(optimizer)(**optimizer.get_params(deep=False) | {"max_iter": int(self.step_iter)})
        clock, weights, rows, status = time.perf_counter(), start.copy(), list[tuple[float, ...]](), Status.MAX_ITER
        try:
            for n_round in range(int(self.max_iter) + 1):
                objective, gradient = risk(weights)
                rows.append((objective, largest(gradient), time.perf_counter() - clock, float(n_round + 1)))
                if report is not None:
                    report(n_round, objective, largest(gradient), n_round / int(self.max_iter))
                if n_round and rows[-2][0] - objective <= self.tol * max(abs(objective), 1e-12):
                    status = Status.CONVERGED
                    break
                if n_round < int(self.max_iter):
                    weights = m_step.minimize(risk.soft_likelihood(), weights).point
        except KeyboardInterrupt:
            if not rows:
                raise
            status = Status.INTERRUPTED
        if status is Status.MAX_ITER:
            with errors_in("PosteriorRegularization"):
                warn_caller(
                    f"MAX_ITER after {self.max_iter} rounds, the last of which decreased the objective by "
                    f"{rows[-2][0] - rows[-1][0]:.2e} per position. Raise max_iter, or use algorithm='lbfgs'.",
                    ConvergenceWarning,
                )
        history = dict(zip(COLUMNS, np.array(rows).T, strict=True))
        return Minimum(weights, rows[-1][0], rows[-1][1], status, len(rows) - 1, start=start, history=history)


def _without_constants(corpus: Corpus, expectations: BoundExpectations) -> BoundExpectations:
    """Return the expectations with a weight of 0 for those whose positions all have known labels.

    No distribution can change these, and their penalty may be infinite. Hard constraints remain, so that contradictions
    are reported.
    """
    if not corpus.has_labels:
        return expectations
    marginals = corpus.moments(np.zeros(corpus.n_weights), clamped=True).marginals
    is_free = ((marginals > 0.0) & (marginals < 1.0)).astype(np.float64)
    is_constant = (abs(expectations.coefficients) @ is_free == 0.0) & np.isfinite(expectations.psi)
    return replace(expectations, psi=np.where(is_constant, 0.0, expectations.psi))


class _ProjectedRisk:
    """Objective per position as a function of the weights, minimized over q by projection."""

    def __init__(self, corpus: Corpus, expectations: BoundExpectations, l2: float, max_iter: int) -> None:
        self.corpus, self.expectations, self.l2, self.max_iter = corpus, expectations, l2, max_iter
        self.projection: Projection | None = None  # the latest one, whose multipliers start the next

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient; the value is infinite if a weight is too large."""
        if not largest(weights) < LARGEST_WEIGHT:
            return np.inf, np.zeros(weights.size)
        start = None if self.projection is None else self.projection.multipliers
        self.projection = project(
            self.corpus, weights, self.expectations, start, max_iter=self.max_iter, tol=_PROJECTION_TOLERANCE
        )
        free, mass = self.corpus.moments(weights), self.corpus.mass
        value = free.log_partition + self.projection.value + 0.5 * self.l2 * float(weights @ weights)
        gradient = free.statistics - self.projection.moments.statistics + self.l2 * weights
        return value / mass, gradient / mass

    def soft_likelihood(self) -> Objective:
        """Return the objective of the M step: the negative log-likelihood of the latest projected marginals."""
        corpus, l2 = self.corpus, self.l2
        target = np.zeros(corpus.n_weights) if self.projection is None else self.projection.moments.statistics

        def negative_likelihood(weights: FloatArray) -> tuple[float, FloatArray]:
            moments = corpus.moments(weights)
            value = moments.log_partition - float(weights @ target) + 0.5 * l2 * float(weights @ weights)
            return value / corpus.mass, (moments.statistics - target + l2 * weights) / corpus.mass

        return negative_likelihood

    def table(self, weights: FloatArray) -> ExpectationTable:
        """Return the values of the expectations under the model and under its projection."""
        expectations, start = self.expectations, None if self.projection is None else self.projection.multipliers
        model = expectations.values(self.corpus.moments(weights).marginals)
        projection = project(self.corpus, weights, expectations, start, max_iter=self.max_iter)
        projected = expectations.values(projection.moments.marginals)
        columns = (expectations.low, expectations.high, model, projected, projection.multipliers)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        named_rows = zip(expectations.names, numbers, strict=True)
        return ExpectationTable(ExpectationRow(name, *row) for name, row in named_rows)
