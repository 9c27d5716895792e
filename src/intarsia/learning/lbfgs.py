"""L-BFGS with a strong Wolfe line search; it restarts after a bad direction and returns the best point it met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from intarsia._core.validation import FloatArray, check_number
from intarsia.learning.minimum import Objective, Search, SummedObjective, largest, rounding
from intarsia.learning.optimizer import Optimizer

DECREASE, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 20


@dataclass(frozen=True, eq=False)
class Trial:
    """A step that was tried: value and gradient there, and the slope along the direction."""

    step: float
    value: float
    slope: float
    point: FloatArray
    gradient: FloatArray

    @property
    def finite(self) -> bool:
        """Whether all of it is a number."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


def wolfe_step(search: Search, direction: FloatArray, first: float) -> Trial | None:
    """A better point along `direction`, or None if there is none.

    A bracket that holds an acceptable step is narrowed by cubic interpolation. What is not finite counts as too far.
    When no step satisfies both conditions within `MAX_TRIALS`, the lowest that satisfies the first is taken.
    """
    start = Trial(0.0, search.value, float(search.gradient @ direction), search.point, search.gradient)
    if not start.slope < 0.0:
        return None
    low, high, best = start, None, None
    step, too_far = first, np.inf
    for _ in range(MAX_TRIALS):
        trial = _try(search, direction, step)
        if not trial.finite:
            too_far, high = step, None
            step = low.step + 0.1 * (step - low.step)
            continue
        lower = trial.value <= start.value + DECREASE * step * start.slope
        if lower and trial.value < (start.value - rounding(start.value) if best is None else best.value):
            best = trial
        # Close to the minimum values differ by rounding only, but slopes still tell.
        even = trial.value <= start.value + rounding(start.value)
        if (lower or even) and abs(trial.slope) <= -CURVATURE * start.slope:
            return trial
        if not lower or trial.value >= low.value:
            high = trial
        else:
            ahead = 1.0 if high is None or high.step > low.step else -1.0
            high, low = (low if ahead * trial.slope >= 0.0 else high), trial
        if high is None:
            step = min(4.0 * step, 0.5 * (step + too_far))
        elif max(high.step, low.step) <= 1e-12 * first:
            break
        else:
            step = _between(low, high)
    return best


def _try(search: Search, direction: FloatArray, step: float) -> Trial:
    point = step * direction
    point += search.point
    value, gradient = search.evaluate(point)
    return Trial(step, value, float(gradient @ direction), point, gradient)


def _between(low: Trial, high: Trial) -> float:
    """Where the cubic through both ends is lowest, kept away from the ends."""
    width = high.step - low.step
    mean = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    root = mean * mean - low.slope * high.slope
    share = 0.5
    if root >= 0.0:
        turn = np.copysign(np.sqrt(root), width)
        below = high.slope - low.slope + 2.0 * turn
        if below != 0.0:
            share = 1.0 - (high.slope + turn - mean) / below
    if not np.isfinite(share):
        share = 0.5
    return float(low.step + min(max(share, 0.1), 0.9) * width)


# A search that for so many iterations lowers neither the value nor the gradient has nothing more to give.
MAX_IDLE = 10


class LBFGS(Optimizer):
    r"""Minimum of a smooth function by L-BFGS, begun anew from the best point on a bad search direction.

    Choose it when all data fit in one evaluation, which is the rule here. The function need not be convex, and may be
    infinite or NaN away from the start: such a step counts as too long. The direction is
    :math:`-H \nabla f` with H from the last `memory` steps and changes of gradient by the two-loop recursion; the step
    satisfies the strong Wolfe conditions, and rarely costs more than one evaluation. Where the function knows a rough
    inverse Hessian (`SummedObjective.precondition`), H begins with it. All of its state are arrays, so
    that a search which was broken off goes on exactly as it would have. Ctrl-C ends it and keeps the best point.

    Parameters
    ----------
    max_iter : int
        Most iterations, over all restarts.
    tol : float
        Converged when no entry of the gradient is larger, and in each of the last three iterations the predicted
        decrease :math:`\frac12 g^\top H g` was at most `tol` times the value. A small gradient alone says little: with
        a weak penalty the function is flat, and a gradient of 1e-5 may be ten percent above the minimum. H misses some
        of the curvature, so the true distance from the minimum of a convex function is larger than predicted, up to 50
        times on the chain models of the tests; CONVERGED means within 100 `tol` of the minimum, relative to the value
        there (0.001 by default).
    memory : int
        Pairs of steps and changes of gradient that shape the direction.

    References
    ----------
    Liu1989; Domke2013, section 8.4, for the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> found = LBFGS().minimize(lambda x: (float(x @ x), 2.0 * x), np.array([3.0, 4.0]))
    >>> found.status.name, float(found.history["risk"][0])
    ('CONVERGED', 25.0)
    """

    name: ClassVar[str] = "lbfgs"

    def __init__(self, *, max_iter: int = 1000, tol: float = 1e-5, memory: int = 10) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        check_number(self.max_iter, "LBFGS: max_iter", low=0, integer=True)
        check_number(self.tol, "LBFGS: tol", low=0.0)
        check_number(self.memory, "LBFGS: memory", low=1, integer=True)

    def advance(self, search: Search) -> None:
        """One step; where none can be found, once more from the best point without what was gathered."""
        found = self._step(search)
        if found is None:
            search.n_restarts += 1
            search.memory = {}
            # Anew, since a function that misled the search may have given a wrong gradient.
            search.accept(search.best_point, *search.evaluate(search.best_point))
            found = self._step(search)
        if found is None:
            search.stalled = True
            return
        self._remember(search, found)
        gained = search.value - found.value > rounding(found.value) or largest(found.gradient) < search.best_norm
        idle = 0 if gained else int(search.memory.get("idle", np.array(0))) + 1
        search.memory["idle"] = np.array(idle)
        search.stalled = idle >= MAX_IDLE
        search.accept(found.point, found.value, found.gradient)

    def _step(self, search: Search) -> Trial | None:
        scale = precondition_of(search.objective)
        scaled = scale(search.gradient)
        length = float(search.gradient @ scaled)  # the square of the gradient, in the metric of the preconditioner
        if not np.isfinite(length) or length <= 0.0:
            return None
        if not has_pairs(search.memory):
            return wolfe_step(search, -scaled, 1.0 / np.sqrt(length))
        direction = lbfgs_direction(search.gradient, search.memory, scale)
        search.predict(direction, float(self.tol))
        return wolfe_step(search, direction, 1.0)

    def settled(self, search: Search) -> bool:
        """Whether the curvature promises no further decrease."""
        return search.settled(float(self.tol))

    def _remember(self, search: Search, found: Trial) -> None:
        remember_pair(search.memory, (found.point, search.point), (found.gradient, search.gradient), int(self.memory))


def remember_pair(
    memory: dict[str, NDArray[Any]],
    points: tuple[FloatArray, FloatArray],
    gradients: tuple[FloatArray, FloatArray],
    most: int,
) -> None:
    """Add a step and the change of gradient along it, each from new to old, to the `most` latest ones.

    They take turns in the rows of a ring, of which one is free: to move them would take longer than to use them.
    "curvature" are their products, "count" is how many there have been.
    """
    if "ring" not in memory:
        shape = (most + 1, points[0].size)
        memory |= {"ring": np.empty((2, *shape)), "curvature": np.ones(shape[0]), "count": np.array(0)}
    count = int(memory["count"])
    at = count % (most + 1)
    step, change = memory["ring"][:, at]
    np.subtract(*points, out=step)
    np.subtract(*gradients, out=change)
    curvature = float(step @ change)
    if curvature <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        return  # nothing to learn from
    memory["curvature"][at], memory["count"] = curvature, np.array(count + 1)


def has_pairs(memory: Mapping[str, NDArray[Any]]) -> bool:
    """Whether there is a pair that shapes the direction."""
    return "count" in memory and int(memory["count"]) > 0


def precondition_of(objective: Objective) -> Callable[[FloatArray], FloatArray]:
    """What the objective knows of its inverse Hessian; for a plain function nothing."""
    return objective.precondition if isinstance(objective, SummedObjective) else lambda gradient: gradient


def lbfgs_direction(
    gradient: FloatArray,
    memory: Mapping[str, NDArray[Any]],
    scale: Callable[[FloatArray], FloatArray] = lambda gradient: gradient,
) -> FloatArray:
    """Minus the gradient times the inverse Hessian that the remembered pairs imply (Liu1989, two-loop recursion).

    The recursion begins with `scale`, times the number that fits the last pair.
    """
    (steps, changes), curvature = memory["ring"], memory["curvature"]
    count, n_rows = int(memory["count"]), len(curvature)
    rows = [i % n_rows for i in range(max(0, count + 1 - n_rows), count)]  # from the oldest to the latest
    turned = -gradient
    along = np.zeros(n_rows)
    for i in reversed(rows):
        along[i] = (steps[i] @ turned) / curvature[i]
        turned = daxpy(changes[i], turned, a=-along[i])  # in place, and without an array in between
    last = changes[rows[-1]]
    turned = scale(turned) * (curvature[rows[-1]] / (last @ scale(last)))
    for i in rows:
        turned = daxpy(steps[i], turned, a=along[i] - (changes[i] @ turned) / curvature[i])
    return turned
