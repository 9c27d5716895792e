"""Distribution of ADMM blocks to workers that do not share memory with this process."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import run_by_workers
from intarsia._kernels.hinge_checks import RUNNING
from intarsia.softlogic.admm.state import AdmmState

if TYPE_CHECKING:
    from intarsia.softlogic.admm.run import AdmmRun

# Seconds after which a worker returns, so that progress can be shown and time limits are respected.
_SECONDS_PER_CALL = 10.0
# Attributes of a run that are arrays with an entry per block, and per variable.
_BY_BLOCK = ("n_iter", "n_since_restart", "code", "feasibility_checked", "violation_tol", "light", "last_change",
             "residuals", "figures", "patience", "min_step", "max_step", "anchored")  # fmt: skip
_BY_VARIABLE = ("best", "work", "force")
_Answer = dict[str, Any]


def run_on_workers(run: AdmmRun, ranges: Sequence[tuple[int, int]], n_jobs: int | None) -> None:
    """Run iterations and checks of ranges of blocks on workers, until they finish or some seconds have passed.

    Blocks are independent, and workers call the same kernels in the same order, so the result is the same everywhere.
    """
    busy = [(first, last) for first, last in ranges if (run.code[first:last] == RUNNING).any()]
    limit = run.clock.limit
    seconds = _SECONDS_PER_CALL if limit is None else min(_SECONDS_PER_CALL, max(0.0, limit - run.clock.seconds))
    answers = run_by_workers([partial(_work, _sub_run(run, first, last), seconds) for first, last in busy], n_jobs)
    for (first, last), answer in zip(busy, answers, strict=True):
        _copy_back(run, first, last, answer)


def _work(sub_run: AdmmRun, seconds: float) -> _Answer:
    """Run rounds over all blocks of a sub-run on a worker; return the arrays that changed."""
    start = time.perf_counter()
    n_blocks, max_iter = sub_run.state.plan.n_blocks, sub_run.rules.max_iter
    # Arrays received from another process may be read-only.
    sub_run.state = sub_run.state.copy()
    sub_run.anchor = sub_run.anchor[0].copy(), sub_run.anchor[1].copy()
    for name in (*_BY_BLOCK, *_BY_VARIABLE):
        setattr(sub_run, name, np.array(getattr(sub_run, name)))
    while ((sub_run.code == RUNNING) & (sub_run.n_iter < max_iter)).any():
        sub_run.rounds(0, n_blocks, 1)
        if time.perf_counter() - start > seconds:
            break
    changed: _Answer = {name: getattr(sub_run, name) for name in (*_BY_BLOCK, "best")}
    return changed | {"state": (*sub_run.state.arrays, sub_run.state.step), "anchor": sub_run.anchor}


def _spans(run: AdmmRun, first: int, last: int) -> tuple[slice, slice, slice, slice]:
    """Return the ranges of variables, rows, entries and constraints of a range of blocks."""
    plan = run.state.plan
    v, r, c = (slice(int(start[first]), int(start[last])) for start in (
        plan.variable_start, plan.row_start, plan.constraint_start
    ))  # fmt: skip
    return v, r, slice(int(plan.ptr[r.start]), int(plan.ptr[r.stop])), c


def _sub_run(run: AdmmRun, first: int, last: int) -> AdmmRun:
    """Return a run with the data of a range of blocks only."""
    plan, state = run.state.plan, run.state
    v, r, e, c = _spans(run, first, last)
    no_model: Any = None  # kernels do not use the model
    sub_plan = replace(
        plan,
        model=no_model,
        variables=plan.variables[v],
        row_of=plan.row_of[r],
        variable_start=plan.variable_start[first : last + 1] - v.start,
        row_start=plan.row_start[first : last + 1] - r.start,
        constraint_start=plan.constraint_start[first : last + 1] - c.start,
        constraints=plan.constraints[c] - r.start,
        ptr=plan.ptr[r.start : r.stop + 1] - plan.ptr[r.start],
        idx=plan.idx[e] - plan.idx.dtype.type(v.start),
        coef=plan.coef[e],
        const=plan.const[r],
        kind=plan.kind[r],
        degree=plan.degree[v],
        constants=np.empty(0),
    )
    sub_run = copy.copy(run)
    sub_run.model, sub_run.history = no_model, []
    curve, top = run.rows[4], run.rows[5]
    sub_run.rows = sub_plan.ptr, sub_plan.idx, sub_plan.coef, sub_plan.const, curve[r], top[r], sub_plan.kind
    z, base, y, ahead, change = _state_parts(state, v, r)
    sub_run.state = AdmmState(sub_plan, z, base, y, ahead, change, state.step[first:last])
    sub_run.anchor = run.anchor[0][v], run.anchor[1][r]
    for name in _BY_BLOCK:
        setattr(sub_run, name, getattr(run, name)[first:last])
    for name in _BY_VARIABLE:
        setattr(sub_run, name, getattr(run, name)[v])
    return sub_run


def _state_parts(
    state: AdmmState, v: slice, r: slice
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return views of the arrays of a state for ranges of variables and rows."""
    return state.z[v], state.base[v], state.y[r], state.ahead[v], state.change[r]


def _copy_back(run: AdmmRun, first: int, last: int, answer: _Answer) -> None:
    """Copy the result of a worker into the run."""
    v, r, _, _ = _spans(run, first, last)
    targets = (*_state_parts(run.state, v, r), run.state.step[first:last])  # views
    for target, values in zip(targets, answer["state"], strict=True):
        target[:] = values
    run.anchor[0][v], run.anchor[1][r] = answer["anchor"]
    run.best[v] = answer["best"]
    for name in _BY_BLOCK:
        getattr(run, name)[first:last] = answer[name]
