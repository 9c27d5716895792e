"""Calls spread over threads, or over what joblib is configured for: processes, or other machines."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

R = TypeVar("R")

# Examples are worked in this many parts, whatever the number of workers, so that results do not depend on it.
MAX_PARTS = 64
# So many parcels a worker keeps; the one that was asked for longest ago goes first. A fit has one for its examples, and
# perhaps one each for the independent start and for those held out.
MOST_KEPT = 4


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
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda call: call(), calls))


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
    answers = _spread([call.sent() if isinstance(call, ParcelCall) else call for call in calls], n_jobs)
    absent = [k for k, answer in enumerate(answers) if isinstance(answer, _Absent)]
    if absent:
        again = [call.sent(whole=True) for call in (calls[k] for k in absent) if isinstance(call, ParcelCall)]
        for k, answer in zip(absent, _spread(again, n_jobs), strict=True):
            answers[k] = answer
    return answers


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

    A part travels to a worker with the first call that brings it there, and stays; later calls name it only. A worker
    that has it not, or no more, says so and is sent it anew.

    Parameters
    ----------
    values : sequence
        The parts: what functions get as their first argument. They must not change.

    Examples
    --------
    >>> parts = Parcels([[1, 2], [3, 4, 5]])
    >>> run_by_workers(parts.calls(sum, 10), n_jobs=1)
    [13, 22]
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self.key = uuid4().hex
        self.were_sent = [False] * len(self.values)

    def calls(self, function: Callable[..., R], *rest: Any) -> list[ParcelCall[R]]:
        """A call of `function` with each of the parts, and `rest`."""
        return [ParcelCall(function, self, number, rest) for number in range(len(self.values))]


class ParcelCall(Generic[R]):
    """A call with one of the parts; see `Parcels.calls`."""

    def __init__(self, function: Callable[..., R], parcels: Parcels, number: int, rest: tuple[Any, ...]) -> None:
        self.function, self.parcels, self.number, self.rest = function, parcels, number, rest

    def __call__(self) -> R:
        """The result, computed here."""
        return self.function(self.parcels.values[self.number], *self.rest)

    def sent(self, whole: bool = False) -> Callable[[], R | _Absent]:
        """The call as it travels: with the part the first time or where `whole` says so, else with its name."""
        parcels, number = self.parcels, self.number
        part = _Part(parcels.values[number]) if whole or not parcels.were_sent[number] else None
        parcels.were_sent[number] = True
        return partial(_run_kept, self.function, parcels.key, number, part, *self.rest)


class _Part(NamedTuple):
    """So that a part may be None."""

    value: Any


class _Absent:
    """The answer of a worker that has not what the call needs."""


_kept: OrderedDict[str, dict[int, _Part]] = OrderedDict()
_keeping = Lock()  # threads of a worker share what it keeps


def _run_kept(function: Callable[..., R], key: str, number: int, part: _Part | None, *rest: Any) -> R | _Absent:
    """Run a call on a worker."""
    with _keeping:
        parts = _kept.setdefault(key, {})
        _kept.move_to_end(key)
        if len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
        found = parts.setdefault(number, part) if part is not None else parts.get(number)
    return _Absent() if found is None else function(found.value, *rest)
