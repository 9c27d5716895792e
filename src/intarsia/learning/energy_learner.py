"""What every learner of strengths is: settings, and one function from a surrogate risk to a point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.learning.energy_risk import EnergyRisk
from intarsia.learning.minimum import Minimum

Report = Callable[[int, float, float, float], None]
"""Told after each pass or round: its number, the risk, NaN for the gradient's norm, the share of the work done."""

# Late points count more in the mean: weights grow with this power of the step's number.
_POWER = 8.0


def check_strengths_alone(fix_theta: bool, development: Any, has_energies: bool, where: str) -> None:
    """Refuse what is said of strengths where there are none, or where weights are learned with them."""
    if not has_energies and (fix_theta or development is not None):
        raise InvalidInputError(f"{where}: fix_theta and development are for energies. Give energies=, or neither.")
    if development is not None and not fix_theta:
        raise InvalidInputError(f"{where}: strengths alone are learned on development. Give fix_theta=True with it.")


class EnergyLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the learners of energies, the values of `ChainCRF(energy_learner=...)`: settings objects."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    l2: float
    average: bool

    @abstractmethod
    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        check_number(self.l2, f"{type(self).__name__}: l2", low=0.0, high=np.inf, open_high=True)

    @abstractmethod
    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Point reached from `start`, with status and history."""


class RunningMean:
    """Mean of points, the late ones weighing more.

    Examples
    --------
    >>> mean = RunningMean(np.array([8.0]))
    >>> mean.add(np.array([4.0]))
    >>> float(mean.point[0])                       # the first point added is all there is
    4.0
    >>> mean.add(np.array([0.0]))                  # weighs (1 + 8) / (2 + 8)
    >>> round(float(mean.point[0]), 12)
    0.4
    """

    def __init__(self, start: FloatArray) -> None:
        self.point, self.count = start.copy(), 0

    def add(self, point: FloatArray) -> None:
        """Take in a further point."""
        self.count += 1
        self.point += (1.0 + _POWER) / (self.count + _POWER) * (point - self.point)
