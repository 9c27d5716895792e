"""Fitted models on disk: arrays and settings in one file that can be read without running anything from it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._files.atomic_file import replaced_file
from intarsia.exceptions import FileFormatError, InvalidInputError

FORMAT = "intarsia model"
VERSION = 1
ABOUT = "model.json"
# What files with wrong content in some place make zipfile, json, NumPy and our own classes raise.
DAMAGE = (
    zipfile.BadZipFile, struct.error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError,
    RuntimeError, MemoryError, OSError,
)  # fmt: skip
# An npy of version 1.0 as NumPy writes it for C-ordered booleans, numbers and texts: nothing else is read, and nothing
# of it is evaluated.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(?s:..)"
    rb"\{'descr': '([<|][biufU]\d{1,9})', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)
_LARGEST_CHARACTER = 0x10FFFF


def write_model(
    path: str | os.PathLike[str], kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a model as one npz: an array for each name, and `model.json` with format, version, kind and `about`.

    The file appears when all is written. Nothing is compressed, so that the arrays that a reader must hold are never
    longer than the file.

    Parameters
    ----------
    path : path
        The file; its folder must exist.
    kind : str
        What the model is, such as "ChainCRF".
    about : dict
        Anything that JSON can hold.
    arrays : dict of arrays
        Of numbers, booleans or strings.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "a.npz"), "line", {"slope": 2}, {"x": np.arange(3)})
    ...     read_model(Path(folder, "a.npz"), "line")
    ({'slope': 2}, {'x': array([0, 1, 2])})
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInputError(f"{target}: there is no folder {target.parent}. Make it first.")
    if target.is_dir():
        raise InvalidInputError(f"{target} is a folder; give the name of a file.")
    content = {name: _plain(array, f"{target}: {name}") for name, array in sorted(arrays.items())}
    head = {"format": FORMAT, "version": VERSION, "kind": kind, "arrays": list(content), "about": dict(about)}
    text = json.dumps(head, allow_nan=False)
    with replaced_file(target) as beside, zipfile.ZipFile(beside, "x", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(ABOUT), text)
        for name, array in content.items():
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _plain(array: NDArray[Any], name: str) -> NDArray[Any]:
    """The array as every machine writes it: C order, smallest byte first."""
    if array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"{name} is an array of {array.dtype}, which cannot be saved without running code at loading. Give "
            f"booleans, numbers or texts."
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _member(name: str) -> zipfile.ZipInfo:
    """Without the present time, so that the same model makes the same file."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def kind_of_model(path: str | os.PathLike[str]) -> str:
    """What kind of model a file holds, such as "ChainCRF".

    Raises
    ------
    FileFormatError
        The file is damaged, no model, or written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "a.npz"), "line", {}, {})
    ...     kind_of_model(Path(folder, "a.npz"))
    'line'
    """
    with _opened(path) as archive:
        return str(_head(archive, Path(path))["kind"])


def read_model(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `write_model` was given: `about` and the arrays.

    Nothing in the file is executed, nothing is written, and the arrays take no more memory than the file is long.

    Raises
    ------
    FileFormatError
        The file is damaged, no model, a model of another kind, or written by a newer version.

    Examples
    --------
    See `write_model`.
    """
    source = Path(path)
    with _opened(path) as archive:
        head = _head(archive, source)
        if head["kind"] != kind:
            raise FileFormatError(f"{source} holds a {head['kind']!s:.60}, not a {kind}. Load it with that class.")
        names = head["arrays"]
        if len(set(names)) != len(names):
            raise ValueError("arrays")
        return dict(head["about"]), {name: _array(archive.read(f"{name}.npy")) for name in names}


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive; whatever goes wrong with its content while it is open is told as damage."""
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                # Members that are packed, that overlap or that claim to be longer than the file could fill the memory.
                members = archive.infolist()
                if any(
                    one.compress_type != zipfile.ZIP_STORED or one.file_size != one.compress_size for one in members
                ):
                    raise ValueError("packed")
                if sum(one.file_size for one in members) > length:
                    raise ValueError("size")
                yield archive
        except FileFormatError:
            raise
        except DAMAGE:
            raise damaged(path) from None


def _head(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(archive.read(ABOUT), parse_constant=_refuse)
    if head["format"] != FORMAT or not isinstance(head["version"], int):
        raise ValueError(head["format"])
    if head["version"] > VERSION:
        raise FileFormatError(
            f"{source} has version {head['version']!s:.20} of the format, but this program reads versions up to "
            f"{VERSION}. Install a newer Intarsia."
        )
    return head


def _refuse(word: str) -> None:
    """NaN and Infinity, which JSON has not and we never write."""
    raise ValueError(word)


def _array(content: bytes) -> NDArray[Any]:
    """The array of an npy file, if it is one of those that `write_model` makes."""
    header = _NPY.match(content)
    if header is None:
        raise ValueError("npy")
    dtype = np.dtype(header[1].decode("ascii"))
    shape = tuple(int(size) for size in header[2].replace(b" ", b"").split(b",") if size)
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise ValueError("shape")
    array = np.frombuffer(content, dtype, offset=header.end()).reshape(shape).copy()
    # Bytes that are no boolean and numbers that are no character would go wrong only later.
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError("boolean")
    if dtype.kind == "U" and (np.frombuffer(content, "<u4", offset=header.end()) > _LARGEST_CHARACTER).any():
        raise ValueError("text")
    return array


def damaged(path: str | os.PathLike[str]) -> FileFormatError:
    """The error for a file that does not hold what it should."""
    return FileFormatError(f"{path} is damaged, or no model of Intarsia. Get it again, or fit and save it anew.")
