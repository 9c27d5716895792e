"""Wall-clock time of a run, with an optional limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Wall time since the start of a run, with an optional limit in seconds.

    Examples
    --------
    >>> Clock().expired, Clock(limit=0.0).expired
    (False, True)
    """

    def __init__(self, limit: float | None = None) -> None:
        self.start = time.perf_counter()
        self.limit = limit
        self.interrupted = False

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return time.perf_counter() - self.start

    @property
    def expired(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.seconds >= self.limit

    @contextmanager
    def stopped_by_interrupt(self) -> Iterator[None]:
        """Let Ctrl-C end the block and the run instead of raising, so that the best result so far is returned.

        Examples
        --------
        >>> clock = Clock()
        >>> with clock.stopped_by_interrupt():
        ...     raise KeyboardInterrupt
        >>> clock.interrupted, clock.expired
        (True, True)
        """
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted, self.limit = True, 0.0
