"""Bytes of a UAI file as numbers, with the line of each at hand for error messages.

Speed and safety rest on one idea: the whole file after its first word is numbers, so they are parsed in one go and
every count in the file is compared with how many numbers are really there before anything is allocated for it.
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
    """Content of a plain or gzip file (detected from its content), at most `max_bytes` after decompression.

    A megabyte without any space is no number, and is refused where it is read.
    """
    name = Path(path).name
    parts: list[bytes] = []
    total = 0
    with open_packed(path) as stream:
        while part := stream.read(_PIECE):
            total += len(part)
            if total > max_bytes:
                raise TooLargeError(
                    f"{name}: more than max_bytes={max_bytes:g} bytes after decompression, if any. Raise max_bytes if "
                    f"the file can be trusted."
                )
            if len(part) == _PIECE and not _GAP.search(part):
                line = 1 + sum(before.count(b"\n") for before in parts)
                raise FileFormatError(f"{name}, line {line}: {_PIECE} bytes without a space. Expected numbers.")
            parts.append(part)
    return b"".join(parts)


class Tokens:
    """Numbers of a file, an optional leading word apart, that know their lines.

    Parameters
    ----------
    path : path
        For error messages.
    data : bytes
        Content of the file.
    words : tuple of str
        Accepted first words; empty when the file starts with a number.
    trailer : bool
        Whether the numbers may end before the file does: `text` is then the offset of what follows them.
    """

    def __init__(
        self, path: str | os.PathLike[str], data: bytes, words: tuple[str, ...] = (), *, trailer: bool = False
    ) -> None:
        self.name = Path(path).name
        # Some editors put a byte order mark before the first word; it says nothing here.
        self.data = data = data.removeprefix(codecs.BOM_UTF8)
        self.word = ""
        self._begin = 0
        if words:
            head = data[:_LONG_TOKEN].split(None, 1)
            self.word = head[0].decode("ascii", "replace").upper() if head else ""
            if self.word not in words:
                found = f"{_brief(head[0])}" if head else "an empty file"
                self._fail_at(0, f"expected {' or '.join(words)} as the first word, got {found}.")
            self._begin = data.index(head[0]) + len(head[0])
        self.text: int | None = None
        self.all_data: bytes | None = None
        self.n_tokens = self._count()
        self.values = self._parse(trailer)

    # ---------------------------------------------------------------- numbers

    def _parse(self, trailer: bool) -> FloatArray:
        if self.n_tokens == 0:  # NumPy reads a number out of blanks alone
            return np.empty(0)
        values = _numbers(self.data[self._begin :])
        # A token such as 1.5.2 gives two numbers and text ends the parse, so equal counts mean one number per token.
        if values.size != self.n_tokens:
            self.text = self._first_text()
            if not trailer:
                self.fail_at_text()
            self.all_data, self.data = self.data, self.data[: self.text]
            self.n_tokens = self._count()
            values = _numbers(self.data[self._begin :])
        return values

    def _first_text(self) -> int:
        """Offset of what is no number, found piece by piece, so that only one piece is looked at token by token."""
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
        """Chunks of the file: offset, and a mask of the bytes that start a token."""
        before = True
        for start in range(self._begin, len(self.data), _CHUNK):
            space = _SPACE[np.frombuffer(self.data, np.uint8, min(_CHUNK, len(self.data) - start), start)]
            first = ~space
            first[1:] &= space[:-1]
            first[0] &= before
            before = bool(space[-1])
            yield start, first

    def _count(self) -> int:
        return sum(int(np.count_nonzero(first)) for _, first in self._masks())

    @cached_property
    def _starts(self) -> IntArray:
        found = [start + np.flatnonzero(first) for start, first in self._masks()]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def token(self, index: int) -> bytes:
        """One token as written."""
        start = int(self._starts[index])
        return self.data[start : start + 2 * _LONG_TOKEN].split(None, 1)[0]

    def whole(self, index: int, what: str, low: int = 0) -> int:
        """One token as a whole number of at least `low`."""
        if index >= self.n_tokens:
            self.fail(index, f"the file ends where {what} should stand.")
        value = self.values[index]
        if not (value >= low and value == np.rint(value) and value < 2**53):
            self.fail(index, f"{what} must be a whole number of at least {low}, got {_brief(self.token(index))}.")
        return int(value)

    def wholes(self, start: int, stop: int, what: str, low: int = 0) -> IntArray:
        """Several tokens as whole numbers; `what` may hold `{}` for the position."""
        block = self.values[start:stop]
        good = (block >= low) & (block == np.rint(block)) & (block < 2**53)
        if not good.all():
            at = int(np.argmin(good))
            self.whole(start + at, what.format(at), low)
        return block.astype(np.int64)

    def logs(self, start: int, stop: int, what: str) -> FloatArray:
        """Natural logarithms of several tokens, which must be finite and not negative; 0 gives -inf.

        Numbers too small or too large for a float64 (1e-400) keep their logarithm, so underflow never looks like a
        hard zero.
        """
        block = self.values[start:stop]
        bad = ~(block >= 0)
        if bad.any():
            at = start + int(np.argmax(bad))
            self.fail(at, f"{what} must be a number of at least 0, got {_brief(self.token(at))}.")
        with np.errstate(divide="ignore"):
            logs = np.log(block)
        extreme = np.flatnonzero((block < np.finfo(float).tiny) | (block == np.inf))
        for at in self._not_plain_zero(start + extreme):
            logs[at - start] = self._log_of_extreme(int(at), what)
        return logs

    def _not_plain_zero(self, indices: IntArray) -> IntArray:
        """Those of the given tokens that have a digit other than 0, or are long or no digits at all."""
        if not indices.size:
            return indices
        content = np.frombuffer(self.data, np.uint8)
        at = self._starts[indices]
        found = self.values[indices] != 0
        active = np.flatnonzero(~found)
        for _ in range(_LONG_TOKEN):
            active = active[at[active] < content.size]
            byte = content[at[active]]
            found[active[(byte >= ord("1")) & (byte <= ord("9"))]] = True
            active = active[~_SPACE[byte] & ~found[active]]
            if not active.size:
                break
            at[active] += 1
        found[active] = True
        return indices[found]

    def _log_of_extreme(self, index: int, what: str) -> float:
        start = int(self._starts[index])
        token = self.data[start : start + 100_000].split(None, 1)[0].decode("ascii")
        try:
            number = Decimal(token)
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_zero():
            return -math.inf
        if not number.is_finite() or abs(number.adjusted()) > 10**6:
            self.fail(index, f"{what} must be a finite number, got {_brief(token.encode())}.")
        digits = number.as_tuple().digits[:20]
        mantissa = float("".join(map(str, digits))) / 10.0 ** (len(digits) - 1)
        return math.log(mantissa) + number.adjusted() * math.log(10.0)

    # ---------------------------------------------------------------- errors

    def fail(self, index: int, message: str) -> NoReturn:
        """Raise with the line of a token; past the last one, with the last line."""
        offset = int(self._starts[index]) if index < self.n_tokens else len(self.data.rstrip())
        self._fail_at(offset, message)

    def place(self, index: int) -> str:
        """File and line of a token, or of the text that follows the last one."""
        offset = int(self._starts[index]) if index < self.n_tokens else len(self.data)
        return f"{self.name}, line {self.data.count(NEWLINE, 0, offset) + 1}"

    def fail_at_text(self) -> NoReturn:
        """Raise for what is no number."""
        data = self.data if self.all_data is None else self.all_data
        token = data[self.text : (self.text or 0) + 2 * _LONG_TOKEN].split(None, 1)[0]
        self._fail_at(self.text or 0, f"expected a number, got {_brief(token)}.")

    def _fail_at(self, offset: int, message: str) -> NoReturn:
        line = self.data.count(NEWLINE, 0, offset) + 1
        raise FileFormatError(f"{self.name}, line {line}: {message}")


def _numbers(data: bytes) -> FloatArray:
    """Numbers of a text up to the first thing that is none."""
    with warnings.catch_warnings():
        # NumPy warns where it stops; the count tells.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return np.fromstring(data, dtype=np.float64, sep=" ")
        except ValueError:
            return np.empty(0)


def _brief(token: bytes) -> str:
    text = token[:41].decode("ascii", "replace")
    return repr(text[:40] + "..." if len(text) > 40 else text)
