"""What every learner of strengths is: settings, and one function from a surrogate risk to a point."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._validation import FloatArray, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference.result import Status
from intarsia.learning.energy_risk import EnergyRisk
from intarsia.learning.minimum import Minimum

Report = Callable[[int, float, float, float], None]
"""Told after each pass or round: its number, the risk, NaN for the gradient's norm, the share of the work done."""

# Late points count more in the mean: weights grow with this power of the step's number.
_POWER = 8.0


def check_strengths_alone(fix_theta: Any, development: Any, has_energies: bool, where: str) -> None:
    """Refuse `fix_theta` and `development` without energies, and `development` where weights are learned too."""
    if fix_theta not in (None, True, False):
        raise InvalidInputError(f"{where}: fix_theta must be None, True or False, got {fix_theta!r}.")
    if not has_energies and (fix_theta or development is not None):
        raise InvalidInputError(f"{where}: fix_theta and development are for energies. Give energies=, or neither.")
    if development is not None and fix_theta is False:
        raise InvalidInputError(
            f"{where}: development is used only when the weights are frozen. Drop fix_theta=False, or development."
        )


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


class BestPoint:
    """The point with the lowest risk among those offered, beginning with the start of a search.

    Steps of a stochastic search may lead away from where it began, and inference under energies makes the risk differ
    from what the steps descend on. So the risk of all examples is evaluated after each pass or round, and the lowest
    counts.

    Parameters
    ----------
    risk : EnergyRisk
        Of all examples.
    start : float array
        Where the search begins.
    """

    def __init__(self, risk: EnergyRisk, start: FloatArray) -> None:
        self.risk, self.start, self.point, self.n_offered = risk, start, start, 0
        self.value = self.first = self.last = np.nan

    def begin(self, n_rounds: int) -> None:
        """Offer the start, and the start without energies if anything is learned at all."""
        if n_rounds == 0:
            return
        self.offer(self.start)
        bare = self.risk.without_energies(self.start)
        if bare is not None:
            value = float(self.risk(bare)[0])
            if value < self.value:
                self.point, self.value = bare, value

    def minimum(self, status: Status, history: list[float]) -> Minimum:
        """The best point as the result of a search, with the risks of its passes or rounds."""
        return Minimum(
            self.point, self.value, np.nan, status, len(history), start=self.start, history={"risk": np.array(history)}
        )

    def offer(self, point: FloatArray) -> float:
        """Evaluate a point, and keep it if it is the best so far; returns its risk."""
        value = float(self.risk(point)[0])
        if self.n_offered == 0:
            self.first = value
        if not self.value <= value and np.isfinite(value):
            self.point, self.value = point.copy(), value
        self.n_offered, self.last = self.n_offered + 1, value
        return value

    def warn_if_worse(self, where: str) -> None:
        """Warn if weights were learned together with strengths, and the search ended above where it began."""
        if self.risk.n_weights == 0 or self.n_offered < 2 or self.last <= self.first * (1.0 + 1e-9):
            return
        warnings.warn(
            f"{where}: learning weights and energies together ended with a risk of {self.last:.4g} per label, above "
            f"{self.first:.4g} where it began. The best point is kept, with a risk of {self.value:.4g}. Lower "
            f"optimizer__step, or leave fix_theta out to freeze the weights.",
            ConvergenceWarning,
            stacklevel=2,
        )


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
