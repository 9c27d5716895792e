"""Files of users, plain or gzip: opened in one place, which refuses decompression bombs before anything is parsed."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from intarsia.exceptions import FileFormatError, TooLargeError

# A packed file may grow to this size whatever it is packed from: a table of equal numbers is packed 1000 to 1, and so
# many bytes cost little time and memory.
FREE_BYTES = 64_000_000
# Beyond that it may have this many times its packed size. Text and tables are packed 3 to 30 to 1; gzip cannot do more
# than 1032 to 1, which is what bombs have.
MAX_RATIO = 100
# No reader of lines needs a longer one; documents of a whole book in one line of JSON are shorter.
LONGEST_LINE = 16_000_000
_CHUNK = 1 << 20


def expands_too_much(unpacked: float, packed: float) -> bool:
    """Whether so many bytes out of so few are a decompression bomb rather than data.

    Examples
    --------
    >>> expands_too_much(50e6, 50e3), expands_too_much(900e6, 90e6), expands_too_much(900e6, 900e3)
    (False, False, True)
    """
    return unpacked > FREE_BYTES and unpacked > MAX_RATIO * packed


@contextlib.contextmanager
def open_packed(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked if it is gzip (detected from its content, not its name).

    A packed file is decompressed once without keeping anything, so that a bomb costs a fraction of a second and no
    memory, however a reader would have parsed it.

    Raises
    ------
    TooLargeError
        The file expands to more than `FREE_BYTES` and `MAX_RATIO` times its size.
    FileFormatError
        The gzip data are damaged, found here or while the block reads.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     _ = path.write_bytes(gzip.compress(b"one line"))
    ...     with open_packed(path) as file:
    ...         file.read()
    b'one line'
    """
    name = Path(path).name
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
            raise FileFormatError(f"{name}: damaged gzip file ({error}). Get it again, or unpack it by hand.") from None


def _unpacked(file: IO[bytes]) -> io.BufferedReader:
    # Lines come faster out of a buffered reader than out of GzipFile itself.
    return io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)), _CHUNK)


def _check_expansion(file: IO[bytes], name: str) -> None:
    """Decompress without keeping anything; the file is at its start again afterwards."""
    stream, unpacked = gzip.GzipFile(fileobj=file), 0
    while part := stream.read(_CHUNK):
        unpacked += len(part)
        if expands_too_much(unpacked, file.tell()):
            raise TooLargeError(
                f"{name}: the gzip file expands to more than {MAX_RATIO} times its size ({unpacked} bytes from the "
                f"first {file.tell()}), as decompression bombs do. Unpack it by hand if it can be trusted."
            )
    file.seek(0)


def limited_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    r"""Lines of a file, each with its end; a line that does not end is refused early.

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
                f"lines; break the line, or check that this is the right file."
            )
        yield line
