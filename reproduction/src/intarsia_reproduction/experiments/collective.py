"""Collective models compared with an interior-point solver (Vilnis2015, Table 4)."""

from __future__ import annotations

import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia.collective import FlowDual, FlowMethod, FlowMirrorDescent, infer_flows
from intarsia.exceptions import ConvergenceWarning, IntarsiaError, MissingDataError
from intarsia_reproduction.benchmarks.bench_collective import ask_interior_point, comparable, solve, time_limit
from intarsia_reproduction.benchmarks.measurement import fastest_in_turns, one_processor, processor_seconds
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.dual_averaging import BETA, FlowDualAveraging
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
_SECONDS, _PLUS_MINUS, _ITERATIONS, _APART = "processor s", "interval, +-", "iterations", "objectives apart"
_QUICK_LIMIT = 60.0
_TOL = 1e-6  # relative duality gap at which every method stops, the interior-point solver included
_INSTANCES = range(702, 712)  # seeds
_METHODS: dict[str, tuple[str, type[FlowMethod]]] = {
    "averaging": (f"Algorithm 1, beta = {BETA:g}", FlowDualAveraging),
    "mirror": ("Algorithm 4", FlowMirrorDescent),
    "dual": ("our dual", FlowDual),
}
_SOLVER = ("solver", "interior point (Clarabel)")
_SOLVED = ("225", "625", "900")  # sizes at which the solver finishes; the others are tried once, until it is stopped


def collective(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the processor seconds of three methods and of an interior-point solver.

    All of them stop at a relative duality gap of 1e-6, and every row has ten instances. The solver is Clarabel through
    cvxpy, model building included. At the sizes at which it does not finish here, it is run on one instance and stopped
    after `$INTARSIA_INTERIOR_POINT_SECONDS` (half an hour); its seconds are then a lower bound, and marked as such. The
    quick version has the two smallest sizes.

    Examples
    --------
    >>> [task.key for task in collective(quick=True).tasks][:4]
    ['s225-averaging', 's225-mirror', 's225-dual', 's225-solver']
    """
    tasks = []
    for name, (n_cells, ours, theirs) in list(_SIZES.items())[: 2 if quick else None]:
        for key, (label, method) in _METHODS.items():
            paper = dict.fromkeys((_SECONDS, _PLUS_MINUS, _ITERATIONS, _APART))
            paper[_SECONDS] = ours if key == "averaging" else None
            run = partial(_run_instances, n_cells, method)
            tasks.append(Task(f"s{name}-{key}", f"s = {name}, {label}", paper, _UNIT, run, significant=3))
        key, label = _SOLVER
        paper = dict.fromkeys((_SECONDS, _PLUS_MINUS, _ITERATIONS, _APART)) | {_SECONDS: theirs}
        instances = _INSTANCES if name in _SOLVED else _INSTANCES[:1]
        run = partial(_run_solver, n_cells, instances, quick)
        tasks.append(Task(f"s{name}-{key}", f"s = {name}, {label}", paper, _UNIT, run, significant=3))
    return Experiment(
        "collective",
        "Collective models: seconds beside an interior-point solver (Vilnis2015, Table 4)",
        tasks,
        _figures,
        "synthetic migrations of 1,000 walkers over 20 steps, s = square of the number of cells; Poisson counts",
        question="How fast is the most probable flow inferred from counts of individuals without their paths?",
    )


_UNIT = "processor seconds, mean of n instances; +-: half of the 95 % interval of the mean"


def _run_instances(n_cells: int, method_class: type[FlowMethod], _: Path) -> Finding:
    """Return the mean processor seconds of a method, and the largest distance of its objective from the best."""
    from threadpoolctl import threadpool_limits

    method = method_class(tol=_TOL, max_iter=20_000)
    seconds, distances, iterations, statuses = [], [], [], []
    with one_processor(), threadpool_limits(1), warnings.catch_warnings():  # threads of BLAS count even if they wait
        warnings.simplefilter("ignore", ConvergenceWarning)  # the settings store the status
        for seed in _INSTANCES:
            workload = migration(n_cells, seed=seed)
            run = partial(infer_flows, workload.theta, workload.counts, workload.n_walkers, method=method)
            result = run()
            statuses.append(result.status.name)
            if result.converged:
                best = _best_objective(workload)
                seconds.append(fastest_in_turns({"run": partial(processor_seconds, run)}, 3)["run"])
                distances.append(abs(comparable(result.objective, workload) - best) / abs(best))
                iterations.append(result.n_iter)
    settings = {"n_cells": n_cells, "method": repr(method), "gap": _TOL, "seconds": seconds, "statuses": statuses}
    if method_class is FlowDualAveraging:
        settings["beta"] = BETA
    if len(seconds) < len(statuses):
        failure = "diverges" if set(statuses) == {"CONVERGED", "STALLED"} else "gap not reached"
        settings["note"] = f"{failure} on {len(statuses) - len(seconds)} of {len(statuses)} instances"
    return _finding(seconds, iterations, distances, settings)


def _run_solver(n_cells: int, instances: range, quick: bool, _: Path) -> Finding:
    """Return the mean processor seconds of the interior-point solver; a lower bound if it does not finish."""
    limit = min(time_limit(), _QUICK_LIMIT) if quick else time_limit()
    answers, distances = [], []
    with one_processor():
        for seed in instances:
            workload = migration(n_cells, seed=seed)
            answer = _interior_point(workload, limit)
            if answer is None:
                raise MissingDataError(
                    "reproduce collective: the environment of Clarabel does not exist. Create it with "
                    "`python reproduction/setup_peers.py clarabel`."
                )
            answers.append(answer)
            if answer.get("objective") is not None:
                best = _best_objective(workload)
                distances.append(abs(answer["objective"] - best) / abs(best))
    settings: dict[str, Any] = {"n_cells": n_cells, "gap": _TOL, "time_limit": limit, "answers": answers}
    if len(distances) < len(answers):
        status = next(answer["status"] for answer in answers if answer.get("objective") is None)
        settings |= {"note": f"{status}: a lower bound", "lower_bounds": [_SECONDS]}
    elif not all(answer["finished"] for answer in answers):
        n = sum(not answer["finished"] for answer in answers)
        settings |= {"note": f"{n} of {len(answers)} instances end at reduced accuracy"}
    seconds = [answer["processor_seconds"] for answer in answers]
    iterations = [answer["iterations"] for answer in answers if answer.get("iterations") is not None]
    return _finding(seconds, iterations, distances, settings)


def _best_objective(workload: Migration) -> float:
    return comparable(solve(workload, 1e-10).objective, workload)


def _finding(seconds: list[float], iterations: list[int], distances: list[float], settings: dict[str, Any]) -> Finding:
    """Return mean seconds with an interval, mean iterations, and the largest relative distance of an objective."""
    values = {_SECONDS: float(np.mean(seconds))} if seconds else {}
    if len(seconds) > 1:
        low, high = mean_interval(np.array(seconds))
        values[_PLUS_MINUS] = (high - low) / 2.0
    if iterations:
        values[_ITERATIONS] = float(np.mean(iterations))
    if distances:
        values[_APART] = max(distances)
    return Finding(values, len(seconds), settings=settings)


def _interior_point(workload: Any, limit: float) -> dict[str, Any] | None:
    """Return the result of the solver; if it failed, for lack of memory or time, with its processor seconds."""
    start, before = time.perf_counter(), os.times()
    try:
        answer = ask_interior_point(workload, limit, _TOL)
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
            label = f"{label}, or where it was stopped" if key == _SOLVER[0] else label
            points = [(size, finding.values[_SECONDS]) for size, finding in timed if _SECONDS in finding.values]
            lines.append(Line(label, [size for size, _ in points], [value for _, value in points], marker="o"))
    if not lines:
        return {}
    for column, label in ((1, "the paper's Algorithm 1"), (2, "the paper's interior point")):
        published = [(row[0] ** 2, float(row[column] or 0.0)) for row in _SIZES.values() if row[column] is not None]
        lines.append(Line(label, [s for s, _ in published], [x for _, x in published], marker="s", dashes=":"))
    panel = LinePanel("to a relative gap of 1e-6", lines)
    return {
        "collective-seconds": plot_lines(
            [panel], x_label="moves in a table, s", y_label="processor seconds", log_x=True, log_y=True, n_columns=1
        )
    }
