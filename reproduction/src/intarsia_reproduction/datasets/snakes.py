"""Toy images of snakes, in which the label of a cell depends on its neighbours."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import frozen
from intarsia_reproduction.datasets.archive import Field, read_arrays, unpack_images
from intarsia_reproduction.datasets.location import require


def _layout(subset: str) -> dict[str, Field]:
    pixels, images = f"{subset} pixels", f"{subset} images"
    return {
        f"{subset}_rgb": Field((pixels, 3), kinds="u"),
        f"{subset}_label": Field((pixels,), high=10),
        f"{subset}_height": Field((images,)),
        f"{subset}_width": Field((images,)),
        f"{subset}_offset": Field((f"{subset} ends",)),
    }


@dataclass(frozen=True, eq=False)
class SnakeImages:
    """Images of snakes and the label of each cell, for training and for testing.

    Attributes
    ----------
    train_rgb, test_rgb : lists of (height, width, 3) uint8 arrays
        Colours; the colour of a cell shows the direction of the next cell.
    train_label, test_label : lists of (height, width) int8 arrays
        0 for the background, 1 to 10 along the snake.

    Examples
    --------
    A snake of two cells beside one background cell, for training only:

    >>> label = np.array([[0, 1, 2]], dtype=np.int8)
    >>> snakes = SnakeImages([np.zeros((1, 3, 3), dtype=np.uint8)], [label], [], [])
    >>> [int((image > 0).sum()) for image in snakes.train_label], len(snakes.test_rgb)
    ([2], 0)
    """

    train_rgb: list[NDArray[np.uint8]]
    train_label: list[NDArray[np.int8]]
    test_rgb: list[NDArray[np.uint8]]
    test_label: list[NDArray[np.int8]]


def load_snakes(data: str | os.PathLike[str] | None = None) -> SnakeImages:
    """Load the snakes from `snakes.npz`.

    With the prefixes `train_` and `test_`, the file contains `rgb` and `label` with the pixels of all images one after
    the other, `height` and `width` of each image and `offset` (the first pixel of each image, and the end).

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        The file is missing; the message says where to obtain it.
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
            unpack_images(path, arrays, f"{subset}_{key}", f"{subset}_")
            for subset in ("train", "test")
            for key in ("rgb", "label")
        )
    )
