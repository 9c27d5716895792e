"""How to time two programs fairly: one processor, taking turns, the fastest of several runs."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from intarsia.exceptions import IntarsiaError

Row = dict[str, Any]
Report = Callable[[str], None]

# Read when a program starts, so they must be in its environment before; for both sides alike.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}

# Python for a fresh process: its largest memory so far.
PEAK_BYTES = "__import__('intarsia.experiments.measurement', fromlist=['measurement']).peak_bytes()"


_STATUS, _CLEAR = "/proc/self/status", "/proc/self/clear_refs"


def forget_peak() -> int | None:
    """Begin to measure the largest memory anew; returns what this process holds now, in bytes.

    What was freed is given back to the system first, so that what comes next cannot hide in it. None where the system
    has no such thing, which is everywhere but on Linux.
    """
    if not os.access(_CLEAR, os.W_OK):
        return None
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library than that of GNU
        ctypes.CDLL(None).malloc_trim(0)
    with open(_CLEAR, "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def peak_since() -> int:
    """Largest memory of this process since `forget_peak`, in bytes.

    Examples
    --------
    >>> before = forget_peak()
    >>> block = bytearray(30_000_000)
    >>> before is None or peak_since() - before > 25_000_000
    True
    """
    return _status("VmHWM")


def _status(key: str) -> int:
    with open(_STATUS, encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(key))


def peak_bytes() -> int:
    """Largest memory of this process so far, in bytes.

    Linux hands the maximum that `getrusage` tells on from the process which started this one: a fresh process would
    be charged with what a large one held before it. The system's own account of this process is not.
    """
    if os.access(_STATUS, os.R_OK):
        return _status("VmHWM")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def one_processor() -> Iterator[None]:
    """Hold this process, and those it starts meanwhile, on one processor where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seconds_of(call: Callable[[], Any]) -> float:
    """Wall seconds of one call.

    Examples
    --------
    >>> seconds_of(lambda: None) < 1
    True
    """
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def processor_seconds(call: Callable[[], Any]) -> float:
    """Seconds of the processor in this process: what a busy machine does meanwhile does not count.

    Examples
    --------
    >>> processor_seconds(lambda: None) < 1
    True
    """
    start = time.process_time()
    call()
    return time.process_time() - start


def fastest_in_turns(timed: Mapping[str, Callable[[], float]], repeats: int, at_least: float = 0.0) -> dict[str, float]:
    """Smallest of the seconds that each function reports, all taking turns after one warm-up.

    Taking turns means that a busy moment of the machine hits all of them; the minimum is the run it disturbed least.
    Short runs are repeated more often, until `at_least` seconds have passed (but at most ten times `repeats`).

    Examples
    --------
    >>> ticks = iter([9.0, 2.0, 3.0])
    >>> fastest_in_turns({"ours": lambda: next(ticks)}, repeats=2)    # the warm-up does not count
    {'ours': 2.0}
    """
    for call in timed.values():
        call()
    best = dict.fromkeys(timed, float("inf"))
    start = time.perf_counter()
    for turn in range(10 * repeats):
        if turn >= repeats and time.perf_counter() - start >= at_least:
            break
        for name, call in timed.items():
            best[name] = min(best[name], call())
    return best


def in_fresh_process(code: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run Python code in a new process of this interpreter; it prints one JSON object, which is returned.

    Examples
    --------
    >>> in_fresh_process("import json; print(json.dumps({'sum': 1 + 1}))")
    {'sum': 2}
    """
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **ONE_THREAD, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise IntarsiaError(f"bench: a measuring process failed. {run.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def bench_row(
    workload: str, ours: float, peer: str | None = None, peer_seconds: float | None = None, **more: Any
) -> Row:
    """One row of `intarsia bench`: the keys of the contract, `ratio` = peer / ours, and what else is told.

    Examples
    --------
    >>> bench_row("a grid", 0.5, "somebody", 2.0, wanted="ratio >= 3")["ratio"]
    4.0
    """
    row: Row = {
        "workload": workload,
        "ours_seconds": ours,
        "peer": peer,
        "peer_seconds": peer_seconds,
        "ratio": None if peer_seconds is None else peer_seconds / ours,
        "ours_quality": None,
        "peer_quality": None,
    }
    return row | more
