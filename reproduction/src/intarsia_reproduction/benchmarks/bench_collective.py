"""`intarsia bench collective`: many walkers beside an interior-point solver and beside mbi, in one run."""

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
_MEMORY_LIMIT = 10e9  # bytes; the largest tables would take more than most machines have
_CELLS = 50  # `w7_cgm(50)`: tables of 2,500 moves
_ITERATIONS = 1000  # of mirror descent; mbi runs blocks of 50
_YEAR = (52, 25, 40)  # weeks, rows, columns
_TOL = 1e-6
_OBJECTIVE = "objective, without the constant sum of log y!"


def time_limit() -> float:
    """Seconds given to the interior-point solver: `$INTARSIA_INTERIOR_POINT_SECONDS`, by default half an hour."""
    given = os.environ.get(TIME_LIMIT, "")
    try:
        limit = float(given) if given else _DEFAULT_LIMIT
    except ValueError:
        raise InvalidInputError(f"{TIME_LIMIT}={given!r} is not a number. Give seconds, such as 600.") from None
    check_number(limit, TIME_LIMIT, low=0.0, open_low=True)
    return limit


def bench_collective(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Rows of `intarsia bench collective`; the interior-point solver takes minutes and is run once.

    Every row has the keys of the contract, see `bench_inference`; what needs a peer that is not installed is None.
    Seconds are those that the processor spent on the program (one thread), so that a busy machine favours nobody.

    Parameters
    ----------
    repeats : int
        Timed runs of each program, taking turns after a warm-up; the fastest counts.
    report : callable, optional
        Is told in a line what is being measured.
    rows : list, optional
        To add rows to as they are measured, so that Ctrl-C leaves them.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    limit = time_limit()
    tell: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        tell("descent on noisy marginals beside mbi")
        rows.append(_beside_mbi(noisy_marginals(), repeats))
        tell(f"interior point beside us, at most {limit:g} s")
        rows.append(_beside_interior_point(migration(_CELLS), repeats, limit))
        tell("a year of weeks on a map")
        rows.append(_year())
    return rows


def solve(made: Migration, tol: float = _TOL) -> CollectiveResult:
    """Our answer to a migration, to a relative duality gap."""
    return infer_flows(made.theta, made.counts, made.n_walkers, tol=tol)


def comparable(objective: float, made: Migration) -> float:
    """An objective without the constant, as the interior-point solver gives it."""
    return objective - float(gammaln(made.counts + 1.0).sum())


def ask_interior_point(made: Migration, limit: float) -> dict[str, Any] | None:
    """Seconds, objective and status of Clarabel through cvxpy; None when it is not installed."""
    peer = find_peer("clarabel")
    if peer is None:
        return None
    with peer:
        peer.load(counts=made.counts, theta=made.theta, n_walkers=made.n_walkers)
        return peer.ask("solve", time_limit=limit, memory_limit=_MEMORY_LIMIT)


# ---------------------------------------------------------------- rows


def _beside_interior_point(made: Migration, repeats: int, limit: float) -> Row:
    result = solve(made)
    ours = fastest_in_turns({"ours": lambda: processor_seconds(lambda: solve(made))}, repeats, 1.0)["ours"]
    theirs = ask_interior_point(made, limit)
    more: Row = {}
    if theirs is not None:
        more = {
            "peer_quality": theirs["objective"],
            "peer_wall_seconds": theirs["seconds"],
            "time_limit": limit,
        }
    return bench_row(
        f"migration of {made.n_walkers:g} walkers, {len(made.theta)} cells, {len(made.counts)} steps",
        ours,
        "Clarabel through cvxpy",
        None if theirs is None else theirs["processor_seconds"],
        comparison="own rules",
        stopping=f"ours at a relative gap of {_TOL:g}, the solver at its own tolerance",
        peer_finished=None if theirs is None else theirs["finished"],
        wanted="ratio >= 100",
        ours_quality=comparable(result.objective, made),
        quality_is=_OBJECTIVE,
        ours_gap=result.residual,
        ours_iterations=result.n_iter,
        **more,
    )


def _descend(made: NoisyMarginals, n_iter: int) -> tuple[float, float]:
    """Processor seconds per iteration, and half the squared errors over sigma^2 at the end."""
    s = made.counts.shape[1]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a number of iterations is asked for
        result = infer_flows(
            np.zeros((s, s)), made.counts, made.n_walkers, noise=GaussianNoise(made.sigma),
            flow_counts=made.flow_counts, model_weight=0.0, method="mirror_descent", max_iter=n_iter, tol=0.0,
        )  # fmt: skip
    seconds = time.process_time() - start
    n_counts = made.counts.size + made.flow_counts.size
    constant = n_counts * (0.5 * np.log(2.0 * np.pi) + np.log(made.sigma))
    return seconds / n_iter, float(result.objective - constant)


def _beside_mbi(made: NoisyMarginals, repeats: int) -> Row:
    timed: dict[str, Callable[[], float]] = {"ours": lambda: _descend(made, _ITERATIONS)[0]}
    more: Row = {}
    with ExitStack() as stack:
        peer = find_peer("mbi")
        if peer is not None:
            stack.enter_context(peer)
            peer.load(
                counts=made.counts, flow_counts=made.flow_counts, sigma=made.sigma, n_walkers=made.n_walkers
            )  # fmt: skip
            timed["peer"] = lambda: float(
                peer.ask("descend", n_iter=_ITERATIONS)["processor_seconds"] / _ITERATIONS
            )  # fmt: skip
        best = fastest_in_turns(timed, repeats)
        if peer is not None:
            more["peer_quality"] = peer.ask("descend", n_iter=_ITERATIONS)["objective"]
    return bench_row(
        f"noisy counts of cells and moves, {made.counts.shape[0]} x {made.counts.shape[1]}: one iteration of descent",
        best["ours"],
        "mbi's mirror descent, single precision",
        best.get("peer"),
        comparison="same rule",
        stopping=f"{_ITERATIONS} iterations each",
        wanted="ratio >= 5 and quality < peer",
        ours_quality=_descend(made, _ITERATIONS)[1],
        quality_is=f"half the squared errors over sigma^2 after {_ITERATIONS} iterations",
        **more,
    )


_YEAR_CODE = f"""
import json, resource, sys, time
from intarsia.collective import infer_flows
from intarsia_reproduction.workloads.collective_workloads import banded_year
infer_flows([[0.0]], [[1.0]])
made = banded_year{{year}}
start = time.process_time()
result = infer_flows(made.theta, made.counts, made.n_walkers, tol=1e-4)
seconds = time.process_time() - start
reach = result._oracle.tables.reach
print(json.dumps(dict(seconds=seconds, peak={PEAK_BYTES}, gap=result.residual, n_iter=result.n_iter, reach=reach)))
"""


def _year() -> Row:
    found = in_fresh_process(_YEAR_CODE.format(year=_YEAR))
    weeks, rows, columns = _YEAR
    return bench_row(
        f"{weeks} weeks x {rows * columns} cells, banded table, to a gap of 1e-4",
        found["seconds"],
        wanted="seconds < 120 and quality < 4e9",
        ours_quality=found["peak"],
        quality_is="largest memory of a fresh process in bytes, libraries included",
        ours_gap=found["gap"],
        ours_iterations=found["n_iter"],
        band=found["reach"],
    )
