"""Calls spread over threads, or over what joblib is configured for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

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


def run_by_workers(calls: Sequence[Callable[[], R]], n_jobs: int | None) -> list[R]:
    """Results of the calls in their order: by threads, or inside `joblib.parallel_config` by whatever that says.

    For processes and other machines the calls must be such as can be sent there: `functools.partial` of functions of
    a module.

    Examples
    --------
    >>> run_by_workers([lambda: 1, lambda: 2], n_jobs=2)
    [1, 2]
    """
    backend = get_active_backend(prefer="threads")[0]
    if getattr(backend, "supports_sharedmem", False):  # joblib's own default where a backend does not say
        return run_in_threads(calls, n_jobs)
    return list(Parallel(n_jobs=n_jobs)(delayed(call)() for call in calls))
