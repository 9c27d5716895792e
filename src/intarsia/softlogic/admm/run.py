"""A run of consensus ADMM: rounds of iterations and checks until all blocks have finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.worker_threads import count_threads, run_in_threads
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
    is_tight,
    judge_blocks,
    measure_rows,
    polish_block,
)
from intarsia._kernels.hinge_steps import lightest_forces, restart_blocks
from intarsia.softlogic.admm.large_blocks import LargeBlock
from intarsia.softlogic.admm.state import MIDDLE, AdmmState
from intarsia.softlogic.hinge.mrf import HingeLossMRF, cost_of_constants
from intarsia.softlogic.hinge.result import HingeResult

_LARGE = 200_000  # number of entries from which threads share a block
_CHECKS_PER_ROUND = 5  # if threads process blocks: several checks per call make the cost of starting threads small
_SWEEPS, _LAST_SWEEPS = 50, 2000  # sweeps of the projection onto constraints, at a check and at the end
_EXACT = 1e-11  # smaller violations are not reduced further
_MAX_STEP_RATIO = 100.0  # the step size stays within this factor of its initial value
_MAX_SQUARED = 0.25  # anchoring is used below this fraction of squared hinges
_PATIENCE = 1000  # iterations before Newton's method is tried on a small block; each retry waits four times as long
_SMALL = 20_000  # largest number of entries for Newton's method: its systems cost too much for larger blocks
_NEWTON_STEPS, _FINE_STEPS = 15, 30
_KEYS = ("n_iter", "objective", "lower_bound", "max_violation", "primal_residual", "dual_residual", "seconds")


@dataclass(frozen=True)
class BlockRules:
    """Checked settings of `ConsensusADMM`."""

    max_iter: int
    tol: float
    alpha: float
    adaptive: bool
    anchored: bool | None
    check_every: int
    n_jobs: int | None


@dataclass
class AdmmRun:
    """A run of ADMM on all blocks of a model, from a state until all blocks finish or the run must stop.

    Arrays created in `__post_init__` have an entry per block: number of iterations, iterations since the last restart,
    status code, last change of z, measurements (columns of `hinge_checks`), and residuals since the restart.
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
        self.n_iter, self.n_since_restart = np.zeros(n_blocks, dtype=np.int64), np.zeros(n_blocks, dtype=np.int64)
        self.code, self.feasibility_checked = np.zeros(n_blocks, dtype=np.int8), np.zeros(n_blocks, dtype=np.bool_)
        self.last_change, self.residuals = np.zeros(n_blocks), np.zeros((n_blocks, 2))
        entries = np.diff(plan.ptr[plan.row_start].astype(np.int64))
        self.violation_tol, self.projected = np.full(n_blocks, self.rules.tol), np.zeros(n_blocks, dtype=np.bool_)
        self.patience = np.where(entries <= _SMALL, _PATIENCE, np.iinfo(np.int64).max)
        self.figures = np.full((n_blocks, N_FIGURES), np.inf)
        self.figures[:, BOUND] = 0.0  # hinges are never negative, so 0 is a lower bound
        self.min_step, self.max_step = self.state.step / _MAX_STEP_RATIO, self.state.step * _MAX_STEP_RATIO
        self.best = self.state.z.copy()
        self.work, self.force = np.empty(plan.variables.size), np.empty(plan.variables.size)
        self.anchor = self.state.base.copy(), self.state.y.copy()
        self.anchored = self._choose_anchored()
        self.constant = cost_of_constants(self.model)
        self.floor = 1.0 / max(plan.const.size, 1)
        self.light = lightest_forces(plan.blocks, self.rows)

    def result(self, report: Callable[[int, float], None] | None) -> HingeResult:
        """Run ADMM, project the best point onto the constraints, and return the result."""
        status = self._contradictory_constants()
        if status is None:
            try:
                status = self._run(report)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        if status is not Status.INFEASIBLE:
            status = self._finish(status)
        x = self.state.plan.to_model(self.best, MIDDLE)
        self.state.n_iter += int(self.n_iter.max(initial=0))
        objective = self.model.objective(x)
        primal, dual = self._residuals()
        return HingeResult(
            x,
            objective,
            np.inf if status is Status.INFEASIBLE else min(self._bound(), objective),
            self.model.max_violation(x),
            status,
            int(self.n_iter.max(initial=0)),
            primal,
            dual,
            self.state,
            {key: np.array(values) for key, values in zip(_KEYS, zip(*self.history, strict=True), strict=False)},
            self.clock.seconds,
            self.note,
            self._passes(),
        )

    def _bound(self) -> float:
        """Return the lower bound: the sum over the blocks of nonnegative bounds, minus its possible rounding error."""
        total = float(self.figures[:, BOUND].sum()) + self.constant
        return total * (1.0 - np.finfo(np.float64).eps * (self.figures.shape[0] + self.model.n_terms + 8))

    def _passes(self) -> float:
        """Return the number of iterations, counted as passes over all rows."""
        rows = np.diff(self.state.plan.row_start)
        return float(self.n_iter @ rows / max(1, rows.sum()))

    # ---------------------------------------------------------------- rounds

    def _run(self, report: Callable[[int, float], None] | None) -> Status:
        """Distribute the blocks to threads, and run until the end."""
        n_threads = count_threads(self.rules.n_jobs)
        plan, large_numbers = self.state.plan, self._large_blocks(n_threads)
        ranges = self._ranges(n_threads, large_numbers)
        with ExitStack() as stack:
            large = [stack.enter_context(LargeBlock(plan, block, n_threads)) for block in large_numbers]
            n_checks = _CHECKS_PER_ROUND if len(ranges) > 1 else 1
            calls = [partial(self.rounds, first, last, n_checks) for first, last in ranges]
            return self._rounds_until_done(calls, large, n_threads, report)

    def _rounds_until_done(
        self,
        calls: Sequence[Callable[[], None]],
        large: list[LargeBlock],
        n_threads: int,
        report: Callable[[int, float], None] | None,
    ) -> Status:
        """Run rounds until all blocks have finished or a limit is reached; return the status."""
        while (self.code == RUNNING).any():
            if self.n_iter[self.code == RUNNING].min() >= self.rules.max_iter:
                return Status.MAX_ITER
            if self.clock.expired:
                return Status.TIME_LIMIT
            run_in_threads(calls, n_threads)
            for block in large:
                if self.code[block.number] == RUNNING:
                    self._advance_large(block)
            self._record(report)
            for suspect in np.flatnonzero(self.code == SUSPECT):
                if self._proved_infeasible(int(suspect)):
                    return Status.INFEASIBLE
                self.code[suspect] = RUNNING
            for number in np.flatnonzero((self.code == CONVERGED) & (self.figures[:, VIOLATION] > _EXACT)):
                if not self.projected[number]:
                    self._project_converged(int(number))
        return Status.CONVERGED

    def _ranges(self, n: int, large: list[int]) -> list[tuple[int, int]]:
        """Return about `n` ranges of blocks with similar numbers of entries, without the large blocks."""
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
        """Run iterations and checks of a range of blocks."""
        plan, state, rules = self.state.plan, self.state, self.rules
        control = state.step, self.n_iter, self.n_since_restart, self.code, self.anchored, self.last_change
        for _ in range(n_checks):
            advance_blocks(
                first, last, rules.check_every, rules.max_iter, rules.alpha, plan.blocks, self.rows, plan.degree,
                state.arrays, self.anchor, self.work, control,
            )  # fmt: skip
            self._check(first, last)
            self._restart(first, last)
            self._try_newton(first, last)

    def _try_newton(self, first: int, last: int) -> None:
        """Try second-order steps on small blocks on which ADMM is slow."""
        blocks = slice(first, last)
        slow = (self.code[blocks] == RUNNING) & (self.n_iter[blocks] >= self.patience[blocks])
        for block in first + np.flatnonzero(slow):
            self.patience[block] = 4 * self.n_iter[block]
            self._newton(int(block))

    def _newton(self, block: int) -> None:
        """Run second-order steps on a block, first scaled to its mean hinge; restore its state if none converge."""
        from intarsia.softlogic.admm.newton import NewtonSteps

        plan, state = self.state.plan, self.state
        v, r = slice(*plan.variable_start[block : block + 2]), slice(*plan.row_start[block : block + 2])
        views = [*(array[v] for array in (state.z, state.base, state.ahead)), state.y[r], state.change[r]]  # views
        saved, last_change = [view.copy() for view in views], self.last_change[block]
        no_change = np.zeros(r.stop - r.start)
        for fine in (False, True):
            if self.code[block] != RUNNING:
                break
            steps = NewtonSteps(plan, self.rows, block, fine)
            x, y = saved[0], no_change  # the multipliers of slow iterations are not a good start
            for _ in range(_FINE_STEPS if fine else _NEWTON_STEPS):
                x, y = steps.advance(x, y)
                for view, values in zip(views, (x, x, x, y, no_change), strict=True):
                    view[:] = values
                self.last_change[block] = 0.0
                self._check(block, block + 1)
                if self.code[block] == CONVERGED:
                    return
                if self.code[block] != RUNNING or self.clock.expired:
                    break
        for view, values in zip(views, saved, strict=True):
            view[:] = values
        self.last_change[block] = last_change

    def _check(self, first: int, last: int) -> None:
        """Check the convergence of a range of blocks."""
        plan, state, rules = self.state.plan, self.state, self.rules
        judge_blocks(
            first, last, _SWEEPS, rules.tol, self.floor, plan.blocks, self.rows, state.arrays, self._check_arrays,
            self.best, self.work, self.force,
        )  # fmt: skip

    @property
    def _check_arrays(self) -> tuple[Any, ...]:
        """Arrays that convergence checks read and write, as arguments of kernels."""
        return (
            self.state.step, self.code, self.last_change, self.figures, self.feasibility_checked, self.violation_tol,
            self.light,
        )  # fmt: skip

    def _restart(self, first: int, last: int) -> None:
        """Restart the blocks in a range that have made enough progress, and adapt their step sizes."""
        plan, state, rules = self.state.plan, self.state, self.rules
        adapt_until = rules.max_iter // 2 if rules.adaptive else -1
        control = state.step, self.n_iter, self.n_since_restart, self.code, self.figures, self.residuals
        restart_blocks(
            first, last, adapt_until, self.min_step, self.max_step, plan.blocks, self.rows, plan.degree, state.arrays,
            control, self.anchor, self.work,
        )  # fmt: skip

    def _advance_large(self, large: LargeBlock) -> None:
        """Run iterations and a check of a block that threads share."""
        state, rules, block = self.state, self.rules, large.number
        n_now = min(
            1 if self.n_since_restart[block] == 0 else rules.check_every, rules.max_iter - int(self.n_iter[block])
        )
        n_since_restart = int(self.n_since_restart[block]) if self.anchored[block] else -1
        self.last_change[block] = large.advance(state, self.rows, self.anchor, rules.alpha, n_since_restart, n_now)
        self.n_iter[block] += n_now
        self.n_since_restart[block] += n_now
        measurements = large.measure(state, self.rows, self.work, _SWEEPS)
        conclude_block(
            block, measurements, rules.tol, self.floor, state.plan.blocks, self.rows, state.y, self._check_arrays,
            self.best, self.work, large.force,
        )  # fmt: skip
        self._restart(block, block + 1)
        self._try_newton(block, block + 1)

    def _large_blocks(self, n_threads: int) -> list[int]:
        """Return the blocks that threads share; none if there is a single thread."""
        plan = self.state.plan
        if n_threads == 1:
            return []
        entries = np.diff(plan.ptr[plan.row_start].astype(np.int64))
        return [int(block) for block in np.flatnonzero(entries >= _LARGE)]

    # ---------------------------------------------------------------- history and residuals

    def _choose_anchored(self) -> NDArray[np.bool_]:
        """Return which blocks use anchoring."""
        plan = self.state.plan
        if self.rules.anchored is not None:
            return np.full(plan.n_blocks, self.rules.anchored)
        if plan.n_blocks == 0:
            return np.zeros(0, dtype=np.bool_)
        starts = plan.row_start[:-1]
        squared = np.add.reduceat(plan.kind == SQUARED, starts, dtype=np.int64)
        hinges = np.add.reduceat(plan.kind < INEQUALITY, starts, dtype=np.int64)
        return squared < _MAX_SQUARED * np.maximum(hinges, 1)

    def _record(self, report: Callable[[int, float], None] | None) -> None:
        """Add a row to the history, and report progress."""
        objective = float(self.figures[:, OBJECTIVE].sum()) + self.constant
        bound = self._bound()
        n_iter = int(self.n_iter.max())
        violation = float(self.figures[:, VIOLATION].max())
        self.history.append((n_iter, objective, bound, violation, *self._residuals(), self.clock.seconds))
        if report is not None:
            report(n_iter, (objective - bound) / max(abs(objective), 1e-300))

    def _residuals(self) -> tuple[float, float]:
        """Return primal and dual residual: root mean squares over all local copies."""
        plan = self.state.plan
        entries = np.diff(plan.ptr[plan.row_start].astype(np.int64))
        if entries.size == 0:
            return 0.0, 0.0
        squares = entries @ self.figures[:, [PRIMAL, DUAL]] ** 2 / entries.sum()
        return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))

    # ---------------------------------------------------------------- constraints

    def _contradictory_constants(self) -> Status | None:
        """Return INFEASIBLE if a constraint without variables is violated."""
        model, first_row = self.model, self.model.n_terms
        for rows, equal in ((model.equalities, True), (model.inequalities, False)):
            if rows is None:
                continue
            off = np.abs(rows.const) if equal else rows.const
            bad = np.flatnonzero((np.diff(rows.ptr) == 0) & (off > self.rules.tol))
            if bad.size:
                from intarsia.softlogic.admm.feasibility import describe_constraints  # imports scipy.sparse

                self.note = f"Infeasible constraint: {describe_constraints(model, first_row + bad)}."
                return Status.INFEASIBLE
            first_row += rows.n_rows
        return None

    def _proved_infeasible(self, block: int) -> bool:
        """Return whether the constraints of a block are proved to be infeasible; if so, the note lists them.

        If they contradict each other by less than the tolerance, a point within the tolerance is searched for.
        """
        from intarsia.softlogic.admm.feasibility import BlockConstraints, describe_constraints

        constraints = BlockConstraints(self.state.plan, block)
        contradiction = constraints.contradiction(self.clock)
        self.feasibility_checked[block] = True
        if contradiction is None:
            return False
        rows, margin = contradiction
        if margin <= self.rules.tol:
            self._project_best(block)
            if constraints.violation(self.work[constraints.variables]) <= self.rules.tol:
                return False
        description = describe_constraints(self.model, self.state.plan.row_of[rows])
        self.note = f"Contradictory constraints: {description}."
        return True

    def _project_best(self, block: int) -> None:
        """Project a copy of the best point of a block onto the constraints, in `work`."""
        plan = self.state.plan
        v0, v1 = plan.variable_start[block : block + 2]
        c0, c1 = plan.constraint_start[block : block + 2]
        self.work[v0:v1] = self.best[v0:v1]
        polish_block(c0, c1, plan.constraints, self.rows, self.work, _LAST_SWEEPS)

    def _project_converged(self, block: int) -> None:
        """Project the best point of a converged block onto its constraints; resume the block if that point is worse.

        A point with a small violation can have a much lower objective than every feasible point. Then the block resumes
        until its violation is ten times smaller. If the constraints contradict each other by less than the tolerance,
        the point is accepted.
        """
        self.projected[block] = True
        self._project_best(block)
        if self._accept_projected(block):
            return
        from intarsia.softlogic.admm.feasibility import BlockConstraints  # imports scipy.sparse

        if BlockConstraints(self.state.plan, block).contradiction(self.clock) is None and not self.clock.expired:
            self.feasibility_checked[block], self.projected[block], self.code[block] = True, False, RUNNING
            self.violation_tol[block] = max(
                0.1 * min(self.violation_tol[block], self.figures[block, VIOLATION]), _EXACT
            )
            self.figures[block, [OBJECTIVE, VIOLATION, PENALTY]] = np.inf
            self.patience[block] = min(self.patience[block], self.n_iter[block])

    def _finish(self, status: Status) -> Status:
        """Project the best points of unfinished blocks onto the constraints; return the final status."""
        unfinished = np.flatnonzero((self.figures[:, VIOLATION] > _EXACT) & ~self.projected)
        if unfinished.size == 0:
            return status
        from intarsia.softlogic.admm.feasibility import BlockConstraints  # imports scipy.sparse

        tol = self.rules.tol
        for block in unfinished:
            constraints = BlockConstraints(self.state.plan, int(block))
            self._project_best(int(block))
            positions = constraints.variables
            if constraints.violation(self.work[positions]) > tol:
                if not self.feasibility_checked[block] and self._proved_infeasible(int(block)):
                    return Status.INFEASIBLE
                nearest = constraints.nearest(self.best[positions], self.clock)
                if nearest is not None:
                    self.work[positions] = nearest
            self._accept_projected(int(block))
        return status

    def _accept_projected(self, block: int) -> bool:
        """Replace the best point of a block by the projected point in `work` and return True, unless it is worse.

        It is worse if its violation is larger, or if the block had converged and the point does not meet the tolerance.
        """
        plan, state = self.state.plan, self.state
        (r0, r1), (v0, v1) = plan.row_start[block : block + 2], plan.variable_start[block : block + 2]
        z, _, y, ahead, change = state.arrays
        self.force[v0:v1] = 0.0
        _, objective, violation, penalty, _, _, total, widest = measure_rows(
            r0, r1, self.rows, z, self.work, ahead, change, y, 1.0 / float(state.step[block]), self.force
        )
        above = objective - self.figures[block, BOUND]
        limit = self.rules.tol * (abs(objective) + self.floor * self.light[block] * (r1 - r0))
        tight = is_tight(v0, v1, self.work, self.force, total, widest, self.rules.tol, self.light[block])
        tight = tight or above < 0.0  # constraints that contradict each other within the tolerance
        if self.code[block] == CONVERGED and (not tight or above + penalty > limit or above < -limit):
            return False
        if violation > self.figures[block, VIOLATION]:
            return False
        self.figures[block, [OBJECTIVE, VIOLATION, PENALTY]] = objective, violation, penalty
        self.best[v0:v1] = self.work[v0:v1]
        return True
