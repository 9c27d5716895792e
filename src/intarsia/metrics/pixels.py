"""Error rate of pixel labels predicted from marginals."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray


def error_rate(marginals: list[FloatArray], truth: list[Any]) -> float:
    """Return the fraction of the labelled pixels whose most probable label is wrong.

    Examples
    --------
    >>> marginals = np.array([[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7], [0.3, 0.7]]])
    >>> error_rate([marginals], [np.array([[0, 0, 0, 1, -1]])])        # the second is wrong, the last has no label
    0.25
    """
    wrong, total = count_errors(marginals, truth).sum(axis=0).tolist()
    return float(wrong / total)


def count_errors(marginals: list[FloatArray], truth: list[Any]) -> IntArray:
    """Return the numbers of wrong and of labelled pixels of each image, as an array (n_images, 2).

    Examples
    --------
    >>> marginals = np.array([[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7], [0.3, 0.7]]])
    >>> count_errors([marginals], [np.array([[0, 0, 0, 1, -1]])]).tolist()
    [[1, 4]]
    """
    counts = np.zeros((len(truth), 2), dtype=np.int64)
    for count, image_marginals, labels in zip(counts, marginals, truth, strict=True):
        labelled = labels >= 0
        count[0] = (interpolate(image_marginals, labels.shape).argmax(axis=2) != labels)[labelled].sum()
        count[1] = labelled.sum()
    return counts


def interpolate(marginals: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Resize the marginals of an image, linearly between the centres of pixels; unchanged if the size is the same."""
    if marginals.shape[:2] == shape:
        return marginals
    from scipy.ndimage import map_coordinates

    scale = -(-shape[0] // marginals.shape[0])  # the last block of pixels may exceed the image
    coordinates = np.meshgrid(*((np.arange(n) + 0.5) / scale - 0.5 for n in shape), indexing="ij")
    planes = [map_coordinates(plane, coordinates, order=1, mode="nearest") for plane in np.moveaxis(marginals, 2, 0)]
    return np.stack(planes, axis=2)
