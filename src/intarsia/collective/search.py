"""Two optimisers of collective models: mirror descent on the primal, L-BFGS on the dual."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.collective.flow_descent import FlowDescent, MirrorSteps
from intarsia.collective.problem import CollectiveProblem, Point
from intarsia.exceptions import NotSupportedError
from intarsia.inference.method import Iteration, iterate

COLUMNS = ("objective", "lower_bound", "residual", "oracle_calls", "seconds")
Report = Callable[[int, float], None] | None
# Factors by which the steepness (inverse step size) falls after an accepted step: first to find the smallest sufficient
# one, then so that fewer than one step in twenty needs a second call of the oracle.
_FIRST_DECAY, _DECAY = 0.5, 0.97
# L-BFGS starts again from its best point if its line search fails, up to this number of starts.
_MAX_STARTS = 20


class Search(ABC):
    """Abstract base of the optimisers: best distribution so far, lower bound on the objective, and history.

    The residual is the duality gap over 1 + |objective|; for exact counts, the largest error over the number of
    walkers.
    """

    def __init__(self, problem: CollectiveProblem, start: Point, clock: Clock) -> None:
        self.problem, self.clock = problem, clock
        self.lower = -np.inf
        self.history: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.best, self.best_objective, self.residual = start, np.inf, np.inf
        self.consider(start)

    def consider(self, point: Point, noise_value: float | None = None) -> float:
        """Store a point if it is the best so far; return its objective."""
        problem = self.problem
        objective = problem.objective(point, problem.noise_value(point) if noise_value is None else noise_value)
        rounding_error = problem.rounding_error(point)
        if problem.model_weight > 0:
            bound = problem.lower_bound(point) - rounding_error
            self.lower = max(self.lower, bound if bound < np.inf else -np.inf)
        if problem.noise.exact:
            error = problem.count_error(point)
            if error < self.residual:
                self.best, self.best_objective, self.residual = point, objective, error
        elif objective + rounding_error < self.best_objective:
            self.best, self.best_objective = point, objective
        if not problem.noise.exact and problem.model_weight > 0:
            self.residual = max(self.best_objective - self.lower, 0.0) / (1.0 + abs(self.best_objective))
        return objective

    def record(self) -> float:
        """Append an entry to the history; return the residual."""
        values = (self.best_objective, self.lower, self.residual, float(self.problem.n_calls), self.clock.seconds)
        for name, value in zip(COLUMNS, values, strict=True):
            self.history[name].append(value)
        return self.residual

    @abstractmethod
    def run(self, max_iter: int, tol: float, report: Report) -> Iteration:
        """Search until the residual is at most tol."""


class MirrorDescent(Search):
    r"""Composite mirror descent with the entropy of the chain (Vilnis2015 Algorithm 4) and backtracking.

    A step sets the tilt to :math:`(c \, tilt + f'(n)) / (c + w)`. The steepness c is doubled until f stays below its
    tangent plus c times the divergence; then the objective falls at every step.
    """

    def __init__(self, problem: CollectiveProblem, start: Point, clock: Clock) -> None:
        if problem.noise.exact:
            raise NotSupportedError(
                "infer_flows: mirror descent needs differentiable noise, and exact counts are not. Use method='dual'."
            )
        super().__init__(problem, start, clock)
        self.steps = MirrorSteps(problem)
        self.current, self.current_objective = self.steps.evaluate_noise(start), self.best_objective
        self.steepness, self.decay = 1.0, _FIRST_DECAY

    def run(self, max_iter: int, tol: float, report: Report) -> Iteration:
        """Descend until the residual is at most tol."""
        if self.residual <= tol:
            return Iteration(Status.CONVERGED, 0, self.residual, np.empty(0))
        if self.problem.is_least_squares_of_flows:
            return self._run_blocks(max_iter, tol, report)
        return iterate(self.sweep, max_iter, tol, self.clock, report)

    def _run_blocks(self, max_iter: int, tol: float, report: Report) -> Iteration:
        """Make many steps per kernel call; a step that leaves the safe range of doubles is made by `sweep`."""
        residuals, status = self.history["residual"], Status.MAX_ITER
        flows = FlowDescent(self.problem, _DECAY)
        flows.begin(self.current, self.steepness, self.decay)
        try:
            while len(residuals) < max_iter and status is Status.MAX_ITER:
                step_rows, safe = flows.advance(min(flows.max_steps, max_iter - len(residuals)), tol)
                self._record_block(step_rows)
                if not safe:
                    self._take_over(flows)
                    self.sweep()
                    flows.begin(self.current, self.steepness, self.decay)
                elif not len(step_rows):
                    status = Status.STALLED
                if report is not None and residuals:
                    report(len(residuals), self.residual)
                if self.residual <= tol:
                    status = Status.CONVERGED
                elif self.clock.expired:
                    status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        self._take_over(flows)
        return Iteration(status, len(residuals), self.residual, np.array(residuals))

    def _record_block(self, step_rows: FloatArray) -> None:
        """Append the steps of a kernel call to the history; the clock is read once for all of them."""
        if not len(step_rows):
            return
        objective = np.minimum.accumulate(np.minimum(step_rows[:, 0], self.best_objective))
        seconds, ones = self.clock.seconds, np.ones(len(step_rows))
        columns = (objective, self.lower * ones, step_rows[:, 1], step_rows[:, 2], seconds * ones)
        for name, numbers in zip(COLUMNS, columns, strict=True):
            self.history[name].extend(numbers.tolist())
        self.best_objective, self.residual = float(objective[-1]), float(step_rows[-1, 1])

    def _take_over(self, flows: FlowDescent) -> None:
        """Continue from the current point of the kernel, which is the best: every step decreased the objective."""
        self.current, self.steepness = flows.current_trial(), flows.steepness
        self.best, self.current_objective = self.current.point, self.current.value
        self.best_objective = self.current.value

    def sweep(self) -> float:
        """Make one step of descent, with as many calls of the oracle as backtracking needs."""
        problem, old = self.problem, self.current
        while True:
            trial = self.steps.step(old, self.steepness)
            if trial is not None:
                new, rise, divergence = trial
                slack = 1e-13 * (1.0 + abs(old.value) + problem.n_walkers * abs(new.point.log_partition))
                if rise <= self.steepness * divergence + slack:
                    break
            if self.steepness > 1e15:
                return self.record()
            self.steepness, self.decay = 2.0 * self.steepness, _DECAY
        self.steepness = max(self.decay * self.steepness, 1e-12)
        old_objective = self.current_objective
        self.current, self.current_objective = new, self.consider(new.point, new.value)
        if problem.model_weight == 0:  # there is no lower bound from the dual then
            decrease = old_objective - self.current_objective
            self.residual = max(decrease, 0.0) / (1.0 + abs(self.current_objective))
        return self.record()


class DualAscent(Search):
    """L-BFGS on the dual, in coordinates of the noise in which it is convex, unconstrained and evenly curved.

    There is one variable per observed count. Each evaluation is one call of the oracle and gives a valid distribution.
    """

    def run(self, max_iter: int, tol: float, report: Report) -> Iteration:
        """Ascend until the residual is at most tol; restart from the largest dual if the line search fails."""
        from scipy.optimize import minimize

        problem = self.problem
        if problem.model_weight == 0:
            raise NotSupportedError(
                "infer_flows: the dual needs model_weight > 0. Use method='mirror_descent', or a small weight."
            )
        self.status, self.tol = Status.MAX_ITER, tol
        residuals = self.history["residual"]
        if self.residual <= tol:
            return Iteration(Status.CONVERGED, 0, self.residual, np.empty(0))

        def record_iteration(intermediate_result: object) -> None:
            self.record()
            if report is not None:
                report(len(residuals), self.residual)
            self._update_status()
            if self.status is not Status.MAX_ITER:
                raise StopIteration

        self._least_value = np.inf
        self._best_x = problem.noise.coordinates(problem.model_weight * self.best.tilt, problem.y)
        try:
            for _ in range(_MAX_STARTS):
                n_remaining, value_before = max_iter - len(residuals), self._least_value
                if n_remaining <= 0 or self.status is not Status.MAX_ITER:
                    break
                # The residual of exact counts is not the duality gap, so that their best point can be another.
                if problem.noise.exact:
                    self._best_x = problem.noise.coordinates(problem.model_weight * self.best.tilt, problem.y)
                minimize(
                    self._dual, self._best_x, jac=True, method="L-BFGS-B", callback=record_iteration,
                    options={
                        "maxiter": n_remaining, "maxfun": 20 * n_remaining + 20, "ftol": 0.0, "gtol": 0.0, "maxcor": 15,
                    },
                )  # fmt: skip
                if not self._least_value < value_before:
                    break
            if self.status is Status.MAX_ITER and len(residuals) < max_iter:
                self._update_status()
                self.status = Status.STALLED if self.status is Status.MAX_ITER else self.status
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
        except _OutOfTime:
            self.status = Status.TIME_LIMIT
        return Iteration(self.status, len(residuals), self.residual, np.array(residuals))

    def _update_status(self) -> None:
        """Set the status if the run converged, is infeasible or exceeded the time limit."""
        if self.residual <= self.tol:
            self.status = Status.CONVERGED
        elif self.problem.noise.exact and self.lower > self.problem.objective_upper_bound() + 1e-6 * (
            1 + abs(self.lower)
        ):
            self.status = Status.INFEASIBLE
        elif self.clock.expired:
            self.status = Status.TIME_LIMIT

    def _dual(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the negative dual and its gradient."""
        problem, w = self.problem, self.problem.model_weight
        if self.clock.expired:
            raise _OutOfTime
        multipliers, derivatives = problem.noise.multipliers(x, problem.y)
        point = problem.evaluate(multipliers / w)
        value = np.inf if point is None else -problem.lower_bound(point)
        if point is None or not np.isfinite(value):
            return np.inf, np.zeros_like(x)
        if value < self._least_value:
            self._least_value, self._best_x = value, x.copy()
        self.consider(point)
        gradient = (problem.noise.conjugate_slope(multipliers, problem.y) - point.walkers) * derivatives
        return value, gradient


class _OutOfTime(Exception):
    """Raised inside the line search, so that the time limit holds even if single evaluations are slow."""
