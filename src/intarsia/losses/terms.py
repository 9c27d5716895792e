"""Terms of a loss: blocks of mu, their true entries, and the weight of each block.

A block is the marginal of a variable or the table of a factor. Its true entries are the states, or joint states, that
the labels allow: one entry for single labels, several for label sets. A block with a hidden variable is not a term, nor
is one with a single entry, which cannot be wrong.
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
        Start of each block in mu.
    true_entries, block : int arrays
        Position in mu and block of each true entry, in order of position within each block; none for a block that is
        not a term.
    weight : float array (n_blocks,)
        Weight of each term; 0 for a block that is not a term.
    """

    ptr: IntArray
    true_entries: IntArray
    block: IntArray
    weight: FloatArray

    @property
    def size(self) -> int:
        """Number of blocks."""
        return int(self.weight.size)

    def true_mass(self, mu: FloatArray) -> FloatArray:
        """Return the sum of mu over the true entries of each block."""
        return np.bincount(self.block, mu[self.true_entries], self.size).astype(np.float64, copy=False)

    def entries(self, values: FloatArray) -> FloatArray:
        """Return a view of the entries of all blocks."""
        return values[self.ptr[0] : self.ptr[-1]]

    def reduce(self, operation: np.ufunc, values: FloatArray) -> FloatArray:
        """Reduce the entries of each block; `values` has the layout of `entries`."""
        if self.size == 0:
            return np.empty(0)
        return np.asarray(operation.reduceat(values, self.ptr[:-1] - self.ptr[0]))

    def spread(self, values: FloatArray) -> FloatArray:
        """Repeat one value per block for each of its entries, in the layout of `entries`."""
        return np.repeat(values, np.diff(self.ptr))


def variable_terms(graph: FactorGraph, labels: TrainingLabels) -> Terms:
    """Return a term for each variable that is not hidden."""
    n_states = graph.n_states
    is_term = ~labels.hidden & (n_states > 1)
    if labels.complete and is_term.all():
        block = np.arange(graph.n_variables)
        true_entries = graph.variable_ptr[:-1] + labels.y
    else:
        true_entries = np.flatnonzero(labels.allowed & np.repeat(is_term, n_states))
        block = np.repeat(np.arange(graph.n_variables), n_states)[true_entries]
    weight = is_term.astype(np.float64) if labels.weights is None else np.where(is_term, labels.weights, 0.0)
    return Terms(graph.variable_ptr, true_entries, block, weight)


def factor_terms(graph: FactorGraph, labels: TrainingLabels) -> Terms:
    """Return a term for each factor without a hidden variable."""
    has_choice = np.diff(graph.table_ptr) > 1
    is_term = factors_where(graph, ~labels.hidden) & has_choice
    is_observed = factors_where(graph, labels.observed) & has_choice
    y = labels.y[graph.scope_idx] * pair_strides(graph)
    offset = np.bincount(graph.factor_of_pair, y, graph.n_factors).astype(np.int64)
    block = np.flatnonzero(is_observed)
    true_entries = graph.table_ptr[block] + offset[block]
    if (is_term & ~is_observed).any():
        set_entries, set_block = _allowed_entries(graph, labels, np.flatnonzero(is_term & ~is_observed))
        true_entries, block = np.concatenate([true_entries, set_entries]), np.concatenate([block, set_block])
    weight = is_term.astype(np.float64)
    if labels.weights is not None:  # the mean over the factor's variables
        total = np.bincount(graph.factor_of_pair, labels.weights[graph.scope_idx], graph.n_factors)
        weight = np.where(is_term, total / np.maximum(np.diff(graph.scope_ptr), 1), 0.0)
    return Terms(graph.table_ptr, true_entries, block, weight)


def factors_where(graph: FactorGraph, variables: np.ndarray) -> np.ndarray:
    """Return the mask of the factors whose variables are all marked."""
    unmarked = np.bincount(graph.factor_of_pair, ~variables[graph.scope_idx], graph.n_factors)
    return np.asarray(unmarked == 0)


def pair_strides(graph: FactorGraph) -> IntArray:
    """Return for each pair (factor, variable) the stride of the variable in the table of the factor."""
    strides = np.ones(graph.scope_idx.size, dtype=np.int64)
    position, first = graph.scope_ptr[1:] - 2, graph.scope_ptr[:-1]
    while (position >= first).any():
        current = position[position >= first]
        strides[current] = strides[current + 1] * graph.n_states[graph.scope_idx[current + 1]]
        position, first = position[position >= first] - 1, first[position >= first]
    return strides


def _allowed_entries(graph: FactorGraph, labels: TrainingLabels, factors: IntArray) -> tuple[IntArray, IntArray]:
    """Return position in theta, and factor, of each joint state that the labels allow."""
    results = []
    for shape, members in _by_shape(graph, factors):
        allowed = np.ones((members.size,) + (1,) * len(shape), dtype=bool)
        for k, n_states in enumerate(shape):
            v = graph.scope_idx[graph.scope_ptr[members] + k]
            states = labels.allowed[graph.variable_ptr[v][:, None] + np.arange(n_states)]
            allowed = allowed & states.reshape((members.size,) + (1,) * k + (-1,) + (1,) * (len(shape) - 1 - k))
        row, offset = np.nonzero(allowed.reshape(members.size, -1))
        results.append((graph.table_ptr[members[row]] + offset, members[row]))
    return np.concatenate([entries for entries, _ in results]), np.concatenate([owner for _, owner in results])


def _by_shape(graph: FactorGraph, factors: IntArray) -> list[tuple[list[int], IntArray]]:
    """Return the factors in groups of equal table shapes."""
    groups = []
    width = np.diff(graph.scope_ptr)[factors]
    for size in np.unique(width):
        members = factors[width == size]
        shapes = graph.n_states[graph.scope_idx[graph.scope_ptr[members][:, None] + np.arange(size)]]
        distinct_shapes, group = np.unique(shapes, axis=0, return_inverse=True)
        group = group.reshape(-1)
        groups += [(shape.tolist(), members[group == k]) for k, shape in enumerate(distinct_shapes)]
    return groups
