"""Blocks of ADMM on workers that share no memory with this process: cut out, sent, run, and put back."""

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

# Seconds after which a worker reports, so that progress is seen and a time limit is kept.
_TURN = 10.0
# Arrays of a run with an entry per block, and with one per variable.
_BY_BLOCK = ("done", "since", "code", "cleared", "feasible", "moved", "residuals", "figures", "patience", "low", "high",
             "anchored")  # fmt: skip
_BY_VARIABLE = ("best", "work", "force")
_Answer = dict[str, Any]


def run_apart(run: AdmmRun, ranges: Sequence[tuple[int, int]], n_jobs: int | None) -> None:
    """Iterations and checks of ranges of blocks by workers, until they are done or some seconds have passed.

    Blocks are independent and are worked by the same kernels in the same order, so nothing depends on where.
    """
    busy = [(first, last) for first, last in ranges if (run.code[first:last] == RUNNING).any()]
    limit = run.clock.limit
    seconds = _TURN if limit is None else min(_TURN, max(0.0, limit - run.clock.seconds))
    answers = run_by_workers([partial(_turn, _cut(run, first, last), seconds) for first, last in busy], n_jobs)
    for (first, last), answer in zip(busy, answers, strict=True):
        _put_back(run, first, last, answer)


def _turn(part: AdmmRun, seconds: float) -> _Answer:
    """Work on a worker: rounds over all blocks of a part."""
    begun = time.perf_counter()
    n_blocks, most = part.state.plan.n_blocks, part.rules.max_iter
    # What came from elsewhere may not be written to.
    part.state = part.state.copy()
    part.anchor = part.anchor[0].copy(), part.anchor[1].copy()
    for name in (*_BY_BLOCK, *_BY_VARIABLE):
        setattr(part, name, np.array(getattr(part, name)))
    while ((part.code == RUNNING) & (part.done < most)).any():
        part.rounds(0, n_blocks, 1)
        if time.perf_counter() - begun > seconds:
            break
    found: _Answer = {name: getattr(part, name) for name in (*_BY_BLOCK, "best")}
    return found | {"state": (*part.state.arrays, part.state.step), "anchor": part.anchor}


def _spans(run: AdmmRun, first: int, last: int) -> tuple[slice, slice, slice, slice]:
    """Places of the blocks' variables, rows, entries and constraints."""
    plan = run.state.plan
    v, r, c = (slice(int(start[first]), int(start[last])) for start in (
        plan.variable_start, plan.row_start, plan.constraint_start
    ))  # fmt: skip
    return v, r, slice(int(plan.ptr[r.start]), int(plan.ptr[r.stop])), c


def _cut(run: AdmmRun, first: int, last: int) -> AdmmRun:
    """A run of some of the blocks, with nothing of the others."""
    plan, state = run.state.plan, run.state
    v, r, e, c = _spans(run, first, last)
    nothing: Any = None  # kernels do not ask for the model
    own = replace(
        plan,
        model=nothing,
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
    part = copy.copy(run)
    part.model, part.history = nothing, []
    curve, top = run.rows[4], run.rows[5]
    part.rows = own.ptr, own.idx, own.coef, own.const, curve[r], top[r], own.kind
    z, base, y, ahead, change = _state_parts(state, v, r)
    part.state = AdmmState(own, z, base, y, ahead, change, state.step[first:last])
    part.anchor = run.anchor[0][v], run.anchor[1][r]
    for name in _BY_BLOCK:
        setattr(part, name, getattr(run, name)[first:last])
    for name in _BY_VARIABLE:
        setattr(part, name, getattr(run, name)[v])
    return part


def _state_parts(
    state: AdmmState, v: slice, r: slice
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    return state.z[v], state.base[v], state.y[r], state.ahead[v], state.change[r]


def _put_back(run: AdmmRun, first: int, last: int, answer: _Answer) -> None:
    v, r, _, _ = _spans(run, first, last)
    places = (*_state_parts(run.state, v, r), run.state.step[first:last])  # views
    for place, found in zip(places, answer["state"], strict=True):
        place[:] = found
    run.anchor[0][v], run.anchor[1][r] = answer["anchor"]
    run.best[v] = answer["best"]
    for name in _BY_BLOCK:
        getattr(run, name)[first:last] = answer[name]
