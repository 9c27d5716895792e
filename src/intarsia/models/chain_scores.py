"""Scores of sequences from the weights of features, transitions and ends, and the backward pass of a gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.state_scores import add_state_gradient, add_state_scores, count_entries, split_entries
from intarsia.graph.chains import rows_of
from intarsia.models.named_features import FeatureRows

# Loops over a multiple of this many labels fill the vector registers completely.
VECTOR_WIDTH = 16
# A feature that has weights with at least 1 in this many labels is processed as a full row of labels: adding zeros is
# cheaper than looking up labels, and the memory is at most this many times that of the weights.
MIN_DENSITY = 8


class ChainWeights(NamedTuple):
    """Weights of a chain model by kind, as views of the flat vector; see `ChainLayout.unpack`."""

    states: FloatArray
    transitions: FloatArray
    start: FloatArray | None
    end: FloatArray | None
    edges: FloatArray | None


class WideFeatures(NamedTuple):
    """Wide features, which are processed as full rows of labels, and the positions of their weights.

    width : length of a row: the number of labels, possibly rounded up
    n_wide : number of wide features
    number : (n_features,) row of each feature in the table of wide features, those with most labels first; -1 for
    others slot, position : index of each weight of the wide features in the vector of weights, and in the flattened
    table
        (n_wide, width). None if every feature has a weight with every label, so that the vector is the table.
    """

    width: int
    n_wide: int
    number: IntArray
    slot: IntArray | None
    position: IntArray | None


@dataclass(frozen=True, eq=False)
class ChainLayout:
    """Layout of the weights of a linear-chain model in one flat vector.

    The order is: weights of features with labels, transitions (n_labels, n_labels), then (if `ends`) the scores of the
    first and last labels, then the features of steps (n_edge_features, n_labels, n_labels).

    Attributes
    ----------
    n_features, n_labels : int
        Number of columns of the feature matrix, and number of labels.
    pair_ptr, pair_label : int arrays, optional
        Labels with which feature f has a weight: `pair_label[pair_ptr[f]:pair_ptr[f + 1]]`. If omitted, every feature
        has a weight with every label, (n_features, n_labels).
    ends : bool
        Whether the first and last labels of a sequence have scores.
    n_edge_features : int
        Number of features of steps.

    Examples
    --------
    >>> layout = ChainLayout(3, 2)
    >>> layout.n_weights                                       # 3 x 2, 2 x 2, 2 and 2
    14
    >>> layout.unpack(np.arange(14.0)).transitions
    array([[6., 7.],
           [8., 9.]])
    """

    n_features: int
    n_labels: int
    pair_ptr: IntArray | None = None
    pair_label: NDArray[np.int32] | None = None
    ends: bool = True
    n_edge_features: int = 0

    @property
    def n_states(self) -> int:
        """Number of weights of features with labels."""
        return self.n_features * self.n_labels if self.pair_label is None else self.pair_label.size

    @property
    def n_weights(self) -> int:
        """Total number of weights."""
        k = self.n_labels
        return self.n_states + k * k * (1 + self.n_edge_features) + (2 * k if self.ends else 0)

    def unpack(self, weights: FloatArray) -> ChainWeights:
        """Return views of the weights by kind, without copying."""
        k, n_states = self.n_labels, self.n_states
        states, transitions_end = weights[:n_states], n_states + k * k
        end = transitions_end + 2 * k if self.ends else transitions_end
        return ChainWeights(
            states.reshape(self.n_features, k) if self.pair_label is None else states,
            weights[n_states:transitions_end].reshape(k, k),
            weights[transitions_end : transitions_end + k] if self.ends else None,
            weights[transitions_end + k : end] if self.ends else None,
            weights[end:].reshape(-1, k, k) if self.n_edge_features else None,
        )

    @cached_property
    def split(self) -> WideFeatures:
        """Wide features of this layout, computed once because all parts of the data share the layout."""
        k = self.n_labels
        width = k if 2 * k <= VECTOR_WIDTH else -(-k // VECTOR_WIDTH) * VECTOR_WIDTH
        if self.pair_ptr is None or self.pair_label is None:
            return WideFeatures(width, self.n_features, np.arange(self.n_features), None, None)
        n_pairs = np.diff(self.pair_ptr)
        is_wide = n_pairs * MIN_DENSITY >= width
        wide = np.flatnonzero(is_wide)
        wide = wide[np.argsort(-n_pairs[wide], kind="stable")]
        number = np.full(self.n_features, -1)
        number[wide] = np.arange(wide.size)
        slot = np.flatnonzero(np.repeat(is_wide, n_pairs))
        position: IntArray = np.repeat(number[is_wide], n_pairs[is_wide]) * width + self.pair_label[slot].astype(
            np.int64
        )
        return WideFeatures(width, wide.size, number, slot, position)

    @cached_property
    def split_arguments(self) -> tuple[IntArray, IntArray, NDArray[np.int32]]:
        """Arrays by which kernels divide entries: the rows of wide features, and the pairs of the others."""
        pair_ptr, pair_label = self.pair_ptr, self.pair_label
        if pair_ptr is None or pair_label is None:  # all features are wide
            pair_ptr, pair_label = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)
        return read_only(self.split.number), read_only(pair_ptr), read_only(pair_label)

    def wide_table(self, states: FloatArray) -> FloatArray:
        """Return the weights (n_wide, width) of the wide features; `states` comes from `unpack`."""
        split = self.split
        table = _aligned_zeros(split.n_wide, split.width)
        if split.slot is None or split.position is None:
            table[:, : self.n_labels] = states
        else:
            table.reshape(-1)[split.position] = states[split.slot]
        return table

    def of_features(self, columns: IntArray) -> tuple[ChainLayout, IntArray]:
        """Return the layout of a model with some of the features, and the positions of its weights in this layout.

        Examples
        --------
        >>> layout, slots = ChainLayout(3, 2, ends=False).of_features(np.array([2]))
        >>> layout.n_features, slots
        (1, array([4, 5, 6, 7, 8, 9]))
        """
        k, other_weights = self.n_labels, np.arange(self.n_states, self.n_weights)
        if self.pair_ptr is None or self.pair_label is None:
            states = (columns[:, None] * k + np.arange(k)).reshape(-1)
            layout = ChainLayout(columns.size, k, None, None, self.ends, self.n_edge_features)
        else:
            states, ptr = rows_of(self.pair_ptr, columns)
            layout = ChainLayout(columns.size, k, ptr, self.pair_label[states], self.ends, self.n_edge_features)
        return layout, np.concatenate([states, other_weights])

    def without_zeros(self, weights: FloatArray, all_features: bool) -> tuple[ChainLayout, FloatArray, IntArray]:
        """Return the layout of the weights of features that are not 0, these weights, and the remaining features.

        Features without such a weight are dropped, unless `all_features` is True. Other weights are kept, even if 0.

        Examples
        --------
        >>> weights = np.array([0, 5, 0, 0, 0, 7, 1, 0, 0, 1.0])
        >>> layout, weights, features = ChainLayout(3, 2, ends=False).without_zeros(weights, False)
        >>> layout.pair_label, weights, features
        (array([1, 1], dtype=int32), array([5., 7., 1., 0., 0., 1.]), array([0, 2]))
        """
        states, (ptr, labels) = weights[: self.n_states], self.pairs()
        stored = np.flatnonzero(states)
        n_pairs = np.bincount(np.searchsorted(ptr, stored, side="right") - 1, minlength=self.n_features)
        features = np.arange(self.n_features) if all_features else np.flatnonzero(n_pairs)
        new_ptr = np.concatenate([[0], np.cumsum(n_pairs[features])]).astype(np.int64)
        layout = replace(self, n_features=features.size, pair_ptr=new_ptr, pair_label=labels[stored])
        return layout, np.concatenate([states[stored], weights[self.n_states :]]), features

    def pairs(self) -> tuple[IntArray, NDArray[np.int32]]:
        """Return `pair_ptr` and `pair_label`, even if every feature has a weight with every label."""
        if self.pair_ptr is not None and self.pair_label is not None:
            return self.pair_ptr, self.pair_label
        k = self.n_labels
        labels = np.tile(np.arange(k, dtype=np.int32), self.n_features)
        return np.arange(self.n_features + 1, dtype=np.int64) * k, labels

    def state_matrix(self, weights: FloatArray) -> FloatArray:
        """Return the weights of features with labels as a matrix (n_features, n_labels), 0 where there is no weight."""
        states = self.unpack(weights).states
        if self.pair_ptr is None or self.pair_label is None:
            return states.copy()
        full = np.zeros((self.n_features, self.n_labels))
        full[np.repeat(np.arange(self.n_features), np.diff(self.pair_ptr)), self.pair_label] = states
        return full


def observed_pairs(matrix: Any, labels: NDArray[np.bool_]) -> tuple[IntArray, NDArray[np.int32]]:
    """Return the labels with which each feature occurs, as `pair_ptr` and `pair_label` of `ChainLayout`.

    Parameters
    ----------
    matrix : (n, n_features) array or CSR
        Features of positions.
    labels : (n, n_labels) bool array
        True for the observed labels of each position.

    Examples
    --------
    >>> observed_pairs(np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[True, False], [False, True]]))
    (array([0, 2, 3]), array([0, 1, 1], dtype=int32))
    """
    occurrences = sparse.csr_array(matrix, copy=True)
    occurrences.data = (occurrences.data != 0).astype(np.float64)  # a stored value of 0 is not an occurrence
    counts = sparse.csr_array(occurrences.T @ sparse.csr_array(labels.astype(np.float64)))
    counts.eliminate_zeros()
    counts.sort_indices()
    return counts.indptr.astype(np.int64), counts.indices.astype(np.int32)


_CACHE_LINE = 64  # bytes


def _aligned_zeros(n_rows: int, width: int) -> FloatArray:
    """Return an array of zeros (n_rows, width) that begins at a cache line."""
    size = n_rows * width
    buffer = np.zeros(size + _CACHE_LINE // 8)
    shift = -buffer.ctypes.data % _CACHE_LINE // buffer.itemsize
    return buffer[shift : shift + size].reshape(-1, width)


class StateFeatures:
    """Features of the positions of sequences, which compute the scores of rows and the gradient of the weights.

    Parameters
    ----------
    matrix : (n, n_features) array, CSR or FeatureRows
        Features, one row per position.
    layout : ChainLayout
        Layout of the weights.

    Examples
    --------
    Feature 0 has a weight with label 0, feature 1 with label 1.

    >>> layout = ChainLayout(2, 2, np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32))
    >>> features = StateFeatures(np.array([[1.0, 0.0], [2.0, 3.0]]), layout)
    >>> features.scores(np.array([10.0, 100.0]), 0, 2)
    array([[ 10.,   0.],
           [ 20., 300.]])
    >>> gradient = np.zeros(2)
    >>> features.pull_back(np.ones((2, 2)), gradient, 0, 2)
    >>> gradient
    array([3., 3.])
    """

    def __init__(self, matrix: Any, layout: ChainLayout) -> None:
        self.layout = layout
        self._dense: NDArray[Any] | None = None
        if isinstance(matrix, np.ndarray) and layout.pair_label is None:
            self._dense = matrix
            return
        rows = matrix if isinstance(matrix, FeatureRows) else _rows_of_matrix(matrix)
        self._wide, self._pairs = _split_rows(rows, layout)

    def spread(self, states: FloatArray) -> FloatArray:
        """Return the table of weights (n_wide, width) of the wide features, for use in `scores`."""
        return states if self._dense is not None else self.layout.wide_table(states)

    def scores(self, states: FloatArray, first: int, last: int, table: FloatArray | None = None) -> FloatArray:
        """Return the scores (last - first, n_labels) of rows `first` .. `last` - 1.

        `states` comes from `ChainLayout.unpack`. Pass `table` from `spread` to compute it only once for many calls.
        """
        if self._dense is not None:
            return np.asarray(self._dense[first:last] @ states, dtype=np.float64)
        table = self.spread(states) if table is None else table
        scores = np.empty((last - first, self.layout.n_labels))
        wide, pairs = self._wide, self._pairs
        add_state_scores(
            wide.ptr, wide.columns, wide.values, read_only(table), pairs.ptr, pairs.slot, pairs.label, pairs.values,
            read_only(states.reshape(-1)), first, last, np.empty(self.layout.split.width), scores,
        )  # fmt: skip
        return scores

    def pull_back(
        self, residual: FloatArray, gradient: FloatArray, first: int, last: int, table: FloatArray | None = None
    ) -> None:
        """Add the gradient of rows `first` .. `last` - 1 to the flat `gradient`; `residual` is that of their scores.

        If a table from `zeros` is passed, the part of the wide features is added to the table instead; see `collect`.
        """
        if self._dense is not None:
            gradient.reshape(-1, self.layout.n_labels)[:] += self._dense[first:last].T @ residual
            return
        wide, pairs = self._wide, self._pairs
        wide_gradient = self.zeros() if table is None else table
        add_state_gradient(
            wide.ptr, wide.columns, wide.values, pairs.ptr, pairs.slot, pairs.label, pairs.values, read_only(residual),
            first, last, np.zeros(self.layout.split.width), wide_gradient, gradient,
        )  # fmt: skip
        if table is None:
            self.collect(wide_gradient, gradient)

    def zeros(self) -> FloatArray:
        """Return a table of zeros for the gradients of the wide features, aligned with cache lines."""
        return _aligned_zeros(0 if self._dense is not None else self.layout.split.n_wide, self.layout.split.width)

    def collect(self, table: FloatArray, gradient: FloatArray) -> None:
        """Add the gradients of the wide features in a table to the flat `gradient`."""
        split, k = self.layout.split, self.layout.n_labels
        if self._dense is not None:
            return
        if split.slot is None or split.position is None:
            gradient.reshape(-1, k)[:] += table[:, :k]
        else:
            gradient[split.slot] += table.reshape(-1)[split.position]


class _WideEntries(NamedTuple):
    """Entries of a feature matrix that belong to wide features."""

    ptr: IntArray
    columns: NDArray[np.int32]
    values: FloatArray


class _PairEntries(NamedTuple):
    """Other entries of a feature matrix, repeated for each weight of their feature with its slot and label."""

    ptr: IntArray
    slot: NDArray[Any]
    label: NDArray[np.uint16]
    values: FloatArray


def _rows_of_matrix(matrix: Any) -> FeatureRows:
    """Return the entries of a matrix, without values if all are equal to 1."""
    rows = sparse.csr_array(matrix)
    values = rows.data.astype(np.float64, copy=False)
    is_one = values.size > 0 and bool((values == 1.0).all())
    return FeatureRows(
        rows.indices.astype(np.int32, copy=False),
        np.empty(0) if is_one else values,
        rows.indptr.astype(np.int64, copy=False),
    )


def _split_rows(rows: FeatureRows, layout: ChainLayout) -> tuple[_WideEntries, _PairEntries]:
    """Divide the entries of rows into those of wide features and the others."""
    columns, values, row_ptr = rows
    number, pair_ptr, pair_label = layout.split_arguments
    n_wide, n_pairs = count_entries(columns, number, pair_ptr)
    # Indicator features all have the same value; storing it once saves memory.
    constant = 1.0 if not values.size else float(values[0])
    is_constant = not values.size or bool((values == constant).all())
    n_values = (0, 0) if is_constant else (n_wide, n_pairs)
    wide = _WideEntries(np.empty(row_ptr.size, np.int64), np.empty(n_wide, np.int32), np.empty(n_values[0]))
    pairs = _PairEntries(
        np.empty(row_ptr.size, np.int64),
        # Small integers halve the memory to read. Labels fit 16 bits, since there are tables of transitions.
        np.empty(n_pairs, np.int32 if layout.n_states < 2**31 else np.int64),
        np.empty(n_pairs, np.uint16),
        np.empty(n_values[1]),
    )
    split_entries(columns, values, row_ptr, number, pair_ptr, pair_label, *wide, *pairs)
    if is_constant:
        wide = wide._replace(values=_repeated(constant, n_wide))
        pairs = pairs._replace(values=_repeated(constant, n_pairs))
    return _WideEntries(*[read_only(array) for array in wide]), _PairEntries(*[read_only(array) for array in pairs])


def _repeated(value: float, n: int) -> FloatArray:
    """Return n times the same number as an array that stores it once; `numpy.broadcast_to` takes longer."""
    return np.ndarray(n, np.float64, np.array([value]), 0, (0,))
