"""Implicit differentiation of a Bethe projection at its optimum, by a linear system over the readings of the energy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.gradients.projection.oracle_derivative import OracleDerivative

# Largest number of curved readings for which the matrix of the system is computed, one product with J each.
_MAX_DENSE = 24
# A multiplier is inside its range, or a measurement at its limit, by more or less than this.
_MARGIN = 1e-6
_RELATIVE_RESIDUAL = 1e-13


class ImplicitSolution:
    r"""Optimum of a Bethe projection: `mu = oracle(theta - A^T lambda)` with lambda the slopes of the energy.

    With r the gradient of the loss in theta, D the Hessian of the energy in the readings and w the gradient in mu,

    .. math:: r = J (w - A^T x), \quad x = D A r,

    and `A r = 0` instead of the second equation for readings that stay at a kink. The unknowns x are as many as there
    are readings with curvature, often few.

    Parameters
    ----------
    energy : BoundEnergy
        Energy L with psi.
    mu : (n_theta,) array
        Optimal marginals.
    derivative : OracleDerivative
        Derivative J of the oracle at the tilted model.
    multipliers : (n_readings,) array, optional
        Multipliers lambda of scalar terms, from `bethe_dual`; by default no reading is at a kink. Readings whose
        multiplier is inside its range stay at a kink.

    Attributes
    ----------
    is_differentiable : bool
        Whether no reading is at a kink with its multiplier at the end of the range.
    """

    def __init__(
        self,
        energy: BoundEnergy,
        mu: FloatArray,
        derivative: OracleDerivative,
        multipliers: FloatArray | None = None,
    ) -> None:
        self.energy, self.mu, self.derivative = energy, mu, derivative
        self.readings = energy.read(mu)
        n = self.readings.size
        self.at_kink, self.is_differentiable = np.zeros(n, dtype=bool), True
        if multipliers is not None:
            self.at_kink, self.is_differentiable = _find_kinks(energy, mu, multipliers)
        self.diagonal = energy.hessian_diagonal(self.readings)
        is_curved = np.ones(n, dtype=bool) if self.diagonal is None else self.diagonal != 0
        self.curved: IntArray = np.flatnonzero(is_curved | self.at_kink)
        self._system: tuple[FloatArray, FloatArray] | None = None

    def pull(self, grad_mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradients of a loss in theta and in psi, from its gradient in the marginals."""
        energy, n = self.energy, grad_mu.size
        direction = self.derivative.product(grad_mu)
        if self.curved.size:
            change = self._solve(energy.read(direction))
            direction = direction - self.derivative.product(energy.spread(change, n))
        return direction, -energy.psi_gradient(self.mu, direction)

    def _solve(self, target: FloatArray) -> FloatArray:
        """Return x from the readings `A J w`."""
        if self.curved.size <= _MAX_DENSE or self.at_kink.any():
            return self._solve_dense(target)
        from scipy.sparse.linalg import LinearOperator, gmres

        n = target.size
        operator = LinearOperator((n, n), matvec=lambda x: x + self._curve(self._responses(x)))
        solution, _ = gmres(operator, self._curve(target), rtol=_RELATIVE_RESIDUAL, restart=min(n, 200), maxiter=20)
        return np.asarray(solution)

    def _curve(self, readings: FloatArray) -> FloatArray:
        """Return `D readings`."""
        if self.diagonal is not None:
            return self.diagonal * readings
        return self.energy.hessian_product(self.readings, readings)

    def _responses(self, x: FloatArray) -> FloatArray:
        """Return `A J A^T x`."""
        return self.energy.read(self.derivative.product(self.energy.spread(x, self.mu.size)))

    def _solve_dense(self, target: FloatArray) -> FloatArray:
        """Solve the system over the curved readings only; redundant constraints have a solution of least norm."""
        curved, fixed = self.curved, self.at_kink[self.curved]
        if self._system is None:
            unit_vectors = np.eye(self.readings.size)[curved]
            rows = np.array([self.energy.spread(row, self.mu.size) for row in unit_vectors])
            covariance = np.array([self.energy.read(row)[curved] for row in self.derivative.products(rows)])
            if self.diagonal is not None:
                hessian = np.diag(np.where(fixed, 0.0, self.diagonal[curved]))
            else:
                hessian = np.array([self._curve(row)[curved] for row in unit_vectors])
            matrix = np.eye(curved.size) + hessian @ covariance
            matrix[fixed] = covariance[fixed]
            self._system = hessian, matrix
        hessian, matrix = self._system
        sides = np.where(fixed, target[curved], hessian @ target[curved])
        limits = np.zeros(target.size)
        if fixed.any():
            limits[curved] = np.linalg.lstsq(matrix, sides, rcond=1e-12)[0]
        else:
            limits[curved] = np.linalg.solve(matrix, sides)
        return limits


def _find_kinks(energy: BoundEnergy, mu: FloatArray, multipliers: FloatArray) -> tuple[NDArray[np.bool_], bool]:
    """Return the readings of scalar terms that stay at a kink, and whether all derivatives exist.

    A reading stays at a kink if its multiplier is inside its range. It has no derivative if the multiplier is at the
    end of its range while the reading is at the kink.
    """
    terms = energy.terms
    if terms is None:
        return np.zeros(multipliers.size, dtype=bool), True
    functions, psi = terms.functions, terms.strengths
    low, high = functions.bounds(psi)
    margin = _MARGIN * (1.0 + np.abs(multipliers))
    has_kink = (~functions.differentiable | np.isinf(psi)) & (psi > 0)
    fixed = has_kink & (multipliers > low + margin) & (multipliers < high - margin)
    position = functions.conjugate_derivative(multipliers, psi)
    at_kink = np.abs(terms.read(mu) - position) <= _MARGIN * (1.0 + np.abs(position))
    return fixed, not bool((has_kink & ~fixed & at_kink).any())
