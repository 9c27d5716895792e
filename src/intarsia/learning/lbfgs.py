"""L-BFGS with a strong Wolfe line search, restarts after bad directions, and the best point as the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, check_number
from intarsia.learning.minimum import PERIOD, Objective, Search, SummedObjective, largest, rounding
from intarsia.learning.optimizer import Optimizer

DECREASE, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 20
_LONG = 10_000  # length of vectors whose pairs are stored in single precision


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial step of the line search, with value, gradient and directional derivative at its end."""

    step: float
    value: float
    slope: float
    point: FloatArray
    gradient: FloatArray

    @property
    def finite(self) -> bool:
        """Whether value and gradient are finite."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


def wolfe_step(search: Search, direction: FloatArray, first: float) -> Trial | None:
    """Return a step along `direction` that lowers the value, or None if there is none.

    A bracket that contains an acceptable step is narrowed by cubic interpolation. A step to a value or gradient that is
    not finite counts as too long. If no step satisfies both Wolfe conditions within `MAX_TRIALS`, the step with the
    lowest value that satisfies the first condition is returned.
    """
    start = Trial(0.0, search.value, float(search.gradient @ direction), search.point, search.gradient)
    if not start.slope < 0.0:
        return None
    low, high, best = start, None, None
    step, too_far = first, np.inf
    for _ in range(MAX_TRIALS):
        trial = _evaluate_step(search, direction, step)
        if not trial.finite:
            too_far, high = step, None
            step = low.step + 0.1 * (step - low.step)
            continue
        decreases = trial.value <= start.value + DECREASE * step * start.slope
        if decreases and trial.value < (start.value - rounding(start.value) if best is None else best.value):
            best = trial
        # Close to the minimum values differ only by rounding, but slopes are still informative.
        equal = trial.value <= start.value + rounding(start.value)
        if (decreases or equal) and abs(trial.slope) <= -CURVATURE * start.slope:
            return trial
        if not decreases or trial.value >= low.value:
            high = trial
        else:
            side = 1.0 if high is None or high.step > low.step else -1.0
            high, low = (low if side * trial.slope >= 0.0 else high), trial
        if high is None:
            step = min(4.0 * step, 0.5 * (step + too_far))
        elif max(high.step, low.step) <= 1e-12 * first or high.step == low.step:
            break  # the bracket is empty, as with an objective that is itself the result of a search
        else:
            step = _interpolate(low, high)
    return best


def _evaluate_step(search: Search, direction: FloatArray, step: float) -> Trial:
    """Evaluate the objective after a step along the direction."""
    point = step * direction
    point += search.point
    value, gradient = search.evaluate(point)
    return Trial(step, value, float(gradient @ direction), point, gradient)


def _interpolate(low: Trial, high: Trial) -> float:
    """Return the minimizer of the cubic through both ends, limited to the inner 80 percent of the interval."""
    width = high.step - low.step
    center = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    discriminant = center * center - low.slope * high.slope
    fraction = 0.5
    if discriminant >= 0.0:
        root_term = np.copysign(np.sqrt(discriminant), width)
        denominator = high.slope - low.slope + 2.0 * root_term
        if denominator != 0.0:
            fraction = 1.0 - (high.slope + root_term - center) / denominator
    if not np.isfinite(fraction):
        fraction = 0.5
    return float(low.step + min(max(fraction, 0.1), 0.9) * width)


# The search has stalled after this many iterations that lower neither the value nor the gradient.
MAX_IDLE = 10


class LBFGS(Optimizer):
    r"""Limited-memory BFGS (L-BFGS), restarted from the best point after a bad search direction.

    Choose it when all data fit into one evaluation, which is the usual case. The function need not be convex, and may
    be infinite or NaN away from the start: such a step counts as too long. The search direction is :math:`-H \nabla f`
    with H from the last `memory` steps and gradient changes by the two-loop recursion; the step satisfies the strong
    Wolfe conditions and rarely costs more than one evaluation. If the objective provides an approximate inverse Hessian
    (`SummedObjective.precondition`), H starts from it. The whole state consists of arrays, so that an interrupted
    search resumes exactly where it stopped. Ctrl-C ends the search and keeps the best point.

    Parameters
    ----------
    max_iter : int
        Maximum number of iterations, over all restarts.
    tol : float
        Tolerance. The search has converged when no entry of the gradient is larger in absolute value, in each of the
        last three iterations the predicted decrease :math:`\frac12 g^\top H g` was at most `tol` times the value, and
        the last ten iterations together decreased the value by at most `tol` times the value (CRFsuite stops by this
        last rule alone). A small gradient is not enough: with weak regularization the function is flat, and a gradient
        of 1e-5 may belong to a value twice the minimum. H misses some of the curvature, so the true distance from the
        minimum of a convex function is larger than predicted. CONVERGED means within 100 `tol` of the minimum, relative
        to the value there (0.001 by default); on five data sets of sequences with `l2` from 0.001 to 10, the largest
        distance was 23 `tol`.
    memory : int
        Number of stored pairs of steps and gradient changes. With 10,000 or more variables, they are stored in single
        precision.

    References
    ----------
    Liu1989; Domke2013, section 8.4, for the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> result = LBFGS().minimize(lambda x: (float(x @ x), 2.0 * x), np.array([3.0, 4.0]))
    >>> result.status.name, float(result.history["risk"][0])
    ('CONVERGED', 25.0)
    """

    name: ClassVar[str] = "lbfgs"

    def __init__(self, *, max_iter: int = 1000, tol: float = 1e-5, memory: int = 10) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_number(self.max_iter, "LBFGS: max_iter", low=0, integer=True)
        check_number(self.tol, "LBFGS: tol", low=0.0)
        check_number(self.memory, "LBFGS: memory", low=1, integer=True)

    def advance(self, search: Search) -> None:
        """Make one step; if there is none, try again from the best point without the stored curvature."""
        trial = self._step(search)
        if trial is None:
            search.n_restarts += 1
            search.memory = {}
            # Evaluated again, since the stored gradient may be the wrong one that misled the search.
            search.accept(search.best_point, *search.evaluate(search.best_point))
            trial = self._step(search)
        if trial is None:
            search.stalled = True
            return
        self._remember(search, trial)
        improved = search.value - trial.value > rounding(trial.value) or largest(trial.gradient) < search.best_norm
        n_idle = 0 if improved else int(search.memory.get("idle", np.array(0))) + 1
        search.memory["idle"] = np.array(n_idle)
        search.stalled = n_idle >= MAX_IDLE
        search.accept(trial.point, trial.value, trial.gradient)

    def _step(self, search: Search) -> Trial | None:
        """Return a step along the L-BFGS direction, or along the preconditioned gradient without stored pairs."""
        precondition = precondition_of(search.objective)
        scaled = precondition(search.gradient)
        squared_norm = float(search.gradient @ scaled)  # in the metric of the preconditioner
        if not np.isfinite(squared_norm) or squared_norm <= 0.0:
            return None
        if not has_pairs(search.memory):
            return wolfe_step(search, -scaled, 1.0 / np.sqrt(squared_norm))
        direction = lbfgs_direction(search.gradient, search.memory, precondition)
        search.predict(-0.5 * float(search.gradient @ direction), float(self.tol))
        return wolfe_step(search, direction, 1.0)

    def confirms_convergence(self, search: Search) -> bool:
        """Return whether the curvature predicts no further decrease and the last iterations brought little."""
        return search.is_near_minimum(float(self.tol)) and search.decreased_within(PERIOD) <= self.tol

    def _remember(self, search: Search, trial: Trial) -> None:
        remember_pair(search.memory, (trial.point, search.point), (trial.gradient, search.gradient), int(self.memory))


def remember_pair(
    memory: dict[str, NDArray[Any]],
    points: tuple[FloatArray, FloatArray],
    gradients: tuple[FloatArray, FloatArray],
    n_pairs: int,
    products: bool = False,
) -> None:
    """Store a step and the change of gradient along it; at most the `n_pairs` latest pairs are kept.

    `points` and `gradients` are (new, old). Pairs are stored in the rows of a ring buffer, because shifting them would
    take longer than using them. "curvature" holds their inner products, "count" the number of pairs so far. With
    `products`, "products" holds the inner products of all steps with all steps, and with all changes. Otherwise pairs
    of long vectors are stored in single precision, which halves their memory, the largest of a fit. All sums
    are in double precision, and the curvature is that of the stored vectors, so that the Hessian remains positive
    definite.
    """
    size = points[0].size
    if "ring" not in memory:
        dtype = np.float32 if size >= _LONG and not products else np.float64
        memory |= {
            "ring": np.empty((2, n_pairs, size), dtype),
            "curvature": np.ones(n_pairs),
            "count": np.array(0),
        }
    count = int(memory["count"])
    row = count % n_pairs
    step, change = (_rounded(np.subtract(*vectors), memory["ring"].dtype) for vectors in (points, gradients))
    curvature = float(step @ change)
    if not curvature > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        return  # no usable curvature
    memory["ring"][:, row] = step, change
    memory["curvature"][row], memory["count"] = curvature, np.array(count + 1)
    if products:
        if "products" not in memory:
            memory["products"] = np.zeros((2, n_pairs, n_pairs))
        rows = stored_rows(memory)
        (steps, changes), (step_products, mixed_products) = memory["ring"], memory["products"]
        for i in rows:
            step_products[i, row] = step_products[row, i] = steps[i] @ step
            mixed_products[i, row], mixed_products[row, i] = steps[i] @ change, step @ changes[i]


def _rounded(vector: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
    """Return a vector of doubles, rounded to the values that an array of this dtype can store."""
    return vector.astype(dtype, copy=False).astype(np.float64, copy=False)


def stored_rows(memory: Mapping[str, NDArray[Any]]) -> list[int]:
    """Return the rows of the stored pairs in the ring buffer, from the oldest to the latest."""
    count, n_rows = int(memory["count"]), len(memory["curvature"])
    return [i % n_rows for i in range(max(0, count - n_rows), count)]


def has_pairs(memory: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether there is a stored pair that shapes the direction."""
    return "count" in memory and int(memory["count"]) > 0


def precondition_of(objective: Objective) -> Callable[[FloatArray], FloatArray]:
    """Return the preconditioner of the objective; the identity for a plain function."""
    return objective.precondition if isinstance(objective, SummedObjective) else lambda gradient: gradient


def lbfgs_direction(
    gradient: FloatArray,
    memory: Mapping[str, NDArray[Any]],
    scale: Callable[[FloatArray], FloatArray] = lambda gradient: gradient,
) -> FloatArray:
    """Return minus the gradient times the inverse Hessian that the stored pairs imply (Liu1989, two-loop recursion).

    The recursion starts from `scale`, multiplied by the factor that matches the last pair.
    """
    (steps, changes), curvature = memory["ring"], memory["curvature"]
    rows = stored_rows(memory)
    direction = -gradient
    coefficients, multiple = np.zeros(len(curvature)), np.empty_like(direction)
    for i in reversed(rows):
        coefficients[i] = (steps[i] @ direction) / curvature[i]
        direction -= np.multiply(changes[i], coefficients[i], out=multiple)
    last_change = changes[rows[-1]].astype(np.float64, copy=False)
    direction = scale(direction) * (curvature[rows[-1]] / (last_change @ scale(last_change)))
    for i in rows:
        coefficient = coefficients[i] - (changes[i] @ direction) / curvature[i]
        direction += np.multiply(steps[i], coefficient, out=multiple)
    return direction
