"""Error rate of pixel labels predicted from marginals."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray


def error_rate(marginals: list[FloatArray], truth: list[Any]) -> float:
    """Share of the labelled pixels whose label is not the most probable one.

    Examples
    --------
    >>> marginals = np.array([[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7], [0.3, 0.7]]])
    >>> error_rate([marginals], [np.array([[0, 0, 0, 1, -1]])])        # the second is wrong, the last has no label
    0.25
    """
    wrong = total = 0
    for found, labels in zip(marginals, truth, strict=True):
        known = labels >= 0
        wrong += int((interpolate(found, labels.shape).argmax(axis=2) != labels)[known].sum())
        total += int(known.sum())
    return wrong / total


def interpolate(marginals: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Marginals of a picture of another size, linear between the pixels' centres; as they are where it is the same."""
    if marginals.shape[:2] == shape:
        return marginals
    from scipy.ndimage import map_coordinates

    scale = -(-shape[0] // marginals.shape[0])  # the last block of pixels may stick out
    at = np.meshgrid(*((np.arange(n) + 0.5) / scale - 0.5 for n in shape), indexing="ij")
    planes = [map_coordinates(plane, at, order=1, mode="nearest") for plane in np.moveaxis(marginals, 2, 0)]
    return np.stack(planes, axis=2)
