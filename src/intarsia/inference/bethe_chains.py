"""Bethe projections of many sequences at once: every call of the oracle serves all that are not finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray, IntArray
from intarsia.energies.chain_energies import ChainEnergies
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.bethe_descent import (
    DescentProjection,
    first_steepness,
    judge_step,
    mix_offset,
    share_of,
)
from intarsia.inference.chain_vectors import ChainOracle
from intarsia.inference.method import InferenceMethod

# Sequences that are finished are taken out when less than this share of the positions is left.
_WORTH_LEAVING_OUT = 0.8


@dataclass(frozen=True, eq=False)
class ChainProjection:
    """Distributions of sequences under their energies; made by `project_chains`.

    Attributes
    ----------
    batch : ChainBatch
        The tilted model of each sequence, whose marginals, best labels and draws are those of the projection
        (Vilnis2015, Proposition 1).
    slope, readings : float arrays
        The mean slope of the energies, without strengths, that tilts each model, and what they read in its marginals;
        `BatchEnergy` says how these are laid out.
    objective : (n_sequences,) float array
        `-<theta, mu> - H(mu) + L(mu)`; infinite where nothing is possible.
    n_iter : (n_sequences,) int array
        Steps made.
    converged : (n_sequences,) bool array
        Whether no reading of mu and of oracle(theta - grad L(mu)) differ by more than the tolerance (for convex
        energies with kinks: whether the gap is at most that).
    residual : (n_sequences,) float array
        What was compared with the tolerance last: an estimate of the distance from a fixed point, or the gap.
    n_calls : int
        Calls of the oracle, of which each served all sequences that were not finished.
    """

    batch: ChainBatch
    slope: FloatArray
    readings: FloatArray
    objective: FloatArray
    n_iter: IntArray
    converged: NDArray[np.bool_]
    residual: FloatArray
    n_calls: int


def check_chain_method(method: InferenceMethod, where: str) -> DescentProjection:
    """Return a method that works for many sequences at once, or raise."""
    if not isinstance(method, DescentProjection):
        raise NotSupportedError(
            f"{where}: inference={type(method).__name__} does not take many sequences at once. These do: BetheRDA, "
            f"BetheMirrorDescent."
        )
    if method.energy is not None or method.temperature not in (None, 1, 1.0):
        raise NotSupportedError(f"{where}: give energies= to the estimator, and leave energy and temperature out.")
    method.check_settings()
    return method


def project_chains(
    batch: ChainBatch, energies: ChainEnergies, psi: FloatArray, method: DescentProjection
) -> ChainProjection:
    """Marginals of each sequence under the energies, by the steps of `method`.

    Parameters
    ----------
    batch : ChainBatch
        The sequences. None may be shorter than the one before; `by_length` orders them.
    energies : ChainEnergies
        What is wanted of them.
    psi : (n_sequences, n_psi) float array
        Strengths.
    method : BetheRDA or BetheMirrorDescent
        Steps, tolerance and largest number of steps.

    Examples
    --------
    Two coins, each heads (label 1) with probability 0.9, in one sequence and three in another; one head is wanted:

    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> from intarsia.inference.bethe_mirror_descent import BetheMirrorDescent
    >>> from intarsia.inference.chains import chain_marginals
    >>> batch = ChainBatch(np.log([[0.1, 0.9]] * 5), [0, 2, 5], np.zeros((2, 2)))
    >>> energies = ChainEnergies(MeasuredEnergy(Count(1), Squared(1.0)), [0, 1], 3)
    >>> found = project_chains(batch, energies, np.full((2, 1), 1e4), BetheMirrorDescent())
    >>> chain_marginals(found.batch).nodes[:, 1].round(3)
    array([0.5  , 0.5  , 0.333, 0.333, 0.333])
    """
    search = _Search(batch, energies, psi, method)
    while search.live.size and search.n_steps < int(method.max_iter):
        search.step()
    search.leave(np.ones(search.live.size, dtype=bool))
    tilted = search.whole.tilted(search.slope)
    return ChainProjection(
        tilted, search.slope, search.readings, search.objective, search.n_iter, search.converged, search.residual,
        search.n_calls,
    )  # fmt: skip


def by_length(ptr: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers of the sequences from the shortest to the longest, and the place of each in that order."""
    order = np.argsort(np.diff(ptr), kind="stable")
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return order, place


_VECTORS, _NUMBERS = ("mean", "readings", "slope"), ("value", "energy", "objective")
_ANSWER = ("mean", "readings")


@dataclass(eq=False)
class _Points:
    """Where the sequences of an oracle are: the mean slope that tilts them, and what follows from it."""

    mean: FloatArray
    readings: FloatArray
    slope: FloatArray
    value: FloatArray
    energy: FloatArray
    objective: FloatArray

    def put(
        self, other: _Points, chosen: NDArray[np.bool_], oracle: ChainOracle, vectors: tuple[str, ...] = _VECTORS
    ) -> None:
        """Move some of the sequences to where they are in `other`."""
        if not chosen.any():
            return
        for name in vectors:
            oracle.copy(getattr(other, name), getattr(self, name), chosen)
        for name in _NUMBERS:
            np.copyto(getattr(self, name), getattr(other, name), where=chosen)

    def take(self, chosen: IntArray, oracle: ChainOracle) -> _Points:
        """Some of the sequences, copied."""
        return _Points(
            *(oracle.take(getattr(self, name), chosen) for name in _VECTORS),
            *(getattr(self, name)[chosen] for name in _NUMBERS),
        )


class _Search:
    """Sequences on their way; those that are finished are written down and left out."""

    def __init__(self, batch: ChainBatch, energies: ChainEnergies, psi: FloatArray, method: DescentProjection) -> None:
        self.tol, self.n_calls, self.n_steps = float(method.tol), 0, 0
        # At a kink the slope jumps, so that fixed points cannot be seen; the gap can.
        self.by_gap = energies.convex and not energies.smooth
        self.whole = self.oracle = ChainOracle(batch, energies, psi)
        self.now = self._ask(None)
        # Where nothing is possible there is no answer; where nothing pulls, the plain marginals are it.
        nothing = np.zeros(self.whole.size)
        pulled = (self.now.value > -np.inf) & (self.whole.largest(self.whole.strengths * self.now.slope, nothing) > 0.0)
        n = batch.n_sequences
        self.slope, self.readings, self.objective = nothing, self.now.readings.copy(), self.now.objective.copy()
        self.whole.copy(self.now.slope, self.slope, ~pulled)
        self.n_iter, self.converged = np.zeros(n, dtype=np.int64), ~pulled
        self.residual = np.where(pulled, np.inf, 0.0)
        self.live, self.best = np.arange(n), self.now
        known = np.full(n, np.nan)
        if method.uses_lipschitz:
            known = self.whole.energy.lipschitz(psi)
        self.share = method.shares(energies.smooth, bool(np.isfinite(known).all()))
        self.steepness = first_steepness(known)
        self.offset = self.whole.energy.floor(psi) if self.by_gap else np.zeros(n)
        self.lower = np.full(n, -np.inf)
        self.steps, self.done = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
        self._stay(np.flatnonzero(pulled))

    def _ask(self, mean: FloatArray | None) -> _Points:
        """Call the oracle for all that are not finished."""
        readings, value = self.oracle(mean)
        self.n_calls += 1
        energy, slope = self.oracle.energy.judge(readings, self.oracle.psi)
        if mean is None:
            return _Points(np.zeros(readings.size), readings, slope, value, energy, energy - value)
        taken = self.oracle.dot(self.oracle.strengths * mean, readings)
        return _Points(mean, readings, slope, value, energy, energy - value - taken)

    def step(self) -> None:
        """One call of the oracle for all that are not finished, and one more for those that seem to be."""
        oracle, old = self.oracle, self.now
        self.n_steps += 1
        share: Any = share_of(self.steepness) if self.share is None else self.share(self.n_steps)
        new = self._ask(oracle.move(old.mean, old.slope, share))
        change = oracle.largest(new.readings, old.readings)
        moved = ~self.done
        if self.share is None:
            pull, difference = oracle.strengths * old.slope, new.readings - old.readings
            rise = new.energy - old.energy - oracle.dot(pull, difference)
            divergence = old.value - new.value + oracle.dot(oracle.strengths * (old.mean - new.mean), new.readings)
            size = np.abs(old.energy) + np.abs(old.value)
            accepted, self.steepness = judge_step(rise, self.steepness, divergence, size)
            moved &= accepted
        if self.by_gap:
            tangent = old.energy - oracle.dot(oracle.strengths * old.slope, old.readings)
            self.offset = np.where(moved, mix_offset(self.offset, share, tangent), self.offset)
            self.lower = np.where(moved, np.maximum(self.lower, self.offset - new.value), self.lower)
        self.steps += moved
        self.best.put(new, moved & (new.objective < self.best.objective), oracle, _ANSWER)
        if moved.all():
            self.now = new
        else:
            old.put(new, moved, oracle)
        # The change over its share estimates the distance from a fixed point.
        residual = self.best.objective - self.lower if self.by_gap else change / share
        self.residual[self.live[moved]] = residual[moved]
        close = moved & (residual <= self.tol)
        if self.by_gap:
            self._finish(close)
        else:
            self._verify(np.flatnonzero(close))

    def _verify(self, claimed: IntArray) -> None:
        """What was compared with the tolerance was an estimate; ask the oracle."""
        if not claimed.size:
            return
        oracle = self.oracle.subset(claimed)
        there, _ = oracle(self.oracle.take(self.now.slope, claimed))
        self.n_calls += 1
        true = oracle.largest(there, self.oracle.take(self.now.readings, claimed)) <= self.tol
        sure = np.zeros(self.live.size, dtype=bool)
        sure[claimed[true]] = True
        self.best.put(self.now, sure, self.oracle, _ANSWER)
        self._finish(sure)

    def _finish(self, sure: NDArray[np.bool_]) -> None:
        if not sure.any():
            return
        self.done |= sure
        self.converged[self.live[sure]] = True
        left = self.oracle.lengths[~self.done].sum()
        if left <= _WORTH_LEAVING_OUT * self.oracle.lengths.sum():
            self.leave(self.done)

    def leave(self, chosen: NDArray[np.bool_]) -> None:
        """Write down what was found for some sequences, and go on with the others."""
        out = self.live[chosen]
        found = self.best.take(np.flatnonzero(chosen), self.oracle)
        self.whole.place(self.slope, out, found.mean)
        self.whole.place(self.readings, out, found.readings)
        self.objective[out], self.n_iter[out] = found.objective, self.steps[chosen]
        self._stay(np.flatnonzero(~chosen))

    def _stay(self, stay: IntArray) -> None:
        """Go on with some of the sequences only."""
        self.now, self.best = self.now.take(stay, self.oracle), self.best.take(stay, self.oracle)
        if stay.size == self.live.size:
            return
        for name in ("live", "steepness", "offset", "lower", "steps", "done"):
            setattr(self, name, getattr(self, name)[stay])
        self.oracle = self.oracle.subset(stay)
