"""Features of positions and their weights: scores of labels, and the gradient from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._kernels.state_scores import add_state_gradient, add_state_scores
from intarsia._validation import FloatArray, IntArray, read_only
from intarsia.models.chain_scores import ChainLayout

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
