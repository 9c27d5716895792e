"""Risk of sequences as a loss of the marginals under energies, with its gradient through the projection."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.energies.binding.batch_energies import ChainEnergies, bind_members
from intarsia.energies.binding.bound_energy import EnergyAdjoint
from intarsia.energies.parameters import EnergyParameters
from intarsia.gradients.projection.chain_solution import ChainGradients, ChainSolution, ChainVector
from intarsia.graph import FactorGraph, chain_graph, from_edges
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import project_chains
from intarsia.learning.projection.through_projection import ThroughProjection, loss_through_projection
from intarsia.losses import TrainingLabels, training_labels
from intarsia.sequences.chain_data import TILTED_CHUNK
from intarsia.sequences.energy_fit import SurrogateRisk

# Number of pairs of labels, over all steps of a chunk, whose probabilities are stored at once; three arrays of them.
_MAX_PAIRS = 4_000_000


class ProjectedChainRisk(SurrogateRisk):
    r"""Loss of the marginals under energies per labelled position, with its gradient in weights, psi and settings.

    .. math:: R(w, \psi) = \frac1N \sum_s \ell(\mu_s(w, \psi), y_s) + \frac r2 \lVert w \rVert^2

    where :math:`\mu_s` are the marginals that inference returns. If the Hessian of the energies is diagonal in their
    measurements and mode="implicit", all sequences are differentiated together; otherwise one after the other.

    Parameters
    ----------
    learner : ThroughProjection
        Loss, mode, and settings of the energies to learn.
    *arguments, **settings
        Arguments of `SurrogateRisk`.
    """

    def __init__(self, learner: ThroughProjection, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.learner = learner
        self.parameters = EnergyParameters(self.energies.members, learner.learn_also)
        self.extras = self.parameters.start
        self.n_weights += self.extras.size
        self._latest = self.extras, self.energies  # settings and their energies, which many batches share

    def chunk_sizes(self) -> tuple[int, int]:
        """Return smaller numbers for many labels, because each step of a sequence needs some tables of pairs."""
        size = int(np.clip(_MAX_PAIRS // self.energies.n_labels**2, 64, TILTED_CHUNK))
        return size, size

    def energies_with(self, extras: FloatArray) -> ChainEnergies:
        """Return the energies with these values of their learned settings."""
        values, energies = self._latest
        if not np.array_equal(values, extras):
            energies = ChainEnergies(self.parameters.members_with(extras), self.energies.names, self.energies.length)
            self._latest = extras.copy(), energies
        return energies

    def add_up(
        self,
        weights: FloatArray,
        strengths: FloatArray,
        slope: FloatArray | None,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Return the loss of a chunk and its gradient in psi; add its gradient in w and settings to `gradient`."""
        n = self.n_weights - self.extras.size
        energies, batch = self.energies_with(weights[n:]), self._batch(weights[:n], first, last)
        if self.learner.mode == "implicit" and (energies.smooth or not energies.convex):
            solution = ChainSolution(project_chains(batch, energies, strengths, self.method))
            if solution.is_supported:
                return self._pull_together(solution, energies, first, last, gradient)
        return self._pull_one_by_one(batch, energies, strengths, first, last, gradient)

    def _pull_together(
        self, solution: ChainSolution, energies: ChainEnergies, first: int, last: int, gradient: FloatArray
    ) -> tuple[float, FloatArray]:
        """Differentiate all sequences of a chunk at once."""
        batch, derivative, loss = solution.oracle.batch, solution.derivative, self.learner.marginal_loss()
        n_positions, k = batch.nodes.shape
        position = np.delete(np.arange(n_positions), batch.ptr[1:] - 1)
        graph = from_edges(k, np.column_stack([position, position + 1]), n_variables=n_positions)
        mu = np.concatenate([derivative.nodes.reshape(-1), derivative.steps.reshape(-1)])
        value, slope = loss.value_and_gradient(graph, mu, self._labels(graph, first, last))
        nodes, steps = slope[: n_positions * k].reshape(-1, k), slope[n_positions * k :].reshape(-1, k, k)
        has_weights = self.n_weights > self.extras.size
        gradients = solution.pull(ChainVector(nodes, steps if loss.uses_factors else None), needs_steps=has_weights)
        if has_weights and gradients.scores.steps is not None:
            self._add_scores(gradients.scores.nodes, gradients.scores.steps, batch, first, last, gradient)
        if self.extras.size:
            gradient[self.n_weights - self.extras.size :] += self._pull_settings(solution, energies, gradients)
        return value, gradients.psi

    def _pull_settings(self, solution: ChainSolution, energies: ChainEnergies, gradients: ChainGradients) -> FloatArray:
        """Return the gradient in the learned settings of the energies, summed over the sequences of a chunk."""
        batch, derivative, total = solution.oracle.batch, solution.derivative, np.zeros(self.extras.size)
        starts, ptr, members = solution.oracle.energy.starts, batch.ptr, energies.members
        for length in np.unique(np.diff(ptr)).tolist():
            energy = energies.bound(length)
            sums: dict[str, FloatArray] = {}
            for s in np.flatnonzero(np.diff(ptr) == length).tolist():
                block, positions = slice(starts[s], starts[s + 1]), slice(ptr[s], ptr[s + 1])
                steps = slice(ptr[s] - s, ptr[s + 1] - s - 1)
                mu, direction = (
                    _row(vector.nodes[positions], None if vector.steps is None else vector.steps[steps], energy.layout)
                    for vector in (ChainVector(derivative.nodes, derivative.steps), gradients.scores)
                )
                adjoint = EnergyAdjoint(mu, direction, gradients.multipliers[block], gradients.limits[block])
                for name, values in energy.parameter_gradient(adjoint).items():
                    sums[name] = sums[name] + values if name in sums else values
            total += self.parameters.pull(members, energy.layout, energies.names, sums)
        return total

    def _pull_one_by_one(
        self,
        batch: ChainBatch,
        energies: ChainEnergies,
        strengths: FloatArray,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Differentiate the sequences of a chunk one after the other, as graphs."""
        k, ptr, n = batch.n_labels, batch.ptr, self.n_weights - self.extras.size
        total, by_psi = 0.0, np.zeros(strengths.shape)
        nodes, steps = np.zeros(batch.nodes.shape), np.zeros((len(batch.nodes) - batch.n_sequences, k, k))
        for s in range(batch.n_sequences):
            sequence = batch.part(s, s + 1)
            graph = chain_graph(len(sequence.nodes), k)
            theta = _theta_of(sequence, graph)
            energy = bind_members(energies.members, energies.sizes, graph, energies.names).with_psi(strengths[s])
            labels = self._labels(graph, first + s, first + s + 1)
            value, by_theta, by_parameter = loss_through_projection(
                self.learner, self.method, graph, theta, energy, labels
            )
            total, by_psi[s] = total + value, by_parameter["psi"]
            split = int(graph.variable_ptr[-1])
            nodes[ptr[s] : ptr[s + 1]] = by_theta[:split].reshape(-1, k)
            steps[ptr[s] - s : ptr[s + 1] - s - 1] = by_theta[split:].reshape(-1, k, k)
            if self.extras.size:
                gradient[n:] += self.parameters.pull(energies.members, graph, energies.names, by_parameter)
        if n:
            self._add_scores(nodes, steps, batch, first, last, gradient)
        return total, by_psi

    def _add_scores(
        self, nodes: FloatArray, steps: FloatArray, batch: ChainBatch, first: int, last: int, gradient: FloatArray
    ) -> None:
        """Add the gradient in the weights from that in the scores of labels and transitions."""
        transitions = steps.sum(axis=0)
        if self.examples.data.edges is not None:  # `_pull_back` multiplies steps by the weights of their sequences
            weight = np.repeat(self.examples.truth.weight[first:last], np.diff(batch.ptr) - 1)
            transitions = steps / np.where(weight > 0, weight, 1.0)[:, None, None]
        self._pull_back(nodes, transitions, batch, first, last, gradient[: self.n_weights - self.extras.size])

    def _labels(self, graph: FactorGraph, first: int, last: int) -> TrainingLabels:
        """Return the labels of a range of sequences with their weights, on a graph of their positions."""
        examples, ptr = self.examples, self.examples.data.ptr
        possible = examples.truth.possible(examples.layout.n_labels)[ptr[first] : ptr[last]]
        weight = np.repeat(examples.truth.weight[first:last], np.diff(ptr[first : last + 1]))
        return training_labels(graph, possible, weight)


def _row(nodes: FloatArray, steps: FloatArray | None, layout: Any) -> FloatArray:
    """Return labels and summed transitions of one sequence in the layout of its energy."""
    if layout.n_theta == nodes.size or steps is None:
        return nodes.reshape(-1)
    return np.concatenate([nodes.reshape(-1), steps.sum(axis=0).reshape(-1)])


def _theta_of(sequence: ChainBatch, graph: FactorGraph) -> FloatArray:
    """Return the scores of one sequence as theta of a chain graph."""
    nodes, k = sequence.nodes.copy(), sequence.n_labels
    nodes[0] += 0.0 if sequence.start is None else sequence.start
    nodes[-1] += 0.0 if sequence.end is None else sequence.end
    tables = np.broadcast_to(sequence.transitions, (len(nodes) - 1, k, k))
    return np.concatenate([nodes.reshape(-1), tables.reshape(-1)])
