"""Energies of a fitted chain model: their weights psi for each sequence, and scores that include their slopes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import STRONGEST, ChainEnergies
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import by_length, project_chains
from intarsia.inference.projection.bethe_descent import DescentProjection
from intarsia.learning.energy_risk import ProjectionReport, StrengthTable
from intarsia.sequences.chain_data import ChainData
from intarsia.sequences.chain_prediction import Piece, Tilt


@dataclass(frozen=True, eq=False)
class FittedEnergies:
    """Energies with the learned weights of psi.

    Attributes
    ----------
    energies : ChainEnergies
        Energies of every sequence.
    psi : Psi
        Weights psi of the energies as a function of the input.
    weights : (n_psi, n_features of psi) float array
        Learned weights W of psi.
    method : DescentProjection
        Inference method for marginals under the energies.
    active : (n_psi,) bool array
        Whether each psi is used; it is 0 otherwise.
    table : StrengthTable
        Strength of each energy and its effect on held-out data.
    """

    energies: ChainEnergies
    psi: Psi
    weights: FloatArray
    method: DescentProjection
    active: NDArray[np.bool_]
    table: StrengthTable

    def strengths(self, data: ChainData) -> FloatArray:
        """Return the weights psi (n_sequences, n_psi) of all preferences, at least 0."""
        free_psi = np.minimum(self.psi.values(self.weights, self.psi.features_of(data.matrix, data.ptr)), STRONGEST)
        return np.where(self.active & ~self.energies.fixed, free_psi, self.fixed_strengths)

    @property
    def fixed_strengths(self) -> FloatArray:
        """Fixed weights psi; 0 for those that are learned."""
        return np.where(self.energies.fixed, self.energies.psi, 0.0)

    def tilt(self, data: ChainData) -> Tilt | None:
        """Return the function that subtracts the slopes of the energies from scores; None if no energy is active."""
        if not self.active.any():
            return None
        energies, mask = self._used
        return _EnergyTilt(energies, self.method, self.strengths(data)[:, mask])

    @cached_property
    def _used(self) -> tuple[ChainEnergies, NDArray[np.bool_]]:
        """Energies with an active psi, so that others cost nothing in predictions."""
        return self.energies.reduced(self.active)


@dataclass(frozen=True, eq=False)
class _EnergyTilt:
    """Subtraction of the slopes of energies from the scores of sequences."""

    energies: ChainEnergies
    method: DescentProjection
    strengths: FloatArray

    def __call__(self, batch: ChainBatch, first: int) -> tuple[list[Piece], ProjectionReport]:
        psi = self.strengths[first : first + batch.n_sequences]
        order, rank = by_length(batch.ptr)
        in_order = bool((order == np.arange(order.size)).all())
        by_size = batch if in_order else batch.subset(order)
        projection = project_chains(by_size, self.energies, psi[order], self.method)
        failed = ~projection.converged
        report = ProjectionReport(failed.size, int(failed.sum()), float(projection.residual[failed].max(initial=0.0)))
        if self.energies.reads_tables and self.energies.count_form(np.diff(batch.ptr)) is not None:
            # A table for each step is expensive, so only sequences that the energies change have one.
            tilted, plain = np.flatnonzero(projection.is_tilted), np.flatnonzero(~projection.is_tilted)
            pieces = [(order[tilted], projection.subset(tilted).batch)] if tilted.size else []
            return [*pieces, *([(order[plain], by_size.subset(plain))] if plain.size else [])], report
        return [(np.arange(order.size), projection.batch if in_order else projection.batch.subset(rank))], report

    def part(self, first: int, last: int) -> _EnergyTilt:
        """Return the subtraction for sequences `first` .. `last` - 1."""
        return replace(self, strengths=self.strengths[first:last])
