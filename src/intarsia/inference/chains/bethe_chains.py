"""Bethe projections of many sequences at once: every call of the oracle serves all that are not finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.chain_vectors import compare_parts, copy_parts, move_parts, multiply_parts
from intarsia.energies.binding.batch_energies import BatchEnergy, ChainEnergies
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.inference.chains.chain_inference import ChainMarginals, chain_marginals
from intarsia.inference.chains.forward_backward import ChainPass
from intarsia.inference.method import InferenceMethod
from intarsia.inference.projection.bethe_descent import (
    DescentProjection,
    first_steepness,
    judge_step,
    mix_offset,
    share_of,
)


class ChainOracle:
    """Readings of the marginals of tilted models of a batch; vectors are laid out as `BatchEnergy` says.

    Parameters
    ----------
    batch : ChainBatch
        The sequences, none shorter than the one before.
    energies : ChainEnergies
        What reads them.
    psi : (n_sequences, n_psi) float array
        Strengths.

    Examples
    --------
    Taking log 2 from the score of label 1 in the second sequence makes 1 / 2 of 2 / 3:

    >>> from intarsia.energies import Count, Hinge, MeasuredEnergy
    >>> energies = ChainEnergies(MeasuredEnergy(Count(1), Hinge(1.0)), [0, 1], 2)
    >>> batch = ChainBatch(np.log([[1, 2], [1, 2]]), [0, 1, 2], np.zeros((2, 2)))
    >>> readings, log_partition = ChainOracle(batch, energies, np.ones((2, 1)))(np.array([0.0, np.log(2)]))
    >>> readings.round(3), np.exp(log_partition).round(12)
    (array([0.667, 0.5  ]), array([3., 2.]))
    """

    def __init__(self, batch: ChainBatch, energies: ChainEnergies, psi: FloatArray) -> None:
        self.batch, self.energies, self.psi = batch, energies, psi
        self.energy: BatchEnergy = energies.on(batch.ptr)
        self.n_sequences, self.lengths, self.size = batch.n_sequences, np.diff(batch.ptr), self.energy.size
        self.strengths = self.energy.strengths(psi)
        self._starts = read_only(self.energy.starts)
        self._pass = ChainPass(batch)
        self._room: tuple[FloatArray, FloatArray] | None = None

    def __call__(self, slope: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Readings of the marginals, and log Z, of the model tilted by a slope without strengths (None: by none)."""
        if self.energies.reads_tables:
            whole = chain_marginals(self.batch if slope is None else self.tilted(slope), transitions="steps")
            return self.read(whole), whole.log_partition
        weights = None if slope is None else self.strengths * slope
        if self.energy.counts_labels:  # then neither tilted scores nor marginals need ever be written down
            taken = None if weights is None else self.energy.count_scores(weights)
            counts, log_partition = self._pass.label_counts(taken)
            return self.energy.read_counts(counts), log_partition
        if self._room is None:
            self._room = np.empty(self.batch.nodes.shape), np.empty(self.batch.nodes.shape)
        scores, made = self._room
        if weights is not None:
            self.energy.subtract(weights, self.batch.nodes, scores, None)
        found = self._pass.marginals(None if weights is None else scores, into=made)
        return self.energy.read(found.nodes, None), found.log_partition

    def read(self, found: ChainMarginals) -> FloatArray:
        """Readings of marginals, with transitions by step where the energies read any."""
        tables = None
        if self.energies.reads_tables:
            tables = np.zeros((self.n_sequences, self.batch.n_labels**2))
            has_steps = self.lengths > 1
            if has_steps.any() and found.transitions is not None:
                first = (self.batch.ptr[:-1] - np.arange(self.n_sequences))[has_steps]
                steps = found.transitions.reshape(-1, tables.shape[1])
                tables[has_steps] = np.add.reduceat(steps, first, axis=0)
        return self.energy.read(found.nodes, tables)

    def tilted(self, slope: FloatArray) -> ChainBatch:
        """The batch with the slope, times strengths, taken from its scores (Vilnis2015 Eq. 11)."""
        batch, k = self.batch, self.batch.n_labels
        nodes, transitions = np.empty(batch.nodes.shape), batch.transitions
        tables = np.zeros((self.n_sequences, k * k)) if self.energies.reads_tables else None
        self.energy.subtract(self.strengths * slope, batch.nodes, nodes, tables)
        if tables is not None:
            transitions = transitions + np.repeat(tables.reshape(-1, k, k), self.lengths - 1, axis=0)
        return batch.with_scores(nodes, transitions)

    def subset(self, chosen: IntArray) -> ChainOracle:
        """The oracle of some of the sequences."""
        return ChainOracle(self.batch.subset(chosen), self.energies, self.psi[chosen])

    # ---------------------------------------------------------------- arithmetic of vectors

    def dot(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Inner product of each sequence's part."""
        found = np.zeros(self.n_sequences)
        multiply_parts(self._starts, read_only(a), read_only(b), found)
        return found

    def largest(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Largest absolute difference of each sequence's part."""
        found = np.zeros(self.n_sequences)
        compare_parts(self._starts, read_only(a), read_only(b), found)
        return found

    def move(self, mean: FloatArray, slope: FloatArray, share: Any) -> FloatArray:
        """`move_tilt` with a share for each sequence, or one for all."""
        each = np.broadcast_to(np.asarray(share, dtype=np.float64), self.n_sequences).copy()
        moved = np.empty(self.size)
        move_parts(self._starts, read_only(mean), read_only(slope), read_only(each), moved)
        return moved

    def copy(self, source: FloatArray, target: FloatArray, chosen: NDArray[np.bool_]) -> None:
        """Copy the parts of some sequences from one vector to another."""
        copy_parts(self._starts, read_only(chosen), read_only(source), target)

    def take(self, vector: FloatArray, chosen: IntArray) -> FloatArray:
        """The vector of some of the sequences."""
        return vector[rows_of(self._starts, chosen)[0]]

    def place(self, into: FloatArray, chosen: IntArray, part: FloatArray) -> None:
        """Write the vector of some of the sequences into that of all."""
        into[rows_of(self._starts, chosen)[0]] = part


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


def check_chain_method(method: InferenceMethod) -> DescentProjection:
    """Return a method that works for many sequences at once, or raise."""
    if not isinstance(method, DescentProjection):
        raise NotSupportedError(
            f"projection={type(method).__name__} does not take many sequences at once. These do: BetheRDA, "
            f"BetheMirrorDescent."
        )
    if method.energy is not None or method.temperature not in (None, 1, 1.0):
        raise NotSupportedError("give energies= to the estimator, and leave energy and temperature out.")
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
    >>> from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
    >>> from intarsia.inference.chains.chain_inference import chain_marginals
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
        self.steepness = first_steepness(known) if self.share is None else np.ones(n)
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
