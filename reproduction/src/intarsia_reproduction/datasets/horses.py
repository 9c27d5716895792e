"""Weizmann horses: photographs with a mask of the horse in each."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray, as_generator, frozen, read_only
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.archive import Field, damaged, read_arrays, unpack_images
from intarsia_reproduction.datasets.location import require
from intarsia_reproduction.datasets.splitting import draw_parts

N_TRAIN = 200
# Photographs that occur twice, some scanned or cropped again, each copy with a separate mask. With one copy in the
# training set and the other in the test set, memorised images would be tested.
SAME_PICTURE = (
    ("horse004", "horse146"), ("horse006", "horse018"), ("horse071", "horse219"), ("horse118", "horse171"),
    ("horse175", "horse205"), ("horse180", "horse203"), ("horse240", "horse274"), ("horse245", "horse313"),
    ("horse246", "horse294"), ("horse263", "horse264"),
)  # fmt: skip

_NAMES = Field(("images",), kinds="U")
_SET_OF_SIZE = {144: "horses", 32: "horses_32"}
_LAYOUT_OF_SIZE = {
    144: {
        "rgb": Field(("pixels", 3), kinds="u"),
        "mask": Field(("pixels",), high=1),
        "height": Field(("images",)),
        "width": Field(("images",)),
        "offset": Field(("ends",)),
        "name": _NAMES,
    },
    32: {
        "rgb": Field(("images", 32, 32, 3), kinds="u"),
        "mask": Field(("images", 32, 32), high=1),
        "name": _NAMES,
    },
}


@dataclass(frozen=True, eq=False)
class HorseImages:
    """Photographs of horses with masks and a split into training and test images.

    Attributes
    ----------
    rgb : list of (height, width, 3) uint8 arrays
        Colours.
    mask : list of (height, width) int8 arrays
        1 on the horse, 0 elsewhere.
    names : list of str
        Names of the images in the published set.
    train, test : int arrays
        Sorted indices into the lists.

    Examples
    --------
    Two images of two pixels; in the training image the horse is on the right:

    >>> mask = [np.array([[0, 1]], dtype=np.int8), np.array([[1, 0]], dtype=np.int8)]
    >>> rgb = [np.zeros((1, 2, 3), dtype=np.uint8)] * 2
    >>> horses = HorseImages(rgb, mask, ["a", "b"], train=np.array([0]), test=np.array([1]))
    >>> [(horses.names[i], horses.mask[i].tolist()) for i in horses.train]
    [('a', [[0, 1]])]
    """

    rgb: list[NDArray[np.uint8]]
    mask: list[NDArray[np.int8]]
    names: list[str]
    train: IntArray
    test: IntArray


def load_horses(
    size: int = 144,
    data: str | os.PathLike[str] | None = None,
    *,
    random_state: int | np.random.Generator | None = 0,
) -> HorseImages:
    """Load the Weizmann horses, split into 200 training images and 128 test images.

    The split of the paper is not published. Ours is a seeded random split, changed so that the ten photographs that
    occur twice (`SAME_PICTURE`) have both copies on the same side.

    Parameters
    ----------
    size : 144 or 32
        144: longest side in pixels, from `weizmann_horses_144.npz`. 32: images of 32 x 32 pixels, from
        `weizmann_horses_32.npz`. The file contains `rgb`, `mask` and `name`; at 144 the pixels of all images are stored
        one after the other, with `height` and `width` of each image and `offset` (the first pixel of each image, and
        the end).
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.
    random_state : int, Generator or None
        Seed of the split.

    Raises
    ------
    MissingDataError
        The file is missing; the message says where to obtain it.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> horses = load_horses()       # doctest: +SKIP
    >>> len(horses.train), len(horses.test)        # doctest: +SKIP
    (200, 128)
    """
    if size not in _SET_OF_SIZE:
        raise InvalidInputError(f"load_horses: size must be 144 (longest side) or 32 (32 x 32), got {size!r}.")
    (path,) = require(_SET_OF_SIZE[size], data)
    arrays = read_arrays(path, _LAYOUT_OF_SIZE[size])
    arrays["mask"] = frozen(arrays["mask"].astype(np.int8))
    if size == 144:
        rgb, mask = (unpack_images(path, arrays, key) for key in ("rgb", "mask"))
    else:
        rgb, mask = ([read_only(image) for image in arrays[key]] for key in ("rgb", "mask"))
    names = [str(name) for name in arrays["name"]]
    min_images = N_TRAIN + 2 * len(SAME_PICTURE) + 1
    if len(names) < min_images:
        raise damaged(path, f"{len(names)} images, expected at least {min_images}, {N_TRAIN} of them for training")
    side = draw_parts(names, [N_TRAIN, len(names) - N_TRAIN], SAME_PICTURE, as_generator(random_state))
    return HorseImages(rgb, mask, names, frozen(np.flatnonzero(side == 0)), frozen(np.flatnonzero(side == 1)))
