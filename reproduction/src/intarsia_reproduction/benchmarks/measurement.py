"""Fair timing of two programs: on one processor, in turns, with the fastest of several runs reported."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal

from intarsia._files.atomic_file import run_program
from intarsia.exceptions import IntarsiaError, InvalidInputError

Row = dict[str, Any]
Report = Callable[[str], None]

# Programs read these variables at start-up, so they are set in the environment of both sides.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}

# Python expression for a fresh process: its peak memory so far.
PEAK_BYTES = "__import__('intarsia_reproduction.benchmarks.measurement', fromlist=['measurement']).peak_bytes()"


_STATUS, _CLEAR = "/proc/self/status", "/proc/self/clear_refs"


def forget_peak() -> int | None:
    """Reset the peak memory of this process and return its current memory in bytes.

    Freed memory is returned to the system first, so that later allocations cannot reuse it unnoticed. Returns None on
    systems other than Linux, where the peak cannot be reset.
    """
    if not os.access(_CLEAR, os.W_OK):
        return None
    gc.collect()
    with suppress(OSError, AttributeError):  # the C library is not glibc
        ctypes.CDLL(None).malloc_trim(0)
    with open(_CLEAR, "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def peak_since() -> int:
    """Return the peak memory of this process since `forget_peak`, in bytes.

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
    """Return the peak memory of this process so far, in bytes.

    On Linux, the maximum that `getrusage` reports is inherited from the parent process, so a fresh process started by a
    large one would appear too large. `/proc/self/status` counts this process only.
    """
    if os.access(_STATUS, os.R_OK):
        return _status("VmHWM")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def one_processor() -> Iterator[None]:
    """Pin this process and its child processes to one processor, where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(processors)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the wall-clock seconds of one call.

    Examples
    --------
    >>> seconds_of(lambda: None) < 1
    True
    """
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def processor_seconds(call: Callable[[], Any]) -> float:
    """Return the processor seconds that this process spends in one call; other processes do not count.

    Examples
    --------
    >>> processor_seconds(lambda: None) < 1
    True
    """
    start = time.process_time()
    call()
    return time.process_time() - start


def fastest_in_turns(timed: Mapping[str, Callable[[], float]], repeats: int, at_least: float = 0.0) -> dict[str, float]:
    """Return the smallest number of seconds that each function reports; the functions take turns after a warm-up.

    Because they take turns, a busy moment of the machine affects all of them; the minimum is the least disturbed run.
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
    """Run Python code in a new process of this interpreter and return the JSON object that it prints.

    Examples
    --------
    >>> in_fresh_process("import json; print(json.dumps({'sum': 1 + 1}))")
    {'sum': 2}
    """
    run = run_program([sys.executable, "-c", code], env={**os.environ, **ONE_THREAD, **(environment or {})})
    if run.returncode:
        last_line = "".join(run.stderr.strip().splitlines()[-1:])
        raise IntarsiaError(
            f"bench: a measuring process ended with status {run.returncode}: {last_line} Run it again; if it fails "
            f"again, check that intarsia and intarsia_reproduction can be imported."
        )
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


COMPARISONS = {
    "same rule": "another program in the same run, with the same input and the same stopping rule",
    "own rules": "another program in the same run, but with another stopping rule, tolerance or input",
    "quoted": "another program, whose seconds were not measured in this run",
    "ourselves": "another part, size or setting of this library",
}
"""Kinds of comparison that a row of `intarsia bench` can make, and their meaning."""

Comparison = Literal["same rule", "own rules", "quoted", "ourselves"]


def bench_row(
    workload: str,
    ours: float,
    peer: str | None = None,
    peer_seconds: float | None = None,
    *,
    comparison: Comparison | None = None,
    stopping: str | None = None,
    peer_finished: bool | None = None,
    **fields: Any,
) -> Row:
    """Return one row of `intarsia bench`, with `ratio` = peer / ours, after checking how the two sides compare.

    Parameters
    ----------
    workload : str
        Name of the row.
    ours, peer_seconds : float
        Seconds of both sides; `peer_seconds` is None if the peer is not installed.
    peer : str, optional
        Name of the program to compare with.
    comparison : str, optional
        Key of `COMPARISONS`; required with `peer`.
    stopping : str, optional
        Short description of when each side stops; required with `peer`.
    peer_finished : bool, optional
        False if the peer was stopped before it reached its target: `ratio` is then a lower bound. True by default
        if `peer_seconds` is given.
    **fields
        Additional fields of the row.

    Raises
    ------
    InvalidInputError
        A row with a peer lacks `comparison` or `stopping`.

    Examples
    --------
    >>> row = bench_row("a grid", 0.5, "somebody", 2.0, comparison="same rule", stopping="50 sweeps")
    >>> row["ratio"], is_fair(row)
    (4.0, True)
    """
    row: Row = {
        "workload": workload,
        "ours_seconds": ours,
        "peer": peer,
        "peer_seconds": peer_seconds,
        "ratio": None if peer_seconds is None else peer_seconds / ours,
        "comparison": comparison,
        "stopping": stopping,
        "peer_finished": None if peer_seconds is None else peer_finished is not False,
        "ours_quality": None,
        "peer_quality": None,
    }
    check_row(row)
    return row | fields


def check_row(row: Mapping[str, Any]) -> None:
    """Raise if a row of `intarsia bench`, new or read from a file, does not state how its two sides compare.

    Raises
    ------
    InvalidInputError
        `comparison`, `stopping` or `peer_finished` is missing or contradicts the other fields.
    """
    where = f"bench: row {row.get('workload')!r}"
    missing = [key for key in ("comparison", "stopping", "peer_finished") if key not in row]
    if missing:
        raise InvalidInputError(f"{where} has no field {missing[0]!r}. Create rows with bench_row.")
    if row["peer"] is None:
        if row["comparison"] is not None or row["stopping"] is not None:
            raise InvalidInputError(f"{where} has a comparison but no peer. Name the peer, or drop the comparison.")
    elif row["comparison"] not in COMPARISONS or not row["stopping"]:
        raise InvalidInputError(
            f"{where} compares with {row['peer']!r}: expected comparison to be one of {', '.join(COMPARISONS)} and "
            f"stopping to describe when each side stops, got {row['comparison']!r} and {row['stopping']!r}."
        )
    if (row["peer_seconds"] is None) != (row["peer_finished"] is None):
        raise InvalidInputError(
            f"{where}: expected peer_finished to be True or False if peer_seconds is set and None otherwise, "
            f"got {row['peer_finished']!r}."
        )


def is_fair(row: Mapping[str, Any]) -> bool:
    """Return whether a row compares fairly: the peer finished, in the same run, with the same stopping rule.

    A rule with two different numbers has two tolerances, and is not the same rule. If the quality is a distance from
    the optimum, both sides must have reached the distance that the rule names.

    Examples
    --------
    >>> row = bench_row("a grid", 0.5, "somebody", 2.0, comparison="quoted", stopping="50 sweeps")
    >>> is_fair(row)
    False
    """
    check_row(row)
    if row["comparison"] != "same rule" or not row["peer_finished"]:
        return False
    limits = {float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", row["stopping"])}
    if (row.get("quality_is") or "").startswith("distance") and limits:
        qualities = [row["ours_quality"], row["peer_quality"]]
        return len(limits) == 1 and all(quality is not None and quality <= min(limits) for quality in qualities)
    return len(limits) <= 1


def ratio_text(row: Mapping[str, Any], digits: int = 3) -> str:
    """Return the ratio of a row as text; a ratio with a stopped peer is a lower bound, a quoted one is marked.

    Examples
    --------
    >>> row = bench_row("a grid", 0.5, "somebody", 2.0, comparison="same rule", stopping="50", peer_finished=False)
    >>> ratio_text(row)
    '> 4 x (stopped)'
    """
    if row["ratio"] is None:
        return "–"
    ratio = f"{row['ratio']:,.0f}" if row["ratio"] >= 100 else f"{row['ratio']:.{digits}g}"
    if not row["peer_finished"]:
        return f"> {ratio} x (stopped)"
    return f"{ratio} (quoted)" if row["comparison"] == "quoted" else ratio
