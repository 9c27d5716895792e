"""Ctrl-C: learners and methods return what they have so far, but a command must not take that for a finished result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(BaseException):
    """Ctrl-C in a command without partial results; no learner or method catches it, unlike KeyboardInterrupt."""


@contextmanager
def interrupts_raise(error: type[BaseException]) -> Iterator[list[int]]:
    """Raise this error at Ctrl-C; yield a list that is not empty after Ctrl-C, even if the error was caught.

    Nothing changes outside the main thread, or where Ctrl-C is disabled, as in a shell's background jobs.
    """
    signals: list[int] = []

    def stop(number: int, frame: Any) -> None:
        signals.append(number)
        raise error

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield signals
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)
