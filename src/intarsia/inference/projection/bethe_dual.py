"""Bethe projections through the dual: one multiplier per measurement, exact at kinks, hard constraints as the limit."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.sparse.linalg import lsqr

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

# Multipliers beyond this mean that a hard constraint cannot be met by any distribution.
_FAR = 1e8
# Newton's steps need one call of the oracle per free multiplier.
_MOST_FREE = 40


class BetheDual(BetheProjection):
    r"""Marginals under convex functions of linear measurements, exactly, by L-BFGS-B on the dual.

    Choose it for hinges, absolute values and other energies made of measurements, when the answer must be right to many
    digits, with a proof: the duality gap. `psi = inf` makes a hinge or an absolute value a hard constraint on the
    expectations. It minimises :math:`-\langle\theta,\mu\rangle - T H(\mu) + \sum_j \psi_j f_j(a_j \cdot \mu)` by
    maximising

    .. math:: -T \log Z\big((\theta - \textstyle\sum_j \lambda_j a_j) / T\big) - \sum_j (\psi_j f_j)^*(\lambda_j)

    over multipliers between the least and the largest slope of each :math:`\psi_j f_j`. The dual is smooth even where
    the energy has kinks, each evaluation is one call of the oracle, and the marginals of the tilted model are the
    answer at every one. Where L-BFGS-B has reached its accuracy, a few Newton steps go on.

    Parameters
    ----------
    energy : Energy, optional
        L, a sum of `MeasuredEnergy` and `PoissonCounts`; without one this is plain inference by the oracle.
    names : sequence, optional
        Names of the states by which the energy speaks of labels.
    oracle : str or InferenceMethod
        "tree", "junction_tree", "brute_force", or "tree_reweighted", whose entropy stands for H on loopy graphs;
        "auto" takes the first that fits.
    max_iter : int
        Largest number of evaluations of the dual.
    tol : float
        Stop when no measurement of mu is further than this from the value its multiplier asks for (the projected
        gradient of the dual).
    temperature : float, optional
        T; by default 1. For "map" the tilted model is found at T = 1, then its best labelling.

    Raises
    ------
    NotSupportedError
        For energies that are not functions of linear measurements.

    References
    ----------
    Vilnis2015, section 3; Liu1989.

    Examples
    --------
    Three coins, each heads with probability 0.9, and the hard constraint of one head in expectation:

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
        """Only functions of measurements have this dual."""
        if energy.terms is None:
            raise NotSupportedError(
                "BetheDual: part of the energy is no convex function of linear measurements, so it has no such dual. "
                "Use 'bethe_mirror_descent', which takes any energy with a slope."
            )

    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """L-BFGS-B, then Newton's method where it gets stuck."""
        terms = energy.terms
        if terms is None:
            raise NotSupportedError("BetheDual: the energy is no function of linear measurements.")
        dual = _Dual(oracle, terms, start, self.tol, int(self.max_iter))
        note = ""
        try:
            dual.search()
            dual.polish()
            status = Status.STALLED
        except _StopError as stop:
            status, note = stop.status, stop.note
        except TimeLimitError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        residuals = np.array(dual.residuals)
        last = dual.residuals[-1] if dual.residuals else np.inf
        return dual, Iteration(status, residuals.size, float(last), residuals), note


class _StopError(Exception):
    """Leaves SciPy's loop."""

    def __init__(self, status: Status, note: str = "") -> None:
        super().__init__(note)
        self.status, self.note = status, note


class _Dual(Search):
    """The dual as a function of the multipliers, with everything that its evaluations tell."""

    def __init__(self, oracle: MarginalOracle, terms: ScalarTerms, start: Point, tol: float, max_iter: int) -> None:
        self.terms, self.psi, self.max_iter = terms, terms.strengths, max_iter
        soft = terms.with_psi(np.where(np.isinf(terms.psi), 0.0, terms.psi))  # hard terms are judged by the residual
        super().__init__(oracle, soft, start, tol)
        self.by_gap = True
        self.low, self.high = terms.functions.bounds(self.psi)
        self.residuals: list[float] = []
        self.multipliers = np.clip(np.zeros(self.psi.size), self.low, self.high)
        if start.tilt.any():
            self.multipliers = np.clip(lsqr(terms.measurements.T, start.tilt)[0], self.low, self.high)
        self._least = np.inf

    def evaluate_dual(self, multipliers: FloatArray) -> tuple[float, FloatArray]:
        """Minus the dual and its gradient, without a record."""
        functions = self.terms.functions
        point = self.project(self.terms.tilt(multipliers))
        value = point.value + float(functions.conjugate(multipliers, self.psi).sum())
        gradient = functions.conjugate_derivative(multipliers, self.psi) - self.terms.measurements @ point.mu
        self.current = self.evaluate(point)
        return value, gradient

    def disagreement(self, multipliers: FloatArray, gradient: FloatArray) -> float:
        """Largest entry of the projected gradient."""
        moved = np.clip(multipliers - gradient, self.low, self.high) - multipliers
        return float(np.abs(moved).max(initial=0.0))

    def __call__(self, multipliers: FloatArray) -> tuple[float, FloatArray]:
        """One evaluation, recorded; ends the search when it is good enough or out of time."""
        if len(self.residuals) >= self.max_iter:
            raise _StopError(Status.MAX_ITER)
        value, gradient = self.evaluate_dual(multipliers)
        residual = self.disagreement(multipliers, gradient)
        self.lower = max(self.lower, -value)
        if residual < self._least:
            self._least, self.best, self.multipliers = residual, self.current, multipliers.copy()
        self.residuals.append(min(residual, self._least))
        for key, number in self.record(self.best.loss - self.lower).items():
            self.history[key].append(number)
        problem = self.oracle.problem
        if problem.report is not None:
            problem.report(len(self.residuals), residual)
        if residual <= self.tol:
            raise _StopError(Status.CONVERGED)
        if np.abs(multipliers).max(initial=0.0) > _FAR:
            raise _StopError(Status.STALLED, "no distribution of the model meets the hard constraints")
        if problem.clock.expired:
            raise _StopError(Status.TIME_LIMIT)
        return value, gradient

    def search(self) -> None:
        """L-BFGS-B until it sees no more descent."""
        options = {"maxiter": 10**6, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0, "maxcor": 20, "maxls": 40}
        bounds = Bounds(self.low, self.high)
        minimize(self, self.multipliers, jac=True, method="L-BFGS-B", bounds=bounds, options=options)  # type: ignore[call-overload]

    def polish(self) -> None:
        """Newton's method on the gradient: near the optimum the values no longer tell better from worse."""
        for _ in range(20):
            multipliers = self.multipliers
            gradient = self(multipliers)[1]
            wanted = multipliers - gradient
            free = np.flatnonzero((wanted > self.low) & (wanted < self.high))
            if not 0 < free.size <= _MOST_FREE:
                return
            hessian = np.empty((free.size, free.size))
            for column, j in enumerate(free.tolist()):
                moved = multipliers.copy()
                size = 1e-5 * (1.0 + abs(moved[j]))
                size = size if moved[j] + size <= self.high[j] else -size
                moved[j] += size
                hessian[:, column] = (self.evaluate_dual(moved)[1] - gradient)[free] / size
            step = np.linalg.lstsq(hessian, -gradient[free], rcond=1e-12)[0]
            before = self._least
            for shrink in (1.0, 0.5, 0.1):
                moved = np.clip(wanted, self.low, self.high)
                moved[free] = multipliers[free] + shrink * step
                self(np.clip(moved, self.low, self.high))
                if self._least < before:
                    break
            else:
                return
