"""How counts come about when n walkers are in a cell: the noise of observation, log-concave in n."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError

# Fewer walkers than this count as this many, so that slopes stay finite.
_LEAST = 1e-100
# Coordinates of the dual are no finer for counts below this, lest a unit step overflow.
_TINY_COUNT = 0.02


class Noise(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of noise models: `f(n) = -log p(y | n)`, convex in the number n of walkers.

    All methods work on arrays of equal shape, over what was observed. A model of one's own supplies the four abstract
    methods; it may choose better coordinates for the dual by `multipliers` and `coordinates`.
    """

    exact: ClassVar[bool] = False
    """Whether counts are exact, so that f is 0 or infinite."""

    @property
    def linear_gaussian(self) -> tuple[float, float] | None:
        """Rate and sigma where f is `(rate n - y)^2 / 2 sigma^2` and a constant, else None."""
        return None

    def check(self, y: FloatArray, name: str) -> None:
        """Raise InvalidInputError for counts that cannot be; extended by subclasses."""
        bad = np.isinf(y)
        if bad.any():
            raise InvalidInputError(f"{name}: counts must be finite (NaN where nothing was looked for).")

    @abstractmethod
    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """f(n), one for each count."""

    @abstractmethod
    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """f'(n)."""

    @abstractmethod
    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Supremum over n of `multiplier n - f(n)`."""

    @abstractmethod
    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """The n where that supremum is reached."""

    def value_and_slope(self, n: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
        """Sum of f, and f'; for models that have both more cheaply together."""
        return float(self.negative_log_likelihood(n, y).sum()), self.slope(n, y)

    def expected(self, y: FloatArray) -> FloatArray:
        """Walkers that a count speaks for by itself."""
        return y

    def needs_someone(self, y: FloatArray) -> NDArray[np.bool_]:
        """Whether a count is impossible where no walker can be."""
        return np.zeros(y.shape, dtype=bool)

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Multipliers (slopes of f) at free coordinates x of any size, and their derivatives."""
        return x, np.ones_like(x)

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Coordinates of multipliers, the inverse of `multipliers`."""
        return multipliers


class PoissonNoise(Noise):
    r"""Counts are Poisson with mean `rate n` (Vilnis2015 Eq. 23).

    :math:`f(n) = rate \, n - y \log(rate \, n) + \log y!`. The slope is unbounded near n = 0, where someone was seen.

    Parameters
    ----------
    rate : float
        Expected count per walker.

    Examples
    --------
    >>> noise = PoissonNoise(rate=0.5)
    >>> noise.slope(np.array([4.0, 8.0]), np.array([2.0, 2.0]))      # 0.5 - 2 / n
    array([0.  , 0.25])
    """

    name: ClassVar[str] = "poisson"

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def check(self, y: FloatArray, name: str) -> None:
        """Counts are at least 0."""
        check_number(self.rate, "PoissonNoise: rate", low=0.0, open_low=True, high=1e100)
        super().check(y, name)
        if (y < 0).any():
            raise InvalidInputError(f"{name}: a count is {y.min():g}. Poisson counts are at least 0.")

    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Rate n - y log(rate n) + log y!."""
        mean = self.rate * n
        return mean - y * np.log(np.maximum(mean, _LEAST)) + gammaln(y + 1.0)

    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Rate - y / n."""
        return self.rate - y / np.maximum(n, _LEAST)

    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """`y log(rate y / (rate - multiplier)) - y - log y!`; infinite for multipliers above the rate."""
        u = self.rate - multipliers
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(y > 0, y * np.log(self.rate * y / u) - y, 0.0)
        # Where nobody was seen the multiplier is the rate itself, up to rounding.
        allowed = (u > 0) | ((y == 0) & (u > -1e-12 * self.rate))
        return np.where(allowed, logs - gammaln(y + 1.0), np.inf)

    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Y / (rate - multiplier)."""
        u = self.rate - multipliers
        return np.where(y > 0, y / np.where(u > 0, u, _LEAST), 0.0)

    def expected(self, y: FloatArray) -> FloatArray:
        """Y / rate."""
        return y / self.rate

    def needs_someone(self, y: FloatArray) -> NDArray[np.bool_]:
        """Whoever was seen was there."""
        return y > 0

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`rate (1 - exp(x / sqrt(c + y)))`: the dual is convex in x, without bounds and about evenly curved.

        Its curvature in the exponent is about y. The constant c keeps steps from overflowing where counts are tiny.
        """
        seen = y > 0
        stretch = 1.0 / np.sqrt(_TINY_COUNT + y)
        u = np.where(seen, self.rate * np.exp(np.minimum(x * stretch, 600.0)), 0.0)
        return self.rate - u, -u * stretch

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """`sqrt(c + y) log(1 - multiplier / rate)`."""
        u = np.where(y > 0, self.rate - multipliers, self.rate)
        return np.sqrt(_TINY_COUNT + y) * np.log(np.maximum(u / self.rate, _LEAST))


class GaussianNoise(Noise):
    r"""Counts are normal around `rate n`: :math:`f(n) = (rate \, n - y)^2 / 2\sigma^2 + \log \sqrt{2\pi}\sigma`.

    Parameters
    ----------
    sigma : float
        Standard deviation of a count.
    rate : float
        Expected count per walker.

    Examples
    --------
    >>> GaussianNoise(sigma=2.0).slope(np.array([5.0]), np.array([1.0]))
    array([1.])
    """

    name: ClassVar[str] = "gaussian"

    def __init__(self, sigma: float = 1.0, rate: float = 1.0) -> None:
        self.sigma = sigma
        self.rate = rate

    @property
    def linear_gaussian(self) -> tuple[float, float] | None:
        """Rate and sigma."""
        return self.rate, self.sigma

    def check(self, y: FloatArray, name: str) -> None:
        """Counts may be negative, as noise makes them."""
        check_number(self.sigma, "GaussianNoise: sigma", low=0.0, open_low=True, high=1e100)
        check_number(self.rate, "GaussianNoise: rate", low=0.0, open_low=True, high=1e100)
        super().check(y, name)

    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Half the squared error in units of sigma, and the constant of the density."""
        error = (self.rate * n - y) / self.sigma
        return 0.5 * error * error + (0.5 * np.log(2.0 * np.pi) + np.log(self.sigma))

    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Rate (rate n - y) / sigma^2."""
        return self.rate * (self.rate * n - y) / self.sigma**2

    def value_and_slope(self, n: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
        """Both from one vector of errors."""
        error = n * (self.rate / self.sigma) - y / self.sigma
        constant = 0.5 * np.log(2.0 * np.pi) + np.log(self.sigma)
        value = 0.5 * float(error @ error) + constant * error.size
        error *= self.rate / self.sigma
        return value, error

    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """`m y + (sigma m)^2 / 2` with m = multiplier / rate, less the constant of the density."""
        m = multipliers / self.rate
        return m * y + 0.5 * (self.sigma * m) ** 2 - (0.5 * np.log(2.0 * np.pi) + np.log(self.sigma))

    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """(y + sigma^2 multiplier / rate) / rate."""
        return (y + self.sigma**2 * multipliers / self.rate) / self.rate

    def expected(self, y: FloatArray) -> FloatArray:
        """Y / rate."""
        return y / self.rate

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Stretched so that the dual is about evenly curved: its curvature is sigma^2 / rate^2 plus about n."""
        stretch = self._stretch(y)
        return x * stretch, stretch

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """The stretch undone."""
        return multipliers / self._stretch(y)

    def _stretch(self, y: FloatArray) -> FloatArray:
        return 1.0 / np.sqrt((self.sigma / self.rate) ** 2 + np.maximum(y / self.rate, 0.0))


class ExactNoise(Noise):
    """Counts are the numbers of walkers themselves: every distribution must reproduce them.

    Examples
    --------
    >>> ExactNoise().negative_log_likelihood(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 0., inf])
    """

    name: ClassVar[str] = "exact"
    exact: ClassVar[bool] = True

    def check(self, y: FloatArray, name: str) -> None:
        """Counts are at least 0."""
        super().check(y, name)
        if (y < 0).any():
            raise InvalidInputError(f"{name}: a count is {y.min():g}. Numbers of walkers are at least 0.")

    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """0 where n and y agree to 9 digits, else infinite."""
        return np.where(np.abs(n - y) <= 1e-9 * (1.0 + y), 0.0, np.inf)

    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """0; there is none."""
        return np.zeros_like(n)

    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Multiplier y."""
        return multipliers * y

    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """The count itself."""
        return y

    def needs_someone(self, y: FloatArray) -> NDArray[np.bool_]:
        """Whoever was seen was there."""
        return y > 0

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Stretched, since the curvature of the dual is about y."""
        stretch = 1.0 / np.sqrt(_TINY_COUNT + y)
        return x * stretch, stretch

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """The stretch undone."""
        return multipliers * np.sqrt(_TINY_COUNT + y)


NOISES: Registry[Any] = Registry(
    "noise",
    "intarsia.collective",
    {"poisson": "noise:PoissonNoise", "gaussian": "noise:GaussianNoise", "exact": "noise:ExactNoise"},
    Noise,
)
