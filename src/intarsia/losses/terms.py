"""The terms that a loss sums over: blocks of mu, which of their entries are true, and the weight of each.

A block is a variable's marginal or a factor's table. Its true entries are the states, or joint states, that the labels
allow: one where the labels are single, several under label sets. A block with a hidden variable is no term, nor is
one with a single entry, which cannot be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph import FactorGraph
from intarsia.losses.labels import TrainingLabels


@dataclass(frozen=True, eq=False)
class Terms:
    """Blocks of mu with their true entries.

    Attributes
    ----------
    ptr : int array (n_blocks + 1,)
        Where each block begins in mu.
    at, block : int arrays
        Position in mu and block of each true entry, in order of position within each block; none for a block that
        is no term.
    weight : float array (n_blocks,)
        Weight of each term, 0 for a block that is none.
    """

    ptr: IntArray
    at: IntArray
    block: IntArray
    weight: FloatArray

    @property
    def size(self) -> int:
        """Number of blocks."""
        return int(self.weight.size)

    def true_mass(self, mu: FloatArray) -> FloatArray:
        """Sum of mu over the true entries of each block."""
        return np.bincount(self.block, mu[self.at], self.size).astype(np.float64, copy=False)

    def part(self, values: FloatArray) -> FloatArray:
        """View of the entries of all blocks."""
        return values[self.ptr[0] : self.ptr[-1]]

    def reduce(self, operation: np.ufunc, values: FloatArray) -> FloatArray:
        """Reduce the entries of each block, given in the layout of `part`."""
        if self.size == 0:
            return np.empty(0)
        return np.asarray(operation.reduceat(values, self.ptr[:-1] - self.ptr[0]))

    def spread(self, values: FloatArray) -> FloatArray:
        """Repeat a value per block for each of its entries, in the layout of `part`."""
        return np.repeat(values, np.diff(self.ptr))


def variable_terms(graph: FactorGraph, labels: TrainingLabels) -> Terms:
    """A term for each variable that is not hidden."""
    n_states = graph.n_states
    counts = ~labels.hidden & (n_states > 1)
    if labels.complete and counts.all():
        block = np.arange(graph.n_variables)
        at = graph.variable_ptr[:-1] + labels.y
    else:
        at = np.flatnonzero(labels.allowed & np.repeat(counts, n_states))
        block = np.repeat(np.arange(graph.n_variables), n_states)[at]
    weight = counts.astype(np.float64) if labels.weights is None else np.where(counts, labels.weights, 0.0)
    return Terms(graph.variable_ptr, at, block, weight)


def factor_terms(graph: FactorGraph, labels: TrainingLabels) -> Terms:
    """A term for each factor none of whose variables is hidden."""
    several = np.diff(graph.table_ptr) > 1
    counts = factors_where(graph, ~labels.hidden) & several
    single = factors_where(graph, labels.observed) & several
    y = labels.y[graph.scope_idx] * pair_strides(graph)
    inside = np.bincount(graph.factor_of_pair, y, graph.n_factors).astype(np.int64)
    block = np.flatnonzero(single)
    at = graph.table_ptr[block] + inside[block]
    if (counts & ~single).any():
        set_at, set_block = _allowed_entries(graph, labels, np.flatnonzero(counts & ~single))
        at, block = np.concatenate([at, set_at]), np.concatenate([block, set_block])
    weight = counts.astype(np.float64)
    if labels.weights is not None:  # the mean over the factor's variables
        total = np.bincount(graph.factor_of_pair, labels.weights[graph.scope_idx], graph.n_factors)
        weight = np.where(counts, total / np.maximum(np.diff(graph.scope_ptr), 1), 0.0)
    return Terms(graph.table_ptr, at, block, weight)


def factors_where(graph: FactorGraph, variables: np.ndarray) -> np.ndarray:
    """Which factors have only variables that are marked."""
    unmarked = np.bincount(graph.factor_of_pair, ~variables[graph.scope_idx], graph.n_factors)
    return np.asarray(unmarked == 0)


def pair_strides(graph: FactorGraph) -> IntArray:
    """For each pair (factor, variable), the step in the factor's table from one state of the variable to the next."""
    strides = np.ones(graph.scope_idx.size, dtype=np.int64)
    at, first = graph.scope_ptr[1:] - 2, graph.scope_ptr[:-1]
    while (at >= first).any():
        here = at[at >= first]
        strides[here] = strides[here + 1] * graph.n_states[graph.scope_idx[here + 1]]
        at, first = at[at >= first] - 1, first[at >= first]
    return strides


def _allowed_entries(graph: FactorGraph, labels: TrainingLabels, factors: IntArray) -> tuple[IntArray, IntArray]:
    """Position in theta, and factor, of each joint state that the labels allow."""
    found = []
    for shape, members in _by_shape(graph, factors):
        allowed = np.ones((members.size,) + (1,) * len(shape), dtype=bool)
        for k, n_states in enumerate(shape):
            v = graph.scope_idx[graph.scope_ptr[members] + k]
            states = labels.allowed[graph.variable_ptr[v][:, None] + np.arange(n_states)]
            allowed = allowed & states.reshape((members.size,) + (1,) * k + (-1,) + (1,) * (len(shape) - 1 - k))
        row, inside = np.nonzero(allowed.reshape(members.size, -1))
        found.append((graph.table_ptr[members[row]] + inside, members[row]))
    return np.concatenate([at for at, _ in found]), np.concatenate([factor for _, factor in found])


def _by_shape(graph: FactorGraph, factors: IntArray) -> list[tuple[list[int], IntArray]]:
    """Factors in groups of equal table shapes."""
    groups = []
    width = np.diff(graph.scope_ptr)[factors]
    for w in np.unique(width):
        here = factors[width == w]
        shapes = graph.n_states[graph.scope_idx[graph.scope_ptr[here][:, None] + np.arange(w)]]
        distinct, group = np.unique(shapes, axis=0, return_inverse=True)
        group = group.reshape(-1)
        groups += [(shape.tolist(), here[group == k]) for k, shape in enumerate(distinct)]
    return groups
