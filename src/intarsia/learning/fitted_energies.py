"""Learned preferences of a chain model: their strengths for given sequences, and the models tilted by them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from intarsia._validation import FloatArray
from intarsia.energies import Psi
from intarsia.energies.chain_energies import STRONGEST, ChainEnergies
from intarsia.graph.chains import ChainBatch
from intarsia.inference.bethe_chains import by_length, project_chains
from intarsia.inference.bethe_descent import DescentProjection
from intarsia.learning.chain_data import ChainData
from intarsia.learning.chain_prediction import Tilt
from intarsia.learning.projection_report import ProjectionReport


@dataclass(frozen=True, eq=False)
class FittedEnergies:
    """Energies with the weights of their strengths.

    Attributes
    ----------
    energies : ChainEnergies
        What is wanted.
    psi : Psi
        How strengths depend on the input.
    weights : (n_psi, n_features of psi) float array
        Learned.
    method : DescentProjection
        How marginals are found.
    """

    energies: ChainEnergies
    psi: Psi
    weights: FloatArray
    method: DescentProjection

    def strengths(self, data: ChainData) -> FloatArray:
        """Strengths (n_sequences, n_psi) of all preferences, at least 0."""
        return np.minimum(self.psi.values(self.weights, self.psi.features_of(data.matrix, data.ptr)), STRONGEST)

    def tilt(self, data: ChainData) -> Tilt:
        """From a batch, and the number of its first sequence in `data`, to the tilted batch."""
        return _EnergyTilt(self.energies, self.method, self.strengths(data))


@dataclass(frozen=True, eq=False)
class _EnergyTilt:
    """What energies of given strengths take from the scores of sequences."""

    energies: ChainEnergies
    method: DescentProjection
    strengths: FloatArray

    def __call__(self, batch: ChainBatch, first: int) -> tuple[ChainBatch, ProjectionReport]:
        psi = self.strengths[first : first + batch.n_sequences]
        order, place = by_length(batch.ptr)
        in_order = bool((order == np.arange(order.size)).all())
        found = project_chains(batch if in_order else batch.subset(order), self.energies, psi[order], self.method)
        failed = ~found.converged
        report = ProjectionReport(failed.size, int(failed.sum()), float(found.residual[failed].max(initial=0.0)))
        return (found.batch if in_order else found.batch.subset(place)), report

    def part(self, first: int, last: int) -> _EnergyTilt:
        """The same for some of the sequences."""
        return replace(self, strengths=self.strengths[first:last])
