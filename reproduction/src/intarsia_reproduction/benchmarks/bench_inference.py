"""Speed, memory and quality of inference beside PGMax and libDAI, all in one run.

Absolute seconds belong to a machine; what travels is the ratio of two programs that took turns on the same processor
with the same model. libDAI is not on PyPI: its seconds were measured once, beside PGMax, and are carried to this
machine by PGMax(now) / PGMax(then).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np

from intarsia._core.validation import FloatArray, check_number
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
_AT_LEAST = 2.0  # seconds given to a comparison of short runs, so that some of them are undisturbed
_MARGINAL_ERROR = "largest error of a variable marginal against the fixed point"


@dataclass(frozen=True)
class _Quoted:
    """Seconds measured once on another machine, all beside each other; only their ratios mean anything."""

    pgmax_sweeps: float  # PGMax, 50 sweeps of belief propagation
    libdai_mean_field: float
    wanted_sweeps: float  # how many times faster than PGMax we mean to be in 50 sweeps


_QUOTED = {"w1_binary": _Quoted(0.083, 3.7, 3.0), "w1_multi": _Quoted(2.2, 6.7, 8.0)}


def bench_inference(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Rows of `intarsia bench inference`; takes a few minutes.

    Every row has the keys of the contract (`workload`, `ours_seconds`, `peer`, `peer_seconds`, `ratio` = peer / ours,
    `ours_quality`, `peer_quality`; `comparison`, `stopping` and `peer_finished`, see `bench_row`), what the qualities
    are (`quality_is`), the goal (`wanted`) and, where it applies, sweeps and compile seconds. What needs a peer that is
    not installed is None.

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
    tell: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 50 sweeps are asked for, converged or not
        for name in _QUOTED:
            rows += _against_peers(inference_workload(name), repeats, tell)
        tell("memory")
        rows += _memory()
        tell("start-up")
        rows += _start_up(repeats)
    return rows


# ---------------------------------------------------------------- message passing


def _against_peers(workload: GridWorkload, repeats: int, tell: Report) -> list[Row]:
    """All rows of one workload that need a peer, or two of our methods, in turns."""
    quoted = _QUOTED[workload.name]
    graph, theta = workload.model()
    tell(f"{workload.name}: fixed point")
    fixed_point = _variable_marginals(infer(graph, theta, "belief_propagation", max_iter=5000, tol=1e-13))
    with ExitStack() as stack:
        peer = find_peer("pgmax")
        if peer is not None:
            stack.enter_context(peer)
            tell(f"{workload.name}: PGMax loads the model")
            peer.load(unary=workload.unary, edges=workload.edges, pair=workload.pair)
        tell(f"{workload.name}: belief propagation, {SWEEPS} sweeps")
        sweeps = _fifty_sweeps(workload.name, graph, theta, fixed_point, peer, repeats, quoted)
        tell(f"{workload.name}: belief propagation to the same residual")
        residual = _to_residual(workload.name, graph, theta, fixed_point, peer, repeats)
        tell(f"{workload.name}: mean field")
        mean_field = _mean_field(workload.name, graph, theta, peer, repeats, quoted)
    tell(f"{workload.name}: tree-reweighted beside belief propagation")
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
    best = _passing_and_whole(graph, theta, SWEEPS, ours, peer, SWEEPS, repeats)
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
        **_whole(best),
    )
    if peer is not None:
        row["peer_compile_seconds"] = peer.ask("run", n_iter=SWEEPS)["compile_seconds"]
        row["peer_quality"] = _error(peer.fetch("marginals"), fixed_point)
        row["peer_sweeps"] = SWEEPS
        row["peer_peak_bytes"] = peer.ask("memory")["bytes"]
    return row


def _to_residual(
    name: str, graph: FactorGraph, theta: FloatArray, fixed_point: FloatArray, peer: Peer | None, repeats: int
) -> Row:
    """Time to a residual of 1e-6, or to where PGMax's single precision stops falling.

    PGMax is timed with exactly as many iterations as it needs, without any check of convergence. Our residual is of
    messages and PGMax's of their logarithms, so ours is also made to reach marginals at least as good.
    """
    target, peer_sweeps, peer_error = 1e-6, None, np.inf
    if peer is not None:
        residuals = np.array(peer.ask("residuals", n_iter=4 * SWEEPS)["residuals"])
        floor = float(np.median(residuals[-SWEEPS:]))
        target = max(1e-6, 2.0 * floor)  # twice: the noise at the floor should not cost PGMax iterations
        peer_sweeps = int(np.argmax(residuals <= target)) + 1
        peer.ask("run", n_iter=peer_sweeps)
        peer_error = _error(peer.fetch("marginals"), fixed_point)
    tol = target
    result = infer(graph, theta, "belief_propagation", max_iter=1000, tol=tol)
    while _error(_variable_marginals(result), fixed_point) > peer_error and tol > 1e-12:
        tol /= 2.0
        result = infer(graph, theta, "belief_propagation", max_iter=1000, tol=tol)
    ours = partial(infer, graph, theta, "belief_propagation", max_iter=1000, tol=tol)
    best = _passing_and_whole(graph, theta, result.n_iter, ours, peer, peer_sweeps, repeats)
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
        **_whole(best),
    )


def _passing_and_whole(
    graph: FactorGraph,
    theta: FloatArray,
    n_sweeps: int,
    ours: Callable[[], InferenceResult],
    peer: Peer | None,
    peer_sweeps: int | None,
    repeats: int,
) -> dict[str, float]:
    """Fastest of: the sweeps alone, ours and the peer's, from uniform messages; and the whole call with its marginals.

    The whole of ours holds more than the whole of PGMax: validation, marginals of factors, log Z and the labelling.
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


def _whole(best: dict[str, float]) -> Row:
    ours, peer = best["ours whole"], best.get("peer whole")
    return {
        "ours_whole_seconds": ours,
        "peer_whole_seconds": peer,
        "whole_ratio": None if peer is None else peer / ours,
    }


def _mean_field(
    name: str, graph: FactorGraph, theta: FloatArray, peer: Peer | None, repeats: int, quoted: _Quoted
) -> list[Row]:
    """Twice: as many sweeps as the others, and until nothing moves; libDAI's seconds stand against both.

    PGMax, which carries libDAI's seconds to this machine, takes turns with each: a busy moment must not hit it alone.
    """
    rows = []
    for words, max_iter, tol in ((f"mean field, {SWEEPS} sweeps", SWEEPS, 0.0), ("mean field to tol 1e-6", 1000, 1e-6)):
        ours = partial(infer, graph, theta, "mean_field", max_iter=max_iter, tol=tol)
        timed: dict[str, Callable[[], float]] = {"ours": partial(seconds_of, ours)}
        if peer is not None:
            timed["pgmax"] = lambda: float(peer.ask("run", n_iter=SWEEPS)["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        result = ours()
        pgmax = best.get("pgmax")
        row = bench_row(
            f"{name}: {words}",
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
    """Seconds per sweep, from the difference of a long and a short run: what is done once drops out."""
    # About equally much work on every model, and enough of it to stand out from the noise.
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
        rest, n_rest = best[f"{m} {long}"] - best[f"{m} {short}"], sweeps[f"{m} {long}"] - sweeps[f"{m} {short}"]
        if rest > 0 and n_rest > 0:
            per_sweep[m] = rest / n_rest
        else:  # noise outweighs the sweeps, as on tiny models: what is done once stays in
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
intarsia.infer(small, small.zeros(), "belief_propagation", max_iter=2)  # the compiler's memory comes first
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
    found = in_fresh_process(_MEMORY_CODE)
    return [
        bench_row(
            "1000x1000 binary grid: belief propagation, 20 sweeps",
            found["seconds"],
            wanted="quality < 1e9",
            ours_quality=found["peak"],
            quality_is="largest memory of the process in bytes, compiler and model included",
            ours_increase_bytes=found["peak"] - found["before"],
            theta_bytes=found["theta"],
            ours_residual=found["residual"],
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
        with tempfile.TemporaryDirectory() as cache:  # an empty cache, then the same one in a second process
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
