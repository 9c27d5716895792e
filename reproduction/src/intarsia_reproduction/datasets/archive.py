"""Arrays from an npz file whose layout is known; a file that does not follow it is refused before it is used."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import frozen, read_only
from intarsia._files.array_file import read_npz
from intarsia.exceptions import FileFormatError

# What reading a zip archive with changed bytes raises: wrong lengths, sums, versions, methods, offsets, headers.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class Field:
    """What one array of a file must look like.

    Attributes
    ----------
    axes : tuple of int or str
        Its lengths; a word stands for a length that is the same wherever the word stands.
    low, high : int, optional
        Bounds of its values; `high` None means that values are not checked.
    kinds : str
        NumPy's letters of the types it may have.
    """

    axes: tuple[int | str, ...]
    low: int = 0
    high: int | None = None
    kinds: str = "iub"


def read_arrays(path: Path, layout: Mapping[str, Field]) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file by name, read-only; never runs code from the file.

    Parameters
    ----------
    path : Path
        The file.
    layout : dict of str to Field
        What must be in it; other arrays are not read.

    Raises
    ------
    FileFormatError
        The file is damaged or truncated, lacks an array, or holds one of another shape, type or range.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "two.npz"), a=np.zeros((2, 3), int), b=np.array([1, 5]))
    ...     found = read_arrays(Path(folder, "two.npz"), {"a": Field(("n", 3)), "b": Field(("n",), high=5)})
    >>> found["b"]
    array([1, 5])
    """
    arrays = _load(path, list(layout))
    sizes: dict[int | str, int] = {}
    for key, field in layout.items():
        array = arrays[key]
        expected = tuple(sizes.get(axis, axis) for axis in field.axes)
        fits = array.ndim == len(expected) and all(
            isinstance(axis, str) or axis == size for axis, size in zip(expected, array.shape, strict=True)
        )
        if not fits or array.dtype.kind not in field.kinds:
            wanted = f"({', '.join(map(str, expected))})"
            raise damaged(path, f"array {key!r} should have shape {wanted}, got {array.shape} of type {array.dtype}")
        sizes.update({axis: size for axis, size in zip(field.axes, array.shape, strict=True) if isinstance(axis, str)})
        if field.high is not None and array.size and (array.min() < field.low or array.max() > field.high):
            raise damaged(
                path,
                f"array {key!r} should have values from {field.low} to {field.high}, "
                f"got {array.min()} to {array.max()}",
            )
    return arrays


def damaged(path: Path, what: str) -> FileFormatError:
    """The error to raise for a file that is not what its name says."""
    return FileFormatError(f"{path}: {what}. The file is damaged or of another layout; replace it.")


def unpack_images(path: Path, arrays: Mapping[str, NDArray[Any]], key: str, prefix: str = "") -> list[NDArray[Any]]:
    """Images of unequal size that are stored one after the other, as read-only views of the stored array.

    Parameters
    ----------
    path : Path
        Named if the sizes do not fit.
    arrays : dict
        With `key` (pixels of all images in C order) and, per image, `height`, `width` and `offset` (one more).
    key : str
        Which of them.
    prefix : str
        Stands before the names of the sizes.

    Examples
    --------
    >>> arrays = {"x": np.arange(5), "height": np.array([1, 1]), "width": np.array([2, 3])}
    >>> [image.tolist() for image in unpack_images(Path("x.npz"), arrays | {"offset": np.array([0, 2, 5])}, "x")]
    [[[0, 1]], [[2, 3, 4]]]
    """
    flat = arrays[key]
    height, width = (arrays[prefix + side].astype(np.int64) for side in ("height", "width"))
    offset = np.concatenate([[0], np.cumsum(height * width)])
    if (height < 1).any() or (width < 1).any() or not np.array_equal(offset, arrays[prefix + "offset"]):
        raise damaged(path, f"'{prefix}offset' does not follow from '{prefix}height' and '{prefix}width'")
    if offset[-1] != len(flat):
        raise damaged(path, f"array {key!r} should have {offset[-1]} pixels, got {len(flat)}")
    return [
        read_only(flat[start:end].reshape(h, w, *flat.shape[1:]))
        for start, end, h, w in zip(offset[:-1], offset[1:], height, width, strict=True)
    ]


def _load(path: Path, keys: list[str]) -> dict[str, NDArray[Any]]:
    # Opened here, so that a file that may not be read is told from one that makes no sense.
    with path.open("rb") as stream:
        try:
            return {key: frozen(array) for key, array in read_npz(stream, keys).items()}
        except _DAMAGE as error:
            raise damaged(path, f"not a readable npz archive ({error})") from None
