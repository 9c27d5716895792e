"""Calls that share memory, spread over threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import cpu_count, effective_n_jobs

R = TypeVar("R")


def run_in_threads(calls: Sequence[Callable[[], R]], n_jobs: int | None) -> list[R]:
    """Results of the calls in their order, by `n_jobs` threads (as joblib counts them, but no more than processors).

    Not by `joblib.Parallel`: that one looks for results every 10 ms, longer than an evaluation on small data takes.

    Examples
    --------
    >>> run_in_threads([lambda: 1, lambda: 2], n_jobs=2)
    [1, 2]
    """
    n_threads = 1 if len(calls) < 2 else min(effective_n_jobs(n_jobs), len(calls), cpu_count())
    if n_threads == 1:
        return [call() for call in calls]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda call: call(), calls))
