"""List of predictions for instances of different sizes that NumPy converts to a vector of objects."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")


class PredictionList(list[T]):
    """List of predictions, one per instance, that NumPy converts to a vector of objects.

    scikit-learn's `cross_val_predict` joins the predictions of the folds with `np.concatenate`, which fails on lists of
    sequences or images of unequal size. A vector with one object per instance can always be joined. Use `np.stack` or
    `np.concatenate` to get one numeric array.

    Examples
    --------
    >>> predictions = PredictionList([np.array([0, 1]), np.array([1, 1, 0])])
    >>> np.asarray(predictions).shape, np.concatenate(predictions).shape
    ((2,), (5,))
    >>> predictions.tolist()
    [[0, 1], [1, 1, 0]]
    """

    def tolist(self) -> list[Any]:
        """Return plain lists of Python values, one per instance, as JSON and other libraries expect."""
        return [item.tolist() if isinstance(item, np.ndarray) else item for item in self]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != object:
            return np.array(list(self), dtype=dtype)
        return np.fromiter(self, dtype=object, count=len(self))
