"""Collective models compared with an interior-point solver (Vilnis2015, Table 4)."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.status import Status
from intarsia.collective import FlowDual, FlowMethod, FlowMirrorDescent, infer_flows
from intarsia.exceptions import ConvergenceWarning, IntarsiaError, MissingDataError
from intarsia_reproduction.benchmarks.bench_collective import (
    MEMORY_LIMIT,
    ask_interior_point,
    comparable,
    solve,
    time_limit,
)
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
)
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.dual_averaging import BETA, FlowDualAveraging, FlowDualAveragingConstantBeta
from intarsia_reproduction.models.intervals import mean_interval
from intarsia_reproduction.workloads.collective_workloads import Migration, migration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of cells (s is about its square), and the paper's seconds of Algorithm 1 and of an interior-point solver.
_SIZES: dict[str, tuple[int, float | None, float | None]] = {
    "225": (15, None, None),
    "625": (25, 0.19, 2.8),
    "900": (30, None, None),
    "10k": (100, 2.7, 93.0),
    "50k": (224, 14.0, 690.0),
}
_SECONDS, _LOOSE_SECONDS, _PLUS_MINUS = "processor s", "processor s to a gap of 1e-4", "interval, +-"
_ITERATIONS, _APART, _MEMORY = "iterations", "objectives apart", "peak MB"
_COLUMNS = (_SECONDS, _PLUS_MINUS, _LOOSE_SECONDS, _ITERATIONS, _APART, _MEMORY)
_QUICK_LIMIT = 60.0
_TOL, _LOOSE_TOL = 1e-6, 1e-4  # relative duality gaps; every method stops at the first, the solvers included
_INSTANCES = range(702, 712)  # seeds
# If the first instance takes more than `_LONG` processor seconds, a row has only as many as fit into `_BUDGET`.
_LONG, _BUDGET = 20.0, 40.0
_MAX_ITER = 100_000
_METHODS: dict[str, tuple[str, type[FlowMethod]]] = {
    "averaging": (f"Algorithm 1, beta = {BETA:g}", FlowDualAveragingConstantBeta),
    "averaging-rule": ("Algorithm 1, beta = largest first gradient", FlowDualAveraging),
    "mirror": ("Algorithm 4", FlowMirrorDescent),
    "dual": ("our dual", FlowDual),
}
_SOLVER = ("solver", "interior point (Clarabel)")
# Further solvers by size, on three instances; SCS is a first-order method, with a looser tolerance.
_OTHER_SOLVERS = {"ecos": ("interior point (ECOS)", _TOL), "scs": ("SCS to its tolerance of 1e-4", _LOOSE_TOL)}
_OTHER_ROWS, _OTHER_INSTANCES = {"625": ("ecos", "scs")}, 3
_UNIT = "processor seconds, mean of n instances; +-: half of the 95 % interval of the mean"


def collective(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the processor seconds of four methods and of conic solvers.

    Our methods, Clarabel and ECOS stop at a relative duality gap of 1e-6. A row has ten instances; if the first takes
    more than 20 processor seconds, as many as fit into 40 seconds, at least one. The solvers get the problem as a
    conic program, without a modelling layer, and are stopped after `$INTARSIA_INTERIOR_POINT_SECONDS` (half an hour);
    the seconds of a stopped run are a lower bound, and marked as such. The quick version has the two smallest sizes.

    Examples
    --------
    >>> [task.key for task in collective(quick=True).tasks][:5]
    ['s225-averaging', 's225-averaging-rule', 's225-mirror', 's225-dual', 's225-solver']
    """
    tasks = []

    def add(key: str, label: str, seconds: float | None, run: Callable[[Path], Finding]) -> None:
        paper: dict[str, float | None] = {**dict.fromkeys(_COLUMNS), _SECONDS: seconds}
        tasks.append(Task(f"s{name}-{key}", f"s = {name}, {label}", paper, _UNIT, run, significant=3))

    for name, (n_cells, ours, theirs) in list(_SIZES.items())[: 2 if quick else None]:
        for key, (label, method) in _METHODS.items():
            add(key, label, ours if key.startswith("averaging") else None, partial(_run_instances, n_cells, method))
        add(*_SOLVER, theirs, partial(_run_solver, n_cells, "clarabel", _TOL, len(_INSTANCES), quick))
        if not quick:
            for key in _OTHER_ROWS.get(name, ()):
                label, gap = _OTHER_SOLVERS[key]
                add(key, label, None, partial(_run_solver, n_cells, key, gap, _OTHER_INSTANCES, quick))
    return Experiment(
        "collective",
        "Collective models: seconds beside an interior-point solver (Vilnis2015, Table 4)",
        tasks,
        _figures,
        "synthetic migrations of 1,000 walkers over 20 steps, s = square of the number of cells; Poisson counts",
        question="How fast is the most probable flow inferred from counts of individuals without their paths?",
    )


def _run_instances(n_cells: int, method_class: type[FlowMethod], _: Path) -> Finding:
    """Return the mean processor seconds of a method, and the largest distance of its objective from the best.

    Instances that diverge are left out and noted. If others do not reach the gap, their seconds count until they are
    stopped, so that the mean is a lower bound.
    """
    from threadpoolctl import threadpool_limits

    method = method_class(tol=_TOL, max_iter=_MAX_ITER)
    times: list[float] = []
    gaps: list[float] = []
    results: list[dict[str, float]] = []
    statuses: list[str] = []
    with one_processor(), threadpool_limits(1), warnings.catch_warnings():  # threads of BLAS count even if they wait
        warnings.simplefilter("ignore", ConvergenceWarning)  # the settings store the status
        infer_flows(np.zeros((2, 2)), np.ones((2, 2)), method=method)  # compiles the kernels
        n_instances = len(_INSTANCES)
        for seed in _INSTANCES:
            if len(statuses) == n_instances:
                break
            workload = migration(n_cells, seed=seed)
            run = partial(infer_flows, workload.theta, workload.counts, workload.n_walkers, method=method)
            start = time.process_time()
            result = run()
            seconds = time.process_time() - start
            if not statuses:
                n_instances = _n_instances(seconds)
            statuses.append(result.status.name)
            gaps.append(result.residual)
            if result.status is Status.STALLED:
                continue
            if seconds < 1.0:  # short runs are repeated
                seconds = fastest_in_turns({"run": partial(processor_seconds, run)}, 3)["run"]
            best = _best_objective(workload)
            distance = abs(comparable(result.objective, workload) - best) / abs(best)
            loose = result.history["residual"] <= _LOOSE_TOL
            fraction = (np.argmax(loose) + 1) / max(result.n_iter, 1) if loose.any() else np.nan
            times.append(seconds)
            results.append({_LOOSE_SECONDS: seconds * fraction, _ITERATIONS: result.n_iter, _APART: distance})
    settings = {
        "n_cells": n_cells, "method": repr(method), "gap": _TOL, "seconds": times, "statuses": statuses, "gaps": gaps,
    }  # fmt: skip
    failures = {
        "diverges": statuses.count(Status.STALLED.name),
        f"gap not reached in {_MAX_ITER:,} iterations": statuses.count(Status.MAX_ITER.name),
    }
    notes = [f"{failure} on {n} of {len(statuses)} instances" for failure, n in failures.items() if n]
    if notes:
        settings["note"] = "; ".join(notes)
    if Status.MAX_ITER.name in statuses:
        settings["lower_bounds"] = [_SECONDS]
    memory = _peak_memory(n_cells, method_class)
    return _finding(times, results, memory, settings)


def _n_instances(seconds: float) -> int:
    """Return the number of instances of a row whose first instance takes this many processor seconds."""
    return len(_INSTANCES) if seconds <= _LONG else max(int(_BUDGET / seconds), 1)


_MEMORY_CODE = f"""
import json, warnings
warnings.simplefilter("ignore")
from intarsia.collective import infer_flows
from {{module}} import {{name}}
from intarsia_reproduction.workloads.collective_workloads import migration
workload = migration({{n_cells}})
infer_flows(workload.theta, workload.counts, workload.n_walkers, method={{name}}(tol={_TOL}, max_iter=200))
print(json.dumps({{{{"peak": {PEAK_BYTES}}}}}))
"""


def _peak_memory(n_cells: int, method_class: type[FlowMethod]) -> float:
    """Return the peak megabytes of a fresh process, libraries included, after 200 iterations."""
    code = _MEMORY_CODE.format(module=method_class.__module__, name=method_class.__name__, n_cells=n_cells)
    return float(in_fresh_process(code)["peak"]) / 1e6


def _run_solver(n_cells: int, solver: str, gap: float, n_instances: int, quick: bool, _: Path) -> Finding:
    """Return the mean processor seconds of a conic solver; a lower bound if it does not finish."""
    limit = min(time_limit(), _QUICK_LIMIT) if quick else time_limit()
    answers: list[dict[str, Any]] = []
    results: list[dict[str, float]] = []
    with one_processor():
        for seed in _INSTANCES[:n_instances]:
            if answers and len(answers) >= _n_instances(answers[0]["processor_seconds"]):
                break
            workload = migration(n_cells, seed=seed)
            answer = _interior_point(workload, limit, gap, solver)
            if answer is None:
                raise MissingDataError(
                    "reproduce collective: the environment of Clarabel does not exist. Create it with "
                    "`python reproduction/setup_peers.py clarabel`."
                )
            answers.append(answer)
            if answer.get("objective") is not None:
                best = _best_objective(workload)
                distance = abs(answer["objective"] - best) / abs(best)
                results.append({_ITERATIONS: answer["iterations"], _APART: distance})
                if solver == "clarabel" and answer["processor_seconds"] <= _LONG:
                    loose = _interior_point(workload, limit, _LOOSE_TOL, solver) or {}
                    results[-1][_LOOSE_SECONDS] = loose.get("processor_seconds", np.nan)
    settings: dict[str, Any] = {"n_cells": n_cells, "gap": gap, "solver": solver, "time_limit": limit}
    settings |= {"memory_limit": MEMORY_LIMIT, "answers": answers}
    if len(results) < len(answers):
        status = next(answer["status"] for answer in answers if answer.get("objective") is None)
        settings |= {"note": f"{status}: a lower bound", "lower_bounds": [_SECONDS]}
    elif not all(answer["finished"] for answer in answers):
        n = sum(not answer["finished"] for answer in answers)
        settings |= {"note": f"{n} of {len(answers)} instances end at reduced accuracy"}
    memory = max(answer.get("peak_bytes", np.nan) for answer in answers) / 1e6
    return _finding([answer["processor_seconds"] for answer in answers], results, memory, settings)


def _best_objective(workload: Migration) -> float:
    return comparable(solve(workload, 1e-10).objective, workload)


def _finding(
    seconds: list[float], results: list[dict[str, float]], megabytes: float, settings: dict[str, Any]
) -> Finding:
    """Return means over instances, with an interval for the seconds, and the largest distance of an objective."""
    values = {_SECONDS: float(np.mean(seconds))} if seconds else {}
    if len(seconds) > 1:
        low, high = mean_interval(np.array(seconds))
        values[_PLUS_MINUS] = (high - low) / 2.0
    for name in (_LOOSE_SECONDS, _ITERATIONS, _APART):
        numbers = [result[name] for result in results if np.isfinite(result.get(name, np.nan))]
        if numbers:
            values[name] = float(max(numbers) if name == _APART else np.mean(numbers))
    if np.isfinite(megabytes):
        values[_MEMORY] = megabytes
    return Finding(values, len(seconds), settings=settings)


def _interior_point(workload: Migration, limit: float, gap: float, solver: str) -> dict[str, Any] | None:
    """Return the result of a solver; if it failed, for lack of memory or time, with its processor seconds."""
    start, before = time.perf_counter(), os.times()
    try:
        answer = ask_interior_point(workload, limit, gap, solver)
    except IntarsiaError as error:
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        status = f"ended without an answer after {time.perf_counter() - start:.0f} s"
        return {"finished": False, "processor_seconds": spent, "status": status, "error": str(error)}
    if answer is not None and answer["objective"] is None:
        answer["status"] = f"was stopped after {answer['seconds']:.0f} s"
    return answer


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    lines = []
    for key, label in [*((key, label) for key, (label, _) in _METHODS.items()), _SOLVER]:
        keys = {f"s{name}-{key}": cells**2 for name, (cells, *_) in _SIZES.items()}
        timed = [(size, findings[task_key]) for task_key, size in keys.items() if task_key in findings]
        if timed:
            label = label.replace("beta = largest first gradient", "beta by rule")
            points = [(size, finding.values[_SECONDS]) for size, finding in timed if _SECONDS in finding.values]
            lines.append(Line(label, [size for size, _ in points], [value for _, value in points], marker="o"))
    if not lines:
        return {}
    for column, label in ((1, "the paper's Algorithm 1"), (2, "the paper's interior point")):
        published = [(row[0] ** 2, float(row[column] or 0.0)) for row in _SIZES.values() if row[column] is not None]
        lines.append(Line(label, [s for s, _ in published], [x for _, x in published], marker="s", dashes=":"))
    panel = LinePanel("to a gap of 1e-6, or until stopped", lines)
    return {
        "collective-seconds": plot_lines(
            [panel], x_label="moves in a table, s", y_label="processor seconds", log_x=True, log_y=True, n_columns=1
        )
    }
