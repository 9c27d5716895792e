"""Objectives, the result of minimising one, and the state of a search that can be stored and resumed."""

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
    """An objective over some of the data, in those weights alone on which it depends.

    objective : function of these weights
    slots : which of all weights they are, in rising order; None for all of them
    ridge : penalty r |w|^2 on all weights that is not in `objective`; 0 where it is
    """

    objective: Objective
    slots: IntArray | None = None
    ridge: float = 0.0


class SummedObjective(ABC):
    """An objective that is a mean over parts, so that mini-batches can be drawn from it."""

    @abstractmethod
    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient over all parts."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of parts."""

    @abstractmethod
    def subset(self, indices: ArrayLike) -> Objective:
        """The same objective over some of the parts."""

    def part(self, indices: ArrayLike) -> Part:
        """The objective over some of the parts, in the weights it depends on."""
        return Part(self.subset(indices))

    @property
    def convexity(self) -> float:
        """A number m for which f(w) - m/2 |w|^2 is surely convex; 0 where none is known.

        It bounds the distance from the minimum by the gradient alone: f(w) - f* <= |g|^2 / (2 m).
        """
        return 0.0

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """The gradient times a rough inverse Hessian, where one is known; here as it is."""
        return gradient


@dataclass(frozen=True, eq=False)
class Minimum:
    """The best point that was met, and how the search went.

    Attributes
    ----------
    point : float array
        Where the value was lowest.
    value : float
        The value there.
    gradient_norm : float
        Largest entry of the gradient there, in absolute value.
    status : Status
        CONVERGED, MAX_ITER, STALLED (no direction helps any more) or INTERRUPTED.
    n_iter, n_restarts : int
        Iterations in all, and how often the search began anew.
    predicted_decrease : float
        Decrease that the curvature predicts from the last point, relative to the value; NaN without curvature.
    start : float array
        Where the search began; that of the first stage, if there were several, also after a checkpoint.
    history : dict of arrays
        For the start and every iteration: "risk", "gradient_norm", "seconds" and "evaluations" so far.

    Examples
    --------
    The parabola (x - 3)^2 from where it is 9:

    >>> from intarsia.learning.lbfgs import LBFGS
    >>> found = LBFGS().minimize(lambda x: (float((x[0] - 3.0) ** 2), 2.0 * (x - 3.0)), np.zeros(1))
    >>> found.point.round(4).tolist(), round(found.value, 6), float(found.history["risk"][0]), found.status.name
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


# Scores are sums of products with weights: beyond this a weight can only be a search that went astray.
LARGEST_WEIGHT = 1e100


# A decrease is small in relation to the value, or to this part of the first value where the value comes close to 0.
LEAST_VALUE = 1e-6
# Iterations in a row in which the predicted decrease must be small: a single prediction may be from bad pairs.
SETTLED = 3

_COUNTS = ("n_iter", "n_restarts", "n_evaluations", "seconds", "stalled")
_SHARED = ("point", "value", "gradient", "best_point", "best_value", "best_norm")


class Search:
    """What an optimiser works on; everything but the objective is restored from `arrays()`.

    Attributes
    ----------
    by_value : bool
        Whether a lower value is better; otherwise the last point counts as the best.
    start : array
        Where it began.
    point, value, gradient : array, float, array
        The present point.
    best_point, best_value, best_norm : array, float, float
        The lowest point that was ever evaluated, or the last, and the largest entry of the gradient there.
    memory : dict of arrays
        The optimiser's own.
    rows : list of tuples
        History: a row for the start and for each iteration.
    stalled : bool
        Whether nothing helps any more.
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
        """Evaluate the start, which must be finite."""
        value, gradient = self.evaluate(self.point)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            what = "gradient" if np.isfinite(value) else "value"
            raise InvalidInputError(
                f"the {what} at the start is {value if what == 'value' else 'not finite'}. Start where it is "
                f"finite, such as at weights of 0."
            )
        self.accept(self.point, value, gradient)
        self.add_row()

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient of the objective; the best point is kept, so nobody may change it afterwards."""
        value, gradient = self.objective(point)
        self.n_evaluations += 1
        if self.by_value and value < self.best_value and np.isfinite(value) and np.isfinite(gradient).all():
            self.best_point, self.best_value, self.best_norm = point, float(value), largest(gradient)
        return float(value), gradient

    def accept(self, point: FloatArray, value: float, gradient: FloatArray) -> None:
        """Move there. Of points that differ by rounding only, the last is the best."""
        self.point, self.value, self.gradient = point, value, np.array(gradient)
        if not self.by_value or value <= self.best_value + rounding(value):
            self.best_point, self.best_value, self.best_norm = self.point, value, largest(gradient)

    def predict(self, direction: FloatArray, tol: float) -> None:
        """Note the decrease that a full step along `direction` promises, and for how many iterations it was small.

        `direction` is minus the inverse Hessian times the gradient, so half its product with the gradient is the
        decrease of the quadratic model. It is relative to the value, or to a small part of the first value where the
        value comes close to 0.
        """
        predicted = -0.5 * float(self.gradient @ direction) / self.scale
        settled = int(self.memory.get("settled", np.array(0))) + 1 if predicted <= tol else 0
        self.memory |= {"predicted": np.array(predicted), "settled": np.array(settled)}

    def settled(self, tol: float) -> bool:
        """Whether the value is near its minimum, as far as curvature tells.

        Nothing more was promised in the last iterations. Or, since a search that begins at the minimum has met no
        curvature yet: the convexity that the objective is sure of bounds the distance, or at the start its rough
        inverse Hessian predicts it. A tolerance of 1 or more allows any distance.
        """
        if tol >= 1.0 or self.best_norm == 0.0 or int(self.memory.get("settled", np.array(0))) >= SETTLED:
            return True
        if not isinstance(self.objective, SummedObjective) or self.point is not self.best_point:
            return False
        sure, scaled = self.objective.convexity, self.objective.precondition(self.gradient)
        distances = [float(self.gradient @ self.gradient) / (2.0 * sure)] if sure > 0.0 else []
        if self.n_iter == 0 and scaled is not self.gradient:
            distances.append(0.5 * float(self.gradient @ scaled))
        return any(distance <= tol * self.scale for distance in distances)

    @property
    def scale(self) -> float:
        """To which differences of values are relative."""
        return max(abs(self.value), LEAST_VALUE * abs(self.rows[0][0])) or 1.0

    def add_row(self) -> None:
        """Note the present point in the history."""
        now = time.perf_counter()
        self.seconds, self._clock = self.seconds + now - self._clock, now
        self.rows.append((self.value, largest(self.gradient), self.seconds, float(self.n_evaluations)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that `restore` needs."""
        kept = {name: np.asarray(getattr(self, name)) for name in (*_COUNTS, *_SHARED)}
        kept["rows"] = np.array(self.rows)
        return kept | {f"memory_{name}": array.copy() for name, array in self.memory.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where `arrays` were taken."""
        for name in (*_COUNTS, *_SHARED):
            array = arrays[name]
            setattr(self, name, array.copy() if array.ndim else array.item())
        self.rows = [tuple(row) for row in arrays["rows"].tolist()]
        self.memory = {name[7:]: array.copy() for name, array in arrays.items() if name.startswith("memory_")}

    def minimum(self, status: Status) -> Minimum:
        """The result, as the search stands."""
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
    """Largest entry, in absolute value."""
    return float(np.maximum(gradient.max(initial=0.0), -gradient.min(initial=0.0)))  # no array in between


def rounding(value: float) -> float:
    """By how much a value may be off through rounding alone."""
    return 1e-14 * max(1e-3, abs(value))
