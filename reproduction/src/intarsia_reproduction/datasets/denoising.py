"""Binary images of the denoising experiment, made from Berkeley photographs."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray, frozen, read_only
from intarsia_reproduction.datasets.archive import Field, damaged, read_arrays
from intarsia_reproduction.datasets.location import require

N_TRAIN = 32
_LAYOUT = {
    "grey": Field(("images", "height", "width")),
    "binary_packed": Field(("images", "bytes"), kinds="u"),
    "image_id": Field(("images",)),
}


@dataclass(frozen=True, eq=False)
class DenoisingImages:
    """Binary images with a split into training and test images.

    Attributes
    ----------
    binary : list of (height, width) int8 arrays
        1 where the photograph is brighter than its mean.
    image_id : (n_images,) int array
        Number of the photograph in the Berkeley set.
    train, test : int arrays
        Indices into `binary`.

    Examples
    --------
    A dark and a bright picture, of which the bright one is for testing:

    >>> dark, bright = np.zeros((2, 3), dtype=np.int8), np.ones((2, 3), dtype=np.int8)
    >>> images = DenoisingImages([dark, bright], np.array([12, 34]), train=np.array([0]), test=np.array([1]))
    >>> [(int(images.image_id[i]), int(images.binary[i].sum())) for i in images.test]
    [(34, 6)]
    """

    binary: list[NDArray[np.int8]]
    image_id: IntArray
    train: IntArray
    test: IntArray


def load_denoising(data: str | os.PathLike[str] | None = None) -> DenoisingImages:
    """Load the binary images of the denoising experiment (Domke2013, section 8.2) from `bsds_132_200x300.npz`.

    The first 32 images are for training, the others for testing; the list of the paper is not published. The file
    contains `grey` (n, height, width), `binary_packed` (n, height * width / 8: `numpy.packbits` of the flat images) and
    `image_id` (n).

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
    >>> images = load_denoising()       # doctest: +SKIP
    >>> len(images.train), len(images.test), images.binary[0].shape        # doctest: +SKIP
    (32, 100, (200, 300))
    """
    (path,) = require("denoising", data)
    arrays = read_arrays(path, _LAYOUT)
    n_images, height, width = arrays["grey"].shape
    packed = arrays["binary_packed"]
    if packed.shape[1] != -(-height * width // 8):
        raise damaged(
            path, f"'binary_packed' has {packed.shape[1]} bytes per image, expected {-(-height * width // 8)}"
        )
    if n_images <= N_TRAIN:
        raise damaged(path, f"{n_images} images, expected more than the {N_TRAIN} training images")
    flat = np.unpackbits(packed, axis=1, count=height * width).astype(np.int8)
    images = [read_only(image) for image in flat.reshape(n_images, height, width)]
    order = np.arange(n_images, dtype=np.int64)
    return DenoisingImages(
        images, frozen(arrays["image_id"].astype(np.int64)), frozen(order[:N_TRAIN]), frozen(order[N_TRAIN:])
    )
