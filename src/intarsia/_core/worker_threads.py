"""Run calls in parallel: by threads, or by the joblib backend that is configured (processes, other machines)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

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
    return _blocks(n, max(1, min(MAX_PARTS, n)))


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
    n_workers = count_workers(n_jobs)
    if n_workers == 1:
        return 1
    from joblib import cpu_count

    return int(min(n_workers, cpu_count()))


def count_workers(n_jobs: int | None) -> int:
    """Return the number of workers that joblib's `n_jobs` stands for in the configured backend."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


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

    Processes and other machines need calls that can be pickled: `functools.partial` of module-level functions, or all
    calls that `Parcels.calls` makes.

    Examples
    --------
    >>> run_by_workers([lambda: 1, lambda: 2], n_jobs=2)
    [1, 2]
    """
    if not workers_are_apart():
        return run_in_threads(calls, n_jobs)
    if not calls or not all(isinstance(call, ParcelCall) for call in calls):
        return _run_by_joblib(calls, n_jobs)
    bundles = _bundled([call for call in calls if isinstance(call, ParcelCall)], n_jobs)
    return [result for results in _run_by_joblib(bundles, n_jobs) for result in results]


def _run_by_joblib(calls: Sequence[Callable[[], Any]], n_jobs: int | None) -> list[Any]:
    """Run the calls by the configured joblib backend."""
    from joblib import Parallel, delayed

    # joblib gets the arguments separately, so that a backend can send an argument shared by many calls only once.
    tasks = [
        delayed(call.func)(*call.args, **call.keywords) if isinstance(call, partial) else delayed(call)()
        for call in calls
    ]
    return list(Parallel(n_jobs=n_jobs)(tasks))


# ---------------------------------------------------------------- data that stay on the workers

# A task of a cluster costs milliseconds: calls of many parts are sent as few tasks, enough to balance the workers.
_TASKS_PER_WORKER = 2


class Parcels:
    """Data in parts that are used by many calls, such as the examples of a fit while its weights change.

    With `joblib.parallel_config("dask")` the parts are sent to the workers of the cluster once, and later calls run
    where their parts are; the cluster drops the parts together with this object. Other backends of joblib cannot keep
    data on workers, so every call sends its part.

    Parameters
    ----------
    values : sequence
        The parts, each the first argument of a call. They must not change.

    Examples
    --------
    >>> parts = Parcels([[1, 2], [3, 4, 5]])
    >>> run_by_workers(parts.calls(sum, 10), n_jobs=1)
    [13, 22]
    >>> run_by_workers(parts.calls(sum, arguments=[100, 200]), n_jobs=1)
    [103, 212]
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self._sent_to: Any = None
        self._remote: list[Any] = []

    def calls(
        self, function: Callable[..., R], *common: Any, arguments: Sequence[Any] | None = None
    ) -> list[ParcelCall[R]]:
        """Return one call of `function` per part, with the part, the `common` values and its entry of `arguments`."""
        extra = [()] * len(self.values) if arguments is None else [(argument,) for argument in arguments]
        return [
            ParcelCall(function, self, number, (*common, *extra_argument))
            for number, extra_argument in enumerate(extra)
        ]

    def for_workers(self, n_bundles: int) -> list[Any]:
        """Return the parts in bundles: references to those in the cluster, or the parts themselves."""
        from joblib.parallel import get_active_backend

        bundles = [_Bundle([self.values[i] for i in block]) for block in _blocks(len(self.values), n_bundles)]
        client = getattr(get_active_backend(prefer="threads")[0], "client", None)  # only dask's backend has a client
        if client is None:
            return bundles
        if self._sent_to != (client, n_bundles):
            self._sent_to, self._remote = (client, n_bundles), client.scatter(bundles, hash=False)
        return self._remote


class ParcelCall(Generic[R]):
    """Call of a function with one of the parts; see `Parcels.calls`."""

    def __init__(self, function: Callable[..., R], parcels: Parcels, number: int, rest: tuple[Any, ...]) -> None:
        self.function, self.parcels, self.number, self.rest = function, parcels, number, rest

    def __call__(self) -> R:
        """Return the result, computed in this process."""
        return self.function(self.parcels.values[self.number], *self.rest)


class _Bundle:
    """Parts that are sent together; an object of this class is stored by a cluster as a whole."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values


def _blocks(n: int, n_blocks: int) -> list[list[int]]:
    """Split the indices 0 to n - 1 into blocks of about equal size."""
    return [block.tolist() for block in np.array_split(np.arange(n), n_blocks)]


def _bundled(calls: Sequence[ParcelCall[R]], n_jobs: int | None) -> list[Callable[[], list[R]]]:
    """Return calls that can be sent to workers, each for several parts; `calls` are those of all parts in order."""
    from joblib import effective_n_jobs

    n_bundles = min(len(calls), _TASKS_PER_WORKER * effective_n_jobs(n_jobs))
    blocks, bundles = _blocks(len(calls), n_bundles), calls[0].parcels.for_workers(n_bundles)
    return [
        partial(_run_bundle, bundle, [(calls[i].function, calls[i].rest) for i in block])
        for bundle, block in zip(bundles, blocks, strict=True)
    ]


def _run_bundle(bundle: _Bundle, functions: list[tuple[Callable[..., R], tuple[Any, ...]]]) -> list[R]:
    """Run functions on a worker, each with one part of a bundle and the rest of its arguments."""
    return [function(value, *rest) for value, (function, rest) in zip(bundle.values, functions, strict=True)]
