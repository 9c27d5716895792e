"""Collective models compared with an interior-point solver (Vilnis2015, Table 4)."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia.collective import FlowDual, FlowMethod, FlowMirrorDescent, infer_flows
from intarsia.exceptions import IntarsiaError
from intarsia_reproduction.benchmarks.bench_collective import ask_interior_point, comparable, solve, time_limit
from intarsia_reproduction.benchmarks.measurement import fastest_in_turns, one_processor, processor_seconds
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.workloads.collective_workloads import migration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of cells (s is about its square), and the paper's seconds of Algorithm 1 and of an interior-point solver.
_SIZES = {"625": (25, 0.19, 2.8), "10k": (100, 2.7, 93.0), "50k": (224, 14.0, 690.0)}
_OURS, _THEIRS, _RATIO, _APART = "ours", "interior point", "ratio", "objectives apart"
_QUICK_LIMIT = 60.0
_TOL = 1e-6
_INSTANCES = range(702, 712)  # seeds; the first is that of the rows with the interior-point solver
_METHODS = {"dual": "dual", "mirror": "Algorithm 4"}


def collective(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the processor seconds of Intarsia and of an interior-point solver.

    The rows with the solver have one instance of each size. Rows of ten instances compare the default (the dual) with
    Algorithm 4, both to a residual of 1e-6, without the solver.

    The solver is Clarabel through cvxpy. It is stopped after
    `$INTARSIA_INTERIOR_POINT_SECONDS` (half an hour); its seconds and the ratio are then lower bounds, and marked as
    such. The quick version has the smallest size only.

    Examples
    --------
    >>> [task.key for task in collective(quick=True).tasks]
    ['s625', 's625-dual', 's625-mirror']
    """
    tasks = []
    for name, (n_cells, ours, theirs) in list(_SIZES.items())[: 1 if quick else None]:
        paper = {_OURS: ours, _THEIRS: theirs, _RATIO: theirs / ours, _APART: None}
        run = partial(_run, n_cells, quick)
        tasks.append(Task(f"s{name}", f"s = {name}", paper, "s, or none", run))
        for key, label in _METHODS.items():
            run = partial(_run_instances, n_cells, key)
            label = f"s = {name}, {label}, mean of {len(_INSTANCES)} instances"
            tasks.append(Task(f"s{name}-{key}", label, {_OURS: None, _APART: None}, "s, or none", run, significant=3))
    return Experiment(
        "collective",
        "Collective models: seconds beside an interior-point solver (Vilnis2015, Table 4)",
        tasks,
        _figures,
        "synthetic migrations of 1,000 walkers over 20 steps, s = square of the number of cells; Poisson counts",
        question="How fast is the most probable flow inferred from counts of individuals without their paths?",
    )


def _run(n_cells: int, quick: bool, _: Path) -> Finding:
    workload = migration(n_cells)
    limit = min(time_limit(), _QUICK_LIMIT) if quick else time_limit()
    with one_processor():
        result = solve(workload)
        seconds = fastest_in_turns({"ours": lambda: processor_seconds(lambda: solve(workload))}, 3)["ours"]
        theirs = _interior_point(workload, limit)
    values = {_OURS: seconds}
    settings: dict[str, Any] = {"n_cells": n_cells, "gap": result.residual, "n_iter": result.n_iter}
    if theirs is not None:
        values |= {_THEIRS: theirs["processor_seconds"], _RATIO: theirs["processor_seconds"] / seconds}
        settings |= {"time_limit": limit, "solver": theirs}
        if theirs["finished"]:
            ours = comparable(result.objective, workload)
            values[_APART] = abs(ours - theirs["objective"]) / abs(ours)
        else:
            settings |= {"note": "solver stopped: a lower bound", "lower_bounds": [_THEIRS, _RATIO]}
    return Finding(values, 1, settings=settings)


def _run_instances(n_cells: int, key: str, _: Path) -> Finding:
    """Return the mean processor seconds of a method, and the largest distance of its objective from the dual's."""
    method: FlowMethod = FlowDual(tol=_TOL) if key == "dual" else FlowMirrorDescent(tol=_TOL)
    from threadpoolctl import threadpool_limits

    seconds, distances, statuses = [], [], []
    with one_processor(), threadpool_limits(1):  # waiting threads of BLAS would count as processor time
        for seed in _INSTANCES:
            workload = migration(n_cells, seed=seed)
            run = partial(infer_flows, workload.theta, workload.counts, workload.n_walkers)
            result, best = run(method=method), comparable(solve(workload).objective, workload)
            timed_runs = {key: lambda run=run: processor_seconds(lambda: run(method=method))}
            seconds.append(fastest_in_turns(timed_runs, 3)[key])
            distances.append(abs(comparable(result.objective, workload) - best) / abs(best))
            statuses.append(result.status.name)
    settings = {"n_cells": n_cells, "tol": _TOL, "seconds": seconds, "statuses": statuses}
    return Finding({_OURS: float(np.mean(seconds)), _APART: max(distances)}, len(seconds), settings=settings)


def _interior_point(workload: Any, limit: float) -> dict[str, Any] | None:
    """Return the result of the solver; if it failed, for lack of memory or time, with its processor seconds."""
    start, before = time.perf_counter(), os.times()
    try:
        answer = ask_interior_point(workload, limit)
    except IntarsiaError as error:
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        status = f"ended without an answer after {time.perf_counter() - start:.0f} s"
        return {"finished": False, "processor_seconds": spent, "status": status, "error": str(error)}
    if answer is not None and not answer["finished"]:
        answer["status"] = f"was stopped after {answer['seconds']:.0f} s"
    return answer


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    rows = [(cells**2, paper, findings.get(f"s{name}")) for name, (cells, *paper) in _SIZES.items()]
    sizes_run = [(s, paper, finding) for s, paper, finding in rows if finding is not None]
    if not sizes_run:
        return {}
    sizes = [s for s, _, _ in sizes_run]
    lines = [
        Line("ours", sizes, [finding.values[_OURS] for _, _, finding in sizes_run], marker="o"),
        Line("the paper's Algorithm 1", sizes, [paper[0] for _, paper, _ in sizes_run], marker="o", dashes=":"),
        Line("the paper's interior point", sizes, [paper[1] for _, paper, _ in sizes_run], marker="s", dashes=":"),
    ]
    timed = [(s, finding.values[_THEIRS]) for s, _, finding in sizes_run if _THEIRS in finding.values]
    if timed:
        lines.append(
            Line("Clarabel, or where it was stopped", [s for s, _ in timed], [x for _, x in timed], marker="s")
        )
    panel = LinePanel("processor seconds", lines)
    return {
        "collective-seconds": plot_lines(
            [panel], x_label="moves in a table, s", y_label="seconds", log_x=True, log_y=True, n_columns=1
        )
    }
