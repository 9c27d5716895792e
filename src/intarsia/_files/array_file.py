"""Arrays from npz files that others wrote: no code is run, and no size is believed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._files.packed_file import MAX_RATIO, expands_too_much

MOST_BYTES = 1_000_000_000
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(stream: IO[bytes], names: Sequence[str] | None = None, most_bytes: float = MOST_BYTES) -> dict[str, Any]:
    """Arrays of an npz file by name; all of them, or those named.

    An array that would be longer than its member of the archive, or all of them longer than `most_bytes` or out of
    proportion to the packed file, is refused before memory is taken for it.

    Raises
    ------
    ValueError, and others that zipfile and zlib raise
        The file is damaged, or has no array of a name.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.savez(file, a=np.arange(3))
    >>> read_npz(file)
    {'a': array([0, 1, 2])}
    """
    with zipfile.ZipFile(stream) as archive:
        there = [name.removesuffix(".npy") for name in archive.namelist()]
        lacking = [name for name in names or [] if name not in there]
        if lacking:
            raise ValueError(f"array {lacking[0]!r} is not in it (there are: {', '.join(there)})")
        members = {name: archive.getinfo(f"{name}.npy") for name in (there if names is None else names)}
        unpacked = sum(member.file_size for member in members.values())
        if unpacked > most_bytes:
            raise ValueError(f"unpacked it has more than {most_bytes:g} bytes")
        if expands_too_much(unpacked, sum(member.compress_size for member in members.values())):
            raise ValueError(f"it expands to more than {MAX_RATIO} times its size")
        return {name: _read(archive, member) for name, member in members.items()}


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the npy format")
        shape, _, dtype = _HEADERS[version](file)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{member.filename} is shorter than an array of shape {shape}")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
