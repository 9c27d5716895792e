"""Bethe projections by the dual problem with one multiplier per measurement; supports hard constraints."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.energies import Energy
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.scalar_terms import ScalarTerms
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import NotSupportedError, TimeLimitError
from intarsia.inference.method import InferenceMethod, Iteration
from intarsia.inference.projection.bethe_oracle import MarginalOracle, Point
from intarsia.inference.projection.bethe_projection import BetheProjection, Search
from intarsia.inference.registry import METHODS

# Multipliers beyond this mean that no distribution satisfies the hard constraints.
_LARGEST_MULTIPLIER = 1e8
# Maximum number of free multipliers for Newton steps, which need one call of the oracle for each.
_MAX_FREE = 40


class BetheDual(BetheProjection):
    r"""Marginals with a convex energy of linear measurements, to high accuracy, by L-BFGS-B on the dual problem.

    Choose it for hinges, absolute values and other energies of linear measurements if you need many correct digits and
    their proof, the duality gap. A weight `psi = inf` makes a hinge or an absolute value a hard constraint on the
    expectations. It minimises :math:`-\langle\theta,\mu\rangle - T H(\mu) + \sum_j \psi_j f_j(a_j \cdot \mu)` by
    maximising

    .. math:: -T \log Z\big((\theta - \textstyle\sum_j \lambda_j a_j) / T\big) - \sum_j (\psi_j f_j)^*(\lambda_j)

    over multipliers between the smallest and the largest slope of each :math:`\psi_j f_j`. The dual is smooth even
    where the energy has kinks. Each evaluation is one call of the oracle, and the marginals of the tilted model (scores
    :math:`\theta - \sum_j \lambda_j a_j`) are the solution for its multipliers. A few Newton steps improve the accuracy
    beyond that of L-BFGS-B.

    Parameters
    ----------
    energy : Energy, optional
        L, a sum of `MeasuredEnergy` and `PoissonCounts`; None runs the oracle without an energy.
    names : sequence, optional
        Names of the states, if the energy refers to labels by name.
    oracle : str or InferenceMethod
        Inference method for the tilted models: "tree", "junction_tree", "brute_force", or "tree_reweighted" with its
        approximate entropy on loopy graphs; "auto" selects the first that applies.
    max_iter : int
        Maximum number of evaluations of the dual.
    tol : float
        Stop when no entry of the projected gradient of the dual is larger: the difference between a measurement of mu
        and the value that corresponds to its multiplier.
    temperature : float, optional
        T, by default 1. For "map", the tilted model is computed at T = 1, and its best labelling is returned.

    Raises
    ------
    NotSupportedError
        For energies that are not functions of linear measurements.

    References
    ----------
    Vilnis2015, section 3; Liu1989.

    Examples
    --------
    Three coins, each heads with probability 0.9, and the hard constraint of at most one head in expectation:

    >>> import intarsia, numpy as np
    >>> from intarsia.energies import Count, Hinge, MeasuredEnergy
    >>> graph = intarsia.from_edges(2, [], n_variables=3)
    >>> theta = graph.pack(variables=np.log([[0.1, 0.9]] * 3))
    >>> most_one = MeasuredEnergy(Count(1), Hinge(1.0), psi=np.inf)
    >>> result = intarsia.infer(graph, theta, "bethe_dual", energy=most_one)
    >>> result.marginals(0).round(6).tolist(), result.status.name
    ([0.666667, 0.333333], 'CONVERGED')
    """

    name: ClassVar[str] = "bethe_dual"
    summary: ClassVar[str] = "global preferences on measurements: exact at kinks, hard constraints, a duality gap"

    _parts: ClassVar[Parts] = {"energy": ENERGY_PARTS, "oracle": METHODS}
    recorded_multipliers: list[FloatArray] | None = None
    """List to which a run appends its multipliers; None records nothing."""

    def __init__(
        self,
        *,
        energy: Energy | BoundEnergy | None = None,
        names: Any = None,
        oracle: str | InferenceMethod = "auto",
        max_iter: int = 1000,
        tol: float = 1e-9,
        temperature: float | None = None,
    ) -> None:
        self.energy = energy
        self.names = names
        self.oracle = oracle
        self.max_iter = max_iter
        self.tol = tol
        self.temperature = temperature

    def check_energy(self, energy: BoundEnergy) -> None:
        """Raise unless the energy is a convex function of linear measurements, which this dual requires."""
        if energy.terms is None:
            raise NotSupportedError(
                "BetheDual: the energy must be a sum of convex functions of linear measurements. "
                "Use 'bethe_mirror_descent', which supports any energy with a gradient."
            )

    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """Maximise the dual by L-BFGS-B, then by Newton steps."""
        terms = energy.terms
        if terms is None:
            raise NotSupportedError("BetheDual: the energy must be a function of linear measurements.")
        dual = _Dual(oracle, terms, start, self.tol, int(self.max_iter))
        note = ""
        try:
            dual.run_lbfgs()
            dual.run_newton()
            status = Status.STALLED
        except _StopError as stop:
            status, note = stop.status, stop.note
        except TimeLimitError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        if self.recorded_multipliers is not None:
            self.recorded_multipliers.append(dual.multipliers)
        residuals = np.array(dual.residuals)
        last = dual.residuals[-1] if dual.residuals else np.inf
        return dual, Iteration(status, residuals.size, float(last), residuals), note


class _StopError(Exception):
    """Exception that ends the loop of SciPy's optimizer."""

    def __init__(self, status: Status, note: str = "") -> None:
        super().__init__(note)
        self.status, self.note = status, note


class _Dual(Search):
    """Dual objective as a function of the multipliers; its evaluations update the best distribution and bound."""

    def __init__(self, oracle: MarginalOracle, terms: ScalarTerms, start: Point, tol: float, max_iter: int) -> None:
        from scipy.sparse.linalg import lsqr

        self.terms, self.psi, self.max_iter = terms, terms.strengths, max_iter
        soft = terms.with_psi(np.where(np.isinf(terms.psi), 0.0, terms.psi))  # the residual covers the hard terms
        super().__init__(oracle, soft, start, tol)
        self.by_gap = True
        self.low, self.high = terms.functions.bounds(self.psi)
        self.residuals: list[float] = []
        self.multipliers = np.clip(np.zeros(self.psi.size), self.low, self.high)
        if start.tilt.any():
            self.multipliers = np.clip(lsqr(terms.measurements.T, start.tilt)[0], self.low, self.high)
        self._least_residual = np.inf

    def evaluate_dual(self, multipliers: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the dual and its gradient, without updating the history."""
        functions = self.terms.functions
        point = self.project(self.terms.tilt(multipliers))
        value = point.value + float(functions.conjugate(multipliers, self.psi).sum())
        gradient = functions.conjugate_derivative(multipliers, self.psi) - self.terms.measurements @ point.mu
        self.current = self.evaluate(point)
        return value, gradient

    def disagreement(self, multipliers: FloatArray, gradient: FloatArray) -> float:
        """Return the largest entry of the projected gradient."""
        step = np.clip(multipliers - gradient, self.low, self.high) - multipliers
        return float(np.abs(step).max(initial=0.0))

    def __call__(self, multipliers: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate minus the dual and record it; raise _StopError at convergence or at a limit."""
        if len(self.residuals) >= self.max_iter:
            raise _StopError(Status.MAX_ITER)
        value, gradient = self.evaluate_dual(multipliers)
        residual = self.disagreement(multipliers, gradient)
        self.lower = max(self.lower, -value)
        if residual < self._least_residual:
            self._least_residual, self.best, self.multipliers = residual, self.current, multipliers.copy()
        self.residuals.append(min(residual, self._least_residual))
        for key, number in self.record(self.best.loss - self.lower).items():
            self.history[key].append(number)
        problem = self.oracle.problem
        if problem.report is not None:
            problem.report(len(self.residuals), residual)
        if residual <= self.tol:
            raise _StopError(Status.CONVERGED)
        if np.abs(multipliers).max(initial=0.0) > _LARGEST_MULTIPLIER:
            raise _StopError(Status.STALLED, "No distribution of the model satisfies the hard constraints.")
        if problem.clock.expired:
            raise _StopError(Status.TIME_LIMIT)
        return value, gradient

    def run_lbfgs(self) -> None:
        """Run L-BFGS-B until it makes no more progress."""
        from scipy.optimize import Bounds, minimize

        options = {"maxiter": 10**6, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0, "maxcor": 20, "maxls": 40}
        bounds = Bounds(self.low, self.high)
        minimize(self, self.multipliers, jac=True, method="L-BFGS-B", bounds=bounds, options=options)  # type: ignore[call-overload]

    def run_newton(self) -> None:
        """Make Newton steps on the gradient, as differences of values near the optimum are below rounding."""
        for _ in range(20):
            multipliers = self.multipliers
            gradient = self(multipliers)[1]
            target = multipliers - gradient
            free = np.flatnonzero((target > self.low) & (target < self.high))
            if not 0 < free.size <= _MAX_FREE:
                return
            hessian = np.empty((free.size, free.size))
            for column, j in enumerate(free.tolist()):
                trial = multipliers.copy()
                size = 1e-5 * (1.0 + abs(trial[j]))
                size = size if trial[j] + size <= self.high[j] else -size
                trial[j] += size
                hessian[:, column] = (self.evaluate_dual(trial)[1] - gradient)[free] / size
            step = np.linalg.lstsq(hessian, -gradient[free], rcond=1e-12)[0]
            previous_least = self._least_residual
            for factor in (1.0, 0.5, 0.1):
                trial = np.clip(target, self.low, self.high)
                trial[free] = multipliers[free] + factor * step
                self(np.clip(trial, self.low, self.high))
                if self._least_residual < previous_least:
                    break
            else:
                return
