"""`intarsia bench collective`: collective graphical models, compared with an interior-point solver and mbi."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from scipy.special import gammaln

from intarsia._core.validation import check_number
from intarsia.collective import CollectiveResult, GaussianNoise, infer_flows
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
)
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.collective_workloads import Migration, NoisyMarginals, migration, noisy_marginals

TIME_LIMIT = "INTARSIA_INTERIOR_POINT_SECONDS"
"""Environment variable: seconds after which the interior-point solver is stopped."""

_DEFAULT_LIMIT = 1800.0
MEMORY_LIMIT = 14e9
"""Largest address space of the interior-point solver, in bytes."""
_CELLS = 50  # `w7_cgm(50)`: tables of 2,500 moves
_ITERATIONS = 1000  # of mirror descent, a multiple of the 50 iterations that mbi runs at a time
_YEAR = (52, 25, 40)  # weeks, rows, columns
_TOL = 1e-6
_OBJECTIVE = "objective, without the constant sum of log y!"


def time_limit() -> float:
    """Return the time limit of the interior-point solver in seconds: `$INTARSIA_INTERIOR_POINT_SECONDS`, or 1800."""
    value = os.environ.get(TIME_LIMIT, "")
    try:
        limit = float(value) if value else _DEFAULT_LIMIT
    except ValueError:
        raise InvalidInputError(
            f"{TIME_LIMIT}={value!r} is not a number. Set it to a number of seconds, such as 600."
        ) from None
    check_number(limit, TIME_LIMIT, low=0.0, open_low=True)
    return limit


def bench_collective(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench collective`; the interior-point solver takes minutes and is run once.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None.
    Times are processor seconds (one thread), so that other processes on the machine do not distort the comparison.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program, in turns after a warm-up; the fastest counts.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    limit = time_limit()
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        log("descent on noisy marginals compared with mbi")
        rows.append(_compare_with_mbi(noisy_marginals(), repeats))
        log(f"interior-point solver, at most {limit:g} s")
        rows.append(_compare_with_interior_point(migration(_CELLS), repeats, limit))
        log("a year of weeks on a map")
        rows.append(_year())
    return rows


def solve(workload: Migration, tol: float = _TOL) -> CollectiveResult:
    """Infer the flows of a migration workload to a relative duality gap of `tol`."""
    return infer_flows(workload.theta, workload.counts, workload.n_walkers, tol=tol)


def comparable(objective: float, workload: Migration) -> float:
    """Return an objective without its constant term, as the interior-point solver reports it."""
    return objective - float(gammaln(workload.counts + 1.0).sum())


def ask_interior_point(
    workload: Migration, limit: float, gap: float = _TOL, solver: str = "clarabel"
) -> dict[str, Any] | None:
    """Return seconds, objective, status and peak memory of a conic solver; None if it is not installed."""
    peer = find_peer("clarabel")
    if peer is None:
        return None
    with peer:
        peer.load(counts=workload.counts, theta=workload.theta, n_walkers=workload.n_walkers)
        return peer.ask("solve", time_limit=limit, memory_limit=MEMORY_LIMIT, gap=gap, solver=solver)


# ---------------------------------------------------------------- rows


def _compare_with_interior_point(workload: Migration, repeats: int, limit: float) -> Row:
    result = solve(workload)
    ours = fastest_in_turns({"ours": lambda: processor_seconds(lambda: solve(workload))}, repeats, 1.0)["ours"]
    answer = ask_interior_point(workload, limit)
    peer_fields: Row = {}
    if answer is not None:
        peer_fields = {
            "peer_quality": answer["objective"],
            "peer_wall_seconds": answer["seconds"],
            "time_limit": limit,
        }
    return bench_row(
        f"migration of {workload.n_walkers:g} walkers, {len(workload.theta)} cells, {len(workload.counts)} steps",
        ours,
        "Clarabel",
        None if answer is None else answer["processor_seconds"],
        comparison="same rule",
        stopping=f"a relative gap of {_TOL:g}",
        peer_finished=None if answer is None else answer["finished"],
        wanted="ratio >= 100",
        ours_quality=comparable(result.objective, workload),
        quality_is=_OBJECTIVE,
        ours_gap=result.residual,
        ours_iterations=result.n_iter,
        **peer_fields,
    )


def _descend(workload: NoisyMarginals, n_iter: int) -> tuple[float, float]:
    """Return the processor seconds per iteration and the final objective, half the squared errors over sigma^2."""
    s = workload.counts.shape[1]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is fixed
        result = infer_flows(
            np.zeros((s, s)), workload.counts, workload.n_walkers, noise=GaussianNoise(workload.sigma),
            flow_counts=workload.flow_counts, model_weight=0.0, method="mirror_descent", max_iter=n_iter, tol=0.0,
        )  # fmt: skip
    seconds = time.process_time() - start
    n_counts = workload.counts.size + workload.flow_counts.size
    constant = n_counts * (0.5 * np.log(2.0 * np.pi) + np.log(workload.sigma))
    return seconds / n_iter, float(result.objective - constant)


def _compare_with_mbi(workload: NoisyMarginals, repeats: int) -> Row:
    timed: dict[str, Callable[[], float]] = {"ours": lambda: _descend(workload, _ITERATIONS)[0]}
    peer_fields: Row = {}
    with ExitStack() as stack:
        peer = find_peer("mbi")
        if peer is not None:
            stack.enter_context(peer)
            peer.load(
                counts=workload.counts,
                flow_counts=workload.flow_counts,
                sigma=workload.sigma,
                n_walkers=workload.n_walkers,
            )
            timed["peer"] = lambda: float(peer.ask("descend", n_iter=_ITERATIONS)["processor_seconds"] / _ITERATIONS)
        best = fastest_in_turns(timed, repeats)
        if peer is not None:
            peer_fields["peer_quality"] = peer.ask("descend", n_iter=_ITERATIONS)["objective"]
    n_steps, n_cells = workload.counts.shape
    return bench_row(
        f"noisy counts of cells and moves, {n_steps} x {n_cells}: one iteration of descent",
        best["ours"],
        "mbi's mirror descent, single precision",
        best.get("peer"),
        comparison="same rule",
        stopping=f"{_ITERATIONS} iterations each",
        wanted="ratio >= 5 and quality < peer",
        ours_quality=_descend(workload, _ITERATIONS)[1],
        quality_is=f"half the squared errors over sigma^2 after {_ITERATIONS} iterations",
        **peer_fields,
    )


_YEAR_CODE = f"""
import json, resource, sys, time
from intarsia.collective import infer_flows
from intarsia_reproduction.workloads.collective_workloads import banded_year
infer_flows([[0.0]], [[1.0]])
workload = banded_year{{year}}
start = time.process_time()
result = infer_flows(workload.theta, workload.counts, workload.n_walkers, tol=1e-4)
seconds = time.process_time() - start
reach = result._oracle.tables.reach
print(json.dumps(dict(seconds=seconds, peak={PEAK_BYTES}, gap=result.residual, n_iter=result.n_iter, reach=reach)))
"""


def _year() -> Row:
    measurement = in_fresh_process(_YEAR_CODE.format(year=_YEAR))
    weeks, rows, columns = _YEAR
    return bench_row(
        f"{weeks} weeks x {rows * columns} cells, banded table, to a gap of 1e-4",
        measurement["seconds"],
        wanted="seconds < 120 and quality < 4e9",
        ours_quality=measurement["peak"],
        quality_is="largest memory of a fresh process in bytes, libraries included",
        ours_gap=measurement["gap"],
        ours_iterations=measurement["n_iter"],
        band=measurement["reach"],
    )
