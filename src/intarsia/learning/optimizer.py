"""What every optimiser is: settings, and one function from an objective and a start to a minimum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from sklearn.base import BaseEstimator

from intarsia._validation import FloatArray
from intarsia.inference.result import Status

Objective = Callable[[FloatArray], tuple[float, FloatArray]]


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
    history : dict of arrays
        For the start and every iteration: "risk", "gradient_norm", "seconds" and "evaluations" so far.
    """

    point: FloatArray
    value: float
    gradient_norm: float
    status: Status
    n_iter: int
    n_restarts: int = 0
    history: dict[str, FloatArray] = field(default_factory=dict)


class Optimizer(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the optimisers: settings, and one function from objective and start to a minimum."""

    name: ClassVar[str]

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant."""

    @abstractmethod
    def minimize(self, objective: Objective, start: FloatArray) -> Minimum:
        """Lowest point found from `start`."""
