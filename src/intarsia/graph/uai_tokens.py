"""Parser of the numbers in a UAI file, which keeps the line of each number for error messages.

A UAI file consists of numbers after its first word. All of them are parsed in one pass, which is fast, and every count
in the file is compared with the number of values that follow before memory is allocated, which is safe.
"""

from __future__ import annotations

import codecs
import math
import os
import re
import warnings
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.packed_file import open_packed
from intarsia.exceptions import FileFormatError, TooLargeError

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_TOKEN = re.compile(rb"\S+")
_GAP = re.compile(rb"\s")
_PIECE = 1 << 20
_SPACE = np.zeros(256, dtype=bool)
_SPACE[list(b" \t\n\v\f\r")] = True
_CHUNK = 1 << 24
_LONG_TOKEN = 256
NEWLINE = b"\n"
MAX_BYTES = 2_000_000_000


def read_bytes(path: str | os.PathLike[str], max_bytes: float) -> bytes:
    """Return the content of a plain or gzip file, detected from its content, or raise if it exceeds `max_bytes`.

    A megabyte without any space cannot be a number, so it raises as soon as it is read.
    """
    name = Path(path).name
    pieces: list[bytes] = []
    total = 0
    with open_packed(path) as stream:
        while piece := stream.read(_PIECE):
            total += len(piece)
            if total > max_bytes:
                raise TooLargeError(
                    f"{name}: more than max_bytes={max_bytes:g} bytes after decompression. Raise max_bytes if you "
                    f"trust the file."
                )
            if len(piece) == _PIECE and not _GAP.search(piece):
                line = 1 + sum(earlier.count(b"\n") for earlier in pieces)
                raise FileFormatError(f"{name}, line {line}: {_PIECE} bytes without a space. Expected numbers.")
            pieces.append(piece)
    return b"".join(pieces)


class Tokens:
    """Numbers of a file after an optional first word, with the line of each number.

    Parameters
    ----------
    path : path
        Name of the file for error messages.
    data : bytes
        Content of the file.
    words : tuple of str
        Accepted first words; empty if the file starts with a number.
    trailer : bool
        Whether text may follow the numbers; then the attribute `text` is its offset in the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], data: bytes, words: tuple[str, ...] = (), *, trailer: bool = False
    ) -> None:
        self.name = Path(path).name
        # Some editors write a byte order mark before the first word; ignore it.
        self.data = data = data.removeprefix(codecs.BOM_UTF8)
        self.word = ""
        self._begin = 0
        if words:
            head = data[:_LONG_TOKEN].split(None, 1)
            self.word = head[0].decode("ascii", "replace").upper() if head else ""
            if self.word not in words:
                first_word = f"{_brief(head[0])}" if head else "an empty file"
                self._fail_at(0, f"expected {' or '.join(words)} as the first word, got {first_word}.")
            self._begin = data.index(head[0]) + len(head[0])
        self.text: int | None = None
        self.all_data: bytes | None = None
        self.n_tokens = self._count()
        self.values = self._parse(trailer)

    # ---------------------------------------------------------------- numbers

    def _parse(self, trailer: bool) -> FloatArray:
        if self.n_tokens == 0:  # NumPy parses a string of spaces as one number
            return np.empty(0)
        values = _numbers(self.data[self._begin :])
        # NumPy parses a token such as 1.5.2 as two numbers and stops at text, so equal counts mean one number per
        # token.
        if values.size != self.n_tokens:
            self.text = self._first_text()
            if not trailer:
                self.fail_at_text()
            self.all_data, self.data = self.data, self.data[: self.text]
            self.n_tokens = self._count()
            values = _numbers(self.data[self._begin :])
        return values

    def _first_text(self) -> int:
        """Return the offset of the first token that is not a number.

        The file is searched in pieces, so that only a single piece is checked token by token.
        """
        start = self._begin
        while start < len(self.data):
            gap = _GAP.search(self.data, start + _PIECE)
            stop = gap.start() if gap else len(self.data)
            piece = self.data[start:stop]
            if _numbers(piece).size != len(piece.split()):
                for token in _TOKEN.finditer(piece):
                    if not _NUMBER.fullmatch(token[0]):
                        return start + token.start()
            start = stop
        return self._begin

    def _masks(self) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]]:
        """Yield chunks of the file as their offset and a mask of the bytes that start a token."""
        after_space = True
        for start in range(self._begin, len(self.data), _CHUNK):
            space = _SPACE[np.frombuffer(self.data, np.uint8, min(_CHUNK, len(self.data) - start), start)]
            is_start = ~space
            is_start[1:] &= space[:-1]
            is_start[0] &= after_space
            after_space = bool(space[-1])
            yield start, is_start

    def _count(self) -> int:
        return sum(int(np.count_nonzero(is_start)) for _, is_start in self._masks())

    @cached_property
    def _starts(self) -> IntArray:
        starts = [start + np.flatnonzero(is_start) for start, is_start in self._masks()]
        return np.concatenate(starts) if starts else np.empty(0, np.int64)

    def token(self, index: int) -> bytes:
        """Return a token as bytes."""
        start = int(self._starts[index])
        return self.data[start : start + 2 * _LONG_TOKEN].split(None, 1)[0]

    def integer(self, index: int, description: str, low: int = 0) -> int:
        """Return a token as an integer, or raise if it is none or below `low`."""
        if index >= self.n_tokens:
            self.fail(index, f"the file ends, but {description} was expected.")
        value = self.values[index]
        if not (value >= low and value == np.rint(value) and value < 2**53):
            self.fail(index, f"{description} must be an integer of at least {low}, got {_brief(self.token(index))}.")
        return int(value)

    def integers(self, start: int, stop: int, description: str, low: int = 0) -> IntArray:
        """Return several tokens as integers; `description` may contain `{}` for the position."""
        block = self.values[start:stop]
        valid = (block >= low) & (block == np.rint(block)) & (block < 2**53)
        if not valid.all():
            k = int(np.argmin(valid))
            self.integer(start + k, description.format(k), low)
        return block.astype(np.int64)

    def logs(self, start: int, stop: int, description: str) -> FloatArray:
        """Return the natural logarithms of several tokens, which must be finite and not negative; 0 becomes -inf.

        Logarithms are correct even for numbers too small or too large for a float64 (1e-400), so that underflow is
        never mistaken for probability zero.
        """
        block = self.values[start:stop]
        invalid = ~(block >= 0)
        if invalid.any():
            k = start + int(np.argmax(invalid))
            self.fail(k, f"{description} must be a number of at least 0, got {_brief(self.token(k))}.")
        with np.errstate(divide="ignore"):
            logs = np.log(block)
        extreme = np.flatnonzero((block < np.finfo(float).tiny) | (block == np.inf))
        for k in self._not_plain_zero(start + extreme):
            logs[k - start] = self._log_of_extreme(int(k), description)
        return logs

    def _not_plain_zero(self, indices: IntArray) -> IntArray:
        """Return the indices of tokens that are not simply zero: nonzero as a float, with a nonzero digit, or long."""
        if not indices.size:
            return indices
        content = np.frombuffer(self.data, np.uint8)
        offset = self._starts[indices]
        is_kept = self.values[indices] != 0
        active = np.flatnonzero(~is_kept)
        for _ in range(_LONG_TOKEN):
            active = active[offset[active] < content.size]
            byte = content[offset[active]]
            is_kept[active[(byte >= ord("1")) & (byte <= ord("9"))]] = True
            active = active[~_SPACE[byte] & ~is_kept[active]]
            if not active.size:
                break
            offset[active] += 1
        is_kept[active] = True
        return indices[is_kept]

    def _log_of_extreme(self, index: int, description: str) -> float:
        start = int(self._starts[index])
        token = self.data[start : start + 100_000].split(None, 1)[0].decode("ascii")
        try:
            number = Decimal(token)
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_zero():
            return -math.inf
        if not number.is_finite() or abs(number.adjusted()) > 10**6:
            self.fail(index, f"{description} must be a finite number, got {_brief(token.encode())}.")
        digits = number.as_tuple().digits[:20]
        mantissa = float("".join(map(str, digits))) / 10.0 ** (len(digits) - 1)
        return math.log(mantissa) + number.adjusted() * math.log(10.0)

    # ---------------------------------------------------------------- errors

    def fail(self, index: int, message: str) -> NoReturn:
        """Raise an error with the line of a token, or with the last line for an index past the end."""
        offset = int(self._starts[index]) if index < self.n_tokens else len(self.data.rstrip())
        self._fail_at(offset, message)

    def line_of(self, index: int) -> str:
        """Return the file and line of a token, or of the text after the last token."""
        offset = int(self._starts[index]) if index < self.n_tokens else len(self.data)
        return f"{self.name}, line {self.data.count(NEWLINE, 0, offset) + 1}"

    def fail_at_text(self) -> NoReturn:
        """Raise an error that shows the first token that is not a number."""
        data = self.data if self.all_data is None else self.all_data
        token = data[self.text : (self.text or 0) + 2 * _LONG_TOKEN].split(None, 1)[0]
        self._fail_at(self.text or 0, f"expected a number, got {_brief(token)}.")

    def _fail_at(self, offset: int, message: str) -> NoReturn:
        line = self.data.count(NEWLINE, 0, offset) + 1
        raise FileFormatError(f"{self.name}, line {line}: {message}")


def _numbers(data: bytes) -> FloatArray:
    """Parse the numbers of a byte string up to the first token that is not a number."""
    with warnings.catch_warnings():
        # NumPy warns where it stops parsing; callers compare the count of numbers instead.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return np.fromstring(data, dtype=np.float64, sep=" ")
        except ValueError:
            return np.empty(0)


def _brief(token: bytes) -> str:
    text = token[:41].decode("ascii", "replace")
    return repr(text[:40] + "..." if len(text) > 40 else text)
