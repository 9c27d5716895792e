"""Steps of the tilt towards the energy's slope: what `bethe_rda` and `bethe_mirror_descent` have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intarsia._validation import FloatArray
from intarsia.energies import BoundEnergy
from intarsia.inference.bethe_oracle import MarginalOracle, Point
from intarsia.inference.bethe_projection import Evaluated, SteppedSearch


class Minorant:
    r"""A mean of a convex energy's tangents lies below it: :math:`L(\nu) \ge \langle slope, \nu \rangle + offset`.

    Since `min_nu -<theta - slope, nu> - T H(nu)` is minus the oracle's log Z at that slope, every step bounds the
    least objective from below without a further call.
    """

    def __init__(self, tilt: FloatArray, floor: float) -> None:
        # The start counts as a tangent only if its slope is 0, where the energy's floor is one.
        self.offset = floor if not tilt.any() else -np.inf

    def move(self, share: float, slope: FloatArray, at: Evaluated) -> None:
        """Mix a tangent in; its slope is mixed into the tilt alike."""
        tangent = at.energy - float(slope @ at.point.mu)
        self.offset = tangent if share == 1.0 else (1.0 - share) * self.offset + share * tangent

    def lower_bound(self, point: Point) -> float:
        """On the objective, from the log Z of the distribution with this tilt."""
        return self.offset - point.value


class Descent(SteppedSearch):
    """`tilt <- tilt + share (grad L(mu) - tilt)`, mu = oracle(theta - tilt).

    A share of `eta / (1 + eta)` is a step of composite mirror descent with rate eta, since the natural parameters of
    the marginals are theta - tilt itself (Vilnis2015 Algorithm 4, with its sign put right); a share of 1 / (t + beta)
    is Algorithm 1.
    """

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
        self.minorant = Minorant(start.tilt, energy.floor)
        self.t = 0
        if energy.convex:
            self.history["average_log_partition"] = []
            self.mean_mu, self.mean_smooth_loss = np.zeros(start.mu.size), 0.0

    def step(self) -> float:
        """One step; the change over its share estimates the distance from a fixed point."""
        self.t += 1
        old = self.current
        slope = self.energy.gradient(old.point.mu)
        if self.share is not None:
            share = self.share(self.t)
            new = self.evaluate(self.project(old.point.tilt + share * (slope - old.point.tilt)))
        else:
            share, new = self._backtrack(old, slope)
        if self.energy.convex:
            self.minorant.move(share, slope, old)
            self.lower = max(self.lower, self.minorant.lower_bound(new.point))
        self.current = new
        return float(np.abs(new.point.mu - old.point.mu).max(initial=0.0)) / share

    def _backtrack(self, old: Evaluated, slope: FloatArray) -> tuple[float, Evaluated]:
        """Largest step at which the energy stays below its tangent plus steepness x divergence: then it descends."""
        while True:
            share = 1.0 / (1.0 + self.steepness)
            new = self.evaluate(self.project(old.point.tilt + share * (slope - old.point.tilt)))
            rise = new.energy - old.energy - float(slope @ (new.point.mu - old.point.mu))
            slack = 1e-12 * (1.0 + abs(old.energy) + abs(old.point.value))
            if rise <= self.steepness * new.point.divergence(old.point) + slack or self.steepness > 1e12:
                self.steepness = 0.6 * self.steepness if self.steepness > 1e-2 else 0.0
                return share, new
            self.steepness = max(2.0 * self.steepness, 1e-2)

    def record(self, gap: float) -> dict[str, float]:
        """With the mean of the iterates, whose entropy is at least the mean of theirs."""
        made = super().record(gap)
        if self.energy.convex:
            rate = 1.0 / max(self.t, 1)
            self.mean_mu += rate * (self.current.point.mu - self.mean_mu)
            self.mean_smooth_loss += rate * (self.current.loss - self.current.energy - self.mean_smooth_loss)
            made["average_log_partition"] = -(self.mean_smooth_loss + self.energy.value(self.mean_mu))
        return made
