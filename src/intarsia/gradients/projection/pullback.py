"""Gradients through a Bethe projection: from a loss of its marginals to theta and to the parameters of the energies."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array, check_choice
from intarsia.energies import Energy
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.energy import EnergySum
from intarsia.energies.parameters import zero_gradients
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients.projection.implicit_solution import ImplicitSolution
from intarsia.gradients.projection.oracle_derivative import OracleDerivative
from intarsia.gradients.projection.unrolled import Gradients, UnrolledRun
from intarsia.graph import FactorGraph, learning_form
from intarsia.inference.infer import Options, run_inference
from intarsia.inference.projection.bethe_dual import BetheDual
from intarsia.inference.projection.bethe_oracle import oracle_of
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.inference.registry import METHODS
from intarsia.inference.result import InferenceResult

MODES = ("implicit", "truncated")


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
        Energies bound to the graph, to whose parameters the gradients refer.
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
        """Return the gradients of a loss in theta and in the parameters of the energies.

        Parameters
        ----------
        grad_mu : (n_theta,) array
            Gradient of the loss in the marginals.

        Returns
        -------
        grad_theta : (n_theta,) array
            Gradient in theta; 0 at impossible states.
        grad_parameters : dict of str to array
            Gradients in the parameters of the energies. "psi" (n_psi,): weights. "limits" (n_terms,): limit or target
            of each scalar term. "measurements": coefficients of the measurements, in the layout of
            `energy.terms.measurements.data`. "rates" and "backgrounds": parameters of Poisson terms. "parameters":
            parameters of functions. Groups that the energies do not have are missing; without energies it is empty.
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
    mode: str = "implicit",
    names: Any = None,
    warm_start: InferenceResult | None = None,
) -> ProjectionPullback:
    r"""Run a Bethe projection and return its marginals with a function for gradients through it.

    Use it to train theta and the energies through the inference that predicts. At the optimum, the marginals satisfy
    :math:`\mu = oracle(\theta - \nabla L(\mu))`. With J the derivative of the oracle (a covariance matrix), H the
    Hessian of L and w the gradient of a loss in mu, "implicit" solves

    .. math:: (I + H J) u = w, \quad d\theta = J u, \quad
              d\psi = -\Big(\frac{\partial \nabla L}{\partial \psi}\Big)^T J u .

    "truncated" differentiates the iterations that were run, however few, with their step sizes as constants.

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
    mode : {"implicit", "truncated"}
        "implicit" needs a projection that converges, so set a small `tol`. "truncated" is exact for the marginals that
        were computed; `bethe_dual` always uses its optimality conditions.
    names : sequence, optional
        Names of the states, if the energies refer to labels by name; by default those of the projection.
    warm_start : InferenceResult, optional
        Earlier result to start from; only with mode="implicit".

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
    Energies with kinks (hinge, absolute value): where the optimum stays at a kink, "implicit" treats the measurement as
    an equality constraint, with multipliers from `bethe_dual`. A hinge whose multiplier is at the end of its range
    while the measurement is at the limit has no derivative; see `is_differentiable`. "truncated" uses the subgradients
    of the run.

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
    >>> grad_theta, grad_parameters = pullback.pull([0.0, 1.0])
    >>> p = pullback.mu[1]
    >>> bool(abs(grad_theta[1] - 1 / (1 / (p * (1 - p)) + 2)) < 1e-9)
    True
    >>> bool(abs(grad_parameters["psi"][0] - (1 - p) * grad_theta[1]) < 1e-9)
    True
    """
    check_choice(mode, MODES, "projection_pullback: mode")
    method = METHODS.resolve(projection)
    if not isinstance(method, BetheProjection):
        raise InvalidInputError(
            f"projection_pullback: projection must be a Bethe projection, got {type(method).__name__}. Use "
            f"'bethe_rda', 'bethe_mirror_descent', 'bethe_accelerated' or 'bethe_dual'."
        )
    if mode == "truncated" and warm_start is not None:
        raise InvalidInputError(
            "projection_pullback: mode='truncated' differentiates a run from its start and has no warm_start. Drop "
            "warm_start, or use mode='implicit'."
        )
    energy = bind_energies(
        method.energy if energies is None else energies, graph, method.names if names is None else names
    )
    problem = _Problem(graph, graph.check_theta(theta), method, energy)
    is_unrolled = mode == "truncated" and not isinstance(method, BetheDual)
    result, steps = problem.run(method, warm_start, records=is_unrolled or isinstance(method, BetheDual))
    # Without an energy the oracle runs alone; without a free variable nothing runs.
    if energy is None or result.mu is None or result.tilted_theta is None:
        return ProjectionPullback(result, energy, problem.pull_oracle)
    if is_unrolled:
        unrolled = UnrolledRun(steps, energy, lambda tilt: problem.derivative_at(problem.tilt(tilt)))
        return ProjectionPullback(result, energy, unrolled.pull)
    optimum = result
    if not isinstance(method, BetheDual):
        if energy.terms is None or not energy.convex or energy.smooth:
            return ProjectionPullback(result, energy, problem.solution(result, energy).pull)
        # The iterates only approach a kink; the dual problem has its multipliers.
        dual = BetheDual(oracle=method.oracle, temperature=method.temperature)
        optimum, steps = problem.run(dual, result, records=True)
    solution = problem.solution(optimum, energy, steps[0])
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
        self, method: BetheProjection, warm_start: InferenceResult | None, records: bool
    ) -> tuple[InferenceResult, list[Any]]:
        """Run a projection with this energy; return its result and its steps, if they are recorded."""
        run, steps = copy.copy(method), list[Any]()
        run.energy, run.steps = self.energy, steps if records else None
        return run_inference(self.graph, self.theta, run, options=Options(warm_start=warm_start)), steps

    def tilt(self, tilt: FloatArray) -> FloatArray:
        """Return theta minus a tilt, which may be shorter than theta."""
        scores = self.theta.copy()
        scores[: tilt.size] -= tilt
        return scores

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
                "Use mode='truncated'."
            )
        return ImplicitSolution(energy, optimum.mu, self.derivative_at(optimum.tilted_theta), multipliers)

    def pull_oracle(self, grad_mu: FloatArray) -> Gradients:
        """Return the gradients through the oracle alone; those of an energy that had no effect are 0."""
        gradient = self.derivative_at(self.theta).product(grad_mu)
        return gradient, {} if self.energy is None else zero_gradients(self.energy, grad_mu.size)
