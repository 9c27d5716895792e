"""Progress of long work: on stderr, only on a terminal, never in the way of Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def sweep_progress(title: str, verbose: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Yield a function (sweep, residual) -> None that shows them, or None when nothing is to be shown."""
    if not verbose or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    last = 0.0
    with Console(stderr=True).status(title) as line:

        def report(sweep: int, residual: float) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last > 0.1:
                last = now
                line.update(f"{title}: sweep {sweep}, residual {residual:.2e}")

        yield report
