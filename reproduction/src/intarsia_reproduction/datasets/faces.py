"""Olivetti faces: ten grey images of each of forty people."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray, frozen, read_only
from intarsia_reproduction.datasets.archive import Field, read_arrays
from intarsia_reproduction.datasets.location import require

_LAYOUT = {"images": Field(("images", 64, 64), high=255, kinds="u"), "subject": Field(("images",))}


@dataclass(frozen=True, eq=False)
class FaceImages:
    """Grey images of faces, with the person in each image.

    Attributes
    ----------
    images : list of (64, 64) uint8 arrays
        Grey values.
    subject : (n_images,) int array
        Number of the person.

    Examples
    --------
    >>> faces = FaceImages([np.full((64, 64), grey, dtype=np.uint8) for grey in (10, 20, 90)], np.array([0, 0, 1]))
    >>> [int(faces.images[i][0, 0]) for i in np.flatnonzero(faces.subject == 0)]       # images of the first person
    [10, 20]
    """

    images: list[NDArray[np.uint8]]
    subject: IntArray


def load_olivetti_faces(data: str | os.PathLike[str] | None = None) -> FaceImages:
    """Load the faces from `olivetti_faces.npz`, which contains `images` (n, 64, 64) and `subject` (n).

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
    >>> len(load_olivetti_faces().images)       # doctest: +SKIP
    400
    """
    (path,) = require("olivetti_faces", data)
    arrays = read_arrays(path, _LAYOUT)
    return FaceImages([read_only(image) for image in arrays["images"]], frozen(arrays["subject"].astype(np.int64)))
