"""Scores of sequences: weights of features, transitions and ends in one vector, and the way back of a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._kernels.state_scores import add_state_gradient, add_state_scores
from intarsia._validation import FloatArray, IntArray, read_only

# A feature with weights for at least one label in so many is worked by whole rows: adding zeros is cheaper than
# looking labels up, and the room for it stays within so many times the weights.
WIDE = 8


class ChainWeights(NamedTuple):
    """The parts of a vector of weights, as views: see `ChainLayout.unpack`."""

    states: FloatArray
    transitions: FloatArray
    start: FloatArray | None
    end: FloatArray | None
    edges: FloatArray | None


class _Split(NamedTuple):
    """Features in the order in which kernels work them: those with many labels first, all wide ones among them.

    number : new number of each feature
    begin, end : of the weights of each, by new number; `label` are their labels
    slot, place : where weights of wide features stand in the vector, and in a table (n_wide, n_labels) of them. None
        where vector and table are the same.
    """

    n_wide: int
    number: IntArray
    begin: IntArray
    end: IntArray
    label: NDArray[np.int32]
    slot: IntArray | None
    place: IntArray | None


@dataclass(frozen=True, eq=False)
class ChainLayout:
    """Which weights a chain model has, and where each stands in one vector.

    First those of features with labels, then transitions (n_labels, n_labels), then (if `ends`) the scores of first and
    last labels, then features of steps (n_edge_features, n_labels, n_labels).

    Attributes
    ----------
    n_features, n_labels : int
        Columns of the feature matrix, and labels.
    pair_ptr, pair_label : int arrays, optional
        Labels with which feature f has a weight: `pair_label[pair_ptr[f]:pair_ptr[f + 1]]`. Without them every feature
        has a weight with every label, (n_features, n_labels).
    ends : bool
        Whether first and last labels have scores.
    n_edge_features : int
        Features of steps.

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
        """Number of weights in all."""
        k = self.n_labels
        return self.n_states + k * k * (1 + self.n_edge_features) + (2 * k if self.ends else 0)

    def unpack(self, weights: FloatArray) -> ChainWeights:
        """Parts of the vector, without copying."""
        k, at = self.n_labels, self.n_states
        cuts = np.cumsum([at, k * k, k if self.ends else 0, k if self.ends else 0])
        states, transitions, start, end, edges = np.split(weights, cuts)
        if self.pair_label is None:
            states = states.reshape(self.n_features, k)
        return ChainWeights(
            states,
            transitions.reshape(k, k),
            start if self.ends else None,
            end if self.ends else None,
            edges.reshape(-1, k, k) if self.n_edge_features else None,
        )

    @cached_property
    def split(self) -> _Split:
        """How features are worked; found once, since all parts of the data share the layout."""
        if self.pair_ptr is None or self.pair_label is None:
            nowhere = np.zeros(self.n_features, dtype=np.int64)
            number, none = np.arange(self.n_features), np.empty(0, dtype=np.int32)
            return _Split(self.n_features, number, nowhere, nowhere, none, None, None)
        n_pairs = np.diff(self.pair_ptr)
        order = np.argsort(-n_pairs, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(order.size)
        begin, end = self.pair_ptr[:-1][order], self.pair_ptr[1:][order]
        n_wide = int((n_pairs * WIDE >= self.n_labels).sum())
        size = (end - begin)[:n_wide]
        slot = np.arange(size.sum()) + np.repeat(begin[:n_wide] - np.cumsum(size) + size, size)
        place = np.repeat(np.arange(n_wide), size) * self.n_labels + self.pair_label[slot]
        return _Split(n_wide, number, begin, end, self.pair_label, slot, place)

    def pairs(self) -> tuple[IntArray, NDArray[np.int32]]:
        """`pair_ptr` and `pair_label`, also where every feature has a weight with every label."""
        if self.pair_ptr is not None and self.pair_label is not None:
            return self.pair_ptr, self.pair_label
        k = self.n_labels
        every = np.tile(np.arange(k, dtype=np.int32), self.n_features)
        return np.arange(self.n_features + 1, dtype=np.int64) * k, every

    def state_matrix(self, weights: FloatArray) -> FloatArray:
        """Weights of features with labels as a whole matrix (n_features, n_labels); 0 where there is none."""
        states = self.unpack(weights).states
        if self.pair_ptr is None or self.pair_label is None:
            return states.copy()
        full = np.zeros((self.n_features, self.n_labels))
        full[np.repeat(np.arange(self.n_features), np.diff(self.pair_ptr)), self.pair_label] = states
        return full


def observed_pairs(matrix: Any, labels: NDArray[np.bool_]) -> tuple[IntArray, NDArray[np.int32]]:
    """Labels with which each feature occurs: `pair_ptr` and `pair_label` of `ChainLayout`.

    Parameters
    ----------
    matrix : (n, n_features) array or CSR
        Features of positions.
    labels : (n, n_labels) bool array
        Labels of each position that count.

    Examples
    --------
    >>> observed_pairs(np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[True, False], [False, True]]))
    (array([0, 2, 3]), array([0, 1, 1], dtype=int32))
    """
    seen = sparse.csr_array(matrix, copy=True)
    seen.data = (seen.data != 0).astype(np.float64)  # a value of 0 is no occurrence
    counts = sparse.csr_array(seen.T @ sparse.csr_array(labels.astype(np.float64)))
    counts.eliminate_zeros()
    counts.sort_indices()
    return counts.indptr.astype(np.int64), counts.indices.astype(np.int32)


class StateFeatures:
    """Features of positions with the layout of their weights: scores of rows, and the gradient from all of them.

    Parameters
    ----------
    matrix : (n, n_features) array or CSR
        Features.
    layout : ChainLayout
        Which weights there are.

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
        given, split = sparse.csr_array(matrix), layout.split
        columns = split.number[given.indices].astype(given.indices.dtype)
        self._by_row: Any = sparse.csr_array((given.data.astype(np.float64), columns, given.indptr), given.shape)
        self._by_row.sort_indices()
        ptr = self._by_row.indptr
        before = np.concatenate([[0], np.cumsum(self._by_row.indices < split.n_wide)])
        self._row_mid = ptr[:-1] + before[ptr[1:]] - before[ptr[:-1]]

    def spread(self, states: FloatArray) -> FloatArray:
        """Weights as a table by label, of those features that are worked by whole rows: see `scores`."""
        split = self.layout.split
        if split.slot is None or split.place is None:
            return states
        table = np.zeros((split.n_wide, self.layout.n_labels))
        table.reshape(-1)[split.place] = states[split.slot]
        return table

    def scores(self, states: FloatArray, first: int, last: int, table: FloatArray | None = None) -> FloatArray:
        """Scores (last - first, n_labels) of rows `first` .. `last` - 1.

        `states` as `ChainLayout.unpack` gives it, `table` as `spread` does: given by whoever asks for many parts.
        """
        if self._dense is not None:
            return np.asarray(self._dense[first:last] @ states, dtype=np.float64)
        table = self.spread(states) if table is None else table
        found = np.zeros((last - first, self.layout.n_labels))
        m, split = self._by_row, self.layout.split
        add_state_scores(
            read_only(m.indptr), read_only(self._row_mid), read_only(m.indices), read_only(m.data), read_only(table),
            read_only(split.begin), read_only(split.end), read_only(split.label), read_only(states.reshape(-1)), first,
            last, found,
        )  # fmt: skip
        return found

    def pull_back(
        self, residual: FloatArray, gradient: FloatArray, first: int, last: int, table: FloatArray | None = None
    ) -> None:
        """Add to `gradient` (flat) that of the scores of rows `first` .. `last` - 1, which is `residual`.

        With `table`, as `spread` makes it of zeros, what belongs there is added to it instead: see `collect`.
        """
        if self._dense is not None:
            gradient.reshape(-1, self.layout.n_labels)[:] += self._dense[first:last].T @ residual
            return
        m, split = self._by_row, self.layout.split
        own = np.zeros((split.n_wide, self.layout.n_labels)) if table is None else table
        add_state_gradient(
            read_only(m.indptr), read_only(self._row_mid), read_only(m.indices), read_only(m.data),
            read_only(residual), read_only(split.begin), read_only(split.end), read_only(split.label), first, last,
            own, gradient,
        )  # fmt: skip
        if table is None:
            self.collect(own, gradient)

    def collect(self, table: FloatArray, gradient: FloatArray) -> None:
        """Add to `gradient` (flat) what was gathered in a table."""
        split = self.layout.split
        if split.slot is None or split.place is None:
            gradient += table.reshape(-1)
        else:
            gradient[split.slot] += table.reshape(-1)[split.place]
