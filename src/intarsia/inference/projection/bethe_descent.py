"""Gradient steps of `bethe_rda` and `bethe_mirror_descent`, which move the tilt towards the gradient of the energy.

The tilt is the vector that is subtracted from theta. The functions for a step accept scalars for one problem or arrays
for many problems side by side, so that `bethe_chains` uses them too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.inference.method import Iteration
from intarsia.inference.projection.bethe_oracle import MarginalOracle, Point
from intarsia.inference.projection.bethe_projection import (
    BetheProjection,
    Evaluated,
    Search,
    SteppedSearch,
    largest_difference,
)

# Steps with a larger steepness (inverse step size) are always accepted, as they fail only by rounding errors.
_MAX_STEEPNESS = 1e12


def move_tilt(tilt: FloatArray, gradient: FloatArray, weight: Any) -> FloatArray:
    """Return `tilt + weight * (gradient - tilt)`.

    A weight of `eta / (1 + eta)` is a step of composite mirror descent with step size eta, since theta - tilt are the
    natural parameters of the marginals (Vilnis2015 Algorithm 4 with the sign corrected); a weight of 1 / (t + beta) is
    Algorithm 1.
    """
    new_tilt = gradient - tilt
    new_tilt *= weight
    new_tilt += tilt
    return new_tilt


def step_weight(steepness: Any) -> Any:
    """Return the weight of the gradient in a step of size 1 / steepness."""
    return 1.0 / (1.0 + steepness)


def judge_step(rise: Any, steepness: Any, divergence: Any, size: Any) -> tuple[Any, Any]:
    """Return whether a step is accepted, and the steepness (inverse step size) of the next step.

    A step is accepted if the energy exceeds its tangent by at most steepness * divergence, because the objective then
    decreases. The next step is longer after an accepted step and shorter after a rejected one. Near the optimum, where
    differences between values of this `size` are rounding errors, the steepness does not change.
    """
    rounding = 1e-12 * (1.0 + size)
    accepted = (rise <= steepness * divergence + rounding) | (steepness > _MAX_STEEPNESS)
    lower_steepness = np.where(steepness > 1e-2, 0.6 * steepness, 0.0)
    next_if_accepted = np.where(steepness * divergence > 10.0 * rounding, lower_steepness, steepness)
    return accepted, np.where(accepted, next_if_accepted, np.maximum(2.0 * steepness, 1e-2))


def first_steepness(lipschitz: Any, temperature: float = 1.0) -> Any:
    """Return the initial steepness, from the Lipschitz constant of the gradient if there is one (NaN: none)."""
    return np.where(np.isnan(lipschitz), 1.0, np.minimum(0.25 * np.nan_to_num(lipschitz) / temperature, 1e6))


def mix_offset(offset: Any, weight: Any, tangent: Any) -> Any:
    r"""Return the offset of an average of tangents, :math:`L(\nu) \ge \langle gradient, \nu \rangle + offset`.

    Since `min_nu -<theta - gradient, nu> - T H(nu)` is minus log Z of the oracle at that gradient, every step provides
    a lower bound on the optimum, offset - log Z, without another call. A new tangent enters the average with `weight`,
    as its gradient enters the tilt.
    """
    if isinstance(weight, float) and isinstance(offset, float):
        return tangent if weight == 1.0 else (1.0 - weight) * offset + weight * tangent
    with np.errstate(invalid="ignore"):  # the initial offset may be -inf
        return np.where(weight == 1.0, tangent, (1.0 - weight) * offset + weight * tangent)


class DescentProjection(BetheProjection):
    """Base class of the Bethe projections whose steps move the tilt towards the gradient of the energy."""

    uses_lipschitz: ClassVar[bool]
    """Whether the step size depends on the Lipschitz constant of the gradient of the energy."""

    @abstractmethod
    def step_weights(self, smooth: bool, has_lipschitz: bool) -> Callable[[int], float] | None:
        """Return the function t -> weight of the new gradient in step t = 1, 2, ...; None for backtracking.

        `smooth`: the energy has no kinks; `has_lipschitz`: its gradient has a Lipschitz constant.
        """

    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """Minimise the objective from the initial distribution."""
        lipschitz = energy.lipschitz if self.uses_lipschitz else None
        steepness = float(first_steepness(np.nan if lipschitz is None else lipschitz, oracle.temperature))
        start = _without_factor_tilt(start, energy)
        search = Descent(
            oracle, energy, start, self.tol, self.step_weights(energy.smooth, lipschitz is not None), steepness
        )
        return search, self._loop(search.sweep, oracle), ""


class Descent(SteppedSearch):
    """Descent by `move_tilt` with fixed weights or with backtracking; mu = oracle(theta - tilt)."""

    def __init__(
        self,
        oracle: MarginalOracle,
        energy: BoundEnergy,
        start: Point,
        tol: float,
        weights: Callable[[int], float] | None,
        steepness: float = 1.0,
    ) -> None:
        super().__init__(oracle, energy, start, tol)
        self.weights, self.steepness = weights, steepness
        # A start without tilt has the tangent of gradient 0, whose offset is the lower bound (floor) of the energy.
        self.offset = energy.floor if not start.tilt.any() else -np.inf
        self.t = 0
        if energy.convex:
            self.history["average_log_partition"] = []
            self.mean_readings, self.mean_smooth_loss = np.zeros(self.current.readings.size), 0.0

    def step(self) -> float:
        """Make a step; return its change divided by the weight, an estimate of the distance from a fixed point."""
        self.t += 1
        old = self.current
        n = old.point.tilt.size
        gradient = self.energy.spread(old.reading_gradient, n)
        if self.weights is not None:
            weight = self.weights(self.t)
            new = self.evaluate(self.project(move_tilt(old.point.tilt, gradient, weight)))
        else:
            weight, new = self._backtrack(old, gradient)
        if self.energy.convex:
            tangent = old.energy - float(old.reading_gradient @ old.readings)  # the tangent is linear in mu
            self.offset = float(mix_offset(self.offset, weight, tangent))
            self.lower = max(self.lower, self.offset - new.point.value)
        self.current = new
        # Statistics without tilt depend on the tilted ones; the residual at the end compares all of them.
        return largest_difference(new.point.mu[:n], old.point.mu[:n]) / weight

    def _backtrack(self, old: Evaluated, gradient: FloatArray) -> tuple[float, Evaluated]:
        """Make the largest step for which the objective decreases; return its weight and the new distribution."""
        while True:
            weight = step_weight(self.steepness)
            new = self.evaluate(self.project(move_tilt(old.point.tilt, gradient, weight)))
            rise = new.energy - old.energy - float(old.reading_gradient @ (new.readings - old.readings))
            size = abs(old.energy) + abs(old.point.value)
            accepted, next_steepness = judge_step(rise, self.steepness, new.point.divergence(old.point), size)
            self.steepness = float(next_steepness)
            if accepted:
                return weight, new

    def record(self, gap: float) -> dict[str, float]:
        """Add a bound on the value of the mean iterate, as its entropy is at least the mean entropy of the iterates."""
        values = super().record(gap)
        if self.energy.convex:
            rate = 1.0 / max(self.t, 1)
            self.mean_readings += rate * (self.current.readings - self.mean_readings)
            self.mean_smooth_loss += rate * (self.current.loss - self.current.energy - self.mean_smooth_loss)
            values["average_log_partition"] = -(self.mean_smooth_loss + self.energy.judge(self.mean_readings)[0])
        return values


def _without_factor_tilt(start: Point, energy: BoundEnergy) -> Point:
    """Return the start with its tilt cut to the variables, if the energy depends on variables only."""
    n = int(energy.graph.variable_ptr[-1])
    if energy.reads != "variables" or start.tilt[n:].any():
        return start
    return replace(start, tilt=start.tilt[:n])
