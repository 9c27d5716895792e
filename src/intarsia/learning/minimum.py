"""Objectives, results of minimizing them, and the state of a search that can be stored and resumed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError

Objective = Callable[[FloatArray], tuple[float, FloatArray]]

COLUMNS = ("risk", "gradient_norm", "seconds", "evaluations")


class Part(NamedTuple):
    """An objective over a batch of the data, as a function of only the weights on which it depends.

    objective : function of these weights
    slots : indices of these weights among all weights, in ascending order; None for all of them
    ridge : coefficient r of a penalty r |w|^2 on all weights that `objective` does not include; 0 if it does
    """

    objective: Objective
    slots: IntArray | None = None
    ridge: float = 0.0


class SummedObjective(ABC):
    """An objective that is a mean over examples, so that mini-batches can be drawn from it."""

    @abstractmethod
    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Compute value and gradient over all examples."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of examples."""

    @abstractmethod
    def subset(self, indices: ArrayLike) -> Objective:
        """Return the objective over a subset of the examples."""

    def part(self, indices: ArrayLike) -> Part:
        """Return the objective over a subset of the examples, restricted to the weights on which it depends."""
        return Part(self.subset(indices))

    @property
    def convexity(self) -> float:
        """Strong-convexity constant m: f(w) - m/2 |w|^2 is convex; 0 if no such constant is known.

        It bounds the distance from the minimum by the gradient alone: f(w) - f* <= |g|^2 / (2 m).
        """
        return 0.0

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """Multiply the gradient by an approximate inverse Hessian; by default return it unchanged."""
        return gradient


@dataclass(frozen=True, eq=False)
class Minimum:
    """Result of a search: the best point, and how the search went.

    Attributes
    ----------
    point : float array
        Point with the lowest value.
    value : float
        Value of the objective there.
    gradient_norm : float
        Largest absolute entry of the gradient there.
    status : Status
        CONVERGED, MAX_ITER, STALLED (no search direction lowers the value) or INTERRUPTED (Ctrl-C).
    n_iter, n_restarts : int
        Total number of iterations, and number of restarts of the search.
    predicted_decrease : float
        Decrease that the estimated curvature predicts from the last point, relative to the value; NaN without an
        estimate.
    start : float array
        Starting point; of the first stage if there are several, also after resuming from a checkpoint.
    history : dict of arrays
        For the start and every iteration: "risk", "gradient_norm", and cumulative "seconds" and "evaluations".

    Examples
    --------
    Minimize the parabola (x - 3)^2, starting where it is 9:

    >>> from intarsia.learning.lbfgs import LBFGS
    >>> result = LBFGS().minimize(lambda x: (float((x[0] - 3.0) ** 2), 2.0 * (x - 3.0)), np.zeros(1))
    >>> result.point.round(4).tolist(), round(result.value, 6), float(result.history["risk"][0]), result.status.name
    ([3.0], 0.0, 9.0, 'CONVERGED')
    """

    point: FloatArray
    value: float
    gradient_norm: float
    status: Status
    n_iter: int
    n_restarts: int = 0
    predicted_decrease: float = np.nan
    start: FloatArray = field(default_factory=lambda: np.empty(0))
    history: dict[str, FloatArray] = field(default_factory=dict)


# A search that reaches a larger weight has diverged; products with it could overflow.
LARGEST_WEIGHT = 1e100


# Decreases are relative to the value, or to this fraction of the first value if the value is close to 0.
LEAST_VALUE = 1e-6
# Consecutive iterations in which the predicted decrease must be small: a single prediction can be misleading.
N_SMALL_PREDICTIONS = 3
# Number of iterations over which the decrease must be small too: with weak regularization a search converges so slowly
# that every prediction is small, although many small decreases remain.
PERIOD = 10

_COUNTERS = ("n_iter", "n_restarts", "n_evaluations", "seconds", "stalled")
_POINT_FIELDS = ("point", "value", "gradient", "best_point", "best_value", "best_norm")


class Search:
    """State of an optimizer run; everything but the objective can be restored from `arrays()`.

    Attributes
    ----------
    by_value : bool
        Whether a lower value is better; if False, the last point counts as the best.
    start : array
        Starting point.
    point, value, gradient : array, float, array
        Current point, with value and gradient.
    best_point, best_value, best_norm : array, float, float
        Evaluated point with the lowest value (or the last point), its value and the largest entry of its gradient.
    memory : dict of arrays
        Arrays that belong to the optimizer.
    rows : list of tuples
        History: a row for the start and for each iteration.
    stalled : bool
        Whether the optimizer can make no further progress.
    """

    def __init__(self, objective: Objective, start: FloatArray, random_state: int = 0, by_value: bool = True) -> None:
        self.objective = objective
        self.random_state = random_state
        self.by_value = by_value
        self.start = self.point = np.array(start, dtype=np.float64)
        self.value, self.gradient = np.inf, np.zeros_like(self.point)
        self.best_point, self.best_value, self.best_norm = self.point, np.inf, np.inf
        self.memory: dict[str, NDArray[Any]] = {}
        self.rows: list[tuple[float, ...]] = []
        self.n_iter, self.n_restarts, self.n_evaluations, self.seconds, self.stalled = 0, 0, 0, 0.0, False
        self._clock = time.perf_counter()

    def begin(self) -> None:
        """Evaluate the starting point; raise if value or gradient are not finite there."""
        value, gradient = self.evaluate(self.point)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            quantity = "gradient" if np.isfinite(value) else "value"
            raise InvalidInputError(
                f"the {quantity} at the start is {value if quantity == 'value' else 'not finite'}, but it must be "
                f"finite. Start at other weights, such as 0."
            )
        self.accept(self.point, value, gradient)
        self.add_row()

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Compute value and gradient; `point` may be stored as the best one, so callers must not modify it later."""
        value, gradient = self.objective(point)
        self.n_evaluations += 1
        if self.by_value and value < self.best_value and np.isfinite(value) and np.isfinite(gradient).all():
            self.best_point, self.best_value, self.best_norm = point, float(value), largest(gradient)
        return float(value), gradient

    def accept(self, point: FloatArray, value: float, gradient: FloatArray) -> None:
        """Make this the current point. Among points that differ only by rounding, the last counts as the best."""
        self.point, self.value, self.gradient = point, value, np.array(gradient)
        if not self.by_value or value <= self.best_value + rounding(value):
            self.best_point, self.best_value, self.best_norm = self.point, value, largest(gradient)

    def predict(self, decrease: float, tol: float) -> None:
        """Record the decrease that the quadratic model predicts, and for how many iterations it was at most `tol`.

        It is stored relative to `scale`.
        """
        predicted = decrease / self.scale
        n_small = int(self.memory.get("settled", np.array(0))) + 1 if predicted <= tol else 0
        self.memory |= {"predicted": np.array(predicted), "settled": np.array(n_small)}

    def is_near_minimum(self, tol: float) -> bool:
        """Return whether the value is close to its minimum, as far as the estimated curvature shows.

        This holds if the predicted decrease was small in the last iterations. A search that starts at the minimum has
        no curvature estimate yet; then the objective's convexity constant, or at the start its approximate inverse
        Hessian, bounds the distance. A tolerance of 1 or more accepts any distance.
        """
        if tol >= 1.0 or self.best_norm == 0.0 or int(self.memory.get("settled", np.array(0))) >= N_SMALL_PREDICTIONS:
            return True
        if not isinstance(self.objective, SummedObjective) or self.point is not self.best_point:
            return False
        convexity, scaled = self.objective.convexity, self.objective.precondition(self.gradient)
        distances = [float(self.gradient @ self.gradient) / (2.0 * convexity)] if convexity > 0.0 else []
        if self.n_iter == 0 and scaled is not self.gradient:
            distances.append(0.5 * float(self.gradient @ scaled))
        return any(distance <= tol * self.scale for distance in distances)

    def decreased_within(self, period: int) -> float:
        """Return the decrease of the value in the last `period` iterations, relative to `scale`; 0 if it is shorter."""
        if len(self.rows) <= period:
            return 0.0
        return (self.rows[-1 - period][0] - self.value) / self.scale

    @property
    def scale(self) -> float:
        """Reference value to which differences of values are relative."""
        return max(abs(self.value), LEAST_VALUE * abs(self.rows[0][0])) or 1.0

    def add_row(self) -> None:
        """Append the current point to the history."""
        current_time = time.perf_counter()
        self.seconds, self._clock = self.seconds + current_time - self._clock, current_time
        self.rows.append((self.value, largest(self.gradient), self.seconds, float(self.n_evaluations)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that `restore` needs."""
        arrays = {name: np.asarray(getattr(self, name)) for name in (*_COUNTERS, *_POINT_FIELDS)}
        arrays["rows"] = np.array(self.rows)
        return arrays | {f"memory_{name}": array.copy() for name, array in self.memory.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from which `arrays` were saved."""
        for name in (*_COUNTERS, *_POINT_FIELDS):
            array = arrays[name]
            setattr(self, name, array.copy() if array.ndim else array.item())
        self.rows = [tuple(row) for row in arrays["rows"].tolist()]
        self.memory = {name[7:]: array.copy() for name, array in arrays.items() if name.startswith("memory_")}

    def minimum(self, status: Status) -> Minimum:
        """Return the result of the search in its current state."""
        history = dict(zip(COLUMNS, np.array(self.rows).reshape(-1, len(COLUMNS)).T, strict=True))
        return Minimum(
            self.best_point,
            self.best_value,
            self.best_norm,
            status,
            self.n_iter,
            int(self.n_restarts),
            float(self.memory.get("predicted", np.array(np.nan))),
            self.start,
            history,
        )


def largest(gradient: FloatArray) -> float:
    """Return the largest absolute entry."""
    return float(np.maximum(gradient.max(initial=0.0), -gradient.min(initial=0.0)))  # np.abs would allocate an array


def rounding(value: float) -> float:
    """Return the error of a value that rounding alone can cause."""
    return 1e-14 * max(1e-3, abs(value))
