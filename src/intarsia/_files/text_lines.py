"""Read the lines of a text file, plain or gzip, with their numbers; write text files atomically."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from intarsia._files.atomic_file import written_file
from intarsia._files.packed_file import limited_lines, open_packed
from intarsia.exceptions import FileFormatError, InvalidInputError

# A path, or a stream that is already open (text or bytes).
Source = str | os.PathLike[str] | IO[Any]


def source_name(source: Source) -> str:
    """Return the name of a file for messages.

    Examples
    --------
    >>> source_name("some/train.txt.gz"), source_name(io.StringIO())
    ('train.txt.gz', 'input')
    """
    return Path(source).name if isinstance(source, (str, os.PathLike)) else "input"


def read_lines(source: Source) -> Iterator[tuple[int, str]]:
    r"""Yield number (from 1) and text of each line without its line end; the file is streamed.

    A line ends at a line feed, with or without a carriage return before it. No other character ends a line, so that a
    token may contain any of them. Gzip is detected from the content, and a byte order mark is dropped.

    Raises
    ------
    FileFormatError
        A line is not UTF-8 or too long, or the gzip file is damaged.
    TooLargeError
        The gzip file is a decompression bomb, see `intarsia._files.packed_file`.

    Examples
    --------
    >>> list(read_lines(io.BytesIO(b"a b\r\n\nc")))
    [(1, 'a b'), (2, ''), (3, 'c')]
    """
    name = source_name(source)
    with contextlib.ExitStack() as stack:
        lines: Iterable[str | bytes] = source  # type: ignore[assignment]
        if isinstance(source, (str, os.PathLike)):
            lines = limited_lines(stack.enter_context(open_packed(source)), name)
        for number, line in enumerate(lines, 1):
            text = line if isinstance(line, str) else _decoded(line, name, number)
            if number == 1:
                text = text.removeprefix("\ufeff")
            yield number, text.removesuffix("\n").removesuffix("\r")


def _decoded(line: bytes, name: str, number: int) -> str:
    """Decode a line as UTF-8; raise with its number and the invalid byte."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{name}, line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8. Save the file as "
            f"UTF-8, for instance with iconv."
        ) from None


@contextlib.contextmanager
def written_text(target: Source) -> Iterator[IO[str]]:
    """Yield a text stream to a file that appears when it is complete (gzip if it ends in .gz), or to an open stream.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_text(Path(folder, "a.txt.gz")) as file:
    ...         _ = file.write("text")
    ...     print(list(read_lines(Path(folder, "a.txt.gz"))))
    [(1, 'text')]
    """
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target)
    try:
        with contextlib.ExitStack() as stack:
            file: Any = stack.enter_context(written_file(path))
            if path.suffix == ".gz":
                # Without a file name and time inside, equal texts make equal files.
                file = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
            yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{path.name}: {error.object[error.start : error.end]!r} cannot be written as UTF-8. Replace it."
        ) from None
