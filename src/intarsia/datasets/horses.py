"""Weizmann horses: photographs with a mask of the horse."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import IntArray, as_generator, frozen, read_only
from intarsia.datasets.archive import Field, damaged, read_arrays, unpack_images
from intarsia.datasets.location import require
from intarsia.exceptions import InvalidInputError

N_TRAIN = 200
# The same photograph twice: on both sides of a split it would be tested on what was learned by heart.
SAME_PICTURE = (("horse006", "horse018"), ("horse240", "horse274"))

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
    """Photographs of horses, their masks and a split.

    Attributes
    ----------
    rgb : list of (height, width, 3) uint8 arrays
        Colours.
    mask : list of (height, width) int8 arrays
        1 on the horse, 0 elsewhere.
    names : list of str
        As in the published set.
    train, test : int arrays
        Positions in the lists, rising.
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
    """Weizmann horses with a split of 200 for training and the rest (128) for testing.

    The paper's split is not published. Ours walks through a seeded permutation of the photographs and takes them for
    training until there are 200; two photographs that are in the set twice (horse006 = horse018, horse240 = horse274)
    are taken or left together.

    Parameters
    ----------
    size : 144 or 32
        Longest side in pixels, from `weizmann_horses_144.npz`; or 32 x 32, from `weizmann_horses_32.npz`. The file
        holds `rgb`, `mask` and `name`; at 144 the pixels of all images are stored one after the other, with `height`
        and `width` per image and `offset` (the first pixel of each image, and the end).
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.
    random_state : int, Generator or None
        Seed of the split.

    Raises
    ------
    MissingDataError
        The file is not there; the message says where it comes from.
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
    if not len(names) == len(rgb) > N_TRAIN:
        raise damaged(path, f"{len(rgb)} images and {len(names)} names, expected more than the {N_TRAIN} for training")
    chosen = _train_positions(names, as_generator(random_state))
    return HorseImages(rgb, mask, names, frozen(np.flatnonzero(chosen)), frozen(np.flatnonzero(~chosen)))


def _train_positions(names: Sequence[str], rng: np.random.Generator) -> NDArray[np.bool_]:
    """True for those drawn for training; photographs that are the same stand together in the drawing."""
    position = {name: k for k, name in enumerate(names)}
    together = [pair for pair in SAME_PICTURE if all(name in position for name in pair)]
    second = {b for _, b in together}
    twin = {position[a]: position[b] for a, b in together}
    groups = [[k, twin[k]] if k in twin else [k] for k, name in enumerate(names) if name not in second]
    chosen = np.zeros(len(names), dtype=bool)
    for g in rng.permutation(len(groups)):
        if chosen.sum() + len(groups[g]) <= N_TRAIN:
            chosen[groups[g]] = True
    return chosen
