"""Linear rows compared with dense matrices, and errors on invalid input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, random_array

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import LinearRows


@given(seed=st.integers(0, 2**31), n_rows=st.integers(0, 8), n=st.integers(1, 6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_values_equal_those_of_the_dense_matrix(seed, n_rows, n):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, n_rows)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    idx, coef = rng.integers(0, n, ptr[-1]), rng.integers(-2, 3, ptr[-1]).astype(float)
    const, x = rng.standard_normal(n_rows), rng.standard_normal(n)
    dense = np.zeros((n_rows, n))
    np.add.at(dense, (np.repeat(np.arange(n_rows), sizes), idx), coef)
    rows = LinearRows(ptr, idx, coef, const)
    np.testing.assert_allclose(rows.values(x), dense @ x + const, atol=1e-12)
    np.testing.assert_array_equal(rows.to_scipy(n).toarray(), dense)
    assert rows.n_entries == np.count_nonzero(dense)
    assert rows.ptr.dtype == np.int64
    assert rows.idx.dtype == np.int32


def test_rows_of_sparse_and_dense_matrices():
    matrix = random_array((5, 4), density=0.5, rng=np.random.default_rng(1), format="csr")
    const = np.arange(5.0)
    x = np.linspace(0.0, 1.0, 4)
    expected = matrix.toarray() @ x + const
    for form in (matrix, matrix.tocsc(), matrix.toarray()):
        np.testing.assert_allclose(LinearRows.from_scipy(form, const).values(x), expected)
    twice = coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert LinearRows.from_scipy(twice, [0.0]).coef.tolist() == [3.0]


def test_stored_arrays_are_read_only_and_the_input_stays_writable():
    coef = np.array([1.0])
    rows = LinearRows([0, 1], [0], coef, [0.0])
    coef[0] = 5.0
    assert rows.coef[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        rows.coef[0] = 2.0


def test_read_only_arrays_are_not_copied():
    coef = np.ones(3)
    coef.flags.writeable = False
    assert np.shares_memory(LinearRows([0, 3], [0, 1, 2], coef, [0.0]).coef, coef)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, 1], [1.0, 1.0], [0.0]), r"ptr runs from 0 to 1, but there are 2 entries"),
        (([1, 2], [0, 1], [1.0, 1.0], [0.0]), r"ptr runs from 1"),
        (([0, 2, 1, 2], [0, 1], [1.0, 1.0], [0.0] * 3), r"ptr decreases from 2 to 1 at row 1"),
        (([0, 1], [0], [1.0], [0.0, 0.0]), r"ptr has 2 entries for 2 constants"),
        (([0, 1], [0], [1.0, 2.0], [0.0]), r"idx has 1 entries, but coef has 2"),
        (([0, 1], [-1], [1.0], [0.0]), r"idx\[0\] is -1"),
        (([0, 1], [2**31], [1.0], [0.0]), r"2147483648"),
        (([0, 1], [0.5], [1.0], [0.0]), r"LinearRows: idx: expected integers"),
        (([0, 1], [0], [np.nan], [0.0]), r"coef\[0\] is nan"),
        (([0, 1], [0], [1.0], [np.inf]), r"const\[0\] is inf"),
        (([0, 2], [0, 0], [1e308, 1e308], [0.0]), r"sum of coefficients"),
        (([[0, 1]], [0], [1.0], [0.0]), r"ptr has shape \(1, 2\)"),
    ],
)
def test_invalid_input_raises(arguments, message):
    with np.errstate(over="ignore"), pytest.raises(InvalidInputError, match=message):
        LinearRows(*arguments)


def test_points_of_the_wrong_size_raise():
    with pytest.raises(InvalidInputError, match="contain variable 3"):
        LinearRows([0, 1], [3], [1.0], [0.0]).values([0.0, 1.0])
    with pytest.raises(InvalidInputError, match="a row per function"):
        LinearRows.from_scipy(np.zeros(3), [0.0])
