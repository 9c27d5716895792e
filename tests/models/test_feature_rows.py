"""Rows of sparse features in order, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from intarsia._kernels.state_scores import sort_rows


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("longest", [5, 63, 64, 65, 200])
def test_sorted_rows_are_those_of_scipy(seed, longest):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest + 1, 12)
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = rng.integers(-2, longest, row_ptr[-1]).astype(np.int32)
    values = rng.integers(1, 9, columns.size) / 4  # sums are exact
    dense = np.zeros((12, longest))
    for r in range(12):
        for e in range(row_ptr[r], row_ptr[r + 1]):
            if columns[e] >= 0:
                dense[r, columns[e]] += values[e]
    n = sort_rows(columns, values, row_ptr)
    expected = sparse.csr_array(dense)
    assert row_ptr[-1] == n
    np.testing.assert_array_equal(columns[:n], expected.indices)
    np.testing.assert_array_equal(values[:n], expected.data)
    np.testing.assert_array_equal(row_ptr, expected.indptr)


def test_rows_without_values_tell_that_a_column_is_repeated():
    columns, row_ptr = np.array([3, -1, 1, 2, 1, 2], dtype=np.int32), np.array([0, 3, 6])
    assert sort_rows(columns, np.empty(0), row_ptr) == -1
    assert row_ptr.tolist() == [0, 3, 6]
    values = np.ones(6)
    assert sort_rows(columns, values, row_ptr) == 4
    assert columns[:4].tolist() == [1, 3, 1, 2]
    assert values[:4].tolist() == [1.0, 1.0, 1.0, 2.0]
    unique = np.array([3, -1, 1], dtype=np.int32)
    assert sort_rows(unique, np.empty(0), np.array([0, 3])) == 2
    assert unique[:2].tolist() == [1, 3]
