"""Strategies for damaged files: noise, pieces of a format in any order, and modified valid files."""

from __future__ import annotations

import gzip
import os
import re
import signal
import tracemalloc
import warnings
from contextlib import contextmanager, suppress

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning, IntarsiaError

MOST_BYTES = 1_000_000_000
MOST_SECONDS = 20
# Typical content of files with typos, from other systems, or from attackers.
HOSTILE = [
    b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n", b"\r", b"\n", b"\t", b" ", b"", b"\xff", b"\xc3", b"\xed\xa0\x80",
    "\u2028".encode(), "\u0661".encode(), "\u00b2".encode(), "\u00a0".encode(), b"\x0b", b"\x1c", b"\x85",
    b"1000000000", b"9999999999999999999999", b"-1", b"1e999", b"1e-999", b"1e9999999999", b"nan", b"inf", b"-inf",
    b"0", b"1.5", b"1_0", b"0x10", b"1" * 400, b"1" * 5000, b"'", b'"', b"\\", b"{", b"}", b"[", b"]", b"(", b")",
    b"[" * 3000, b"(" * 3000, b"-" * 3000, b'{"a":' * 3000, b",", b":", b";", b"@", b"#", b"//", b"/*", b"null",
    b"true", b"[]", b"{}", b'""', b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06", b"\\ud800", b"\\u0000",
]  # fmt: skip
_NUMBER = re.compile(rb"\d+")
_WORD = re.compile(rb"\w+")


def _changed(data: bytes, kind: str, a: float, b: float, piece: bytes) -> bytes:
    """Apply one modification at two positions (as fractions of the length), possibly with a hostile piece."""
    first, last = sorted((int(a * len(data)), int(b * len(data))))
    middle = data[first:last]
    if kind == "cut":
        return data[:first]
    if kind == "lose":
        return data[:first] + data[last:]
    if kind == "double":
        return data[:last] + middle + data[last:]
    if kind == "swap":
        half = len(middle) // 2
        return data[:first] + middle[half:] + middle[:half] + data[last:]
    if kind == "insert":
        return data[:first] + piece + data[first:]
    if kind == "byte" and data:
        at = min(first, len(data) - 1)
        return data[:at] + bytes([data[at] ^ (1 << int(b * 7))]) + data[at + 1 :]
    if kind in ("number", "word"):
        result = list((_NUMBER if kind == "number" else _WORD).finditer(data))
        if result:
            one = result[min(int(a * len(result)), len(result) - 1)]
            return data[: one.start()] + piece + data[one.end() :]
    if kind == "lines":
        lines = data.split(b"\n")
        at = min(int(a * len(lines)), len(lines) - 1)
        lines.insert(min(int(b * len(lines)), len(lines) - 1), lines[at])
        return b"\n".join(lines)
    if kind == "crlf":
        return data.replace(b"\n", b"\r\n")
    if kind == "gzip":
        return gzip.compress(data, mtime=0)
    return data


_KINDS = ["cut", "lose", "double", "swap", "insert", "byte", "number", "word", "lines", "crlf", "gzip"]
_SHARE = st.floats(0, 1)
_SLIP = st.tuples(st.sampled_from(_KINDS), _SHARE, _SHARE, st.sampled_from(HOSTILE))


@st.composite
def _mutated(draw, valid):
    data = draw(st.sampled_from(valid))
    for slip in draw(st.lists(_SLIP, min_size=1, max_size=4)):
        data = _changed(data, *slip)
    return data


def files(valid, pieces=()):
    """Strategy for contents of files, most of them close to a valid file.

    Parameters
    ----------
    valid : list of bytes
        Files that are read without an error.
    pieces : sequence of bytes
        Words of the format, which are also put together in any order.
    """
    noise = [st.binary(max_size=300), st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))]
    words = st.sampled_from([*pieces, *HOSTILE])
    soup = st.lists(words, max_size=30).map(b" ".join)
    return st.one_of(_mutated(valid), _mutated(valid), _mutated(valid), soup, *noise)


def bounded_by(n):
    """Settings of a test; INTARSIA_FUZZ=100 makes it a hundred times as long."""
    times = int(os.environ.get("INTARSIA_FUZZ", "1"))
    return settings(
        max_examples=n * times, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


class TookTooLong(BaseException):
    """Raised on a time-out; not an Exception, so that readers do not treat it as an error of the file."""


@contextmanager
def within_bounds():
    """Fail if a block takes too much time or memory, or raises or warns anything other than Intarsia's own classes."""

    def stop(signum, frame):
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop) if hasattr(signal, "SIGALRM") else None
    tracemalloc.start(1)
    try:
        if before is not None:
            signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        with warnings.catch_warnings():
            for told in (ConvergenceWarning, CompatibilityWarning):
                warnings.simplefilter("ignore", told)
            with suppress(IntarsiaError):
                yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        if before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        tracemalloc.stop()
    assert peak < MOST_BYTES, f"{peak} bytes"
