"""Memory for the states of a run before each sweep, reused while many gradients are computed.

A fresh stack is megabytes that the system must first clear, page by page, and in threads that costs as much as a good
part of the sweeps. Within `kept_stacks` a stack that is no longer referred to serves the next run instead.

Sweeps are cut into segments. Segment j begins in row j, so that the rows behind it are free while it runs, forward or
again on the way back, and those before it hold where the earlier segments begin. So R rows beyond the first reach
segments of R, R - 1, ... sweeps: a run of n sweeps needs no more than about sqrt(2 n) rows, and none of its sweeps is
done more than twice.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from intarsia._core.validation import FloatArray

_lock = threading.RLock()  # the garbage collector may give a stack back while this thread takes one
_spare: list[FloatArray] = []
_users = 0


@contextmanager
def kept_stacks() -> Iterator[None]:
    """Keep the memory of stacks for the next ones, in all threads, until the block ends.

    Examples
    --------
    >>> with kept_stacks():
    ...     where = [new_stack((2, 3)).ctypes.data for _ in range(2)]
    >>> where[0] == where[1]
    True
    """
    global _users
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _spare.clear()


def new_stack(shape: tuple[int, ...]) -> FloatArray:
    """Array whose content is arbitrary. Within `kept_stacks`, parts of it must not outlive it.

    Examples
    --------
    >>> new_stack((2, 3)).shape
    (2, 3)
    """
    size = math.prod(shape)
    with _lock:
        if _users == 0:
            return np.empty(shape)
        large_enough = [i for i, buffer in enumerate(_spare) if buffer.size >= size]
        if large_enough:
            buffer = _spare.pop(min(large_enough, key=lambda i: _spare[i].size))
        else:
            if _spare:  # too small: as many stacks as before, but a larger one
                _spare.pop()
            buffer = np.empty(size)
    stack: FloatArray = buffer[:size].reshape(shape)
    weakref.finalize(stack, _give_back, buffer).atexit = False
    return stack


def _give_back(buffer: FloatArray) -> None:
    with _lock:
        if _users > 0:
            _spare.append(buffer)


# Up to this many bytes all states are kept: sweeping twice makes a gradient slower by up to two fifths. With less, the
# way back through 40 sweeps of a picture of 200 x 300 with 8 labels takes more than three times the way forward.
KEPT_BYTES = 400_000_000


class SegmentedStack:
    """States before each of `n_iter` sweeps, each of the given shape.

    `parts` and `parts_back` give the rows of one segment after the other: those before each of its sweeps and one more,
    for the state after the last.

    Examples
    --------
    >>> stack = SegmentedStack(3, (1,))
    >>> for part in stack.parts():
    ...     part[:, 0] = [1.0, 2.0, 4.0, 8.0]
    >>> [part[::-1, 0].tolist() for part in stack.parts_back(lambda j, part: None)]
    [[8.0, 4.0, 2.0, 1.0]]
    """

    def __init__(self, n_iter: int, shape: tuple[int, ...]) -> None:
        self.lengths = segment_lengths(n_iter, KEPT_BYTES // max(8 * math.prod(shape), 1))
        self._rows = new_stack((max(j + length for j, length in enumerate(self.lengths)) + 1, *shape))

    def parts(self) -> Iterator[FloatArray]:
        """Rows to be filled on the way forward, by segment; each overwrites all of the one before but its start."""
        for j in range(len(self.lengths)):
            yield self._part(j)

    def parts_back(self, replay: Callable[[int, FloatArray], None]) -> Iterator[FloatArray]:
        """Rows by segment, the last first. `replay(j, part)` fills those of segment j again, from its first."""
        for j in reversed(range(len(self.lengths))):
            if j < len(self.lengths) - 1:
                replay(j, self._part(j))
            yield self._part(j)

    def _part(self, j: int) -> FloatArray:
        part: FloatArray = self._rows[j : j + self.lengths[j] + 1]
        return part


def segment_lengths(n_iter: int, n_rows: int) -> list[int]:
    """Sweeps of each segment when about `n_rows` states may be kept; more where a sweep would be done a third time.

    The last segment is not done again, so it is as long as can be, and what is short is the first.

    Examples
    --------
    >>> segment_lengths(10, 11), segment_lengths(10, 9), segment_lengths(10, 0)
    ([10], [3, 7], [4, 3, 2, 1])
    """
    reach = max(n_rows - 1, math.ceil((math.sqrt(8 * n_iter + 1) - 1) / 2))  # reach (reach + 1) / 2 >= n_iter
    n_segments = next(s for s in range(1, n_iter + 2) if s * reach - s * (s - 1) // 2 >= n_iter)
    longest = [reach - j for j in range(n_segments)]
    return [n_iter - sum(longest[1:]), *longest[1:]]
