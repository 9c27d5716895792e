"""`intarsia bench softlogic`: MAP inference in hinge-loss MRFs, compared with OSQP, SCS and PSL.

A long run of ours brackets the optimum by its objective and by the Lagrangian dual at its multipliers. The dual is
computed here independently, with sparse matrices. Distances are measured from the dual value, so they are never too
small. Our time is that of the complete call, which stops by itself with a proof of its accuracy; the time of OSQP and
SCS ends at their first iterate that is as close to the optimum.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import AdmmState, ConsensusADMM, HingeLossMRF, HingeResult
from intarsia_reproduction.benchmarks.bench_psl import psl_rows
from intarsia_reproduction.benchmarks.measurement import (
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
    seconds_of,
)
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.softlogic_workloads import hinge_workload

TIME_LIMIT = "INTARSIA_CONIC_SECONDS"
"""Environment variable: processor seconds after which OSQP and SCS are stopped."""

_DEFAULT_LIMIT = 240.0
_WITHIN = 1e-3  # of the optimum
_REFERENCE_TOL = 1e-6  # tolerance of the long run that brackets the optimum
_CHUNKS = {"osqp": 100, "scs": 100}  # iterations between two evaluations of the objective
_SOLVERS = {"osqp": "OSQP", "scs": "SCS"}
_REQUIRED_RATIO = 200.0  # required ratio to OSQP and SCS
_LARGE_SECONDS, _LARGE_THREADS = 10.0, 2
_GROWTH = (400_000, 4_000_000)  # terms
_MAX_BYTES = 200  # per term
_DISTANCE = "distance of the objective from the optimum's lower bound, as a fraction of it"


def time_limit() -> float:
    """Return the time limit of OSQP and of SCS in seconds: `$INTARSIA_CONIC_SECONDS`, or 240."""
    value = os.environ.get(TIME_LIMIT, "")
    try:
        limit = float(value) if value else _DEFAULT_LIMIT
    except ValueError:
        raise InvalidInputError(
            f"{TIME_LIMIT}={value!r} is not a number. Set it to a number of seconds, such as 600."
        ) from None
    check_number(limit, TIME_LIMIT, low=0.0, open_low=True)
    return limit


def bench_softlogic(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench softlogic`; takes minutes, since OSQP, SCS and PSL are slow.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None.
    Times of rows with a peer are processor seconds (one thread), so that other processes on the machine do not distort
    the comparison. The large model on two threads is timed by wall clock.

    Parameters
    ----------
    repeats : int
        Number of timed runs of Intarsia; the fastest counts. OSQP and SCS are run once.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        log("w5_small")
        rows += _compare_with_solvers(hinge_workload("w5_small"), repeats, log)
    log("w5_big")
    rows.append(_large(hinge_workload("w5_big"), repeats))
    log(f"growth to {_GROWTH[1]:,} terms")
    rows.append(_growth())
    rows += psl_rows(repeats, log)
    return rows


def proven_bound(model: HingeLossMRF, state: AdmmState) -> float:
    """Return the Lagrangian dual at the multipliers of a state, a lower bound on the objective of every point.

    It is computed with sparse matrices, and only for models without constraints.

    Examples
    --------
    >>> from intarsia.softlogic import LinearRows
    >>> model = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0.0, 1.0]), [1.0, 3.0], 1)  # x + 3 (1 - x)
    >>> round(proven_bound(model, ConsensusADMM(tol=1e-8).solve(model).state), 5)
    1.0
    """
    y = np.maximum(state.multipliers(), 0.0)
    squared = model.power == 2
    y = np.where(squared, y, np.minimum(y, model.weight))
    y[squared & (model.weight == 0.0)] = 0.0
    cost = np.zeros(y.size)
    np.divide(y * y, 4.0 * model.weight, out=cost, where=squared & (model.weight > 0.0))
    forces = np.asarray(model.terms.to_scipy(model.n_variables).T @ y)
    return float(y @ model.terms.const - cost.sum() + np.minimum(forces, 0.0).sum())


def _distance(objective: float, bound: float) -> float:
    return (objective - bound) / bound


def _timed(model: HingeLossMRF, clock: Callable[[Callable[[], object]], float], repeats: int, n_jobs: int = 1) -> Row:
    """Time our complete call and measure the distance of its objective from the optimum."""
    results: list[HingeResult] = []
    solver = ConsensusADMM(tol=_WITHIN, n_jobs=n_jobs)
    best = fastest_in_turns({"ours": lambda: clock(lambda: results.append(solver.solve(model)))}, repeats)
    bound = proven_bound(model, ConsensusADMM(tol=_REFERENCE_TOL, max_iter=100_000, n_jobs=n_jobs).solve(model).state)
    result = results[-1]
    return {
        "seconds": best["ours"],
        "bound": bound,
        "quality": _distance(result.objective, bound),
        "fields": {"ours_iterations": result.n_iter, "ours_objective": result.objective, "lower_bound": bound},
    }


def _compare_with_solvers(model: HingeLossMRF, repeats: int, log: Report) -> list[Row]:
    ours = _timed(model, processor_seconds, repeats)
    rows = []
    with ExitStack() as stack:
        peer = find_peer("conic")
        if peer is not None:
            peer = stack.enter_context(peer)
            terms = model.terms
            peer.load(
                ptr=terms.ptr, idx=terms.idx, coef=terms.coef, const=terms.const, weight=model.weight,
                power=model.power, n_variables=model.n_variables,
            )  # fmt: skip
        for name, title in _SOLVERS.items():
            seconds, quality, peer_fields, is_close = None, None, {}, True
            if peer is not None:
                log(f"{title}, at most {time_limit():g} s of the processor")
                answer = peer.ask(
                    "run", solver=name, target=(1.0 + _WITHIN) * ours["bound"], time_limit=time_limit(),
                    chunk=_CHUNKS[name],
                )  # fmt: skip
                seconds, quality = float(answer["processor_seconds"]), _distance(answer["objective"], ours["bound"])
                is_close, peer_fields = bool(answer["reached"]), {"peer_iterations": answer["iterations"]}
            rows.append(
                bench_row(
                    f"w5_small, {model.n_terms:,} hinges: to within {_WITHIN:g} of the optimum",
                    ours["seconds"],
                    title if is_close else f"{title}, stopped before it was as close",
                    seconds,
                    comparison="same rule",
                    stopping=f"within {_WITHIN:g} of the optimum, which ours proves",
                    peer_finished=is_close,
                    wanted=f"ratio >= {_REQUIRED_RATIO:g}",
                    ours_quality=ours["quality"],
                    peer_quality=quality,
                    quality_is=_DISTANCE,
                    **ours["fields"],
                    **peer_fields,
                )
            )
    return rows


def _large(model: HingeLossMRF, repeats: int) -> Row:
    ours = _timed(model, seconds_of, min(repeats, 3), _LARGE_THREADS)
    return bench_row(
        f"w5_big, {model.n_terms:,} hinges: to within {_WITHIN:g} of the optimum, {_LARGE_THREADS} threads",
        ours["seconds"],
        wanted=f"< {_LARGE_SECONDS:g} s, quality <= {_WITHIN:g}",
        ours_quality=ours["quality"],
        quality_is=_DISTANCE,
        **ours["fields"],
    )


# ---------------------------------------------------------------- growth


_GROWTH_CODE = """
import json, time
from intarsia_reproduction.benchmarks.measurement import forget_peak, peak_since
from intarsia_reproduction.workloads.softlogic_workloads import many_clauses
from intarsia.softlogic import ConsensusADMM
ConsensusADMM(tol={tol}).solve(many_clauses(1000))
model = many_clauses({terms})
rows = model.terms
model_bytes = sum(a.nbytes for a in (rows.ptr, rows.idx, rows.coef, rows.const, model.weight, model.power))
before = forget_peak()
start = time.process_time()
result = ConsensusADMM(tol={tol}).solve(model)
seconds = time.process_time() - start
grown = None if before is None else (model_bytes + peak_since() - before) / model.n_terms
print(json.dumps(dict(seconds=seconds, bytes=grown, iterations=result.n_iter, terms=model.n_terms)))
"""


def _growth() -> Row:
    """Measure time and memory per term of a small and of a large model, each in a fresh process."""
    start = time.perf_counter()
    small, large = (in_fresh_process(_GROWTH_CODE.format(terms=terms, tol=_WITHIN)) for terms in _GROWTH)
    per_step = [run["seconds"] / (run["iterations"] * run["terms"]) for run in (small, large)]
    return bench_row(
        f"{large['terms']:,} hinges: to within {_WITHIN:g} of the optimum",
        large["seconds"],
        f"the same, {small['terms']:,} hinges",
        small["seconds"],
        comparison="ourselves",
        stopping=f"within {_WITHIN:g} of the optimum",
        wanted=f"quality < {_MAX_BYTES}",
        ours_quality=large["bytes"],
        peer_quality=small["bytes"],
        quality_is="bytes per hinge: the model, and by how much solving it makes a process grow",
        ours_iterations=large["iterations"],
        peer_iterations=small["iterations"],
        nanoseconds_per_hinge_and_iteration=[1e9 * seconds for seconds in per_step],
        wall_seconds=time.perf_counter() - start,
    )
