"""A list of one array per example, of any lengths, that NumPy and scikit-learn can join."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class PerExample(list[T]):
    """A list with one entry per example. As an array it has one dimension, with each entry as an object.

    `cross_val_predict` concatenates the predictions of the folds as arrays, which fails for plain lists of arrays of
    different lengths.

    Examples
    --------
    >>> folds = [PerExample([np.array([0, 1]), np.array([1])]), PerExample([np.array([2, 2])])]
    >>> np.concatenate(folds).shape
    (3,)
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return an array (n_examples,) of objects."""
        joined = np.empty(len(self), dtype=object)
        for i, entry in enumerate(self):
            joined[i] = entry
        return joined
