"""Scores of sequences from weights of features, transitions and ends, and the backward pass of a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.state_scores import add_state_gradient, add_state_scores
from intarsia.graph.chains import rows_of

# Loops over so many labels, or twice as many, leave no rest in vector registers.
WHOLE = 16
# A feature with weights for at least one label in so many (of whole rows) is worked by whole rows: adding zeros is
# cheaper than looking labels up, and the room for it stays within so many times the weights.
WIDE = 8


class ChainWeights(NamedTuple):
    """The parts of a vector of weights, as views: see `ChainLayout.unpack`."""

    states: FloatArray
    transitions: FloatArray
    start: FloatArray | None
    end: FloatArray | None
    edges: FloatArray | None


class Split(NamedTuple):
    """Which features are worked by whole rows (wide), and where their weights stand meanwhile.

    width : length of a row: the number of labels, or somewhat more
    n_wide : how many there are
    number : (n_features,) rows of the features in the table; those with many labels first, -1 for others
    slot, place : where weights of wide features stand in the vector, and in a table (n_wide, width) of them. None
        where every feature has a weight with every label: the vector is their matrix.
    """

    width: int
    n_wide: int
    number: IntArray
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
        states, after = weights[:at], at + k * k
        ends = after + 2 * k if self.ends else after
        return ChainWeights(
            states.reshape(self.n_features, k) if self.pair_label is None else states,
            weights[at:after].reshape(k, k),
            weights[after : after + k] if self.ends else None,
            weights[after + k : ends] if self.ends else None,
            weights[ends:].reshape(-1, k, k) if self.n_edge_features else None,
        )

    @cached_property
    def split(self) -> Split:
        """How features are worked; found once, since all parts of the data share the layout."""
        k = self.n_labels
        width = k if 2 * k <= WHOLE else -(-k // WHOLE) * WHOLE
        if self.pair_ptr is None or self.pair_label is None:
            return Split(width, self.n_features, np.arange(self.n_features), None, None)
        n_pairs = np.diff(self.pair_ptr)
        is_wide = n_pairs * WIDE >= width
        wide = np.flatnonzero(is_wide)
        wide = wide[np.argsort(-n_pairs[wide], kind="stable")]
        number = np.full(self.n_features, -1)
        number[wide] = np.arange(wide.size)
        slot = np.flatnonzero(np.repeat(is_wide, n_pairs))
        place: IntArray = np.repeat(number[is_wide], n_pairs[is_wide]) * width + self.pair_label[slot].astype(np.int64)
        return Split(width, wide.size, number, slot, place)

    def of_features(self, columns: IntArray) -> tuple[ChainLayout, IntArray]:
        """The layout of a model with some of the features, and where its weights stand in this one.

        Examples
        --------
        >>> layout, slots = ChainLayout(3, 2, ends=False).of_features(np.array([2]))
        >>> layout.n_features, slots
        (1, array([4, 5, 6, 7, 8, 9]))
        """
        k, rest = self.n_labels, np.arange(self.n_states, self.n_weights)
        if self.pair_ptr is None or self.pair_label is None:
            states = (columns[:, None] * k + np.arange(k)).reshape(-1)
            fewer = ChainLayout(columns.size, k, None, None, self.ends, self.n_edge_features)
        else:
            states, ptr = rows_of(self.pair_ptr, columns)
            fewer = ChainLayout(columns.size, k, ptr, self.pair_label[states], self.ends, self.n_edge_features)
        return fewer, np.concatenate([states, rest])

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


_LINE = 64  # bytes of a line of the cache


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
        rows = sparse.csr_array(matrix)
        is_wide = layout.split.number[rows.indices] >= 0
        # Indicators all have the same value: then it is read again and again from one place, which saves the memory.
        same = rows.data.size > 0 and bool((rows.data == rows.data[0]).all())
        self._wide = _Wide(rows, is_wide, layout.split.number, same)
        self._pairs = _Pairs(rows, ~is_wide, layout, same)

    def spread(self, states: FloatArray) -> FloatArray:
        """Weights as a table by label, of those features that are worked by whole rows: see `scores`."""
        if self._dense is not None:
            return states
        split, table = self.layout.split, self.zeros()
        if split.slot is None or split.place is None:
            table[:, : self.layout.n_labels] = states
        else:
            table.reshape(-1)[split.place] = states[split.slot]
        return table

    def scores(self, states: FloatArray, first: int, last: int, table: FloatArray | None = None) -> FloatArray:
        """Scores (last - first, n_labels) of rows `first` .. `last` - 1.

        `states` as `ChainLayout.unpack` gives it, `table` as `spread` does: given by whoever asks for many parts.
        """
        if self._dense is not None:
            return np.asarray(self._dense[first:last] @ states, dtype=np.float64)
        table = self.spread(states) if table is None else table
        found = np.empty((last - first, self.layout.n_labels))
        wide, pairs = self._wide, self._pairs
        add_state_scores(
            wide.ptr, wide.columns, wide.values, read_only(table), pairs.ptr, pairs.slot, pairs.label, pairs.values,
            read_only(states.reshape(-1)), first, last, np.empty(self.layout.split.width), found,
        )  # fmt: skip
        return found

    def pull_back(
        self, residual: FloatArray, gradient: FloatArray, first: int, last: int, table: FloatArray | None = None
    ) -> None:
        """Add to `gradient` (flat) that of the scores of rows `first` .. `last` - 1, which is `residual`.

        With a table of `zeros`, what belongs there is added to it instead: see `collect`.
        """
        if self._dense is not None:
            gradient.reshape(-1, self.layout.n_labels)[:] += self._dense[first:last].T @ residual
            return
        wide, pairs = self._wide, self._pairs
        own = self.zeros() if table is None else table
        add_state_gradient(
            wide.ptr, wide.columns, wide.values, pairs.ptr, pairs.slot, pairs.label, pairs.values, read_only(residual),
            first, last, np.zeros(self.layout.split.width), own, gradient,
        )  # fmt: skip
        if table is None:
            self.collect(own, gradient)

    def zeros(self) -> FloatArray:
        """A table to gather gradients in, its rows (where they are whole) aligned with the lines of the cache."""
        split = self.layout.split
        size = 0 if self._dense is not None else split.n_wide * split.width
        room = np.zeros(size + _LINE // 8)
        shift = -room.ctypes.data % _LINE // room.itemsize
        return room[shift : shift + size].reshape(-1, split.width)

    def collect(self, table: FloatArray, gradient: FloatArray) -> None:
        """Add to `gradient` (flat) what was gathered in a table."""
        split, k = self.layout.split, self.layout.n_labels
        if self._dense is not None:
            return
        if split.slot is None or split.place is None:
            gradient.reshape(-1, k)[:] += table[:, :k]
        else:
            gradient[split.slot] += table.reshape(-1)[split.place]


class _Wide:
    """Entries of a matrix that belong to features which are worked by whole rows."""

    def __init__(self, rows: Any, chosen: NDArray[np.bool_], number: IntArray, same: bool) -> None:
        before = np.concatenate([[0], np.cumsum(chosen)])
        self.ptr = read_only(before[rows.indptr])
        self.columns = read_only(number[rows.indices[chosen]].astype(np.int32))
        self.values = _kept(rows.data[chosen], same)


class _Pairs:
    """The other entries, once for each weight of their feature: its slot, and its label."""

    def __init__(self, rows: Any, chosen: NDArray[np.bool_], layout: ChainLayout, same: bool) -> None:
        before = np.concatenate([[0], np.cumsum(chosen)])
        feature = rows.indices[chosen]
        pair_ptr, pair_label = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)
        if layout.pair_ptr is not None and layout.pair_label is not None:  # otherwise all are wide
            pair_ptr, pair_label = layout.pair_ptr, layout.pair_label
        begin, size = pair_ptr[feature], np.diff(pair_ptr)[feature]
        ends = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        slot = np.arange(ends[-1]) + np.repeat(begin - ends[:-1], size)
        self.ptr = read_only(ends[before[rows.indptr]])
        # Half the memory to read; and there are tables of transitions, so that labels are few.
        self.slot = read_only(slot.astype(np.int32 if layout.n_states < 2**31 else np.int64))
        self.label = read_only(pair_label[slot].astype(np.uint16))
        self.values = _kept(np.repeat(rows.data[chosen], size), same)


def _kept(values: NDArray[Any], same: bool) -> FloatArray:
    """Values, read-only; with `same`, one of them in the place of all."""
    if same:
        return read_only(np.broadcast_to(np.float64(values[0] if values.size else 1.0), values.shape))
    return read_only(values.astype(np.float64))
