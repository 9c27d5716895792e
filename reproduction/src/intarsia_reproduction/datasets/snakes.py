"""Toy pictures of snakes, in which neighbours decide what a cell means."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import frozen
from intarsia_reproduction.datasets.archive import Field, read_arrays, unpack_images
from intarsia_reproduction.datasets.location import require


def _layout(part: str) -> dict[str, Field]:
    pixels, images = f"{part} pixels", f"{part} images"
    return {
        f"{part}_rgb": Field((pixels, 3), kinds="u"),
        f"{part}_label": Field((pixels,), high=10),
        f"{part}_height": Field((images,)),
        f"{part}_width": Field((images,)),
        f"{part}_offset": Field((f"{part} ends",)),
    }


@dataclass(frozen=True, eq=False)
class SnakeImages:
    """Pictures of snakes and the number of each cell, for training and for testing.

    Attributes
    ----------
    train_rgb, test_rgb : lists of (height, width, 3) uint8 arrays
        Colours; a cell's colour tells where the next one is.
    train_label, test_label : lists of (height, width) int8 arrays
        0 for the ground, 1 to 10 along the snake.

    Examples
    --------
    A snake of two cells on a ground of one, for training only:

    >>> label = np.array([[0, 1, 2]], dtype=np.int8)
    >>> snakes = SnakeImages([np.zeros((1, 3, 3), dtype=np.uint8)], [label], [], [])
    >>> [int((one > 0).sum()) for one in snakes.train_label], len(snakes.test_rgb)
    ([2], 0)
    """

    train_rgb: list[NDArray[np.uint8]]
    train_label: list[NDArray[np.int8]]
    test_rgb: list[NDArray[np.uint8]]
    test_label: list[NDArray[np.int8]]


def load_snakes(data: str | os.PathLike[str] | None = None) -> SnakeImages:
    """Snakes from `snakes.npz`.

    The file holds, for `train_` and `test_`, `rgb` and `label` with the pixels of all pictures one after the other,
    `height` and `width` per picture and `offset` (the first pixel of each picture, and the end).

    Parameters
    ----------
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.

    Raises
    ------
    MissingDataError
        The file is not there; the message says where it comes from.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> snakes = load_snakes()       # doctest: +SKIP
    >>> len(snakes.train_rgb), len(snakes.test_rgb)        # doctest: +SKIP
    (200, 100)
    """
    (path,) = require("snakes", data)
    arrays = read_arrays(path, _layout("train") | _layout("test"))
    for key in ("train_label", "test_label"):
        arrays[key] = frozen(arrays[key].astype(np.int8))
    return SnakeImages(
        *(
            unpack_images(path, arrays, f"{part}_{key}", f"{part}_")
            for part in ("train", "test")
            for key in ("rgb", "label")
        )
    )
