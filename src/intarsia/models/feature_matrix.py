"""Features as the score maps keep them: dense or CSR, single precision left single, every number finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from intarsia._core.validation import as_float_array
from intarsia.exceptions import InvalidInputError


def as_features(given: Any, name: str) -> Any:
    """Features as a contiguous array or a CSR array, of float32 where they are float32 or float16, else of float64.

    Single precision is kept because features are most of the memory; products with weights are in double.

    Examples
    --------
    >>> import numpy as np
    >>> as_features(np.ones((2, 3), np.float32), "X").dtype.name, as_features([[1, 2]], "X").dtype.name
    ('float32', 'float64')
    """
    dtype = getattr(given, "dtype", None)
    kept = np.float32 if dtype in (np.float16, np.float32) else np.float64
    if sparse.issparse(given):
        thin: Any = given
        if thin.dtype.kind not in "fiub":
            raise InvalidInputError(f"{name}: expected numbers, got a sparse matrix of {thin.dtype}.")
        return sparse.csr_array(thin).astype(kept, copy=False)
    if kept is np.float32:
        return np.asarray(given, dtype=np.float32, order="C")
    return as_float_array(given, name)


def check_features(given: Any, name: str, n_rows: int | None = None, owner: str = "") -> Any:
    """Features with a finite row for each of `n_rows`; `owner` says in the message what has so many."""
    matrix = as_features(given, name)
    if matrix.ndim != 2 or (n_rows is not None and matrix.shape[0] != n_rows):
        rows = "n" if n_rows is None else n_rows
        raise InvalidInputError(
            f"{name} has shape {matrix.shape}{f', but {owner}' if owner else ''}. Give one row for each, shape "
            f"({rows}, number of features)."
        )
    thin = sparse.issparse(matrix)
    values = matrix.data if thin else matrix.reshape(-1)
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite))
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1 if thin else at // matrix.shape[1]
        raise InvalidInputError(
            f"{name}[{row}] contains {values[at]}. Features must be finite; fill in what is missing, and add a "
            f"feature that says so."
        )
    return matrix
