"""Calls spread over threads, or over what joblib is configured for: processes, or other machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

R = TypeVar("R")

# Examples are worked in this many parts, whatever the number of workers, so that results do not depend on it.
MAX_PARTS = 64


def cut_in_parts(n: int) -> list[list[int]]:
    """The numbers below `n` in at most `MAX_PARTS` parts of about equal size.

    Examples
    --------
    >>> cut_in_parts(2), [len(part) for part in cut_in_parts(100)][:3]
    ([[0], [1]], [2, 2, 2])
    """
    return [part.tolist() for part in np.array_split(np.arange(n), max(1, min(MAX_PARTS, n)))]


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
    contexts = [copy_context() for _ in calls]  # so that warnings of threads name the entry point too
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda context, call: context.run(call), contexts, calls))


def workers_are_apart() -> bool:
    """Whether calls would run in other processes, where arrays of this one cannot be changed.

    Examples
    --------
    >>> from joblib import parallel_config
    >>> with parallel_config("loky"):
    ...     workers_are_apart()
    True
    >>> workers_are_apart()
    False
    """
    backend = get_active_backend(prefer="threads")[0]
    return not getattr(backend, "supports_sharedmem", False)  # joblib's own default where a backend does not say


def run_by_workers(calls: Sequence[Callable[[], R]], n_jobs: int | None) -> list[R]:
    """Results of the calls in their order: by threads, or inside `joblib.parallel_config` by whatever that says.

    For processes and other machines the calls must be such as can be sent there: `functools.partial` of functions of
    a module, or what `Parcels.calls` makes.

    Examples
    --------
    >>> run_by_workers([lambda: 1, lambda: 2], n_jobs=2)
    [1, 2]
    """
    if not workers_are_apart():
        return run_in_threads(calls, n_jobs)
    return _spread([call.sent() if isinstance(call, ParcelCall) else call for call in calls], n_jobs)


def _spread(calls: Sequence[Callable[[], Any]], n_jobs: int | None) -> list[Any]:
    # Arguments are shown to joblib, so that a backend can send one that many calls share, such as weights, once.
    tasks = [
        delayed(call.func)(*call.args, **call.keywords) if isinstance(call, partial) else delayed(call)()
        for call in calls
    ]
    return list(Parallel(n_jobs=n_jobs)(tasks))


# ---------------------------------------------------------------- what stays on the workers


class Parcels:
    """Data that calls need again and again, in parts: such as examples, while weights change.

    Inside `joblib.parallel_config("dask")` the parts are given to the cluster once, each to one of its workers, and
    later calls go to where their part is; the cluster forgets them with this object. Other backends of joblib have no
    such place, so there every call takes its part along.

    Parameters
    ----------
    values : sequence
        The parts: what functions get as their first argument. They must not change.

    Examples
    --------
    >>> parts = Parcels([[1, 2], [3, 4, 5]])
    >>> run_by_workers(parts.calls(sum, 10), n_jobs=1)
    [13, 22]
    >>> run_by_workers(parts.calls(sum, each=[100, 200]), n_jobs=1)
    [103, 212]
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self._client: Any = None
        self._placed: list[Any] = []

    def calls(self, function: Callable[..., R], *rest: Any, each: Sequence[Any] | None = None) -> list[ParcelCall[R]]:
        """A call of `function` with each of the parts, `rest`, and its own of `each`."""
        own = [()] * len(self.values) if each is None else [(one,) for one in each]
        return [ParcelCall(function, self, number, (*rest, *more)) for number, more in enumerate(own)]

    def placed(self) -> list[Any]:
        """What calls take along: where the cluster has each part, or the part itself."""
        client = getattr(get_active_backend(prefer="threads")[0], "client", None)  # dask's, which others have not
        if client is None:
            return self.values
        if client is not self._client:
            self._client = client
            self._placed = client.scatter([_Part(value) for value in self.values], hash=False)
        return self._placed


class ParcelCall(Generic[R]):
    """A call with one of the parts; see `Parcels.calls`."""

    def __init__(self, function: Callable[..., R], parcels: Parcels, number: int, rest: tuple[Any, ...]) -> None:
        self.function, self.parcels, self.number, self.rest = function, parcels, number, rest

    def __call__(self) -> R:
        """The result, computed here."""
        return self.function(self.parcels.values[self.number], *self.rest)

    def sent(self) -> Callable[[], R]:
        """The call as it travels."""
        return partial(_run, self.function, self.parcels.placed()[self.number], *self.rest)


class _Part:
    """So that the cluster keeps a part as one thing, whatever it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _run(function: Callable[..., R], part: Any, *rest: Any) -> R:
    """Run a call on a worker."""
    return function(part.value if isinstance(part, _Part) else part, *rest)
