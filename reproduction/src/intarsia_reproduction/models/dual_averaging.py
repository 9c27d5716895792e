"""Regularized dual averaging for collective models: Algorithm 1 of Vilnis2015, as the paper uses it for Table 4."""

from __future__ import annotations

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.collective.flow_methods import FlowMethod
from intarsia.collective.problem import CollectiveProblem, Point
from intarsia.collective.search import Report, Search
from intarsia.inference.method import Iteration, iterate

BETA = 20.0
"""Constant weight of the prox-centre; with 0 the first gradient of Poisson counts moves all walkers to one cell."""
_LARGEST_TILT = 1e9  # the run has diverged: almost no walkers are left where some were counted


class DualAveraging(Search):
    """Average the gradients of the noise, and call the oracle at the scores minus t / (t + beta) times the average.

    beta is the largest absolute entry of the first gradient, so that the first step changes no score by more than 1.
    """

    def __init__(self, problem: CollectiveProblem, start: Point, clock: Clock) -> None:
        super().__init__(problem, start, clock)
        self._average, self._current, self._t = 0.0 * start.tilt, start, 0
        self._beta = self._choose_beta(self._gradient())

    @staticmethod
    def _choose_beta(first_gradient: FloatArray) -> float:
        return float(np.abs(first_gradient).max(initial=0.0))

    def _gradient(self) -> FloatArray:
        problem = self.problem
        return problem.noise.slope(self._current.walkers, problem.y) / problem.model_weight

    def run(self, max_iter: int, tol: float, report: Report) -> Iteration:
        """Iterate until the relative duality gap is at most tol, or until the iterates diverge."""
        try:
            return iterate(self.sweep, max_iter, tol, self.clock, report)
        except _DivergedError:
            residuals = self.history["residual"]
            return Iteration(Status.STALLED, len(residuals), self.residual, np.array(residuals))

    def sweep(self) -> float:
        """Make one step: one gradient of the noise and one call of the oracle."""
        self._t += 1
        self._average += (self._gradient() - self._average) / self._t
        tilt = self._t / (self._t + self._beta) * self._average
        point = self.problem.evaluate(tilt) if np.abs(tilt).max() < _LARGEST_TILT else None
        if point is None:
            raise _DivergedError
        self._current = point
        self.consider(point)
        return self.record()


class DualAveragingConstantBeta(DualAveraging):
    """Dual averaging with the constant `BETA`, which is too small if the first gradient is large."""

    @staticmethod
    def _choose_beta(first_gradient: FloatArray) -> float:
        return BETA


class _DivergedError(Exception):
    """Raised if the average gradient is so large that rounding errors exceed the objective."""


class FlowDualAveraging(FlowMethod):
    """Settings of Algorithm 1 for `infer_flows`, with beta chosen by the first gradient.

    It is in the reproduction only, since the other methods are faster.

    Examples
    --------
    >>> from intarsia.collective import infer_flows
    >>> infer_flows([[0.0, 0.0], [0.0, 0.0]], [[6, 4], [4, 6]], method=FlowDualAveraging(tol=1e-4)).status.name
    'CONVERGED'
    """

    search = DualAveraging


class FlowDualAveragingConstantBeta(FlowMethod):
    """Settings of Algorithm 1 for `infer_flows`, with the constant `BETA`.

    Examples
    --------
    >>> from intarsia.collective import infer_flows
    >>> method = FlowDualAveragingConstantBeta(tol=1e-4)
    >>> infer_flows([[0.0, 0.0], [0.0, 0.0]], [[6, 4], [4, 6]], method=method).status.name
    'CONVERGED'
    """

    search = DualAveragingConstantBeta
