"""How a measurement is judged: hinge, smoothed hinge, square, absolute value, Huber, interval, Poisson."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.validation import check_choice, check_number
from intarsia.energies.binding.scalar_terms import Penalties, PoissonDeviances, ScalarFunctions

_SLOPES = {"above": (0.0, 1.0), "below": (-1.0, 0.0)}


class Judgement(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the settings that say how the value of a measurement is penalised."""

    @abstractmethod
    def functions(self) -> ScalarFunctions:
        """The convex functions whose sum is the penalty of one measurement."""

    def _check(self, key: str, **limits: Any) -> float:
        check_number(getattr(self, key), f"{type(self).__name__}: {key}", **limits)
        return float(getattr(self, key))

    def __call__(self, z: float) -> float:
        """Penalty of one value."""
        made = self.functions()
        return float(made.value(np.full(made.size, float(z))).sum())


class Hinge(Judgement):
    """How far a measurement lies above (or below) a limit: `max(0, z - limit)` or `max(0, limit - z)`.

    Parameters
    ----------
    limit : float
        Where the penalty begins.
    side : {"above", "below"}
        Which side is penalised.

    Examples
    --------
    >>> Hinge(1.0)(2.5), Hinge(1.0, side="below")(0.25)
    (1.5, 0.75)
    """

    def __init__(self, limit: float = 1.0, *, side: str = "above") -> None:
        self.limit = limit
        self.side = side

    def functions(self) -> ScalarFunctions:
        """One hinge."""
        check_choice(self.side, _SLOPES, "Hinge: side")
        low, high = _SLOPES[self.side]
        return Penalties([self._check("limit")], [low], [high], [0.0])


class SmoothedHinge(Judgement):
    """A hinge whose corner is a parabola over `width`: 0, then `r^2 / (2 width)`, then `r - width / 2` (Rennie2005).

    Parameters
    ----------
    limit : float
        Where the penalty begins.
    side : {"above", "below"}
        Which side is penalised.
    width : float
        Length of the parabola; 1 is the usual one.

    Examples
    --------
    >>> [SmoothedHinge(0.0)(r) for r in (-1.0, 0.5, 1.0, 2.0)]
    [0.0, 0.125, 0.5, 1.5]
    """

    def __init__(self, limit: float = 1.0, *, side: str = "above", width: float = 1.0) -> None:
        self.limit = limit
        self.side = side
        self.width = width

    def functions(self) -> ScalarFunctions:
        """One smoothed hinge."""
        check_choice(self.side, _SLOPES, "SmoothedHinge: side")
        low, high = _SLOPES[self.side]
        return Penalties([self._check("limit")], [low], [high], [self._check("width", low=0.0, open_low=True)])


class Squared(Judgement):
    """Half the square of the distance to a target.

    Parameters
    ----------
    target : float
        The value wanted.

    Examples
    --------
    >>> Squared(1.0)(4.0)
    4.5
    """

    def __init__(self, target: float = 0.0) -> None:
        self.target = target

    def functions(self) -> ScalarFunctions:
        """One parabola."""
        return Penalties([self._check("target")], [-np.inf], [np.inf], [1.0])


class Absolute(Judgement):
    """Distance to a target.

    Parameters
    ----------
    target : float
        The value wanted.

    Examples
    --------
    >>> Absolute(1.0)(-0.5)
    1.5
    """

    def __init__(self, target: float = 0.0) -> None:
        self.target = target

    def functions(self) -> ScalarFunctions:
        """One absolute value."""
        return Penalties([self._check("target")], [-1.0], [1.0], [0.0])


class Huber(Judgement):
    """Distance to a target, with a parabola over `width` on either side: `r^2 / (2 width)`, then `|r| - width / 2`.

    Parameters
    ----------
    target : float
        The value wanted.
    width : float
        Where the parabola becomes a line.

    Examples
    --------
    >>> Huber(0.0, width=2.0)(-1.0), Huber(0.0, width=2.0)(3.0)
    (0.25, 2.0)
    """

    def __init__(self, target: float = 0.0, *, width: float = 1.0) -> None:
        self.target = target
        self.width = width

    def functions(self) -> ScalarFunctions:
        """One function of Huber."""
        return Penalties([self._check("target")], [-1.0], [1.0], [self._check("width", low=0.0, open_low=True)])


class SoftInterval(Judgement):
    """Distance to an interval; nothing inside it.

    Parameters
    ----------
    low, high : float
        Ends of the interval.
    width : float
        Length of a parabola at each end; 0 for corners.

    Examples
    --------
    >>> [SoftInterval(1.0, 2.0)(z) for z in (0.5, 1.5, 4.0)]
    [0.5, 0.0, 2.0]
    """

    def __init__(self, low: float, high: float, *, width: float = 0.0) -> None:
        self.low = low
        self.high = high
        self.width = width

    def functions(self) -> ScalarFunctions:
        """Two hinges: their conjugates have no kink, that of their sum has one at 0."""
        low = self._check("low")
        high = self._check("high", low=low)
        width = self._check("width", low=0.0)
        return Penalties([low, high], [-1.0, 0.0], [0.0, 1.0], [width, width])


class Poisson(Judgement):
    """Half the deviance of a count seen, with mean `rate z + background`: minus the log-likelihood up to a constant.

    Parameters
    ----------
    count : float
        What was seen.
    rate : float
        Seen per unit of the measurement, such as the number of walkers times the chance to see one.
    background : float
        Seen anyway.

    Examples
    --------
    >>> Poisson(0, rate=3.0)(0.5)
    1.5
    """

    def __init__(self, count: float, *, rate: float = 1.0, background: float = 0.0) -> None:
        self.count = count
        self.rate = rate
        self.background = background

    def functions(self) -> ScalarFunctions:
        """One deviance."""
        rate = self._check("rate", low=0.0, open_low=True)
        return PoissonDeviances([self._check("count", low=0.0)], [rate], [self._check("background", low=0.0)])
