"""Files of fitted models: arrays and settings in one file that is read without running code from it."""

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

from intarsia._files.atomic_file import written_file
from intarsia._files.packed_file import check_regular
from intarsia.exceptions import FileFormatError, InvalidInputError

FORMAT = "intarsia model"
VERSION = 1
HEADER_FILE = "model.json"
# Errors that zipfile, json, NumPy and our classes raise for damaged files.
DAMAGED_FILE_ERRORS = (
    zipfile.BadZipFile, struct.error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError,
    RuntimeError, MemoryError, OSError,
)  # fmt: skip
# Header of npy version 1.0 as NumPy writes it for C-ordered arrays of booleans, numbers and strings. Nothing else is
# accepted, and nothing is evaluated.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(?s:..)"
    rb"\{'descr': '([<|][biufU]\d{1,9})', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)
_LARGEST_CHARACTER = 0x10FFFF


def write_model(
    path: str | os.PathLike[str], kind: str, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a model as one npz file: one member per array, and `model.json` with format, version, kind and `fields`.

    The file appears under its name when it is complete. It is not compressed, so that a reader never needs more memory
    for the arrays than the size of the file.

    Parameters
    ----------
    path : path
        The file; its folder must exist.
    kind : str
        Class of the model, such as "ChainCRF".
    fields : dict
        Values that JSON can represent.
    arrays : dict of arrays
        Arrays of numbers, booleans or strings.

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
        raise InvalidInputError(f"{target}: there is no folder {target.parent}. Create it first.")
    if target.is_dir():
        raise InvalidInputError(f"{target} is a folder. Pass the name of a file.")
    content = {name: _portable(array, f"{target}: {name}") for name, array in sorted(arrays.items())}
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "arrays": list(content), "about": dict(fields)}
    text = json.dumps(header, allow_nan=False)
    with written_file(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(HEADER_FILE), text)
        for name, array in content.items():
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _portable(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the array in the byte order and layout of the file: C order, little-endian."""
    if array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"{name} is an array of {array.dtype}, which cannot be saved without running code at loading. Pass an "
            f"array of booleans, numbers or strings."
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _member(name: str) -> zipfile.ZipInfo:
    """Return a member of an archive without the current time, so that equal models have equal files."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def kind_of_model(path: str | os.PathLike[str]) -> str:
    """Return the kind of model in a file, such as "ChainCRF".

    Raises
    ------
    FileFormatError
        The file is damaged, not a model, or written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "a.npz"), "line", {}, {})
    ...     kind_of_model(Path(folder, "a.npz"))
    'line'
    """
    with _open_archive(path) as archive:
        return str(_read_header(archive, Path(path))["kind"])


def read_model(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the fields and the arrays of a file that `write_model` wrote.

    Nothing in the file is executed, nothing is written, and the arrays need no more memory than the size of the file.

    Raises
    ------
    FileFormatError
        The file is damaged, not a model, a model of another kind, or written by a newer version.

    Examples
    --------
    See `write_model`.
    """
    source = Path(path)
    with _open_archive(path) as archive:
        header = _read_header(archive, source)
        if header["kind"] != kind:
            raise FileFormatError(
                f"{source} holds a {header['kind']!s:.60}, not a {kind}. Load it with that class or with intarsia.load."
            )
        names = header["arrays"]
        if len(set(names)) != len(names):
            raise ValueError("arrays")
        return dict(header["about"]), {name: _read_array(archive.read(f"{name}.npy")) for name in names}


@contextlib.contextmanager
def _open_archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Yield the archive of a file; errors in its content while it is open are raised as FileFormatError."""
    check_regular(path)
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                # Members that are compressed, overlap, or claim to be longer than the file could exhaust the memory.
                members = archive.infolist()
                if any(
                    member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size
                    for member in members
                ):
                    raise ValueError("packed")
                if sum(member.file_size for member in members) > length:
                    raise ValueError("size")
                yield archive
        except FileFormatError:
            raise
        except DAMAGED_FILE_ERRORS:
            raise damaged(path) from None


def _read_header(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    """Read and check the header of a model file."""
    header: dict[str, Any] = json.loads(archive.read(HEADER_FILE), parse_constant=_reject_constant)
    if header["format"] != FORMAT or not isinstance(header["version"], int):
        raise ValueError(header["format"])
    if header["version"] > VERSION:
        raise FileFormatError(
            f"{source} has version {header['version']!s:.20} of the format, but this program reads versions up to "
            f"{VERSION}. Install a newer version of Intarsia."
        )
    return header


def _reject_constant(word: str) -> None:
    """Raise for NaN and Infinity, which are not in the JSON standard and which we never write."""
    raise ValueError(word)


def _read_array(content: bytes) -> NDArray[Any]:
    """Read an npy file if it has the form that `write_model` writes."""
    header = _NPY.match(content)
    if header is None:
        raise ValueError("npy")
    dtype = np.dtype(header[1].decode("ascii"))
    shape = tuple(int(size) for size in header[2].replace(b" ", b"").split(b",") if size)
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise ValueError("shape")
    array = np.frombuffer(content, dtype, offset=header.end()).reshape(shape).copy()
    # Invalid booleans and characters would cause errors only later.
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError("boolean")
    if dtype.kind == "U" and (np.frombuffer(content, "<u4", offset=header.end()) > _LARGEST_CHARACTER).any():
        raise ValueError("text")
    return array


def damaged(path: str | os.PathLike[str]) -> FileFormatError:
    """Return the error for a damaged model file."""
    return FileFormatError(
        f"{path} is damaged, or not an Intarsia model. Copy the file again, or fit and save the model again."
    )
