"""Stack of the messages before each sweep, with memory that is reused while many gradients are computed.

The system must clear the pages of newly allocated memory, which in threads can cost as much as a large fraction of the
sweeps. Within `kept_stacks` the memory of a stack that is no longer referenced is reused by the next run.

Sweeps are divided into segments. Segment j starts in row j, so that the rows after it are free while it runs, in the
forward pass or again in the backward pass, and the rows before it hold the starts of earlier segments. So R rows beyond
the first suffice for segments of R, R - 1, ... sweeps: a run of n sweeps needs about sqrt(2 n) rows, and no sweep is
run more than twice.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from intarsia._core.validation import FloatArray

_lock = threading.RLock()  # reentrant: the garbage collector may release a stack while this thread holds the lock
_free_buffers: list[FloatArray] = []
_n_contexts = 0


@contextmanager
def kept_stacks() -> Iterator[None]:
    """Reuse the memory of stacks, in all threads, until the block ends.

    Examples
    --------
    >>> with kept_stacks():
    ...     addresses = [new_stack((2, 3)).ctypes.data for _ in range(2)]
    >>> addresses[0] == addresses[1]
    True
    """
    global _n_contexts
    with _lock:
        _n_contexts += 1
    try:
        yield
    finally:
        with _lock:
            _n_contexts -= 1
            if _n_contexts == 0:
                _free_buffers.clear()


def new_stack(shape: tuple[int, ...]) -> FloatArray:
    """Return an uninitialized array. Within `kept_stacks`, views of it must not outlive it.

    Examples
    --------
    >>> new_stack((2, 3)).shape
    (2, 3)
    """
    size = math.prod(shape)
    with _lock:
        if _n_contexts == 0:
            return np.empty(shape)
        large_enough = [i for i, buffer in enumerate(_free_buffers) if buffer.size >= size]
        if large_enough:
            buffer = _free_buffers.pop(min(large_enough, key=lambda i: _free_buffers[i].size))
        else:
            if _free_buffers:  # replace a buffer that is too small by a larger one
                _free_buffers.pop()
            buffer = np.empty(size)
    stack: FloatArray = buffer[:size].reshape(shape)
    weakref.finalize(stack, _release, buffer).atexit = False
    return stack


def _release(buffer: FloatArray) -> None:
    """Make the memory of a deleted stack available again."""
    with _lock:
        if _n_contexts > 0:
            _free_buffers.append(buffer)


# Up to this many bytes all states are stored: repeating sweeps makes a gradient slower by up to 40 percent. With a
# lower limit, the backward pass of 40 sweeps on a 200 x 300 image with 8 labels takes over three times as long as the
# forward pass.
KEPT_BYTES = 400_000_000


class SegmentedStack:
    """States before each of `n_iter` sweeps, each of the same shape, stored in segments.

    `segments` and `segments_reversed` yield the rows of each segment: one for the state before each of its sweeps, and
    one for the state after the last. All states are stored if they take at most `max_bytes`, by default `KEPT_BYTES`.

    Examples
    --------
    >>> stack = SegmentedStack(3, (1,))
    >>> for rows in stack.segments():
    ...     rows[:, 0] = [1.0, 2.0, 4.0, 8.0]
    >>> [rows[::-1, 0].tolist() for rows in stack.segments_reversed(lambda j, rows: None)]
    [[8.0, 4.0, 2.0, 1.0]]
    """

    def __init__(self, n_iter: int, shape: tuple[int, ...], max_bytes: int | None = None) -> None:
        limit = KEPT_BYTES if max_bytes is None else max_bytes
        self.lengths = segment_lengths(n_iter, limit // max(8 * math.prod(shape), 1))
        self._rows = new_stack((max(j + length for j, length in enumerate(self.lengths)) + 1, *shape))

    def segments(self) -> Iterator[FloatArray]:
        """Yield the rows to fill in the forward pass, by segment; each overwrites the one before except its start."""
        for j in range(len(self.lengths)):
            yield self._segment(j)

    def segments_reversed(self, replay: Callable[[int, FloatArray], None]) -> Iterator[FloatArray]:
        """Yield the rows by segment, the last first; `replay(j, rows)` fills those of segment j again."""
        for j in reversed(range(len(self.lengths))):
            if j < len(self.lengths) - 1:
                replay(j, self._segment(j))
            yield self._segment(j)

    def _segment(self, j: int) -> FloatArray:
        """Return the rows of segment j."""
        segment: FloatArray = self._rows[j : j + self.lengths[j] + 1]
        return segment


def segment_lengths(n_iter: int, n_rows: int) -> list[int]:
    """Return the number of sweeps of each segment if about `n_rows` states can be stored.

    More rows are used if a sweep would otherwise run a third time. The last segment is not repeated, so that it is as
    long as possible, and only the first may be shorter than its rows allow.

    Examples
    --------
    >>> segment_lengths(10, 11), segment_lengths(10, 9), segment_lengths(10, 0)
    ([10], [3, 7], [4, 3, 2, 1])
    """
    n_first = max(n_rows - 1, math.ceil((math.sqrt(8 * n_iter + 1) - 1) / 2))  # reach (reach + 1) / 2 >= n_iter
    n_segments = next(s for s in range(1, n_iter + 2) if s * n_first - s * (s - 1) // 2 >= n_iter)
    longest = [n_first - j for j in range(n_segments)]
    return [n_iter - sum(longest[1:]), *longest[1:]]
