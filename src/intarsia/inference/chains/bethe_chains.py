"""Bethe projections of many sequences at once: each oracle call covers all sequences that have not converged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.chain_arguments import CountColumns
from intarsia._kernels.chain_vectors import (
    CONVERGED,
    NOT_DONE,
    compare_parts,
    copy_parts,
    move_parts,
    multiply_parts,
)
from intarsia.energies.binding.batch_energies import BatchEnergy, ChainEnergies
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.inference.chains.chain_inference import ChainMarginals, chain_marginals
from intarsia.inference.chains.forward_backward import ChainPass
from intarsia.inference.method import InferenceMethod
from intarsia.inference.projection.bethe_descent import DescentProjection
from intarsia.inference.projection.bethe_rda import BetheRDA


class ChainOracle:
    """Marginal oracle of a batch: statistics that the energies read, for tilted models of the sequences.

    The tilted model of a sequence is the model with the gradient of its energy subtracted from the scores.
    `BatchEnergy` documents the layout of the vectors.

    Parameters
    ----------
    batch : ChainBatch
        Sequences in ascending order of length.
    energies : ChainEnergies
        Energies of the sequences.
    psi : (n_sequences, n_psi) float array
        Weights of the energies.

    Examples
    --------
    Subtracting log 2 from the score of label 1 in the second sequence changes its probability from 2 / 3 to 1 / 2:

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
        self._buffers: tuple[FloatArray, FloatArray] | None = None

    def __call__(self, slope: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return readings and log Z of the model tilted by psi times `slope`; None for the model without tilt."""
        if self.energies.reads_tables:
            marginals = chain_marginals(self.batch if slope is None else self.tilted(slope), transitions="steps")
            return self.read(marginals), marginals.log_partition
        weights = None if slope is None else self.strengths * slope
        if self.energy.counts_labels:  # then neither tilted scores nor marginals are stored
            label_scores = None if weights is None else self.energy.count_scores(weights)
            counts, log_partition = self._pass.label_counts(label_scores)
            return self.energy.read_counts(counts), log_partition
        if self._buffers is None:
            self._buffers = np.empty(self.batch.nodes.shape), np.empty(self.batch.nodes.shape)
        scores, nodes = self._buffers
        if weights is not None:
            self.energy.subtract(weights, self.batch.nodes, scores, None)
        result = self._pass.marginals(None if weights is None else scores, out=nodes)
        return self.energy.read(result.nodes, None), result.log_partition

    def read(self, marginals: ChainMarginals) -> FloatArray:
        """Return the readings of marginals, which need transitions by step if the energies read tables."""
        tables = None
        if self.energies.reads_tables:
            tables = np.zeros((self.n_sequences, self.batch.n_labels**2))
            has_steps = self.lengths > 1
            if has_steps.any() and marginals.transitions is not None:
                first = (self.batch.ptr[:-1] - np.arange(self.n_sequences))[has_steps]
                steps = marginals.transitions.reshape(-1, tables.shape[1])
                tables[has_steps] = np.add.reduceat(steps, first, axis=0)
        return self.energy.read(marginals.nodes, tables)

    def tilted(self, slope: FloatArray) -> ChainBatch:
        """Return the batch with psi times the slope subtracted from its scores (Vilnis2015 Eq. 11)."""
        batch, k = self.batch, self.batch.n_labels
        nodes, transitions = np.empty(batch.nodes.shape), batch.transitions
        tables = np.zeros((self.n_sequences, k * k)) if self.energies.reads_tables else None
        self.energy.subtract(self.strengths * slope, batch.nodes, nodes, tables)
        if tables is not None:
            transitions = transitions + np.repeat(tables.reshape(-1, k, k), self.lengths - 1, axis=0)
        return batch.with_scores(nodes, transitions)

    def subset(self, indices: IntArray) -> ChainOracle:
        """Return the oracle of the sequences at these indices."""
        return ChainOracle(self.batch.subset(indices), self.energies, self.psi[indices])

    # ---------------------------------------------------------------- vector arithmetic by sequence

    def dot(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the inner product of the blocks of each sequence."""
        products = np.zeros(self.n_sequences)
        multiply_parts(self._starts, read_only(a), read_only(b), products)
        return products

    def largest(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the largest absolute difference between the blocks of each sequence."""
        differences = np.zeros(self.n_sequences)
        compare_parts(self._starts, read_only(a), read_only(b), differences)
        return differences

    def move(self, mean: FloatArray, slope: FloatArray, weight: Any) -> FloatArray:
        """Apply `move_tilt` with a weight for each sequence, or one weight for all."""
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), self.n_sequences).copy()
        new_mean = np.empty(self.size)
        move_parts(self._starts, read_only(mean), read_only(slope), read_only(weights), new_mean)
        return new_mean

    def copy(self, source: FloatArray, target: FloatArray, mask: NDArray[np.bool_]) -> None:
        """Copy the blocks of the masked sequences from one vector to another."""
        copy_parts(self._starts, read_only(mask), read_only(source), target)

    def take(self, vector: FloatArray, indices: IntArray) -> FloatArray:
        """Return the blocks of the sequences at these indices."""
        return vector[rows_of(self._starts, indices)[0]]

    def write(self, target: FloatArray, indices: IntArray, blocks: FloatArray) -> None:
        """Write the blocks of the sequences at these indices into the vector of all sequences."""
        target[rows_of(self._starts, indices)[0]] = blocks


@dataclass(frozen=True, eq=False)
class ChainProjection:
    """Distributions of sequences with their energies; returned by `project_chains`.

    Attributes
    ----------
    source : ChainBatch
        Sequences with their scores without energies.
    energies, psi
        Energies of the sequences, and their weights.
    slope, readings : float arrays
        Mean gradient of the energies, not multiplied by psi, that tilts each model, and the statistics that the
        energies read from its marginals; `BatchEnergy` documents the layout.
    objective : (n_sequences,) float array
        Objective `-<theta, mu> - H(mu) + L(mu)`; infinite if no labelling is possible.
    n_iter : (n_sequences,) int array
        Number of steps; 0 if the model without energies is the result.
    converged : (n_sequences,) bool array
        Whether the readings of mu and of oracle(theta - grad L(mu)) differ by at most the tolerance (for convex
        energies with kinks: whether the gap is at most the tolerance).
    residual : (n_sequences,) float array
        Last value that was compared with the tolerance: an estimate of the distance from a fixed point, or the gap.
    n_calls : int
        Number of oracle calls; each covers all sequences that have not converged.
    """

    source: ChainBatch
    energies: ChainEnergies
    psi: FloatArray
    slope: FloatArray
    readings: FloatArray
    objective: FloatArray
    n_iter: IntArray
    converged: NDArray[np.bool_]
    residual: FloatArray
    n_calls: int

    @cached_property
    def batch(self) -> ChainBatch:
        """Tilted model of each sequence.

        Its marginals, best labels and samples are those of the projection (Vilnis2015, Proposition 1).
        """
        source, k = self.source, self.source.n_labels
        lengths = np.diff(source.ptr)
        form = self.energies.count_form(lengths)
        if form is None:
            return ChainOracle(source, self.energies, self.psi).tilted(self.slope)
        coefficients, terms = form
        n_columns = coefficients.shape[1] if self.energies.reads_tables else k
        weights = self.psi[:, terms.psi_of] * self.slope.reshape(lengths.size, -1) * self.is_tilted[:, None]
        tilt = weights @ coefficients[:, :n_columns]
        transitions = source.transitions
        if n_columns > k:
            transitions = transitions - np.repeat(tilt[:, k:].reshape(-1, k, k), lengths - 1, axis=0)
        return source.with_scores(source.nodes - np.repeat(tilt[:, :k], lengths, axis=0), transitions)

    @property
    def is_tilted(self) -> NDArray[np.bool_]:
        """Whether the energies change the scores of each sequence; its result needs at least one step then."""
        return self.n_iter > 0

    def subset(self, indices: IntArray) -> ChainProjection:
        """Return the projections of some sequences of the count form (`ChainEnergies.count_form`)."""
        n = self.n_iter.size
        slope, readings = (vector.reshape(n, -1)[indices].reshape(-1) for vector in (self.slope, self.readings))
        return ChainProjection(
            self.source.subset(indices), self.energies, self.psi[indices], slope, readings, self.objective[indices],
            self.n_iter[indices], self.converged[indices], self.residual[indices], self.n_calls,
        )  # fmt: skip


def check_chain_method(method: InferenceMethod) -> DescentProjection:
    """Return the method if it supports many sequences at once; raise otherwise."""
    if not isinstance(method, DescentProjection):
        raise NotSupportedError(
            f"projection={type(method).__name__} does not support many sequences at once. Use BetheRDA or "
            f"BetheMirrorDescent."
        )
    if method.energy is not None or method.temperature not in (None, 1, 1.0):
        raise NotSupportedError(
            "projection must not have energy or temperature set. Pass energies= to the estimator instead."
        )
    method.check_settings()
    return method


def project_chains(
    batch: ChainBatch, energies: ChainEnergies, psi: FloatArray, method: DescentProjection
) -> ChainProjection:
    """Compute the distribution of each sequence with its energies, by the steps of `method`.

    Parameters
    ----------
    batch : ChainBatch
        Sequences in ascending order of length; `by_length` sorts them.
    energies : ChainEnergies
        Energies of the sequences.
    psi : (n_sequences, n_psi) float array
        Weights of the energies.
    method : BetheRDA or BetheMirrorDescent
        Method with its tolerance and maximum number of steps.

    Examples
    --------
    A sequence of two coins and one of three, each heads (label 1) with probability 0.9; the energy prefers one head:

    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
    >>> from intarsia.inference.chains.chain_inference import chain_marginals
    >>> batch = ChainBatch(np.log([[0.1, 0.9]] * 5), [0, 2, 5], np.zeros((2, 2)))
    >>> energies = ChainEnergies(MeasuredEnergy(Count(1), Squared(1.0)), [0, 1], 3)
    >>> projection = project_chains(batch, energies, np.full((2, 1), 1e4), BetheMirrorDescent())
    >>> chain_marginals(projection.batch).nodes[:, 1].round(3)
    array([0.5  , 0.5  , 0.333, 0.333, 0.333])
    """
    projection = _project_counts(batch, energies, psi, method)
    if projection is not None:
        return projection
    from intarsia.inference.chains.chain_search import run_search

    search = run_search(batch, energies, psi, method)
    return ChainProjection(
        batch, energies, psi, search.slope, search.readings, search.objective, search.n_iter, search.converged,
        search.residual, search.n_calls,
    )  # fmt: skip


def _project_counts(
    batch: ChainBatch, energies: ChainEnergies, psi: FloatArray, method: DescentProjection
) -> ChainProjection | None:
    """Project sequence by sequence in compiled code, if the energies are smooth penalties of counts; None otherwise.

    These are the steps of `chain_search` for `BetheRDA`. Sequences with numbers that are too large are left to it.
    """
    if not isinstance(method, BetheRDA) or not energies.smooth or batch.has_table_per_step or not batch.n_sequences:
        return None
    form = energies.count_form(np.diff(batch.ptr))
    if form is None:
        return None
    coefficients, terms = form
    n, n_readings, k = batch.n_sequences, len(coefficients), batch.n_labels
    nonzero = np.flatnonzero((coefficients != 0.0).any(axis=0))
    labels, pairs = nonzero[nonzero < k], nonzero[nonzero >= k] - k
    columns = CountColumns(labels, pairs // k, pairs % k, np.ascontiguousarray(coefficients[:, nonzero]))
    strengths = np.ascontiguousarray(psi[:, terms.psi_of])
    slopes, readings = np.zeros((n, n_readings)), np.zeros((n, n_readings))
    numbers, state = np.zeros((n, 3)), np.zeros(n, dtype=np.int64)
    ChainPass(batch).project_counts(
        columns, terms.functions.kernel_arguments, strengths, int(method.max_iter), float(method.tol),  # type: ignore[attr-defined]
        float(method.beta), slopes, readings, numbers, state,
    )  # fmt: skip
    rest = np.flatnonzero(state == NOT_DONE)
    if rest.size:
        from intarsia.inference.chains.chain_search import run_search

        search = run_search(batch.subset(rest), energies, psi[rest], method)
        slopes[rest], readings[rest] = search.slope.reshape(rest.size, -1), search.readings.reshape(rest.size, -1)
        numbers[rest] = np.column_stack([search.objective, search.n_iter, search.residual])
        state[rest] = np.where(search.converged, CONVERGED, NOT_DONE)
    return ChainProjection(
        batch, energies, psi, slopes.reshape(-1), readings.reshape(-1), numbers[:, 0],
        numbers[:, 1].astype(np.int64), state == CONVERGED, numbers[:, 2],
        1 + int(numbers[:, 1].max()),
    )  # fmt: skip


def by_length(ptr: IntArray) -> tuple[IntArray, IntArray]:
    """Return the indices of the sequences in ascending order of length, and the rank of each sequence."""
    order = np.argsort(np.diff(ptr), kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return order, rank
