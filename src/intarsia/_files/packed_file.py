"""Open files of users, plain or gzip, with a check for decompression bombs before anything is parsed."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from intarsia.exceptions import FileFormatError, InvalidInputError, TooLargeError

# A compressed file may always expand to this size: a table of equal numbers is compressed 1000 to 1, and this many
# bytes cost little time and memory.
FREE_BYTES = 64_000_000
# Beyond that size, the limit is this ratio. Text and tables are compressed 3 to 30 times; gzip can reach at most 1032,
# which is the ratio of decompression bombs.
MAX_RATIO = 100
# No valid file needs a longer line; a whole book in one line of JSON is shorter.
LONGEST_LINE = 16_000_000
_CHUNK = 1 << 20


def expands_too_much(unpacked: float, packed: float) -> bool:
    """Return whether a file that expands from `packed` to `unpacked` bytes is a decompression bomb rather than data.

    Examples
    --------
    >>> expands_too_much(50e6, 50e3), expands_too_much(900e6, 90e6), expands_too_much(900e6, 900e3)
    (False, False, True)
    """
    return unpacked > FREE_BYTES and unpacked > MAX_RATIO * packed


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise unless a path is that of a file; a folder, pipe or device may never end, or not even open.

    Examples
    --------
    >>> check_regular(".")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: . is a folder, expected a file. Pass a file in it.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(mode), "device")
        remedy = "Pass a file in it." if kind == "folder" else "Write its content to a file first."
        raise InvalidInputError(f"{os.fspath(path)} is a {kind}, expected a file. {remedy}")


@contextlib.contextmanager
def open_packed(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading and decompress it if it is gzip (detected from its content, not its name).

    A gzip file is first decompressed without storing the result, so that a decompression bomb costs a fraction of a
    second and no memory.

    Raises
    ------
    TooLargeError
        The file expands to more than `FREE_BYTES` and `MAX_RATIO` times its size.
    FileFormatError
        The gzip data are damaged; raised here or while the block reads.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     _ = path.write_bytes(gzip.compress(b"text"))
    ...     with open_packed(path) as file:
    ...         file.read()
    b'text'
    """
    name = Path(path).name
    check_regular(path)
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        try:
            _check_expansion(file, name)
            yield _unpacked(file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileFormatError(
                f"{name}: damaged gzip file ({error}). Download it again, or decompress it with another program."
            ) from None


def _unpacked(file: IO[bytes]) -> io.BufferedReader:
    # A buffered reader returns lines faster than GzipFile itself.
    return io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)), _CHUNK)


def _check_expansion(file: IO[bytes], name: str) -> None:
    """Raise if the file is a decompression bomb; afterwards the file is at its start again."""
    stream, unpacked = gzip.GzipFile(fileobj=file), 0
    while chunk := stream.read(_CHUNK):
        unpacked += len(chunk)
        if expands_too_much(unpacked, file.tell()):
            raise TooLargeError(
                f"{name}: the gzip file expands to more than {MAX_RATIO} times its size ({unpacked} bytes from the "
                f"first {file.tell()}), as decompression bombs do. Decompress it yourself if you trust it."
            )
    file.seek(0)


def limited_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    r"""Yield the lines of a file with their line ends; raise early if a line is too long.

    Raises
    ------
    FileFormatError
        A line is longer than `LONGEST_LINE`.

    Examples
    --------
    >>> list(limited_lines(io.BytesIO(b"a\nb"), "a.txt"))
    [b'a\n', b'b']
    """
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise FileFormatError(
                f"{name}, line {number}: more than {LONGEST_LINE} bytes in one line. Expected a text file with shorter "
                f"lines. Break the line, or check that this is the right file."
            )
        yield line
