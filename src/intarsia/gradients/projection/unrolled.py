"""Back-propagation through the recorded steps of a Bethe projection.

Every algorithm alternates three operations: sums of earlier vectors with fixed coefficients, the gradient of the
energy at marginals, and the oracle on a tilted model. The steps of a run become a list of such operations, which is
traversed backwards. The step sizes of the run are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.energies.binding.bound_energy import BoundEnergy, EnergyAdjoint
from intarsia.energies.parameters import zero_gradients
from intarsia.gradients.projection.oracle_derivative import OracleDerivative
from intarsia.inference.projection.bethe_accelerated import AcceleratedStep, LastProjection
from intarsia.inference.projection.bethe_descent import TiltStep
from intarsia.inference.projection.bethe_projection import Evaluated

Gradients = tuple[FloatArray, dict[str, FloatArray]]
"""Gradient in theta, and gradients in the parameters of the energies by name."""


def add_gradients(total: dict[str, FloatArray], gradients: dict[str, FloatArray]) -> None:
    """Add gradients by name to a total, in place."""
    for name, values in gradients.items():
        total[name] = total[name] + values if name in total else values


class UnrolledRun:
    """Operations of a recorded run, from the first distribution to the one that was returned.

    Parameters
    ----------
    steps : list
        Steps that the projection recorded; the last is the distribution that was returned.
    energy : BoundEnergy
        Energy of the run.
    derivative_at : callable
        Function from a tilt to the derivative of the oracle at the tilted model.
    """

    def __init__(
        self, steps: Sequence[Any], energy: BoundEnergy, derivative_at: Callable[[FloatArray], OracleDerivative]
    ) -> None:
        self.energy, self.derivative_at = energy, derivative_at
        self._operations: list[tuple[str, list[tuple[float, int]], FloatArray]] = []
        self._index: dict[int, tuple[int, int]] = {}  # operations of tilt and oracle of each distribution
        self._references: list[Evaluated] = []  # keeps the ids of the distributions unique
        *recorded, best = steps
        self._means: tuple[int, int, Evaluated | None] = (-1, -1, None)  # mean, mean gradient, centre
        for step in recorded:
            if isinstance(step, TiltStep):
                self._add_tilt_step(step)
            elif isinstance(step, AcceleratedStep):
                self._add_accelerated_step(step)
            elif isinstance(step, LastProjection):
                self._add_distribution(step.new, [(1.0, self._add_gradient(self._means[0], step.mean))])
        self._add_start(best)
        self._last = self._index[id(best)][1]

    def _add(self, kind: str, inputs: list[tuple[float, int]], value: FloatArray) -> int:
        self._operations.append((kind, inputs, value))
        return len(self._operations) - 1

    def _add_gradient(self, marginals: int, mu: FloatArray) -> int:
        return self._add("gradient", [(1.0, marginals)], mu)

    def _add_distribution(self, state: Evaluated, tilt_terms: list[tuple[float, int]]) -> None:
        """Add a distribution whose tilt is a weighted sum of earlier tilts and gradients."""
        tilt = self._add("sum", tilt_terms, state.point.tilt)
        self._index[id(state)] = tilt, self._add("oracle", [(1.0, tilt)], state.point.tilt)
        self._references.append(state)

    def _add_start(self, state: Evaluated) -> tuple[int, int]:
        """Return the operations of a distribution; the first distribution of a run has a constant tilt."""
        if id(state) not in self._index:
            self._add_distribution(state, [])
        return self._index[id(state)]

    def _add_tilt_step(self, step: TiltStep) -> None:
        tilt, marginals = self._add_start(step.old)
        gradient = self._add_gradient(marginals, step.old.point.mu)
        self._add_distribution(step.new, [(1.0 - step.weight, tilt), (step.weight, gradient)])

    def _add_accelerated_step(self, step: AcceleratedStep) -> None:
        mean, mean_gradient, centre = self._means
        if centre is not step.centre:  # the first step, or a restart
            mean, mean_gradient = self._add_start(step.centre)[1], self._add("sum", [], step.u)
            self._nu = mean
        c, kappa = step.c, step.kappa
        u = self._add("sum", [(1.0 - c, mean), (c, self._nu)], step.u)
        gradient = self._add_gradient(u, step.u)
        mean_gradient = self._add("sum", [(1.0 - c, mean_gradient), (c, gradient)], step.u)
        centre_tilt = self._index[id(step.centre)][0]
        self._add_distribution(step.new, [(1.0 / (1.0 + kappa), mean_gradient), (kappa / (1.0 + kappa), centre_tilt)])
        self._nu = self._index[id(step.new)][1]
        mean = self._add("sum", [(1.0 - c, mean), (c, self._nu)], step.mean)
        self._means = mean, mean_gradient, step.centre

    def pull(self, grad_mu: FloatArray) -> Gradients:
        """Return the gradients of a loss in theta and in the parameters, from its gradient in the marginals."""
        energy, n = self.energy, grad_mu.size
        adjoints: dict[int, FloatArray] = {self._last: grad_mu}
        grad_theta: FloatArray = np.zeros(n)
        parameters: dict[str, FloatArray] = {}
        for i in reversed(range(self._last + 1)):
            adjoint = adjoints.pop(i, None)
            if adjoint is None:
                continue
            kind, inputs, value = self._operations[i]
            if kind == "oracle":
                change = self.derivative_at(value).product(adjoint)  # computed again, as it takes more memory than time
                grad_theta += change
                adjoint = -change
            elif kind == "gradient":
                readings = energy.read(value)
                limits = energy.hessian_product(readings, energy.read(adjoint))
                state = EnergyAdjoint(value, -adjoint, energy.judge(readings)[1], -limits)
                add_gradients(parameters, energy.parameter_gradient(state))
                adjoint = energy.spread(limits, n)
            for coefficient, source in inputs:
                if coefficient:
                    adjoints[source] = adjoints.get(source, 0.0) + coefficient * adjoint
        if not parameters:  # the run ended before the first gradient
            parameters = zero_gradients(energy, n)
        return grad_theta, parameters
