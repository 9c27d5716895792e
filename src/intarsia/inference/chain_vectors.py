"""The oracle of many sequences, from slopes of their energies to readings of marginals, and arithmetic of both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._kernels.chain_vectors import compare_parts, copy_parts, move_parts, multiply_parts
from intarsia._validation import FloatArray, IntArray, read_only
from intarsia.energies.chain_energies import BatchEnergy, ChainEnergies
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.inference.chain_pass import ChainPass
from intarsia.inference.chains import ChainMarginals, chain_marginals


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
