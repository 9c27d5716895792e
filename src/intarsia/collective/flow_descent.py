"""Mirror descent on flows: single trial steps, and many steps per kernel call for squared errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, read_only
from intarsia._kernels.chain_arguments import FlowErrors, FlowScratch
from intarsia._kernels.mirror_flows import UNSAFE, descend_mirror_flows
from intarsia.collective.oracle import SAFE_OVERLAP
from intarsia.collective.problem import CollectiveProblem, Point
from intarsia.exceptions import IntarsiaError


@dataclass(frozen=True, eq=False)
class Trial:
    """Point with the value and the slope of the observation noise there."""

    point: Point
    value: float
    slope: FloatArray


class MirrorSteps:
    """Single steps of mirror descent, for any problem.

    Parameters
    ----------
    problem : CollectiveProblem
        Problem whose noise is differentiable.
    """

    def __init__(self, problem: CollectiveProblem) -> None:
        self.problem = problem

    def evaluate_noise(self, point: Point) -> Trial:
        """Return a point with the value and slope of the noise there."""
        return Trial(point, *self.problem.noise.value_and_slope(point.walkers, self.problem.y))

    def step(self, current: Trial, steepness: float) -> tuple[Trial, float, float] | None:
        """Return the next point, the rise of f above its tangent, and the divergence; None if no path is possible."""
        problem, old, w = self.problem, current.point, self.problem.model_weight
        if w == 0:  # without the model term, the slopes accumulate
            tilt = old.tilt + current.slope / steepness
        else:
            tilt = (steepness * old.tilt + current.slope) / (steepness + w)
        new = problem.evaluate(tilt)
        if new is None:
            return None
        trial = self.evaluate_noise(new)
        rise = trial.value - current.value - float(current.slope @ (new.walkers - old.walkers))
        return trial, rise, _divergence(problem, float((old.tilt - tilt) @ new.walkers), old, new)


def _divergence(problem: CollectiveProblem, tilt_change_dot_walkers: float, old: Point, new: Point) -> float:
    """Return N times the relative entropy of the new distribution to the old one.

    It equals `<old tilt - new tilt, n> - N log(Z / Z_old)`.
    """
    return tilt_change_dot_walkers - problem.n_walkers * (new.log_partition - old.log_partition)


# Number of table entries processed between two checks of the time limit, about 0.05 seconds of work.
_BLOCK = 4.0e6


class FlowDescent:
    """Mirror descent in a kernel, for the problems of `CollectiveProblem.is_least_squares_of_flows`.

    Parameters
    ----------
    problem : CollectiveProblem
        Squared errors of all cells and moves, with `model_weight` 0.
    decay : float
        Factor by which the steepness falls after an accepted step, once a step had to be repeated.

    Attributes
    ----------
    max_steps : int
        Maximum number of steps of one call of `advance`.
    """

    def __init__(self, problem: CollectiveProblem, decay: float) -> None:
        self.problem, self.decay = problem, decay
        self.max_steps = int(min(max(_BLOCK / problem.y.size, 1), 1000))
        shape, theta = problem.scores.shape, problem.tables.theta
        self._tables, self._slopes = np.empty_like(theta), np.empty((2, problem.y.size))
        self._messages = np.empty(shape), np.empty(shape), np.empty(shape)
        self._constant = float(problem.noise.value_and_slope(problem.noise.expected(problem.y), problem.y)[0])
        # Scalars of the kernel: log Z, value, steepness, decay now and after a repeated step, calls, row of the slope.
        self._numbers = np.zeros(7)

    def begin(self, trial: Trial, steepness: float, decay: float) -> None:
        """Continue from a point that was reached by other steps."""
        problem = self.problem
        n = problem.scores.size
        self._cells = problem.scores - trial.point.tilt[:n].reshape(problem.scores.shape)
        self._moves = problem.tables.theta - trial.point.tilt[n:].reshape(problem.tables.theta.shape)
        self._shift = self._moves.reshape(len(self._moves), -1).max(axis=1, initial=-np.inf)
        self._slopes[0] = trial.slope
        self._numbers[:] = trial.point.log_partition, trial.value, steepness, decay, self.decay, 0, 0

    def advance(self, n_iter: int, tol: float) -> tuple[FloatArray, bool]:
        """Make steps; return value, relative decrease and oracle calls of each, and whether doubles were sufficient."""
        problem, history = self.problem, np.empty((n_iter, 3))
        rate, sigma = problem.noise.linear_gaussian or (1.0, 1.0)
        self._numbers[5] = problem.n_calls
        errors = FlowErrors(read_only(problem.y), rate, sigma**-2, self._constant, problem.n_walkers)
        scratch = FlowScratch(self._shift, self._tables, *self._messages)
        n_steps, reason = descend_mirror_flows(
            n_iter, tol, SAFE_OVERLAP, self._cells, self._moves, self._slopes, self._numbers, errors, scratch, history
        )
        problem.n_calls = int(self._numbers[5])
        return history[:n_steps], reason != UNSAFE

    @property
    def steepness(self) -> float:
        """Steepness of the next step."""
        return float(self._numbers[2])

    def current_trial(self) -> Trial:
        """Return the current point, computed by a call of the oracle."""
        problem = self.problem
        scores = np.concatenate([self._cells.reshape(-1), self._moves.reshape(-1)])
        initial_scores = np.concatenate([problem.scores.reshape(-1), problem.tables.theta.reshape(-1)])
        tilt = np.zeros(initial_scores.size)
        np.subtract(initial_scores, scores, out=tilt, where=initial_scores > -np.inf)
        point = problem.evaluate(tilt)
        if point is None:
            raise IntarsiaError("FlowDescent: the current point became infeasible, which is a bug. Report it.")
        return Trial(point, *problem.noise.value_and_slope(point.walkers, problem.y))
