"""One run of consensus ADMM: all blocks, round by round, until each is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs
from numpy.typing import NDArray

from intarsia._core.status import Status
from intarsia._core.worker_threads import run_in_threads, workers_are_apart
from intarsia._kernels.hinge_admm import INEQUALITY, SQUARED, advance_blocks
from intarsia._kernels.hinge_checks import (
    BOUND,
    CONVERGED,
    DUAL,
    N_FIGURES,
    OBJECTIVE,
    PENALTY,
    PRIMAL,
    RUNNING,
    SUSPECT,
    VIOLATION,
    conclude_block,
    judge_blocks,
    measure_rows,
    polish_block,
)
from intarsia._kernels.hinge_steps import restart_blocks
from intarsia.inference.method import Clock
from intarsia.softlogic.admm.feasibility import BlockConstraints, describe_constraints
from intarsia.softlogic.admm.large_blocks import LargeBlock
from intarsia.softlogic.admm.newton import NewtonSteps
from intarsia.softlogic.admm.state import MIDDLE, AdmmState
from intarsia.softlogic.admm.workers import run_apart
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.hinge.result import HingeResult

_LARGE = 200_000  # entries from which on threads share one block
_CHECKS_PER_ROUND = 5  # where threads take blocks: so that starting them does not count
_WORTH_SENDING = 50_000  # entries from which on blocks go to workers elsewhere
_SHARES_PER_WORKER = 4  # so that one with more work keeps the others waiting less
_SWEEPS, _LAST_SWEEPS = 50, 2000  # of polishing, at a check and at the end
_EXACT = 1e-11  # a smaller violation is not polished any further
_FAR = 100.0  # the step stays within this factor of its start
_LITTLE_SQUARED = 0.25
_PATIENCE = 1000  # iterations after which a small block is tried by Newton's method; then after four times as many
_SMALL = 2000  # entries up to which it is: beyond them its systems cost more than all iterations
_NEWTON_STEPS = 15
_KEYS = ("n_iter", "objective", "lower_bound", "max_violation", "primal_residual", "dual_residual", "seconds")


@dataclass(frozen=True)
class BlockRules:
    """The settings of `ConsensusADMM`, checked."""

    max_iter: int
    tol: float
    alpha: float
    adaptive: bool
    anchored: bool | None
    check_every: int
    n_jobs: int | None


@dataclass
class AdmmRun:
    """Runs every block of a model from a state until it is done, or until the run must end.

    Arrays named here have an entry per block: the iterations made, those since the last restart, how the block stands,
    the last change of z, what is known of it (columns of `hinge_checks`), and residuals since the restart.
    """

    model: HingeLossMRF
    state: AdmmState
    rules: BlockRules
    clock: Clock
    note: str = ""
    history: list[tuple[float, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = self.state.plan
        n_blocks = plan.n_blocks
        self.rows = plan.weighted_rows(self.model)
        self.done, self.since = np.zeros(n_blocks, dtype=np.int64), np.zeros(n_blocks, dtype=np.int64)
        self.code, self.cleared = np.zeros(n_blocks, dtype=np.int8), np.zeros(n_blocks, dtype=np.bool_)
        self.moved, self.residuals = np.zeros(n_blocks), np.zeros((n_blocks, 2))
        entries = np.diff(plan.ptr[plan.row_start].astype(np.int64))
        self.feasible, self.settled = np.full(n_blocks, self.rules.tol), np.zeros(n_blocks, dtype=np.bool_)
        self.patience = np.where(entries <= _SMALL, _PATIENCE, np.iinfo(np.int64).max)
        self.figures = np.full((n_blocks, N_FIGURES), np.inf)
        self.figures[:, BOUND] = 0.0  # hinges are never negative
        self.low, self.high = self.state.step / _FAR, self.state.step * _FAR
        self.best = self.state.z.copy()
        self.work, self.force = np.empty(plan.variables.size), np.empty(plan.variables.size)
        self.anchor = self.state.base.copy(), self.state.y.copy()
        self.anchored = self._choose_anchored()
        self.constant = _cost_of_constants(self.model)
        n_rows = max(plan.const.size, 1)
        self.floor = float(self.model.weight.mean()) / n_rows if self.model.n_terms else 0.0

    def result(self, report: Callable[[int, float], None] | None) -> HingeResult:
        """Run, polish, and tell what was found."""
        status = self._contradictory_constants()
        if status is None:
            try:
                status = self._run(report)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        if status is not Status.INFEASIBLE:
            status = self._finish(status)
        whole = self.state.plan.to_model(self.best, MIDDLE)
        self.state.n_iter += int(self.done.max(initial=0))
        objective = self.model.objective(whole)
        primal, dual = self._residuals()
        return HingeResult(
            whole,
            objective,
            np.inf if status is Status.INFEASIBLE else min(self._bound(), objective),
            self.model.max_violation(whole),
            status,
            int(self.done.max(initial=0)),
            primal,
            dual,
            self.state,
            {key: np.array(values) for key, values in zip(_KEYS, zip(*self.history, strict=True), strict=False)},
            self.clock.seconds,
            self.note,
            self._passes(),
        )

    def _bound(self) -> float:
        """The sum over the blocks, all of whose parts are at least 0, less the rounding error that it may have."""
        total = float(self.figures[:, BOUND].sum()) + self.constant
        return total * (1.0 - np.finfo(np.float64).eps * (self.figures.shape[0] + self.model.n_terms + 8))

    def _passes(self) -> float:
        rows = np.diff(self.state.plan.row_start)
        return float(self.done @ rows / max(1, rows.sum()))

    # ---------------------------------------------------------------- rounds

    def _run(self, report: Callable[[int, float], None] | None) -> Status:
        n_workers = effective_n_jobs(self.rules.n_jobs)
        n_threads = min(n_workers, cpu_count())
        plan, shared = self.state.plan, self._large_blocks(n_threads)
        sent = workers_are_apart() and plan.coef.size >= _WORTH_SENDING
        ranges = self._ranges(_SHARES_PER_WORKER * n_workers if sent else n_threads, shared)
        with ExitStack() as stack:
            large = [stack.enter_context(LargeBlock(plan, block, n_threads)) for block in shared]
            n_checks = _CHECKS_PER_ROUND if len(ranges) > 1 else 1
            calls = [partial(self.rounds, first, last, n_checks) for first, last in ranges]
            if sent:
                calls = [partial(run_apart, self, ranges, self.rules.n_jobs)]
            return self._rounds_until_done(calls, large, n_threads, report)

    def _rounds_until_done(
        self,
        calls: Sequence[Callable[[], None]],
        large: list[LargeBlock],
        n_threads: int,
        report: Callable[[int, float], None] | None,
    ) -> Status:
        while (self.code == RUNNING).any():
            if self.done[self.code == RUNNING].min() >= self.rules.max_iter:
                return Status.MAX_ITER
            if self.clock.expired:
                return Status.TIME_LIMIT
            run_in_threads(calls, n_threads)
            for block in large:
                if self.code[block.number] == RUNNING:
                    self._round_of_large(block)
            self._record(report)
            for suspect in np.flatnonzero(self.code == SUSPECT):
                if self._proven(int(suspect)):
                    return Status.INFEASIBLE
                self.code[suspect] = RUNNING
            for number in np.flatnonzero((self.code == CONVERGED) & (self.figures[:, VIOLATION] > _EXACT)):
                if not self.settled[number]:
                    self._settle(int(number))
        return Status.CONVERGED

    def _ranges(self, n: int, large: list[int]) -> list[tuple[int, int]]:
        """About `n` ranges of blocks of about as many entries, without the large ones that threads share."""
        plan = self.state.plan
        entries = plan.ptr[plan.row_start].astype(np.int64)
        if n == 1:
            return [(0, plan.n_blocks)]
        cuts = {0, plan.n_blocks}
        cuts |= {int(np.searchsorted(entries, entries[-1] * k / n)) for k in range(1, n)}
        for block in large:
            cuts |= {block, block + 1}
        edges = sorted(cuts)
        return [(first, last) for first, last in pairwise(edges) if first not in large]

    def rounds(self, first: int, last: int, n_checks: int) -> None:
        """Iterations and checks of a range of blocks."""
        plan, state, rules = self.state.plan, self.state, self.rules
        control = state.step, self.done, self.since, self.code, self.anchored, self.moved
        for _ in range(n_checks):
            advance_blocks(
                first, last, rules.check_every, rules.max_iter, rules.alpha, plan.blocks, self.rows, plan.degree,
                state.arrays, self.anchor, self.work, control,
            )  # fmt: skip
            self._judge(first, last)
            self._restart(first, last)
            self._try_newton(first, last)

    def _try_newton(self, first: int, last: int) -> None:
        """Try to finish the small blocks that ADMM is slow on by second-order steps; each check decides as always."""
        blocks = slice(first, last)
        slow = (self.code[blocks] == RUNNING) & (self.done[blocks] >= self.patience[blocks])
        for block in first + np.flatnonzero(slow):
            self.patience[block] = 4 * self.done[block]
            self._newton(int(block))

    def _newton(self, block: int) -> None:
        plan, state = self.state.plan, self.state
        v, r = slice(*plan.variable_start[block : block + 2]), slice(*plan.row_start[block : block + 2])
        places = [*(array[v] for array in (state.z, state.base, state.ahead)), state.y[r], state.change[r]]  # views
        before = [place.copy() for place in places]
        moved, steps = self.moved[block], NewtonSteps(plan, self.rows, block)
        x, y = state.z[v].copy(), np.zeros(r.stop - r.start)  # multipliers that led nowhere are no start
        still = np.zeros(y.size)
        for _ in range(_NEWTON_STEPS):
            x, y = steps.advance(x, y)
            for place, values in zip(places, (x, x, x, y, still), strict=True):
                place[:] = values
            self.moved[block] = 0.0
            self._judge(block, block + 1)
            if self.code[block] == CONVERGED:
                return
            if self.code[block] != RUNNING or self.clock.expired:
                break
        for place, values in zip(places, before, strict=True):
            place[:] = values
        self.moved[block] = moved

    def _judge(self, first: int, last: int) -> None:
        plan, state, rules = self.state.plan, self.state, self.rules
        judge_blocks(
            first, last, _SWEEPS, rules.tol, self.floor, plan.blocks, self.rows, state.arrays, self._known, self.best,
            self.work, self.force,
        )  # fmt: skip

    @property
    def _known(self) -> tuple[Any, ...]:
        return self.state.step, self.code, self.moved, self.figures, self.cleared, self.feasible

    def _restart(self, first: int, last: int) -> None:
        plan, state, rules = self.state.plan, self.state, self.rules
        adapt_until = rules.max_iter // 2 if rules.adaptive else -1
        kept = state.step, self.done, self.since, self.code, self.figures, self.residuals
        restart_blocks(
            first, last, adapt_until, self.low, self.high, plan.blocks, self.rows, plan.degree, state.arrays, kept,
            self.anchor, self.work,
        )  # fmt: skip

    def _round_of_large(self, large: LargeBlock) -> None:
        """Iterations and a check of one block that threads share."""
        state, rules, block = self.state, self.rules, large.number
        now = min(1 if self.since[block] == 0 else rules.check_every, rules.max_iter - int(self.done[block]))
        since = int(self.since[block]) if self.anchored[block] else -1
        self.moved[block] = large.advance(state, self.rows, self.anchor, rules.alpha, since, now)
        self.done[block] += now
        self.since[block] += now
        measured = large.measure(state, self.rows, self.work, _SWEEPS)
        conclude_block(
            block, measured, rules.tol, self.floor, state.plan.blocks, self.rows, state.y, self._known, self.best,
            self.work, large.force,
        )  # fmt: skip
        self._restart(block, block + 1)
        self._try_newton(block, block + 1)

    def _large_blocks(self, n_threads: int) -> list[int]:
        """Blocks that threads share, if there are any threads."""
        plan = self.state.plan
        if n_threads == 1:
            return []
        entries = np.diff(plan.ptr[plan.row_start].astype(np.int64))
        return [int(block) for block in np.flatnonzero(entries >= _LARGE)]

    # ---------------------------------------------------------------- what is known

    def _choose_anchored(self) -> NDArray[np.bool_]:
        plan = self.state.plan
        if self.rules.anchored is not None:
            return np.full(plan.n_blocks, self.rules.anchored)
        if plan.n_blocks == 0:
            return np.zeros(0, dtype=np.bool_)
        starts = plan.row_start[:-1]
        squared = np.add.reduceat(plan.kind == SQUARED, starts, dtype=np.int64)
        hinges = np.add.reduceat(plan.kind < INEQUALITY, starts, dtype=np.int64)
        return squared < _LITTLE_SQUARED * np.maximum(hinges, 1)

    def _record(self, report: Callable[[int, float], None] | None) -> None:
        objective = float(self.figures[:, OBJECTIVE].sum()) + self.constant
        bound = self._bound()
        n_iter = int(self.done.max())
        violation = float(self.figures[:, VIOLATION].max())
        self.history.append((n_iter, objective, bound, violation, *self._residuals(), self.clock.seconds))
        if report is not None:
            report(n_iter, (objective - bound) / max(abs(objective), 1e-300))

    def _residuals(self) -> tuple[float, float]:
        """Root mean squares over all copies, from those of the blocks."""
        plan = self.state.plan
        entries = np.diff(plan.ptr[plan.row_start].astype(np.int64))
        if entries.size == 0:
            return 0.0, 0.0
        squares = entries @ self.figures[:, [PRIMAL, DUAL]] ** 2 / entries.sum()
        return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))

    # ---------------------------------------------------------------- constraints

    def _contradictory_constants(self) -> Status | None:
        """A constraint without variables holds or does not."""
        model, at = self.model, self.model.n_terms
        for rows, equal in ((model.equalities, True), (model.inequalities, False)):
            if rows is None:
                continue
            off = np.abs(rows.const) if equal else rows.const
            bad = np.flatnonzero((np.diff(rows.ptr) == 0) & (off > self.rules.tol))
            if bad.size:
                self.note = f"Cannot hold: {describe_constraints(model, at + bad)}."
                return Status.INFEASIBLE
            at += rows.n_rows
        return None

    def _proven(self, block: int) -> bool:
        """Whether no point can be offered since the constraints of a block contradict each other; the note names them.

        They may contradict each other by less than the tolerance. Then a point within the tolerance is looked for.
        """
        constraints = BlockConstraints(self.state.plan, block)
        contradiction = constraints.contradiction(self.clock)
        self.cleared[block] = True
        if contradiction is None:
            return False
        rows, margin = contradiction
        if margin <= self.rules.tol:
            self._polish_best(block)
            if constraints.violation(self.work[constraints.variables]) <= self.rules.tol:
                return False
        named = describe_constraints(self.model, self.state.plan.row_of[rows])
        self.note = f"Cannot hold together: {named}."
        return True

    def _polish_best(self, block: int) -> None:
        """Bring a copy of the best point of a block onto the constraints, in `work`."""
        plan = self.state.plan
        v0, v1 = plan.variable_start[block : block + 2]
        c0, c1 = plan.constraint_start[block : block + 2]
        self.work[v0:v1] = self.best[v0:v1]
        polish_block(c0, c1, plan.constraints, self.rows, self.work, _LAST_SWEEPS)

    def _settle(self, block: int) -> None:
        """Bring the best point of a block that is done onto its constraints, and let it run on if it is not done there.

        A point that breaks constraints by a little can be far better than any that does not. Then the block runs on
        until its violation is ten times smaller. Where constraints contradict each other, but by less than the
        tolerance, there is nothing better.
        """
        self.settled[block] = True
        self._polish_best(block)
        if self._take_polished(block):
            return
        if BlockConstraints(self.state.plan, block).contradiction(self.clock) is None and not self.clock.expired:
            self.cleared[block], self.settled[block], self.code[block] = True, False, RUNNING
            self.feasible[block] = max(0.1 * min(self.feasible[block], self.figures[block, VIOLATION]), _EXACT)
            self.figures[block, [OBJECTIVE, VIOLATION, PENALTY]] = np.inf
            self.patience[block] = min(self.patience[block], self.done[block])

    def _finish(self, status: Status) -> Status:
        """Bring the best points of blocks that are not done onto the constraints."""
        tol = self.rules.tol
        for block in np.flatnonzero((self.figures[:, VIOLATION] > _EXACT) & ~self.settled):
            constraints = BlockConstraints(self.state.plan, int(block))
            self._polish_best(int(block))
            at = constraints.variables
            if constraints.violation(self.work[at]) > tol:
                if not self.cleared[block] and self._proven(int(block)):
                    return Status.INFEASIBLE
                nearest = constraints.nearest(self.best[at], self.clock)
                if nearest is not None:
                    self.work[at] = nearest
            self._take_polished(int(block))
        return status

    def _take_polished(self, block: int) -> bool:
        """Replace the best point of a block by the one in `work`, and return True, unless that one is worse.

        It is worse if it breaks constraints by more, or if the block was done and is not done there.
        """
        plan, state = self.state.plan, self.state
        r0, r1 = plan.row_start[block : block + 2]
        z, _, y, ahead, change = state.arrays
        _, objective, violation, penalty, _, _ = measure_rows(
            r0, r1, self.rows, z, self.work, ahead, change, y, 1.0 / float(state.step[block]), self.force
        )
        above = objective - self.figures[block, BOUND]
        limit = self.rules.tol * (abs(objective) + self.floor * (r1 - r0))
        if self.code[block] == CONVERGED and (above + penalty > limit or above < -limit):
            return False
        if violation > self.figures[block, VIOLATION]:
            return False
        self.figures[block, [OBJECTIVE, VIOLATION, PENALTY]] = objective, violation, penalty
        v0, v1 = plan.variable_start[block : block + 2]
        self.best[v0:v1] = self.work[v0:v1]
        return True


def _cost_of_constants(model: HingeLossMRF) -> float:
    """What the terms without variables cost."""
    empty = np.diff(model.terms.ptr) == 0
    excess = np.maximum(model.terms.const[empty], 0.0)
    return float(model.weight[empty] @ np.where(model.power[empty] == 2, excess * excess, excess))
