"""Memory for stacks of messages and their like, used again while many gradients are computed.

A fresh stack is megabytes that the system must first clear, page by page, and in threads that costs as much as a good
part of the sweeps. Within `kept_stacks` a stack that is no longer referred to serves the next run instead.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from intarsia._validation import FloatArray

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
