"""Read arrays from npz files of a known layout, and reject files of another layout."""

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

# Exceptions that a damaged zip archive can raise: wrong lengths, checksums, versions, methods, offsets or headers.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class Field:
    """Required shape, type and range of one array of a file.

    Attributes
    ----------
    axes : tuple of int or str
        Expected shape. A string is the name of a length that must be equal wherever the name occurs.
    low, high : int, optional
        Bounds of the values. If `high` is None, values are not checked.
    kinds : str
        Allowed kinds of dtype, as in `numpy.dtype.kind`.
    """

    axes: tuple[int | str, ...]
    low: int = 0
    high: int | None = None
    kinds: str = "iub"


def read_arrays(path: Path, layout: Mapping[str, Field]) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file by name, read-only; never runs code from the file.

    Parameters
    ----------
    path : Path
        File to read.
    layout : dict of str to Field
        Required arrays; other arrays are not read.

    Raises
    ------
    FileFormatError
        The file is damaged or truncated, an array is missing, or an array has another shape, type or range.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "two.npz"), a=np.zeros((2, 3), int), b=np.array([1, 5]))
    ...     arrays = read_arrays(Path(folder, "two.npz"), {"a": Field(("n", 3)), "b": Field(("n",), high=5)})
    >>> arrays["b"]
    array([1, 5])
    """
    arrays = _load(path, list(layout))
    sizes: dict[int | str, int] = {}
    for key, field in layout.items():
        array = arrays[key]
        expected = tuple(sizes.get(axis, axis) for axis in field.axes)
        has_shape = array.ndim == len(expected) and all(
            isinstance(axis, str) or axis == size for axis, size in zip(expected, array.shape, strict=True)
        )
        if not has_shape or array.dtype.kind not in field.kinds:
            expected_shape = f"({', '.join(map(str, expected))})"
            raise damaged(
                path, f"array {key!r} should have shape {expected_shape}, got {array.shape} of type {array.dtype}"
            )
        sizes.update({axis: size for axis, size in zip(field.axes, array.shape, strict=True) if isinstance(axis, str)})
        if field.high is not None and array.size and (array.min() < field.low or array.max() > field.high):
            raise damaged(
                path,
                f"array {key!r} should have values from {field.low} to {field.high}, "
                f"got {array.min()} to {array.max()}",
            )
    return arrays


def damaged(path: Path, problem: str) -> FileFormatError:
    """Return the error to raise for a file with damaged or unexpected content."""
    return FileFormatError(f"{path}: {problem}. The file is damaged or has another layout. Replace it.")


def unpack_images(path: Path, arrays: Mapping[str, NDArray[Any]], key: str, prefix: str = "") -> list[NDArray[Any]]:
    """Return images of unequal size that are stored one after the other, as read-only views of the stored array.

    Parameters
    ----------
    path : Path
        File of the arrays, for error messages.
    arrays : dict
        Array `key` (pixels of all images in C order), `height` and `width` of each image, and `offset` (first pixel of
        each image, and the end).
    key : str
        Name of the array of pixels.
    prefix : str
        Prefix of the names `height`, `width` and `offset`.

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
    # Opened outside the `try`, so that a missing permission is not reported as a damaged file.
    with path.open("rb") as stream:
        try:
            return {key: frozen(array) for key, array in read_npz(stream, keys).items()}
        except _DAMAGE as error:
            raise damaged(path, f"not a readable npz archive ({error})") from None
