"""Penalties of a measurement: hinge, smoothed hinge, square, absolute value, Huber, interval, Poisson."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from intarsia._core.settings import Settings
from intarsia._core.validation import check_choice, check_number
from intarsia.energies.binding.scalar_terms import Penalties, PoissonDeviances, ScalarFunctions

_SLOPES = {"above": (0.0, 1.0), "below": (-1.0, 0.0)}


class Penalty(Settings, ABC):
    """Base class of penalties: convex functions of the value of a measurement."""

    @abstractmethod
    def functions(self) -> ScalarFunctions:
        """Return the convex functions whose sum is the penalty of one measurement."""

    def _check(self, key: str, **limits: Any) -> float:
        check_number(getattr(self, key), f"{type(self).__name__}: {key}", **limits)
        return float(getattr(self, key))

    def __call__(self, z: float) -> float:
        """Return the penalty of one value."""
        functions = self.functions()
        return float(functions.value(np.full(functions.size, float(z))).sum())


class Hinge(Penalty):
    """Distance of a measurement above (or below) a limit: `max(0, z - limit)` or `max(0, limit - z)`.

    Parameters
    ----------
    limit : float
        Value at which the penalty begins.
    side : {"above", "below"}
        Side of the limit that is penalized.

    Examples
    --------
    >>> Hinge(1.0)(2.5), Hinge(1.0, side="below")(0.25)
    (1.5, 0.75)
    """

    def __init__(self, limit: float = 1.0, *, side: str = "above") -> None:
        self.limit = limit
        self.side = side

    def functions(self) -> ScalarFunctions:
        """Return a single hinge."""
        check_choice(self.side, _SLOPES, "Hinge: side")
        low, high = _SLOPES[self.side]
        return Penalties([self._check("limit")], [low], [high], [0.0])


class SmoothedHinge(Penalty):
    """Hinge with a parabola of length `width` at the corner: 0, `r^2 / (2 width)`, `r - width / 2` (Rennie2005).

    Parameters
    ----------
    limit : float
        Value at which the penalty begins.
    side : {"above", "below"}
        Side of the limit that is penalized.
    width : float
        Length of the parabola; 1 is common.

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
        """Return a single smoothed hinge."""
        check_choice(self.side, _SLOPES, "SmoothedHinge: side")
        low, high = _SLOPES[self.side]
        return Penalties([self._check("limit")], [low], [high], [self._check("width", low=0.0, open_low=True)])


class Squared(Penalty):
    """Half the squared distance to a target.

    Parameters
    ----------
    target : float
        Preferred value.

    Examples
    --------
    >>> Squared(1.0)(4.0)
    4.5
    """

    def __init__(self, target: float = 0.0) -> None:
        self.target = target

    def functions(self) -> ScalarFunctions:
        """Return a single parabola."""
        return Penalties([self._check("target")], [-np.inf], [np.inf], [1.0])


class Absolute(Penalty):
    """Absolute distance to a target.

    Parameters
    ----------
    target : float
        Preferred value.

    Examples
    --------
    >>> Absolute(1.0)(-0.5)
    1.5
    """

    def __init__(self, target: float = 0.0) -> None:
        self.target = target

    def functions(self) -> ScalarFunctions:
        """Return a single absolute value."""
        return Penalties([self._check("target")], [-1.0], [1.0], [0.0])


class Huber(Penalty):
    """Huber function of the distance to a target: `r^2 / (2 width)` up to `width`, then `|r| - width / 2`.

    Parameters
    ----------
    target : float
        Preferred value.
    width : float
        Distance at which the parabola becomes a line.

    Examples
    --------
    >>> Huber(0.0, width=2.0)(-1.0), Huber(0.0, width=2.0)(3.0)
    (0.25, 2.0)
    """

    def __init__(self, target: float = 0.0, *, width: float = 1.0) -> None:
        self.target = target
        self.width = width

    def functions(self) -> ScalarFunctions:
        """Return a single Huber function."""
        return Penalties([self._check("target")], [-1.0], [1.0], [self._check("width", low=0.0, open_low=True)])


class SoftInterval(Penalty):
    """Distance to an interval; 0 inside it.

    Parameters
    ----------
    low, high : float
        Ends of the interval.
    width : float
        Length of a parabola at each end; 0 for kinks.

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
        """Return two hinges, whose conjugates have no kink; the conjugate of their sum has a kink at 0."""
        low = self._check("low")
        high = self._check("high", low=low)
        width = self._check("width", low=0.0)
        return Penalties([low, high], [-1.0, 0.0], [0.0, 1.0], [width, width])


class Poisson(Penalty):
    """Half the deviance of a count with mean `rate z + background`: negative log-likelihood up to a constant.

    Parameters
    ----------
    count : float
        Observed count.
    rate : float
        Expected count per unit of the measurement, such as the number of individuals times the probability to observe
        one.
    background : float
        Expected count at a measurement of 0.

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
        """Return a single deviance."""
        rate = self._check("rate", low=0.0, open_low=True)
        return PoissonDeviances([self._check("count", low=0.0)], [rate], [self._check("background", low=0.0)])
