"""Feature matrices of the feature maps: dense or CSR, in single or double precision, with finite values."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import as_float_array
from intarsia.exceptions import InvalidInputError


def is_sparse(matrix: Any) -> bool:
    """Return whether a matrix is a sparse matrix of SciPy, without importing SciPy, which takes long."""
    return hasattr(matrix, "tocsr")


def as_features(features: Any, name: str) -> Any:
    """Return features as a contiguous array or a CSR array, float32 if they are float32 or float16, else float64.

    Single precision is preserved because features use most of the memory; products with weights are in double
    precision.

    Examples
    --------
    >>> import numpy as np
    >>> as_features(np.ones((2, 3), np.float32), "X").dtype.name, as_features([[1, 2]], "X").dtype.name
    ('float32', 'float64')
    """
    dtype = getattr(features, "dtype", None)
    dtype_out = np.float32 if dtype in (np.float16, np.float32) else np.float64
    if is_sparse(features):
        from scipy import sparse

        matrix: Any = features
        if matrix.dtype.kind not in "fiub":
            raise InvalidInputError(f"{name}: expected numbers, got a sparse matrix of dtype {matrix.dtype}.")
        return sparse.csr_array(matrix).astype(dtype_out, copy=False)
    if dtype_out is np.float32:
        return np.asarray(features, dtype=np.float32, order="C")
    return as_float_array(features, name)


def check_features(features: Any, name: str, n_rows: int | None = None, owner: str = "") -> Any:
    """Return features with `n_rows` finite rows, or raise; `owner` explains the number of rows in the message."""
    matrix = as_features(features, name)
    if matrix.ndim != 2 or (n_rows is not None and matrix.shape[0] != n_rows):
        rows = "n" if n_rows is None else n_rows
        raise InvalidInputError(
            f"{name} has shape {matrix.shape}{f', but {owner}' if owner else ''}. Pass one row for each, shape "
            f"({rows}, number of features)."
        )
    has_rows = is_sparse(matrix)
    values = matrix.data if has_rows else matrix.reshape(-1)
    finite = np.isfinite(values)
    if not finite.all():
        k = int(np.argmin(finite))
        row = int(np.searchsorted(matrix.indptr, k, side="right")) - 1 if has_rows else k // matrix.shape[1]
        raise InvalidInputError(
            f"{name}[{row}] contains {values[k]}, but features must be finite. Impute missing values, and add an "
            f"indicator feature for them."
        )
    return matrix
