"""Flat vectors over a batch of sequences, and the oracle from what is taken from scores to marginals."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._validation import FloatArray, IntArray
from intarsia.energies.chain_energies import BatchEnergy, ChainEnergies
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.inference.chains import chain_marginals


class ChainOracle:
    """Marginals of the tilted models of a batch, and the arithmetic of its vectors.

    `BatchEnergy` says how these are laid out.

    Parameters
    ----------
    batch : ChainBatch
        The sequences, none shorter than the one before.
    energies : ChainEnergies
        Whose `reads_tables` says what a vector holds.

    Examples
    --------
    Taking log 2 from the score of label 1 in the second sequence makes 1 / 2 of 2 / 3:

    >>> from intarsia.energies import Count, Hinge, MeasuredEnergy
    >>> energies = ChainEnergies(MeasuredEnergy(Count(1), Hinge(1.0)), [0, 1], 2)
    >>> oracle = ChainOracle(ChainBatch(np.log([[1, 2], [1, 2]]), [0, 1, 2], np.zeros((2, 2))), energies)
    >>> mu, log_partition = oracle(np.array([0.0, 0.0, 0.0, np.log(2)]))
    >>> mu.round(3), np.exp(log_partition).round(12)
    (array([0.333, 0.667, 0.5  , 0.5  ]), array([3., 2.]))
    """

    def __init__(self, batch: ChainBatch, energies: ChainEnergies) -> None:
        self.batch, self.energies = batch, energies
        self.energy: BatchEnergy = energies.on(batch.ptr)
        self.n_sequences, self.lengths = batch.n_sequences, np.diff(batch.ptr)
        self.split, self.size, self.n_pairs = self.energy.split, self.energy.size, self.energy.n_pairs
        self._starts = batch.ptr[:-1] * batch.n_labels
        self._sizes = self.lengths * batch.n_labels

    def __call__(self, tilt: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Marginals and log Z of the scores less `tilt` (None: nothing)."""
        batch = self.batch if tilt is None else self.tilted(tilt)
        if not self.n_pairs:
            found = chain_marginals(batch, transitions=None)
            return found.nodes.reshape(-1), found.log_partition
        found = chain_marginals(batch, transitions="steps")
        return self.vector(found.nodes, np.asarray(found.transitions)), found.log_partition

    def vector(self, nodes: FloatArray, steps: FloatArray) -> FloatArray:
        """The vector of marginals of positions (n_positions, n_labels) and of steps (n_steps, n_labels, n_labels)."""
        if not self.n_pairs:
            return nodes.reshape(-1)
        tables = np.zeros((self.n_sequences, self.n_pairs))
        has_steps = self.lengths > 1
        if has_steps.any():
            first = (self.batch.ptr[:-1] - np.arange(self.n_sequences))[has_steps]
            tables[has_steps] = np.add.reduceat(steps.reshape(-1, self.n_pairs), first, axis=0)
        return np.concatenate([nodes.reshape(-1), tables.reshape(-1)])

    def tilted(self, tilt: FloatArray) -> ChainBatch:
        """The batch with the tilt taken from its scores."""
        batch, k = self.batch, self.batch.n_labels
        nodes = batch.nodes - tilt[: self.split].reshape(batch.nodes.shape)
        transitions = batch.transitions
        if self.n_pairs:
            own = np.repeat(tilt[self.split :].reshape(-1, k, k), self.lengths - 1, axis=0)
            transitions = transitions - own
        return ChainBatch(nodes, batch.ptr, transitions, batch.start, batch.end)

    def subset(self, chosen: IntArray) -> ChainOracle:
        """The oracle of some of the sequences."""
        return ChainOracle(self.batch.subset(chosen), self.energies)

    # ---------------------------------------------------------------- arithmetic of vectors

    def dot(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Inner product of each sequence's part."""
        return self._reduce(np.add, a * b)

    def largest(self, vector: FloatArray) -> FloatArray:
        """Largest absolute value of each sequence's part."""
        return self._reduce(np.maximum, np.abs(vector))

    def _reduce(self, combine: Any, vector: FloatArray) -> FloatArray:
        if not self.n_sequences:
            return np.zeros(0)
        found: FloatArray = combine.reduceat(vector[: self.split], self._starts)
        if self.n_pairs:
            found = combine(found, combine.reduce(vector[self.split :].reshape(-1, self.n_pairs), axis=1))
        return found

    def spread(self, numbers: Any) -> Any:
        """A number per sequence as a vector; one number for all stays one."""
        if np.ndim(numbers) == 0:
            return numbers
        own = np.repeat(numbers, self._sizes)
        return np.concatenate([own, np.repeat(numbers, self.n_pairs)]) if self.n_pairs else own

    def take(self, vector: FloatArray, chosen: IntArray) -> FloatArray:
        """The vector of some of the sequences."""
        rows, _ = rows_of(self.batch.ptr, chosen)
        own = vector[: self.split].reshape(-1, self.batch.n_labels)[rows].reshape(-1)
        if not self.n_pairs:
            return own
        return np.concatenate([own, vector[self.split :].reshape(-1, self.n_pairs)[chosen].reshape(-1)])

    def place(self, into: FloatArray, chosen: IntArray, part: FloatArray) -> None:
        """Write the vector of some of the sequences into that of all."""
        rows, ptr = rows_of(self.batch.ptr, chosen)
        k = self.batch.n_labels
        into[: self.split].reshape(-1, k)[rows] = part[: ptr[-1] * k].reshape(-1, k)
        if self.n_pairs:
            into[self.split :].reshape(-1, self.n_pairs)[chosen] = part[ptr[-1] * k :].reshape(-1, self.n_pairs)
