"""Stanford backgrounds: outdoor photographs with a region class for each pixel."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray, as_generator, check_number, frozen
from intarsia_reproduction.datasets.archive import Field, damaged, read_arrays, unpack_images
from intarsia_reproduction.datasets.location import require
from intarsia_reproduction.datasets.splitting import draw_parts

REGIONS = ("sky", "tree", "road", "grass", "water", "building", "mountain", "foreground")
N_FOLDS = 5
# Photographs that occur twice, labelled by different people.
SAME_PICTURE = (
    ("1000288", "9000288"), ("1000875", "9000875"), ("1001184", "9001184"), ("6000068", "6000318"),
    ("6000117", "6000324"), ("6000257", "6000348"),
)  # fmt: skip
_LAYOUT = {
    "rgb": Field(("pixels", 3), kinds="u"),
    "regions": Field(("pixels",), low=-1, high=len(REGIONS) - 1, kinds="i"),
    "height": Field(("images",)),
    "width": Field(("images",)),
    "offset": Field(("ends",)),
    "name": Field(("images",), kinds="U"),
}


@dataclass(frozen=True, eq=False)
class BackgroundImages:
    """Outdoor photographs, the region class of each pixel, and five folds.

    Attributes
    ----------
    rgb : list of (height, width, 3) uint8 arrays
        Colours.
    regions : list of (height, width) int8 arrays
        Index into `region_names`, or -1 for an unlabelled pixel.
    region_names : tuple of str
        sky, tree, road, grass, water, building, mountain, foreground.
    names : list of str
        Names of the images in the published set.
    fold : (n_images,) int array
        Fold of each image, 0 to 4.

    Examples
    --------
    >>> blank = np.zeros((1, 1), np.int8)
    >>> images = BackgroundImages([], [blank] * 3, REGIONS, ["a", "b", "c"], np.array([0, 1, 0]))
    >>> train, test = images.split(0)
    >>> train, test
    (array([1]), array([0, 2]))
    """

    rgb: list[NDArray[np.uint8]]
    regions: list[NDArray[np.int8]]
    region_names: tuple[str, ...]
    names: list[str]
    fold: IntArray

    def split(self, fold: int) -> tuple[IntArray, IntArray]:
        """Return the sorted indices of training images (other folds) and of test images (this fold)."""
        check_number(fold, "BackgroundImages.split: fold", low=0, high=N_FOLDS - 1, integer=True)
        return np.flatnonzero(self.fold != fold), np.flatnonzero(self.fold == fold)


def load_backgrounds(
    data: str | os.PathLike[str] | None = None, *, random_state: int | np.random.Generator | None = 0
) -> BackgroundImages:
    """Load the Stanford backgrounds at a fifth of their size, from `stanford_background_20pct.npz`.

    The folds of the paper are not published. Ours are a seeded random split into equal sizes (143 of 715), changed so
    that the six photographs that occur twice (`SAME_PICTURE`) have both copies in the same fold.

    The file contains `rgb` and `regions` with the pixels of all images one after the other, `height`, `width` and
    `name` of each image, and `offset` (the first pixel of each image, and the end).

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.
    random_state : int, Generator or None
        Seed of the folds.

    Raises
    ------
    MissingDataError
        The file is missing; the message says where to obtain it.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> images = load_backgrounds()       # doctest: +SKIP
    >>> [len(indices) for indices in images.split(0)]        # doctest: +SKIP
    [572, 143]
    """
    (path,) = require("backgrounds", data)
    arrays = read_arrays(path, _LAYOUT)
    arrays["regions"] = frozen(arrays["regions"].astype(np.int8))
    rgb, regions = (unpack_images(path, arrays, key) for key in ("rgb", "regions"))
    names = [str(name) for name in arrays["name"]]
    min_images = N_FOLDS * (2 * len(SAME_PICTURE) + 1)
    if len(names) < min_images:
        raise damaged(path, f"{len(names)} images, expected at least {min_images} for {N_FOLDS} folds")
    sizes = [len(range(k, len(names), N_FOLDS)) for k in range(N_FOLDS)]
    fold = draw_parts(names, sizes, SAME_PICTURE, as_generator(random_state))
    return BackgroundImages(rgb, regions, REGIONS, names, frozen(fold))
