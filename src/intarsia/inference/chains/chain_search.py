"""Search of the Bethe projections of many sequences: each oracle call covers all that have not converged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies.binding.batch_energies import ChainEnergies
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import ChainOracle
from intarsia.inference.projection.bethe_descent import (
    DescentProjection,
    first_steepness,
    judge_step,
    mix_offset,
    step_weight,
)

# Finished sequences are removed when at most this fraction of the positions is unfinished.
_REMOVAL_FRACTION = 0.8

_VECTORS, _NUMBERS = ("mean", "readings", "slope"), ("value", "energy", "objective")
_RESULT_VECTORS = ("mean", "readings")


@dataclass(eq=False)
class _Points:
    """Current state of the sequences of an oracle: the mean slope that tilts them, and the values at this tilt."""

    mean: FloatArray
    readings: FloatArray
    slope: FloatArray
    value: FloatArray
    energy: FloatArray
    objective: FloatArray

    def update(
        self, other: _Points, mask: NDArray[np.bool_], oracle: ChainOracle, vectors: tuple[str, ...] = _VECTORS
    ) -> None:
        """Copy the state of the masked sequences from `other`."""
        if not mask.any():
            return
        for name in vectors:
            oracle.copy(getattr(other, name), getattr(self, name), mask)
        for name in _NUMBERS:
            np.copyto(getattr(self, name), getattr(other, name), where=mask)

    def take(self, indices: IntArray, oracle: ChainOracle) -> _Points:
        """Return a copy of the state of the sequences at these indices."""
        return _Points(
            *(oracle.take(getattr(self, name), indices) for name in _VECTORS),
            *(getattr(self, name)[indices] for name in _NUMBERS),
        )


class _Search:
    """Search for all sequences at once; sequences that have converged are stored and removed."""

    def __init__(self, batch: ChainBatch, energies: ChainEnergies, psi: FloatArray, method: DescentProjection) -> None:
        self.tol, self.n_calls, self.n_steps = float(method.tol), 0, 0
        # At a kink the gradient jumps, so the fixed-point residual does not vanish; the gap does.
        self.by_gap = energies.convex and not energies.smooth
        self.all_oracle = self.oracle = ChainOracle(batch, energies, psi)
        self.current = self._evaluate(None)
        # Infeasible sequences have no solution, and without a gradient the marginals without tilt are the solution.
        no_slope = np.zeros(self.all_oracle.size)
        is_tilted = (self.current.value > -np.inf) & (
            self.all_oracle.largest(self.all_oracle.strengths * self.current.slope, no_slope) > 0.0
        )
        n = batch.n_sequences
        self.slope, self.readings = no_slope, self.current.readings.copy()
        self.objective = self.current.objective.copy()
        self.all_oracle.copy(self.current.slope, self.slope, ~is_tilted)
        self.n_iter, self.converged = np.zeros(n, dtype=np.int64), ~is_tilted
        self.residual = np.where(is_tilted, np.inf, 0.0)
        self.active, self.best = np.arange(n), self.current
        lipschitz = np.full(n, np.nan)
        if method.uses_lipschitz:
            lipschitz = self.all_oracle.energy.lipschitz(psi)
        self.weights = method.step_weights(energies.smooth, bool(np.isfinite(lipschitz).all()))
        self.steepness = first_steepness(lipschitz) if self.weights is None else np.ones(n)
        self.offset = self.all_oracle.energy.floor(psi) if self.by_gap else np.zeros(n)
        self.lower = np.full(n, -np.inf)
        self.steps, self.is_done = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
        self._continue_with(np.flatnonzero(is_tilted))

    def _evaluate(self, mean: FloatArray | None) -> _Points:
        """Call the oracle for all sequences that have not been removed."""
        readings, value = self.oracle(mean)
        self.n_calls += 1
        energy, slope = self.oracle.energy.judge(readings, self.oracle.psi)
        if mean is None:
            return _Points(np.zeros(readings.size), readings, slope, value, energy, energy - value)
        tilt_score = self.oracle.dot(self.oracle.strengths * mean, readings)
        return _Points(mean, readings, slope, value, energy, energy - value - tilt_score)

    def step(self) -> None:
        """Make a step for all sequences, and verify those that seem to have converged by another oracle call."""
        oracle, old = self.oracle, self.current
        self.n_steps += 1
        weight: Any = step_weight(self.steepness) if self.weights is None else self.weights(self.n_steps)
        new = self._evaluate(oracle.move(old.mean, old.slope, weight))
        change = oracle.largest(new.readings, old.readings)
        has_moved = ~self.is_done
        if self.weights is None:
            gradient, difference = oracle.strengths * old.slope, new.readings - old.readings
            rise = new.energy - old.energy - oracle.dot(gradient, difference)
            divergence = old.value - new.value + oracle.dot(oracle.strengths * (old.mean - new.mean), new.readings)
            size = np.abs(old.energy) + np.abs(old.value)
            accepted, self.steepness = judge_step(rise, self.steepness, divergence, size)
            has_moved &= accepted
        if self.by_gap:
            tangent = old.energy - oracle.dot(oracle.strengths * old.slope, old.readings)
            self.offset = np.where(has_moved, mix_offset(self.offset, weight, tangent), self.offset)
            self.lower = np.where(has_moved, np.maximum(self.lower, self.offset - new.value), self.lower)
        self.steps += has_moved
        self.best.update(new, has_moved & (new.objective < self.best.objective), oracle, _RESULT_VECTORS)
        if has_moved.all():
            self.current = new
        else:
            old.update(new, has_moved, oracle)
        # The change divided by the step weight estimates the distance from a fixed point.
        residual = self.best.objective - self.lower if self.by_gap else change / weight
        self.residual[self.active[has_moved]] = residual[has_moved]
        seems_converged = has_moved & (residual <= self.tol)
        if self.by_gap:
            self._finish(seems_converged)
        else:
            self._verify(np.flatnonzero(seems_converged))

    def _verify(self, candidates: IntArray) -> None:
        """Check by an oracle call which of these sequences have converged, as their residual is only an estimate."""
        if not candidates.size:
            return
        oracle = self.oracle.subset(candidates)
        readings, _ = oracle(self.oracle.take(self.current.slope, candidates))
        self.n_calls += 1
        is_converged = oracle.largest(readings, self.oracle.take(self.current.readings, candidates)) <= self.tol
        mask = np.zeros(self.active.size, dtype=bool)
        mask[candidates[is_converged]] = True
        self.best.update(self.current, mask, self.oracle, _RESULT_VECTORS)
        self._finish(mask)

    def _finish(self, mask: NDArray[np.bool_]) -> None:
        """Mark sequences as converged; remove finished sequences if they are many."""
        if not mask.any():
            return
        self.is_done |= mask
        self.converged[self.active[mask]] = True
        n_unfinished = self.oracle.lengths[~self.is_done].sum()
        if n_unfinished <= _REMOVAL_FRACTION * self.oracle.lengths.sum():
            self.remove(self.is_done)

    def remove(self, mask: NDArray[np.bool_]) -> None:
        """Store the results of the masked sequences and continue with the others."""
        indices = self.active[mask]
        results = self.best.take(np.flatnonzero(mask), self.oracle)
        self.all_oracle.write(self.slope, indices, results.mean)
        self.all_oracle.write(self.readings, indices, results.readings)
        self.objective[indices], self.n_iter[indices] = results.objective, self.steps[mask]
        self._continue_with(np.flatnonzero(~mask))

    def _continue_with(self, indices: IntArray) -> None:
        """Continue with the sequences at these indices only."""
        self.current, self.best = self.current.take(indices, self.oracle), self.best.take(indices, self.oracle)
        if indices.size == self.active.size:
            return
        for name in ("active", "steepness", "offset", "lower", "steps", "is_done"):
            setattr(self, name, getattr(self, name)[indices])
        self.oracle = self.oracle.subset(indices)


def run_search(batch: ChainBatch, energies: ChainEnergies, psi: FloatArray, method: DescentProjection) -> _Search:
    """Return a search after all its steps."""
    search = _Search(batch, energies, psi, method)
    while search.active.size and search.n_steps < int(method.max_iter):
        search.step()
    search.remove(np.ones(search.active.size, dtype=bool))
    return search
