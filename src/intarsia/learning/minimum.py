"""What is minimised, and what comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from intarsia._validation import FloatArray, IntArray
from intarsia.inference.result import Status

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

    >>> from intarsia.learning import LBFGS
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
