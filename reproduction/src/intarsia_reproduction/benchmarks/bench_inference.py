"""`intarsia bench inference`: speed, memory and quality of inference, compared with PGMax and libDAI.

Seconds depend on the machine. Comparable across machines is only the ratio of two programs that take turns on the same
processor with the same model. libDAI is not on PyPI: its seconds were measured once, together with PGMax, and are
scaled to this machine by PGMax(now) / PGMax(then).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np

from intarsia._core.validation import FloatArray, check_number
from intarsia._files.atomic_file import temporary_folder
from intarsia.exceptions import ConvergenceWarning
from intarsia.graph import FactorGraph, grid_graph
from intarsia.inference import InferenceResult, infer
from intarsia.inference.messages.pairwise_messages import PairwiseMessages
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    seconds_of,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.workloads.workloads import GridWorkload, inference_workload

SWEEPS = 50
_AT_LEAST = 2.0  # seconds over which short runs are repeated, so that some of them are undisturbed
_MARGINAL_ERROR = "largest error of a variable marginal against the fixed point"


@dataclass(frozen=True)
class _Quoted:
    """Seconds measured once on another machine, in one run; only their ratios are meaningful."""

    pgmax_sweeps: float  # PGMax, 50 sweeps of belief propagation
    libdai_mean_field: float
    wanted_sweeps: float  # required ratio to PGMax in 50 sweeps
    wanted_calls: float | None = None  # required ratio to PGMax of whole calls with 50 sweeps


_QUOTED = {"w1_binary": _Quoted(0.083, 3.7, 3.0, 3.0), "w1_multi": _Quoted(2.2, 6.7, 8.0)}


def bench_inference(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench inference`; takes a few minutes.

    Every row has the keys `workload`, `ours_seconds`, `peer`, `peer_seconds`, `ratio` (peer / ours), `ours_quality`,
    `peer_quality`, `comparison`, `stopping` and `peer_finished` (see `bench_row`), the meaning of the qualities
    (`quality_is`), the goal (`wanted`) and, where they apply, sweeps and compile seconds. Values of a peer that is not
    installed are None.

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
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of sweeps is fixed
        for name in _QUOTED:
            rows += _against_peers(inference_workload(name), repeats, log)
        log("memory")
        rows += _memory()
        log("start-up")
        rows += _start_up(repeats)
    return rows


# ---------------------------------------------------------------- message passing


def _against_peers(workload: GridWorkload, repeats: int, log: Report) -> list[Row]:
    """Measure the rows of one workload in which two programs, or two of our methods, take turns."""
    quoted = _QUOTED[workload.name]
    graph, theta = workload.model()
    log(f"{workload.name}: fixed point")
    fixed_point = _variable_marginals(infer(graph, theta, "belief_propagation", max_iter=5000, tol=1e-13))
    with ExitStack() as stack:
        peer = find_peer("pgmax")
        if peer is not None:
            stack.enter_context(peer)
            log(f"{workload.name}: PGMax loads the model")
            peer.load(unary=workload.unary, edges=workload.edges, pair=workload.pair)
        log(f"{workload.name}: belief propagation, {SWEEPS} sweeps")
        sweeps = _fifty_sweeps(workload.name, graph, theta, fixed_point, peer, repeats, quoted)
        log(f"{workload.name}: belief propagation to the same residual")
        residual = _to_residual(workload.name, graph, theta, fixed_point, peer, repeats)
        log(f"{workload.name}: mean field")
        mean_field = _mean_field(workload.name, graph, theta, peer, repeats, quoted)
    log(f"{workload.name}: tree-reweighted compared with belief propagation")
    return [sweeps, residual, *mean_field, _tree_reweighted(workload.name, graph, theta, repeats)]


def _fifty_sweeps(
    name: str,
    graph: FactorGraph,
    theta: FloatArray,
    fixed_point: FloatArray,
    peer: Peer | None,
    repeats: int,
    quoted: _Quoted,
) -> Row:
    ours = partial(infer, graph, theta, "belief_propagation", max_iter=SWEEPS, tol=0.0)
    best = _time_sweeps_and_calls(graph, theta, SWEEPS, ours, peer, SWEEPS, repeats)
    result = ours()
    row = bench_row(
        f"{name}: belief propagation, {SWEEPS} sweeps",
        best["ours"],
        "PGMax",
        best.get("peer"),
        comparison="same rule",
        stopping=f"{SWEEPS} sweeps each",
        wanted=f"ratio >= {quoted.wanted_sweeps:g}",
        ours_quality=_error(_variable_marginals(result), fixed_point),
        quality_is=_MARGINAL_ERROR,
        ours_sweeps=result.n_iter,
        ours_residual=result.residual,
        **_call_fields(best),
    )
    if quoted.wanted_calls is not None:
        row["whole_wanted"] = f"ratio >= {quoted.wanted_calls:g}"
    if peer is not None:
        row["peer_compile_seconds"] = peer.ask("run", n_iter=SWEEPS)["compile_seconds"]
        row["peer_quality"] = _error(peer.fetch("marginals"), fixed_point)
        row["peer_sweeps"] = SWEEPS
        row["peer_peak_bytes"] = peer.ask("memory")["bytes"]
    return row


def _to_residual(
    name: str, graph: FactorGraph, theta: FloatArray, fixed_point: FloatArray, peer: Peer | None, repeats: int
) -> Row:
    """Measure the time to a residual of 1e-6, or to the smallest residual that PGMax reaches in single precision.

    PGMax runs exactly as many iterations as it needs, without convergence checks. Our residual is that of messages and
    PGMax's that of log messages, so our tolerance is reduced until our marginals are at least as accurate.
    """
    target, peer_sweeps, peer_error = 1e-6, None, np.inf
    if peer is not None:
        residuals = np.array(peer.ask("residuals", n_iter=4 * SWEEPS)["residuals"])
        floor = float(np.median(residuals[-SWEEPS:]))
        target = max(1e-6, 2.0 * floor)  # twice, so that noise near the floor does not cost PGMax iterations
        peer_sweeps = int(np.argmax(residuals <= target)) + 1
        peer.ask("run", n_iter=peer_sweeps)
        peer_error = _error(peer.fetch("marginals"), fixed_point)
    tol = target
    result = infer(graph, theta, "belief_propagation", max_iter=1000, tol=tol)
    while _error(_variable_marginals(result), fixed_point) > peer_error and tol > 1e-12:
        tol /= 2.0
        result = infer(graph, theta, "belief_propagation", max_iter=1000, tol=tol)
    ours = partial(infer, graph, theta, "belief_propagation", max_iter=1000, tol=tol)
    best = _time_sweeps_and_calls(graph, theta, result.n_iter, ours, peer, peer_sweeps, repeats)
    return bench_row(
        f"{name}: belief propagation to residual {target:.1e}",
        best["ours"],
        "PGMax",
        best.get("peer"),
        comparison="same rule",
        stopping="PGMax at the residual, ours at marginals at least as close to the fixed point",
        wanted="ratio >= 8",
        ours_quality=_error(_variable_marginals(result), fixed_point),
        peer_quality=None if peer is None else peer_error,
        quality_is=_MARGINAL_ERROR,
        ours_sweeps=result.n_iter,
        peer_sweeps=peer_sweeps,
        ours_residual=result.residual,
        **_call_fields(best),
    )


def _time_sweeps_and_calls(
    graph: FactorGraph,
    theta: FloatArray,
    n_sweeps: int,
    ours: Callable[[], InferenceResult],
    peer: Peer | None,
    peer_sweeps: int | None,
    repeats: int,
) -> dict[str, float]:
    """Time the sweeps alone, from uniform messages, and the complete call with its marginals, for both programs.

    Our complete call does more than that of PGMax: it also validates, and computes factor marginals, log Z and labels.
    """
    state = PairwiseMessages(graph, theta, 1.0)

    def sweeps_alone() -> float:
        state.messages[:] = 1.0 / state.k
        return seconds_of(lambda: [state.sweep("forward_backward", 0.0) for _ in range(n_sweeps)])

    timed: dict[str, Callable[[], float]] = {"ours": sweeps_alone, "ours whole": lambda: seconds_of(ours)}
    if peer is not None:
        timed["peer"] = lambda: float(peer.ask("run", n_iter=peer_sweeps)["seconds"])
        timed["peer whole"] = lambda: float(peer.ask("infer", n_iter=peer_sweeps)["seconds"])
    return fastest_in_turns(timed, repeats, _AT_LEAST)


def _call_fields(best: dict[str, float]) -> Row:
    ours, peer = best["ours whole"], best.get("peer whole")
    return {
        "ours_whole_seconds": ours,
        "peer_whole_seconds": peer,
        "whole_ratio": None if peer is None else peer / ours,
    }


def _mean_field(
    name: str, graph: FactorGraph, theta: FloatArray, peer: Peer | None, repeats: int, quoted: _Quoted
) -> list[Row]:
    """Measure mean field with a fixed number of sweeps and until convergence, both compared with libDAI.

    PGMax, by which the seconds of libDAI are scaled, takes turns with each, so that a busy moment affects both.
    """
    rows = []
    for description, max_iter, tol in (
        (f"mean field, {SWEEPS} sweeps", SWEEPS, 0.0),
        ("mean field to tol 1e-6", 1000, 1e-6),
    ):
        ours = partial(infer, graph, theta, "mean_field", max_iter=max_iter, tol=tol)
        timed: dict[str, Callable[[], float]] = {"ours": partial(seconds_of, ours)}
        if peer is not None:
            timed["pgmax"] = lambda: float(peer.ask("run", n_iter=SWEEPS)["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        result = ours()
        pgmax = best.get("pgmax")
        row = bench_row(
            f"{name}: {description}",
            best["ours"],
            "libDAI (quoted, scaled)",
            None if pgmax is None else quoted.libdai_mean_field * pgmax / quoted.pgmax_sweeps,
            comparison="quoted",
            stopping="ours as the row says, libDAI by its own rule on another machine",
            wanted="ratio >= 50",
            ours_quality=result.log_partition,
            quality_is="lower bound on log Z",
            ours_sweeps=result.n_iter,
            ours_residual=result.residual,
        )
        rows.append(row)
    return rows


def _tree_reweighted(name: str, graph: FactorGraph, theta: FloatArray, repeats: int) -> Row:
    """Measure the seconds per sweep from the difference of a long and a short run, so that fixed costs cancel."""
    # The amount of work is similar on every model, and large compared with timing noise.
    short, long = 5, 5 + int(np.clip(2e7 / graph.n_theta, 40, 400))
    sweeps: dict[str, int] = {}

    def timer(method: str, n_iter: int) -> Callable[[], float]:
        def call() -> float:
            results: list[InferenceResult] = []
            seconds = seconds_of(lambda: results.append(infer(graph, theta, method, max_iter=n_iter, tol=0.0)))
            sweeps[f"{method} {n_iter}"] = results[0].n_iter
            return seconds

        return call

    methods = ("belief_propagation", "tree_reweighted")
    best = fastest_in_turns({f"{m} {n}": timer(m, n) for n in (short, long) for m in methods}, repeats, _AT_LEAST)
    per_sweep = {}
    for m in methods:
        seconds_between, sweeps_between = (
            best[f"{m} {long}"] - best[f"{m} {short}"],
            sweeps[f"{m} {long}"] - sweeps[f"{m} {short}"],
        )
        if seconds_between > 0 and sweeps_between > 0:
            per_sweep[m] = seconds_between / sweeps_between
        else:  # on tiny models noise exceeds the time of the sweeps: include fixed costs
            per_sweep[m] = best[f"{m} {long}"] / max(sweeps[f"{m} {long}"], 1)
    return bench_row(
        f"{name}: tree-reweighted, one sweep",
        per_sweep["tree_reweighted"],
        "Intarsia belief_propagation, one sweep",
        per_sweep["belief_propagation"],
        comparison="ourselves",
        stopping="one sweep each",
        wanted="ratio >= 0.625",
    )


# ---------------------------------------------------------------- memory and start-up

_MEMORY_CODE = f"""
import json, resource, sys, time, warnings
import numpy as np
import intarsia
warnings.simplefilter("ignore")
small = intarsia.grid_graph(3, 3, 2)
intarsia.infer(small, small.zeros(), "belief_propagation", max_iter=2)  # compile first
rng = np.random.default_rng(0)
graph = intarsia.grid_graph(1000, 1000, 2)
theta = rng.standard_normal(graph.n_theta)
before = {PEAK_BYTES}
start = time.perf_counter()
result = intarsia.infer(graph, theta, "belief_propagation", max_iter=20, tol=0.0)
seconds = time.perf_counter() - start
print(json.dumps(dict(seconds=seconds, before=before, peak={PEAK_BYTES}, theta=theta.nbytes, residual=result.residual)))
"""


def _memory() -> list[Row]:
    measurement = in_fresh_process(_MEMORY_CODE)
    return [
        bench_row(
            "1000x1000 binary grid: belief propagation, 20 sweeps",
            measurement["seconds"],
            wanted="quality < 1e9",
            ours_quality=measurement["peak"],
            quality_is="largest memory of the process in bytes, compiler and model included",
            ours_increase_bytes=measurement["peak"] - measurement["before"],
            theta_bytes=measurement["theta"],
            ours_residual=measurement["residual"],
        )
    ]


_FIRST_CALL_CODE = """
import json, time, warnings
warnings.simplefilter("ignore")
start = time.perf_counter()
import intarsia
graph = intarsia.grid_graph(10, 10, 2)
intarsia.infer(graph, graph.zeros(), {method!r}, max_iter=5)
print(json.dumps(dict(seconds=time.perf_counter() - start)))
"""

_FIRST_CALLS = ("belief_propagation", "tree_reweighted", "mean_field")

_IMPORT_CODE = (
    "import json, time; start = time.perf_counter(); import intarsia;"
    "print(json.dumps(dict(seconds=time.perf_counter() - start)))"
)


def _start_up(repeats: int) -> list[Row]:
    build = fastest_in_turns({"ours": lambda: seconds_of(lambda: grid_graph(1000, 1000, 2))}, repeats)["ours"]
    load = fastest_in_turns({"ours": lambda: float(in_fresh_process(_IMPORT_CODE)["seconds"])}, repeats)["ours"]
    rows = [
        bench_row("grid_graph(1000, 1000, 2)", build, wanted="< 1 s"),
        bench_row("import intarsia", load, wanted="< 0.3 s"),
    ]
    for method in _FIRST_CALLS:
        with temporary_folder() as cache:  # empty in the first process, filled in the second
            code = _FIRST_CALL_CODE.format(method=method)
            first, second = (in_fresh_process(code, {"NUMBA_CACHE_DIR": cache})["seconds"] for _ in range(2))
        rows.append(bench_row(f"first call, {method}: import and compile", first, wanted="< 5 s"))
        rows.append(bench_row(f"first call, {method}: second process", second, wanted="less"))
    return rows


# ---------------------------------------------------------------- rows


def _variable_marginals(result: InferenceResult) -> FloatArray:
    if result.mu is None:
        return np.full((result.graph.n_variables, int(result.graph.n_states[0])), np.nan)
    return result.mu[: result.graph.variable_ptr[-1]].reshape(result.graph.n_variables, -1)


def _error(marginals: FloatArray, fixed_point: FloatArray) -> float:
    return float(np.abs(marginals - fixed_point).max())
