"""Gradients through a Bethe projection: from a loss of its marginals to theta and to the weights psi of energies."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array
from intarsia.energies import Energy
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.energy import EnergySum
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients.projection.implicit_solution import ImplicitSolution
from intarsia.gradients.projection.oracle_derivative import OracleDerivative
from intarsia.graph import FactorGraph, learning_form
from intarsia.inference.infer import Options, run_inference
from intarsia.inference.projection.bethe_dual import BetheDual
from intarsia.inference.projection.bethe_oracle import oracle_of
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.inference.registry import METHODS
from intarsia.inference.result import InferenceResult

Gradients = tuple[FloatArray, FloatArray]
"""Gradients in theta and in the weights psi of the energies."""


class ProjectionPullback:
    """Result of a Bethe projection together with the gradient of any loss of its marginals.

    `projection_pullback` returns it.

    Attributes
    ----------
    result : InferenceResult
        Result of the projection.
    mu : (n_theta,) array or None
        Marginals of the result; None if the model is infeasible.
    energy : BoundEnergy or None
        Energies bound to the graph, to whose psi the gradients refer.
    is_differentiable : bool
        False if a reading lies on a kink whose multiplier is at the end of its range, so that the marginals have only
        one-sided derivatives; `pull` then returns one element of the generalised Jacobian.
    """

    def __init__(
        self,
        result: InferenceResult,
        energy: BoundEnergy | None,
        pull: Callable[[FloatArray], Gradients],
        is_differentiable: bool = True,
    ) -> None:
        self.result, self.mu, self.energy, self._pull = result, result.mu, energy, pull
        self.is_differentiable = is_differentiable

    def pull(self, grad_mu: ArrayLike) -> Gradients:
        """Return the gradients of a loss in theta and in the weights psi of the energies.

        Parameters
        ----------
        grad_mu : (n_theta,) array
            Gradient of the loss in the marginals.

        Returns
        -------
        grad_theta : (n_theta,) array
            Gradient in theta; 0 at impossible states.
        grad_psi : (n_psi,) array
            Gradient in psi; empty without energies.
        """
        gradient = as_float_array(grad_mu, "ProjectionPullback.pull: grad_mu")
        expected = (self.result.graph.n_theta,)
        if gradient.shape != expected or not np.isfinite(gradient).all():
            raise InvalidInputError(
                f"ProjectionPullback.pull: grad_mu must have shape {expected} and finite values, got shape "
                f"{gradient.shape}. Pass the gradient of the loss in every entry of mu."
            )
        if self.mu is None:
            raise NotSupportedError(
                "ProjectionPullback.pull: the model is infeasible, so it has no marginals and no gradient. Check "
                "result.status before the call."
            )
        return self._pull(gradient)


def projection_pullback(
    projection: str | BetheProjection,
    graph: FactorGraph,
    theta: ArrayLike,
    energies: Energy | BoundEnergy | Sequence[Energy] | None = None,
    *,
    names: Any = None,
    warm_start: InferenceResult | None = None,
) -> ProjectionPullback:
    r"""Run a Bethe projection and return its marginals with a function for gradients through it.

    Use it to train theta and psi through the inference that predicts. At the optimum, the marginals satisfy
    :math:`\mu = oracle(\theta - \nabla L(\mu))`. With J the derivative of the oracle (a covariance matrix), H the
    Hessian of L and w the gradient of a loss in mu, the gradients are

    .. math:: (I + H J) u = w, \quad d\theta = J u, \quad
              d\psi = -\Big(\frac{\partial \nabla L}{\partial \psi}\Big)^T J u .

    They are those of the optimum, so set a small `tol`.

    Parameters
    ----------
    projection : str or BetheProjection
        "bethe_rda", "bethe_mirror_descent", "bethe_accelerated", "bethe_dual", or a settings object. Its own energy is
        used if `energies` is None.
    graph : FactorGraph
        Factor graph.
    theta : (graph.n_theta,) array
        Scores (log-potentials); -inf marks impossible states.
    energies : Energy, list of Energy or BoundEnergy, optional
        Global energies.
    names : sequence, optional
        Names of the states, if the energies refer to labels by name; by default those of the projection.
    warm_start : InferenceResult, optional
        Earlier result to start from.

    Returns
    -------
    ProjectionPullback
        Result of the projection, with `pull(grad_mu)`.

    Raises
    ------
    InvalidInputError, NotSupportedError
        If an argument is invalid, or the projection does not support the energies.

    Notes
    -----
    Energies with kinks (hinge, absolute value): where the optimum stays at a kink, the measurement is treated as
    an equality constraint, with multipliers from `bethe_dual`. A hinge whose multiplier is at the end of its range
    while the measurement is at the limit has no derivative; see `is_differentiable`.

    References
    ----------
    Vilnis2015, section 3; Domke2013, sections 5 and 7.

    Examples
    --------
    One coin with score t for heads and the energy 2 (p - 1)^2 / 2: log(p / (1 - p)) = t + 2 - 2 p.

    >>> import intarsia, numpy as np
    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> from intarsia.gradients.projection import projection_pullback
    >>> graph = intarsia.from_edges(2, [], n_variables=1)
    >>> energy = MeasuredEnergy(Count(1), Squared(1.0), psi=2.0)
    >>> pullback = projection_pullback("bethe_dual", graph, [0.0, 0.0], energy)
    >>> grad_theta, grad_psi = pullback.pull([0.0, 1.0])
    >>> p = pullback.mu[1]
    >>> bool(abs(grad_theta[1] - 1 / (1 / (p * (1 - p)) + 2)) < 1e-9)
    True
    >>> bool(abs(grad_psi[0] - (1 - p) * grad_theta[1]) < 1e-9)
    True
    """
    method = METHODS.resolve(projection)
    if not isinstance(method, BetheProjection):
        raise InvalidInputError(
            f"projection_pullback: projection must be a Bethe projection, got {type(method).__name__}. Use "
            f"'bethe_rda', 'bethe_mirror_descent', 'bethe_accelerated' or 'bethe_dual'."
        )
    energy = bind_energies(
        method.energy if energies is None else energies, graph, method.names if names is None else names
    )
    problem = _Problem(graph, graph.check_theta(theta), method, energy)
    result, multipliers = problem.run(method, warm_start)
    # Without an energy the oracle runs alone; without a free variable nothing runs.
    if energy is None or result.mu is None or result.tilted_theta is None:
        return ProjectionPullback(result, energy, problem.pull_oracle)
    optimum = result
    if not isinstance(method, BetheDual):
        if energy.terms is None or not energy.convex or energy.smooth:
            return ProjectionPullback(result, energy, problem.solution(result, energy).pull)
        # The iterates only approach a kink; the dual problem has its multipliers.
        dual = BetheDual(oracle=method.oracle, temperature=method.temperature)
        optimum, multipliers = problem.run(dual, result)
    solution = problem.solution(optimum, energy, multipliers)
    return ProjectionPullback(result, energy, solution.pull, solution.is_differentiable)


def bind_energies(
    energies: Energy | BoundEnergy | Sequence[Energy] | None, graph: FactorGraph, names: Any
) -> BoundEnergy | None:
    """Return energies bound to a graph; several are added, and None stays None."""
    if energies is None or isinstance(energies, BoundEnergy):
        return energies
    members = [energies] if isinstance(energies, Energy) else list(energies)
    for i, member in enumerate(members):
        if not isinstance(member, Energy):
            raise InvalidInputError(
                f"energies[{i}] must be an Energy such as MeasuredEnergy(Count('x'), Hinge(1.0)), got "
                f"{type(member).__name__}. Pass a list of energies."
            )
    if not members:
        return None
    return (members[0] if len(members) == 1 else EnergySum(members)).bind(graph, names)


class _Problem:
    """A model with its energy, the oracle of its projection, and derivatives of the oracle."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, method: BetheProjection, energy: Any) -> None:
        self.graph, self.theta, self.energy = graph, theta, energy
        self.oracle = oracle_of(method.oracle, learning_form(graph).reduction.graph)
        self.temperature = 1.0 if method.temperature is None else float(method.temperature)
        if self.temperature == 0.0:
            raise NotSupportedError(
                "projection_pullback: at temperature 0 the marginals are a labelling, which has no gradient. Use a "
                "temperature above 0."
            )

    def run(
        self, method: BetheProjection, warm_start: InferenceResult | None
    ) -> tuple[InferenceResult, FloatArray | None]:
        """Run a projection with this energy; return its result and the multipliers of `bethe_dual`."""
        run, multipliers = copy.copy(method), list[FloatArray]()
        run.energy = self.energy
        if isinstance(run, BetheDual):
            run.recorded_multipliers = multipliers
        result = run_inference(self.graph, self.theta, run, options=Options(warm_start=warm_start))
        return result, multipliers[0] if multipliers else None

    def derivative_at(self, theta: FloatArray) -> OracleDerivative:
        """Return the derivative of the oracle at the scores of a tilted model."""
        return OracleDerivative(self.graph, theta, self.oracle, self.temperature)

    def solution(
        self, optimum: InferenceResult, energy: BoundEnergy, multipliers: FloatArray | None = None
    ) -> ImplicitSolution:
        """Return the conditions of an optimal result, from which gradients are computed."""
        if optimum.mu is None or optimum.tilted_theta is None:
            raise NotSupportedError(
                "projection_pullback: the energies have kinks, and 'bethe_dual', which locates them, has no result. "
                "Use a penalty without a kink, such as SmoothedHinge."
            )
        return ImplicitSolution(energy, optimum.mu, self.derivative_at(optimum.tilted_theta), multipliers)

    def pull_oracle(self, grad_mu: FloatArray) -> Gradients:
        """Return the gradients through the oracle alone; those of an energy that had no effect are 0."""
        gradient = self.derivative_at(self.theta).product(grad_mu)
        return gradient, np.zeros(0 if self.energy is None else self.energy.psi.size)
