"""Read arrays from npz files of unknown origin: no code is run, and sizes are checked before memory is allocated."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._files.atomic_file import written_file
from intarsia._files.packed_file import MAX_RATIO, expands_too_much

MAX_BYTES = 1_000_000_000
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(stream: IO[bytes], names: Sequence[str] | None = None, max_bytes: float = MAX_BYTES) -> dict[str, Any]:
    """Read the arrays of an npz file by name: all of them, or those in `names`.

    An array that claims to be longer than its member of the archive raises an error before memory is allocated for it;
    so do arrays that are in total longer than `max_bytes`, or far longer than the compressed file.

    Raises
    ------
    ValueError, and others that zipfile and zlib raise
        The file is damaged, or does not contain an array of `names`.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.savez(file, a=np.arange(3))
    >>> read_npz(file)
    {'a': array([0, 1, 2])}
    """
    with zipfile.ZipFile(stream) as archive:
        available = [name.removesuffix(".npy") for name in archive.namelist()]
        missing = [name for name in names or [] if name not in available]
        if missing:
            raise ValueError(f"array {missing[0]!r} is not in the file (it contains: {', '.join(available)})")
        members = {name: archive.getinfo(f"{name}.npy") for name in (available if names is None else names)}
        unpacked = sum(member.file_size for member in members.values())
        if unpacked > max_bytes:
            raise ValueError(f"the uncompressed file has more than {max_bytes:g} bytes")
        if expands_too_much(unpacked, sum(member.compress_size for member in members.values())):
            raise ValueError(f"the file expands to more than {MAX_RATIO} times its size")
        return {name: _read(archive, member) for name, member in members.items()}


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any], *, compressed: bool = False) -> None:
    """Replace a file by an npz file with these arrays."""
    with written_file(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, allow_pickle=False, **arrays)


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Read one array after checking that its member is long enough for its shape."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the npy format is not supported")
        shape, _, dtype = _HEADERS[version](file)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{member.filename} is shorter than an array of shape {shape}")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
