"""Steps of the tilt towards the energy's slope: what `bethe_rda` and `bethe_mirror_descent` have in common.

The rules of a step are functions that take the numbers of one problem or, as arrays, those of many side by side; so
`bethe_chains` shares them.
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

# Steeper than this no energy is: what still fails there is rounding.
_STEEPEST = 1e12


def move_tilt(tilt: FloatArray, slope: FloatArray, share: Any) -> FloatArray:
    """`tilt + share (slope - tilt)`.

    A share of `eta / (1 + eta)` is a step of composite mirror descent with rate eta, since the natural parameters of
    the marginals are theta - tilt itself (Vilnis2015 Algorithm 4, with its sign put right); a share of 1 / (t + beta)
    is Algorithm 1.
    """
    moved = slope - tilt
    moved *= share
    moved += tilt
    return moved


def share_of(steepness: Any) -> Any:
    """Share of the slope in a step with rate 1 / steepness."""
    return 1.0 / (1.0 + steepness)


def judge_step(rise: Any, steepness: Any, divergence: Any, size: Any) -> tuple[Any, Any]:
    """Whether a step is accepted, and the steepness of the next.

    It is where the energy rose above its tangent by no more than steepness x divergence, for then the objective falls.
    The next is bolder after a step that was accepted, more cautious after one that was not; near the optimum, where
    differences of values of this `size` are rounding, nothing can be learned from a step.
    """
    rounding = 1e-12 * (1.0 + size)
    accepted = (rise <= steepness * divergence + rounding) | (steepness > _STEEPEST)
    bolder = np.where(steepness > 1e-2, 0.6 * steepness, 0.0)
    kept = np.where(steepness * divergence > 10.0 * rounding, bolder, steepness)
    return accepted, np.where(accepted, kept, np.maximum(2.0 * steepness, 1e-2))


def first_steepness(lipschitz: Any, temperature: float = 1.0) -> Any:
    """A steepness to begin with, from the constant of smoothness where one is known (NaN: none)."""
    return np.where(np.isnan(lipschitz), 1.0, np.minimum(0.25 * np.nan_to_num(lipschitz) / temperature, 1e6))


def mix_offset(offset: Any, share: Any, tangent: Any) -> Any:
    r"""Offset of a mean of a convex energy's tangents, :math:`L(\nu) \ge \langle slope, \nu \rangle + offset`.

    Since `min_nu -<theta - slope, nu> - T H(nu)` is minus the oracle's log Z at that slope, every step bounds the
    least objective from below, by the offset less log Z, without a further call. `share` of a new tangent is mixed in,
    as its slope is into the tilt.
    """
    if isinstance(share, float) and isinstance(offset, float):
        return tangent if share == 1.0 else (1.0 - share) * offset + share * tangent
    with np.errstate(invalid="ignore"):  # at first the offset may be -inf
        return np.where(share == 1.0, tangent, (1.0 - share) * offset + share * tangent)


class DescentProjection(BetheProjection):
    """Base of the Bethe projections that go by steps of the tilt towards the energy's slope."""

    uses_lipschitz: ClassVar[bool]
    """Whether the constant of smoothness says anything about its steps."""

    @abstractmethod
    def shares(self, smooth: bool, known: bool) -> Callable[[int], float] | None:
        """Share of the new slope in step t = 1, 2, ...; None to find it by backtracking.

        `smooth`: the energy has no kinks; `known`: its constant of smoothness is known.
        """

    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """Descend from the start."""
        known = energy.lipschitz if self.uses_lipschitz else None
        steepness = float(first_steepness(np.nan if known is None else known, oracle.temperature))
        start = _shortened(start, energy)
        search = Descent(oracle, energy, start, self.tol, self.shares(energy.smooth, known is not None), steepness)
        return search, self._loop(search.sweep, oracle), ""


class Descent(SteppedSearch):
    """`move_tilt` by given shares, or by backtracking: mu = oracle(theta - tilt)."""

    def __init__(
        self,
        oracle: MarginalOracle,
        energy: BoundEnergy,
        start: Point,
        tol: float,
        share: Callable[[int], float] | None,
        steepness: float = 1.0,
    ) -> None:
        super().__init__(oracle, energy, start, tol)
        self.share, self.steepness = share, steepness
        # The start counts as a tangent only if its slope is 0, where the energy's floor is one.
        self.offset = energy.floor if not start.tilt.any() else -np.inf
        self.t = 0
        if energy.convex:
            self.history["average_log_partition"] = []
            self.mean_readings, self.mean_smooth_loss = np.zeros(self.current.readings.size), 0.0

    def step(self) -> float:
        """One step; the change over its share estimates the distance from a fixed point."""
        self.t += 1
        old = self.current
        n = old.point.tilt.size
        slope = self.energy.spread(old.pull, n)
        if self.share is not None:
            share = self.share(self.t)
            new = self.evaluate(self.project(move_tilt(old.point.tilt, slope, share)))
        else:
            share, new = self._backtrack(old, slope)
        if self.energy.convex:
            tangent = old.energy - float(old.pull @ old.readings)  # both sides are linear in mu
            self.offset = float(mix_offset(self.offset, share, tangent))
            self.lower = max(self.lower, self.offset - new.point.value)
        self.current = new
        # What is not tilted follows from what is; the residual that is reported at the end looks at all of it.
        return largest_difference(new.point.mu[:n], old.point.mu[:n]) / share

    def _backtrack(self, old: Evaluated, slope: FloatArray) -> tuple[float, Evaluated]:
        """Largest step at which the objective is sure to fall."""
        while True:
            share = share_of(self.steepness)
            new = self.evaluate(self.project(move_tilt(old.point.tilt, slope, share)))
            rise = new.energy - old.energy - float(old.pull @ (new.readings - old.readings))
            size = abs(old.energy) + abs(old.point.value)
            accepted, next_one = judge_step(rise, self.steepness, new.point.divergence(old.point), size)
            self.steepness = float(next_one)
            if accepted:
                return share, new

    def record(self, gap: float) -> dict[str, float]:
        """With the mean of the iterates, whose entropy is at least the mean of theirs."""
        made = super().record(gap)
        if self.energy.convex:
            rate = 1.0 / max(self.t, 1)
            self.mean_readings += rate * (self.current.readings - self.mean_readings)
            self.mean_smooth_loss += rate * (self.current.loss - self.current.energy - self.mean_smooth_loss)
            made["average_log_partition"] = -(self.mean_smooth_loss + self.energy.judge(self.mean_readings)[0])
        return made


def _shortened(start: Point, energy: BoundEnergy) -> Point:
    """The same start with a tilt of variables alone, where the energy reads no more and no more is tilted."""
    n = int(energy.graph.variable_ptr[-1])
    if energy.reads != "variables" or start.tilt[n:].any():
        return start
    return replace(start, tilt=start.tilt[:n])
