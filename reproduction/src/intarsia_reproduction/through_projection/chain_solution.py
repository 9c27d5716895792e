"""Implicit differentiation of the Bethe projections of many sequences at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies.binding.batch_energies import BatchEnergy
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import ChainOracle, ChainProjection
from intarsia.inference.chains.chain_inference import chain_marginals

_MAX_ITER = 100
_RELATIVE_RESIDUAL = 1e-10


@dataclass(frozen=True, eq=False)
class ChainVector:
    """Numbers in the layout of marginals of sequences: labels (n_positions, k), and pairs (n_steps, k, k) or None."""

    nodes: FloatArray
    steps: FloatArray | None = None


class ChainDerivative:
    """Covariance of the labels and transitions of each sequence, as a product with vectors.

    The expectation of a vector v given the label of a position is the sum of two messages, which pass along the
    sequence by products with conditional probabilities; times the marginal, this is the derivative of the marginal.

    Parameters
    ----------
    batch : ChainBatch
        Sequences in ascending order of length.

    Examples
    --------
    >>> batch = ChainBatch(np.zeros((2, 2)), [0, 2], np.zeros((2, 2)))
    >>> derivative = ChainDerivative(batch)
    >>> derivative.product(ChainVector(np.array([[1.0, 0.0], [0.0, 0.0]]))).nodes.tolist()
    [[0.25, -0.25], [0.0, 0.0]]
    """

    def __init__(self, batch: ChainBatch) -> None:
        marginals = chain_marginals(batch, transitions="steps")
        n, k, ptr = batch.n_sequences, batch.n_labels, batch.ptr
        self.n_sequences = n
        self.nodes = marginals.nodes
        self.steps = np.zeros((len(self.nodes) - n, k, k)) if marginals.transitions is None else marginals.transitions
        self.steps = self.steps.reshape(-1, k, k)
        self._sequence: IntArray = np.repeat(np.arange(n), np.diff(ptr))
        self._starts = ptr[:-1]
        inverse = np.divide(1.0, self.nodes, where=self.nodes > 0, out=np.zeros(self.nodes.shape))
        lengths = np.diff(ptr)
        # For each t: positions and steps of all sequences that continue, with p(y_t | y_t+1) and p(y_t+1 | y_t).
        self._by_time: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
        for t in range(int(lengths.max(initial=1)) - 1):
            first = int(np.searchsorted(lengths, t + 1, side="right"))
            position = ptr[first:-1] + t
            step = position - np.arange(first, n)
            pairs = self.steps[step]
            self._by_time.append(
                (position, step, pairs * inverse[position + 1][:, None, :], pairs * inverse[position][:, :, None])
            )

    def product(self, vector: ChainVector, *, needs_steps: bool = False) -> ChainVector:
        """Return the derivative of the marginals along a vector; of pairs only if `needs_steps`."""
        v, pairs = vector.nodes, vector.steps
        forward, backward = np.zeros(v.shape), np.zeros(v.shape)
        for position, step, given_next, _ in self._by_time:
            message = np.matmul((v[position] + forward[position])[:, None, :], given_next)[:, 0]
            if pairs is not None:
                message += (given_next * pairs[step]).sum(axis=1)
            forward[position + 1] = message
        for position, step, _, given_previous in reversed(self._by_time):
            message = np.matmul(given_previous, (v[position + 1] + backward[position + 1])[:, :, None])[:, :, 0]
            if pairs is not None:
                message += (given_previous * pairs[step]).sum(axis=2)
            backward[position] = message
        first = self._starts
        mean = (self.nodes[first] * (v[first] + backward[first])).sum(axis=1)
        nodes = self.nodes * (v + forward + backward - mean[self._sequence][:, None])
        if not needs_steps:
            return ChainVector(nodes)
        steps = np.zeros(self.steps.shape)
        for position, step, _, _ in self._by_time:
            before = (v + forward)[position] - mean[self._sequence[position]][:, None]
            total = before[:, :, None] + (v + backward)[position + 1][:, None, :]
            steps[step] = self.steps[step] * (total if pairs is None else total + pairs[step])
        return ChainVector(nodes, steps)


@dataclass(frozen=True, eq=False)
class ChainGradients:
    """Gradients through the projections of sequences.

    Attributes
    ----------
    scores : ChainVector
        Gradient in the scores of labels and transitions of each sequence.
    psi : (n_sequences, n_psi) float array
        Gradient in the weights of the energies.
    """

    scores: ChainVector
    psi: FloatArray


class ChainSolution:
    """Optimum of the projections of many sequences; gradients of any loss of their marginals.

    The system over the readings of the energies is symmetric after scaling, and is solved by conjugate gradients, for
    all sequences side by side. The Hessian of the energies must be diagonal in the readings.

    Parameters
    ----------
    projection : ChainProjection
        Result of `project_chains`.
    """

    def __init__(self, projection: ChainProjection) -> None:
        self.oracle = ChainOracle(projection.source, projection.energies, projection.psi)
        self.derivative = ChainDerivative(projection.batch)
        self.reads_tables = projection.energies.reads_tables
        energy = self.oracle.energy
        self.readings = self._read(ChainVector(self.derivative.nodes, self.derivative.steps))
        self.diagonal = self.oracle.strengths * _second_derivatives(energy, self.readings)
        self.slopes = energy.judge(self.readings, projection.psi)[1]

    def pull(self, grad_mu: ChainVector, *, needs_steps: bool = True) -> ChainGradients:
        """Return the gradients from the gradient of a loss in the marginals."""
        needs_steps = needs_steps or self.reads_tables
        change = self.derivative.product(grad_mu, needs_steps=needs_steps)
        limits = self._solve(self._read(change))
        if limits.any():
            response = self.derivative.product(self._spread(limits), needs_steps=needs_steps)
            steps = None if change.steps is None or response.steps is None else change.steps - response.steps
            change = ChainVector(change.nodes - response.nodes, steps)
        by_psi = self.oracle.energy.by_psi(-self.slopes * self._read(change))
        return ChainGradients(change, by_psi)

    def _solve(self, target: FloatArray) -> FloatArray:
        """Return x = D A r with r = J (w - A^T x) from `A J w`, by conjugate gradients for each sequence."""
        root = np.sqrt(np.maximum(self.diagonal, 0.0))
        residual = root * target
        solution, direction = np.zeros(residual.size), residual.copy()
        dot, spread = self.oracle.dot, self._by_sequence
        size = first_size = dot(residual, residual)
        for _ in range(_MAX_ITER):
            if not (size > _RELATIVE_RESIDUAL**2 * first_size).any():
                break
            image = direction + root * self._respond(root * direction)
            curvature = dot(direction, image)
            step = np.divide(size, curvature, where=curvature > 0, out=np.zeros(size.size))
            solution += spread(step) * direction
            residual -= spread(step) * image
            new_size = dot(residual, residual)
            ratio = np.divide(new_size, size, where=size > 0, out=np.zeros(size.size))
            direction = residual + spread(ratio) * direction
            size = new_size
        return root * solution

    def _by_sequence(self, values: FloatArray) -> FloatArray:
        return np.repeat(values, np.diff(self.oracle.energy.starts))

    def _respond(self, x: FloatArray) -> FloatArray:
        """Return `A J A^T x`."""
        return self._read(self.derivative.product(self._spread(x), needs_steps=self.reads_tables))

    def _read(self, vector: ChainVector) -> FloatArray:
        return self.oracle.energy.read(vector.nodes, self._tables(vector.steps))

    def _tables(self, steps: FloatArray | None) -> FloatArray | None:
        """Return the sums over the steps of each sequence, if the energies read transitions."""
        if not self.reads_tables or steps is None:
            return None
        ptr, k = self.oracle.batch.ptr, self.oracle.batch.n_labels
        tables, has_steps = np.zeros((ptr.size - 1, k * k)), np.diff(ptr) > 1
        if has_steps.any():
            first = (ptr[:-1] - np.arange(ptr.size - 1))[has_steps]
            tables[has_steps] = np.add.reduceat(steps.reshape(-1, k * k), first, axis=0)
        return tables

    def _spread(self, x: FloatArray) -> ChainVector:
        """Return `A^T x`; transitions of a sequence have the same numbers at every step."""
        batch, k = self.oracle.batch, self.oracle.batch.n_labels
        nodes = np.zeros(batch.nodes.shape)
        tables = np.zeros((batch.n_sequences, k * k)) if self.reads_tables else None
        self.oracle.energy.subtract(-x, nodes, nodes, tables)
        if tables is None:
            return ChainVector(nodes)
        return ChainVector(nodes, np.repeat(tables.reshape(-1, k, k), self.oracle.lengths - 1, axis=0))


def _second_derivatives(energy: BatchEnergy, readings: FloatArray) -> FloatArray:
    """Return the second derivatives in the readings, without psi, or raise if a Hessian may not be diagonal."""
    diagonal = np.empty(energy.size)
    for group in energy._groups:
        unit_energy = group.energy.with_psi(np.ones(group.energy.psi.size))
        rows = unit_energy.hessian_diagonal(group.rows_of(readings))
        if rows is None or (unit_energy.convex and not unit_energy.smooth):
            raise NotSupportedError(
                "gradients through the projection need energies that are smooth penalties of measurements, or "
                "distances to a list. Use SmoothedHinge or Huber instead of a hinge or an absolute value."
            )
        diagonal[group.block] = rows.reshape(-1)
    return diagonal
