"""Progress display of long computations on stderr, only on a terminal; Ctrl-C keeps working."""

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
            time_now = time.perf_counter()
            if time_now - last > 0.1:
                last = time_now
                line.update(f"{title}: {text}")

        yield show


@contextmanager
def sweep_progress(title: str, verbose: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Yield a function (sweep, residual) -> None that shows its arguments, or None if nothing is shown."""
    with _status_line(title, verbose) as show:
        if show is None:
            yield None
            return
        yield lambda sweep, residual: show(f"sweep {sweep}, residual {residual:.2e}")


@contextmanager
def fit_progress(title: str, verbose: bool) -> Iterator[Callable[[int, float, float, float], None] | None]:
    """Yield a function (iteration, risk, gradient norm, completed fraction) -> None, or None if nothing is shown."""
    with _status_line(title, verbose) as show:
        if show is None:
            yield None
            return
        start = time.perf_counter()
        first_fraction: float | None = None  # above 0 in a resumed fit

        def report(iteration: int, risk: float, norm: float, fraction: float) -> None:
            nonlocal first_fraction
            first_fraction = fraction if first_fraction is None else first_fraction
            seconds = time.perf_counter() - start
            remaining = (
                f", at most {duration(seconds * (1.0 - fraction) / (fraction - first_fraction))} left"
                if fraction > first_fraction
                else ""
            )
            show(f"iteration {iteration}, risk {risk:.6g}, gradient {norm:.1e}, {duration(seconds)}{remaining}")

        yield report


@contextmanager
def pair_progress(title: str, verbose: bool) -> Iterator[Callable[[int], None] | None]:
    """Yield a function (number of remaining pairs) -> None that shows its argument, or None if nothing is shown."""
    with _status_line(title, verbose) as show:
        yield None if show is None else lambda n_remaining: show(f"{n_remaining:,} pairs remain")


@contextmanager
def search_progress(title: str, verbose: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Yield a function (number of proposals, best score) -> None that shows its arguments, or None if none is shown."""
    with _status_line(title, verbose) as show:
        yield None if show is None else lambda n, score: show(f"{n:,} proposals, best score {score:.6g}")


def duration(seconds: float) -> str:
    """Format a number of seconds for people.

    Examples
    --------
    >>> duration(7.25), duration(60.0), duration(75.0), duration(3599.0), duration(3600.0), duration(7260.0)
    ('7.2 s', '1 min 00 s', '1 min 15 s', '59 min 59 s', '1 h 00 min', '2 h 01 min')
    """
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remainder:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
