"""Progress of long work: on stderr, only on a terminal, never in the way of Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def _status_line(title: str, verbose: bool) -> Iterator[Callable[[str], None] | None]:
    """Yield a function that shows a text after the title, at most ten times a second; None if nothing is shown."""
    if not verbose or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    last = 0.0
    with Console(stderr=True).status(title) as line:

        def show(text: str) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last > 0.1:
                last = now
                line.update(f"{title}: {text}")

        yield show


@contextmanager
def sweep_progress(title: str, verbose: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Yield a function (sweep, residual) -> None that shows them, or None when nothing is to be shown."""
    with _status_line(title, verbose) as show:
        if show is None:
            yield None
            return
        yield lambda sweep, residual: show(f"sweep {sweep}, residual {residual:.2e}")


@contextmanager
def fit_progress(title: str, verbose: bool) -> Iterator[Callable[[int, float, float, float], None] | None]:
    """Yield a function (iteration, risk, gradient norm, share of the work done) -> None, or None."""
    with _status_line(title, verbose) as show:
        if show is None:
            yield None
            return
        begun = time.perf_counter()
        first: float | None = None  # a resumed fit has part of its work done already

        def report(iteration: int, risk: float, norm: float, share: float) -> None:
            nonlocal first
            first = share if first is None else first
            seconds = time.perf_counter() - begun
            left = f", at most {duration(seconds * (1.0 - share) / (share - first))} left" if share > first else ""
            show(f"iteration {iteration}, risk {risk:.6g}, gradient {norm:.1e}, {duration(seconds)}{left}")

        yield report


def duration(seconds: float) -> str:
    """Seconds in words.

    Examples
    --------
    >>> duration(7.25), duration(75.0), duration(7260.0)
    ('7.2 s', '1 min 15 s', '2 h 01 min')
    """
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
