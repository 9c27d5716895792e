"""Bethe projections by accelerated dual averaging, for smooth convex energies."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, check_number
from intarsia.energies import Energy
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import NotSupportedError
from intarsia.inference.method import InferenceMethod, Iteration
from intarsia.inference.projection.bethe_oracle import MarginalOracle, Point
from intarsia.inference.projection.bethe_projection import BetheProjection, Search, SteppedSearch
from intarsia.inference.registry import METHODS


class BetheAccelerated(BetheProjection):
    r"""Marginals with a smooth convex global energy, by accelerated dual averaging (Vilnis2015 Algorithm 5).

    Choose it for strong smooth energies (a large `lipschitz`), for which mirror descent needs short steps: the error of
    the objective decreases with the square of the number of iterations, and faster with restarts. It minimises

    .. math:: -\langle\theta,\mu\rangle - T H(\mu) + L(\mu)

    with :math:`c_t = 2/(t+1)`, :math:`u_t = (1 - c_t) \mu_{t-1} + c_t \nu_{t-1}`,
    :math:`\bar g_t = (1 - c_t) \bar g_{t-1} + c_t \nabla L(u_t)`,
    :math:`\nu_t = oracle(\theta - \frac{t(t+1)}{4c + t(t+1)} \bar g_t)` and
    :math:`\mu_t = (1 - c_t) \mu_{t-1} + c_t \nu_t`. The mean :math:`\mu_t` is not the
    marginal of a tilted model, so the result is the best :math:`\nu_t` or, at the end, oracle(theta - grad L(mu_t)). An
    iteration needs one call of the oracle, and one more for each increase of c by backtracking.

    Parameters
    ----------
    energy : Energy, optional
        L, smooth and convex; None runs the oracle without an energy.
    names : sequence, optional
        Names of the states, if the energy refers to labels by name.
    oracle : str or InferenceMethod
        Inference method for the tilted models: "tree", "junction_tree", "brute_force", or "tree_reweighted" with its
        approximate entropy on loopy graphs; "auto" selects the first that applies.
    lipschitz : float, optional
        Lipschitz constant c of grad L, relative to the negative entropy; by default determined by backtracking.
    restart : bool
        Restart from the current distribution every 4 sqrt(c) iterations, if it is better than the last start. Since the
        negative entropy is strongly convex, convergence is then linear.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop when |mu - oracle(theta - grad L(mu))| is at most `tol`.
    temperature : float, optional
        T, by default 1. For "map", the tilted model is computed at T = 1, and its best labelling is returned.

    Raises
    ------
    NotSupportedError
        For energies that are not convex, or have kinks.

    Notes
    -----
    The algorithm in the paper scales theta together with the gradients; with the prox-centre at oracle(theta), only the
    gradients are scaled.

    References
    ----------
    Vilnis2015, appendix D; Xiao2010.

    Examples
    --------
    >>> import intarsia, numpy as np
    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> graph = intarsia.from_edges(2, [], n_variables=3)
    >>> three = MeasuredEnergy(Count(1), Squared(3.0), psi=10.0)
    >>> p = intarsia.infer(graph, graph.zeros(), "bethe_accelerated", energy=three).marginals(0)[1]
    >>> bool(abs(np.log(p / (1 - p)) - 10 * (3 - 3 * p)) < 1e-4)
    True
    """

    name: ClassVar[str] = "bethe_accelerated"
    summary: ClassVar[str] = "strong smooth convex global preferences: error decreases as 1/t^2 or faster"

    _parts: ClassVar[Parts] = {"energy": ENERGY_PARTS, "oracle": METHODS}

    def __init__(
        self,
        *,
        energy: Energy | BoundEnergy | None = None,
        names: Any = None,
        oracle: str | InferenceMethod = "auto",
        lipschitz: float | None = None,
        restart: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
        temperature: float | None = None,
    ) -> None:
        self.energy = energy
        self.names = names
        self.oracle = oracle
        self.lipschitz = lipschitz
        self.restart = restart
        self.max_iter = max_iter
        self.tol = tol
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        if self.lipschitz is not None:
            check_number(self.lipschitz, "BetheAccelerated: lipschitz", low=0.0)

    def check_energy(self, energy: BoundEnergy) -> None:
        """Raise unless the energy is smooth and convex."""
        super().check_energy(energy)
        if not energy.convex:
            raise NotSupportedError(
                "BetheAccelerated: the energy is not convex, so accelerated steps may increase the objective. Use "
                "'bethe_mirror_descent', which converges to a stationary point."
            )
        if not energy.smooth:
            raise NotSupportedError(
                "BetheAccelerated: the energy has kinks (a hinge or an absolute value). Use 'bethe_dual', which is "
                "exact at kinks, or 'bethe_rda'; or use a smooth function: SmoothedHinge, Huber, width=1."
            )

    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """Minimise the objective from the initial distribution."""
        search = _Acceleration(oracle, energy, start, self)
        return search, self._loop(search.sweep, oracle), ""


class _Acceleration(SteppedSearch):
    """Vilnis2015 Algorithm 5 with restarts of the prox-centre, and lower bounds from the tangents at u_t."""

    def __init__(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point, settings: BetheAccelerated) -> None:
        super().__init__(oracle, energy, start, settings.tol)
        self.restart, self.backtracks = settings.restart, settings.lipschitz is None
        lipschitz = energy.lipschitz if self.backtracks else settings.lipschitz
        constant = 1.0 if lipschitz is None else lipschitz / oracle.temperature
        self.constant = max(constant / 16.0, 1e-3) if self.backtracks and lipschitz is not None else constant
        self.offset = energy.floor if not start.tilt.any() else -np.inf
        self._restart()

    def _restart(self) -> None:
        """Restart with the current distribution as prox-centre."""
        self.t = 0
        self.centre, self.centre_offset = self.current, self.offset
        self.nu, self.mean = self.current.point, self.current.point.mu
        self.mean_gradient: FloatArray = np.zeros(self.mean.size)
        self.mean_offset = 0.0

    def step(self) -> float:
        """Make a step; return the distance between the mean and the last distribution, which is 0 at the optimum."""
        self.t += 1
        c = 2.0 / (self.t + 1.0)
        u = (1.0 - c) * self.mean + c * self.nu.mu
        gradient, energy_at_u = self.energy.gradient(u), self.energy.value(u)
        mean_gradient = (1.0 - c) * self.mean_gradient + c * gradient
        mean_offset = (1.0 - c) * self.mean_offset + c * (energy_at_u - float(gradient @ u))
        while True:
            kappa = 4.0 * self.constant / (self.t * (self.t + 1.0))
            tilt = (mean_gradient + kappa * self.centre.point.tilt) / (1.0 + kappa)
            nu = self.project(tilt)
            mean = (1.0 - c) * self.mean + c * nu.mu
            rise = self.energy.value(mean) - energy_at_u - float(gradient @ (mean - u))
            rounding = 1e-12 * (1.0 + abs(energy_at_u) + abs(nu.value))
            is_accepted = rise <= self.constant * c * c * nu.divergence(self.nu) + rounding
            if is_accepted or not self.backtracks or self.constant > 1e12:
                break
            self.constant *= 2.0
        self.offset = (mean_offset + kappa * self.centre_offset) / (1.0 + kappa) if kappa else mean_offset
        self.lower = max(self.lower, self.offset - nu.value)
        self.nu, self.mean, self.mean_gradient, self.mean_offset = nu, mean, mean_gradient, mean_offset
        self.current = self.evaluate(nu)
        distance = float(np.abs(nu.mu - mean).max(initial=0.0))
        if distance <= 10.0 * self.tol:  # oracle(theta - grad L(mean)) is closer to the optimum
            self.current = self.evaluate(self.project(self.energy.gradient(mean)))
            return float(np.abs(self.current.point.mu - mean).max(initial=0.0))
        if self.restart and self.t >= 4.0 * np.sqrt(self.constant) + 4.0 and self.current.loss < self.centre.loss:
            self._restart()
        return max(distance, 2.0 * self.tol)
