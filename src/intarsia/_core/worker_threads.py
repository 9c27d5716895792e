"""Run calls in parallel: by threads, or by the joblib backend that is configured (processes, other machines)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

import numpy as np

R = TypeVar("R")

# Examples are split into this many parts for any number of workers, so that results do not depend on it.
MAX_PARTS = 64


def cut_in_parts(n: int) -> list[list[int]]:
    """Split the indices 0 to n - 1 into at most `MAX_PARTS` parts of about equal size.

    Examples
    --------
    >>> cut_in_parts(2), [len(part) for part in cut_in_parts(100)][:3]
    ([[0], [1]], [2, 2, 2])
    """
    return [indices.tolist() for indices in np.array_split(np.arange(n), max(1, min(MAX_PARTS, n)))]


def run_in_threads(calls: Sequence[Callable[[], R]], n_jobs: int | None) -> list[R]:
    """Return the results of the calls in order, computed by `n_jobs` threads (joblib's meaning, at most one per core).

    `joblib.Parallel` is not used because it polls for results every 10 ms, which is longer than a call on small data.

    Examples
    --------
    >>> run_in_threads([lambda: 1, lambda: 2], n_jobs=2)
    [1, 2]
    """
    n_threads = 1 if len(calls) < 2 else min(count_threads(n_jobs), len(calls))
    if n_threads == 1:
        return [call() for call in calls]
    contexts = [copy_context() for _ in calls]  # so that warnings of threads have the prefix of the entry point
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda context, call: context.run(call), contexts, calls))


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that joblib's `n_jobs` stands for, at most one per core."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return 1
    from joblib import cpu_count, effective_n_jobs

    return int(min(effective_n_jobs(n_jobs), cpu_count()))


def workers_are_apart() -> bool:
    """Return whether the configured workers are other processes, which cannot change arrays of this process.

    Examples
    --------
    >>> from joblib import parallel_config
    >>> with parallel_config("loky"):
    ...     workers_are_apart()
    True
    >>> workers_are_apart()
    False
    """
    if "joblib" not in sys.modules:  # importing it takes longer than most predictions, and nobody has configured it
        return False
    from joblib.parallel import get_active_backend

    backend = get_active_backend(prefer="threads")[0]
    return not getattr(backend, "supports_sharedmem", False)  # joblib's default for backends without the attribute


def run_by_workers(calls: Sequence[Callable[[], R]], n_jobs: int | None) -> list[R]:
    """Return the results of the calls in order, computed by threads or by the backend of `joblib.parallel_config`.

    Processes and other machines need calls that can be pickled: `functools.partial` of module-level functions.

    Examples
    --------
    >>> run_by_workers([lambda: 1, lambda: 2], n_jobs=2)
    [1, 2]
    """
    if not workers_are_apart():
        return run_in_threads(calls, n_jobs)
    from joblib import Parallel, delayed

    # joblib gets the arguments separately, so that a backend can send an argument shared by many calls only once.
    tasks = [
        delayed(call.func)(*call.args, **call.keywords) if isinstance(call, partial) else delayed(call)()
        for call in calls
    ]
    return list(Parallel(n_jobs=n_jobs)(tasks))
