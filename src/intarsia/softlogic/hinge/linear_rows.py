"""Sparse linear functions, of which hinges and constraints are built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, frozen, read_only
from intarsia._kernels.linear_rows import evaluate_rows
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Index32 = NDArray[np.int32]
_LARGEST_INDEX = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False, repr=False)
class LinearRows:
    r"""Linear functions of x, one per row: :math:`\ell_j(x) = \sum_e c_e\, x_{i_e} + b_j`.

    The layout is that of a sparse CSR matrix: row j has the entries from `ptr[j]` to `ptr[j + 1]`. If a variable occurs
    twice in a row, its coefficients are added; coefficients of 0 are removed. The arrays are read-only.

    Parameters
    ----------
    ptr : int64 array (n_rows + 1,)
        Start of each row; non-decreasing from 0 to the number of entries.
    idx : int32 array (n_entries,)
        Variable of each entry.
    coef : float64 array (n_entries,)
        Coefficient of each entry.
    const : float64 array (n_rows,)
        Constant b of each row.

    Raises
    ------
    InvalidInputError
        The lengths are mismatched, `ptr` decreases, an index is negative, or a number is not finite.

    Examples
    --------
    >>> rows = LinearRows([0, 2, 3], [0, 1, 1], [1.0, -1.0, 2.0], [0.5, 0.0])    # x0 - x1 + 1/2 and 2 x1
    >>> rows.values([1.0, 0.25])
    array([1.25, 0.5 ])
    """

    ptr: IntArray
    idx: Index32
    coef: FloatArray
    const: FloatArray

    def __post_init__(self) -> None:
        ptr, idx = as_int_array(self.ptr, "LinearRows: ptr"), _indices(self.idx)
        coef, const = as_float_array(self.coef, "LinearRows: coef"), as_float_array(self.const, "LinearRows: const")
        _check_shapes(ptr, idx, coef, const)
        _check_finite(coef, "coef")
        _check_finite(const, "const")
        ptr, idx, coef = _without_repeats(ptr, idx, coef)
        for name, array in (("ptr", ptr), ("idx", idx), ("coef", coef), ("const", const)):
            object.__setattr__(self, name, read_only(frozen(array, getattr(self, name))))

    @classmethod
    def from_scipy(cls, matrix: Any, const: ArrayLike) -> LinearRows:
        """Create the functions `matrix @ x + const` from a SciPy sparse matrix or a dense array.

        Examples
        --------
        >>> LinearRows.from_scipy([[1.0, 0.0], [2.0, 3.0]], [0.0, -1.0]).values([1.0, 1.0])
        array([1., 4.])
        """
        from scipy.sparse import csr_array, issparse

        if not issparse(matrix):
            matrix = as_float_array(matrix, "LinearRows.from_scipy: matrix")
            if matrix.ndim != 2:
                raise InvalidInputError(
                    f"LinearRows.from_scipy: matrix has shape {matrix.shape}, expected 2 dimensions. Pass a row "
                    f"per function."
                )
        rows = csr_array(matrix)
        return cls(
            rows.indptr.astype(np.int64), rows.indices, rows.data, as_float_array(const, "LinearRows.from_scipy: const")
        )

    @classmethod
    def empty(cls) -> LinearRows:
        """Create an object without rows.

        Examples
        --------
        >>> LinearRows.empty().n_rows
        0
        """
        return cls(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0), np.zeros(0))

    @property
    def n_rows(self) -> int:
        """Number of functions."""
        return int(self.const.size)

    @property
    def n_entries(self) -> int:
        """Number of stored coefficients."""
        return int(self.coef.size)

    def values(self, x: ArrayLike) -> FloatArray:
        """Return the value of every row at `x`, which has an entry for every variable.

        Examples
        --------
        >>> LinearRows([0, 0], [], [], [7.0]).values([])        # a row without variables is its constant
        array([7.])
        """
        point = as_float_array(x, "LinearRows.values: x")
        n_required = int(self.idx.max(initial=-1)) + 1
        if point.ndim != 1 or point.size < n_required:
            raise InvalidInputError(
                f"LinearRows.values: x has shape {point.shape}, but the rows contain variable {n_required - 1}. Pass "
                f"a vector with a value for every variable."
            )
        return evaluate_rows(self.ptr, self.idx, self.coef, self.const, read_only(point))

    def to_scipy(self, n_variables: int) -> csr_array:
        """Return the coefficients as a sparse matrix (n_rows, n_variables).

        Examples
        --------
        >>> LinearRows([0, 1], [1], [2.0], [0.0]).to_scipy(3).toarray()
        array([[0., 2., 0.]])
        """
        from scipy.sparse import csr_array

        return csr_array((self.coef, self.idx, self.ptr), shape=(self.n_rows, n_variables))

    def __repr__(self) -> str:
        return f"LinearRows({self.n_rows} rows, {self.n_entries} entries)"


def _indices(values: ArrayLike) -> Index32:
    """Return the numbers of variables as int32; raise if they are too large."""
    array = np.asarray(values)
    if array.dtype == np.int32 and array.flags.c_contiguous:
        return array
    wide = as_int_array(values, "LinearRows: idx")
    if wide.size and wide.max() > _LARGEST_INDEX:
        raise InvalidInputError(
            f"LinearRows: idx contains {wide.max()}. Numbers of variables must be at most 2**31 - 1."
        )
    return wide.astype(np.int32)


def _check_shapes(ptr: IntArray, idx: Index32, coef: FloatArray, const: FloatArray) -> None:
    """Raise if the shapes are mismatched, `ptr` is invalid or an index is negative."""
    for name, array in (("ptr", ptr), ("idx", idx), ("coef", coef), ("const", const)):
        if array.ndim != 1:
            raise InvalidInputError(f"LinearRows: {name} has shape {array.shape}. Pass a one-dimensional array.")
    if ptr.size != const.size + 1:
        raise InvalidInputError(
            f"LinearRows: ptr has {ptr.size} entries for {const.size} constants. Pass n_rows + 1 entries."
        )
    if idx.size != coef.size:
        raise InvalidInputError(
            f"LinearRows: idx has {idx.size} entries, but coef has {coef.size}. Pass equal lengths."
        )
    if ptr[0] != 0 or ptr[-1] != idx.size:
        raise InvalidInputError(
            f"LinearRows: ptr runs from {ptr[0]} to {ptr[-1]}, but there are {idx.size} entries. It must run from 0 to "
            f"{idx.size}."
        )
    decreases = ptr[1:] < ptr[:-1]
    if decreases.any():
        j = int(np.argmax(decreases))
        raise InvalidInputError(
            f"LinearRows: ptr decreases from {ptr[j]} to {ptr[j + 1]} at row {j}. It must not decrease."
        )
    if idx.size and idx.min() < 0:
        e = int(np.argmax(idx < 0))
        raise InvalidInputError(f"LinearRows: idx[{e}] is {idx[e]}. Variables must be numbered from 0.")


def _check_finite(values: FloatArray, name: str) -> None:
    """Raise if a number is infinite or NaN."""
    if not np.isfinite(values).all():
        e = int(np.argmax(~np.isfinite(values)))
        raise InvalidInputError(f"LinearRows: {name}[{e}] is {values[e]}. Pass finite numbers.")


def _without_repeats(ptr: IntArray, idx: Index32, coef: FloatArray) -> tuple[IntArray, Index32, FloatArray]:
    """Return rows in canonical form: each variable at most once, in ascending order, and no coefficient of 0."""
    is_ascending = idx[1:] > idx[:-1]
    starts = ptr[(ptr > 0) & (ptr < idx.size)]
    is_ascending[starts - 1] = True  # the first entry of a row may have any variable
    if is_ascending.all() and coef.all():
        return ptr, idx, coef
    from scipy.sparse import csr_array  # takes long to import

    matrix = csr_array((coef, idx, ptr), shape=(ptr.size - 1, int(idx.max(initial=-1)) + 1), copy=True)
    matrix.sum_duplicates()
    _check_finite(matrix.data, "the sum of coefficients")
    matrix.eliminate_zeros()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)
