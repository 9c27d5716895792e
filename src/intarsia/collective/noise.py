"""Observation noise of counts, given the number n of walkers in a cell: log-concave in n."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError, NotSupportedError

# Smaller numbers of walkers are replaced by this one, so that slopes stay finite.
_SMALLEST_COUNT = 1e-100
# Offset of counts in the scaling of dual coordinates, so that a unit step does not overflow for tiny counts.
_TINY_COUNT = 0.02


class Noise(Settings, ABC):
    """Abstract base of noise models: `f(n) = -log p(y | n)`, convex in the number n of walkers.

    All methods take arrays of equal shape, one entry per observed count. A user-defined model implements the four
    abstract methods; it can choose better coordinates of the dual in `multipliers` and `coordinates`.
    """

    exact: ClassVar[bool] = False
    """Whether counts are exact, so that f is 0 or infinite."""

    @property
    def linear_gaussian(self) -> tuple[float, float] | None:
        """Rate and sigma if f is `(rate n - y)^2 / 2 sigma^2` plus a constant, else None."""
        return None

    def check(self, y: FloatArray, name: str) -> None:
        """Raise InvalidInputError if a count is invalid; subclasses extend the check."""
        bad = np.isinf(y)
        if bad.any():
            raise InvalidInputError(f"{name}: counts must be finite, or NaN where nothing was observed.")

    @abstractmethod
    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return f(n) for each count."""

    @abstractmethod
    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return the derivative f'(n) for each count."""

    @abstractmethod
    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return the convex conjugate, the supremum over n of `multiplier n - f(n)`."""

    @abstractmethod
    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return the n at which the supremum of `conjugate` is attained."""

    def fit_rate(self, n: FloatArray, y: FloatArray) -> float:
        """Return the most probable expected count per walker; needed by `learn_noise`."""
        raise NotSupportedError(
            f"{type(self).__name__} has no rate to learn. Use PoissonNoise or GaussianNoise, or set learn_noise=False."
        )

    def value_and_slope(self, n: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum of f, and f'; override it if computing both together is cheaper."""
        return float(self.negative_log_likelihood(n, y).sum()), self.slope(n, y)

    def expected(self, y: FloatArray) -> FloatArray:
        """Return the number of walkers that a count alone suggests."""
        return y

    def needs_walkers(self, y: FloatArray) -> NDArray[np.bool_]:
        """Return whether a count is impossible if there are no walkers."""
        return np.zeros(y.shape, dtype=bool)

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return multipliers (slopes of f) at unconstrained coordinates x, and their derivatives."""
        return x, np.ones_like(x)

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return the coordinates of multipliers, the inverse of `multipliers`."""
        return multipliers


class PoissonNoise(Noise):
    r"""Poisson counts with mean `rate n` (Vilnis2015 Eq. 23).

    :math:`f(n) = rate \, n - y \log(rate \, n) + \log y!`. The slope is unbounded near n = 0 if y > 0.

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
        """Raise if the rate or a count is out of range; counts must be at least 0."""
        check_number(self.rate, "PoissonNoise: rate", low=0.0, open_low=True, high=1e100)
        super().check(y, name)
        if (y < 0).any():
            raise InvalidInputError(f"{name}: a count is {y.min():g}. Poisson counts must be at least 0.")

    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return `rate n - y log(rate n) + log y!`."""
        mean = self.rate * n
        return mean - y * np.log(np.maximum(mean, _SMALLEST_COUNT)) + gammaln(y + 1.0)

    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return `rate - y / n`."""
        return self.rate - y / np.maximum(n, _SMALLEST_COUNT)

    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return `y log(rate y / (rate - multiplier)) - y - log y!`; infinite for multipliers above the rate."""
        u = self.rate - multipliers
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(y > 0, y * np.log(self.rate * y / u) - y, 0.0)
        # If the count is 0, the multiplier equals the rate up to rounding.
        allowed = (u > 0) | ((y == 0) & (u > -1e-12 * self.rate))
        return np.where(allowed, logs - gammaln(y + 1.0), np.inf)

    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return `y / (rate - multiplier)`."""
        u = self.rate - multipliers
        return np.where(y > 0, y / np.where(u > 0, u, _SMALLEST_COUNT), 0.0)

    def fit_rate(self, n: FloatArray, y: FloatArray) -> float:
        """Return `sum(y) / sum(n)`, the maximum of the likelihood."""
        return float(y.sum() / max(n.sum(), _SMALLEST_COUNT))

    def expected(self, y: FloatArray) -> FloatArray:
        """Return `y / rate`."""
        return y / self.rate

    def needs_walkers(self, y: FloatArray) -> NDArray[np.bool_]:
        """Return whether the count is positive."""
        return y > 0

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `rate (1 - exp(x / sqrt(c + y)))`: the dual is convex and unconstrained in x, with similar curvatures.

        The curvature of the dual in the exponent is about y. The constant c prevents overflow for tiny counts.
        """
        positive = y > 0
        scale = 1.0 / np.sqrt(_TINY_COUNT + y)
        u = np.where(positive, self.rate * np.exp(np.minimum(x * scale, 600.0)), 0.0)
        return self.rate - u, -u * scale

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return `sqrt(c + y) log(1 - multiplier / rate)`."""
        u = np.where(y > 0, self.rate - multipliers, self.rate)
        return np.sqrt(_TINY_COUNT + y) * np.log(np.maximum(u / self.rate, _SMALLEST_COUNT))


class GaussianNoise(Noise):
    r"""Normal counts around `rate n`: :math:`f(n) = (rate \, n - y)^2 / 2\sigma^2 + \log \sqrt{2\pi}\sigma`.

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
        """Rate and sigma of the model."""
        return self.rate, self.sigma

    def check(self, y: FloatArray, name: str) -> None:
        """Raise if a setting or a count is out of range; counts can be negative."""
        check_number(self.sigma, "GaussianNoise: sigma", low=0.0, open_low=True, high=1e100)
        check_number(self.rate, "GaussianNoise: rate", low=0.0, open_low=True, high=1e100)
        super().check(y, name)

    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return half the squared error in units of sigma, plus the constant of the density."""
        error = (self.rate * n - y) / self.sigma
        return 0.5 * error * error + (0.5 * np.log(2.0 * np.pi) + np.log(self.sigma))

    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return `rate (rate n - y) / sigma^2`."""
        return self.rate * (self.rate * n - y) / self.sigma**2

    def value_and_slope(self, n: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum of f, and f', from a single vector of errors."""
        error = n * (self.rate / self.sigma) - y / self.sigma
        constant = 0.5 * np.log(2.0 * np.pi) + np.log(self.sigma)
        value = 0.5 * float(error @ error) + constant * error.size
        error *= self.rate / self.sigma
        return value, error

    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return `m y + (sigma m)^2 / 2` with m = multiplier / rate, minus the constant of the density."""
        m = multipliers / self.rate
        return m * y + 0.5 * (self.sigma * m) ** 2 - (0.5 * np.log(2.0 * np.pi) + np.log(self.sigma))

    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return `(y + sigma^2 multiplier / rate) / rate`."""
        return (y + self.sigma**2 * multipliers / self.rate) / self.rate

    def fit_rate(self, n: FloatArray, y: FloatArray) -> float:
        """Return `sum(n y) / sum(n^2)`, the maximum of the likelihood."""
        return float((n * y).sum() / max((n * n).sum(), _SMALLEST_COUNT))

    def expected(self, y: FloatArray) -> FloatArray:
        """Return `y / rate`."""
        return y / self.rate

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return x scaled so that the dual has similar curvatures: they are sigma^2 / rate^2 plus about n."""
        scale = self._scale(y)
        return x * scale, scale

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return the multipliers divided by the scale."""
        return multipliers / self._scale(y)

    def _scale(self, y: FloatArray) -> FloatArray:
        """Return the scale of the dual coordinates."""
        return 1.0 / np.sqrt((self.sigma / self.rate) ** 2 + np.maximum(y / self.rate, 0.0))


class ExactNoise(Noise):
    """Exact counts: the numbers of walkers must equal them.

    Examples
    --------
    >>> ExactNoise().negative_log_likelihood(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 0., inf])
    """

    name: ClassVar[str] = "exact"
    exact: ClassVar[bool] = True

    def check(self, y: FloatArray, name: str) -> None:
        """Raise if a count is negative."""
        super().check(y, name)
        if (y < 0).any():
            raise InvalidInputError(f"{name}: a count is {y.min():g}. Numbers of walkers must be at least 0.")

    def negative_log_likelihood(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return 0 where n and y agree to 9 digits, else infinity."""
        return np.where(np.abs(n - y) <= 1e-9 * (1.0 + y), 0.0, np.inf)

    def slope(self, n: FloatArray, y: FloatArray) -> FloatArray:
        """Return 0, because exact counts have no slope."""
        return np.zeros_like(n)

    def conjugate(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return `multiplier y`."""
        return multipliers * y

    def conjugate_slope(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return the count itself."""
        return y

    def needs_walkers(self, y: FloatArray) -> NDArray[np.bool_]:
        """Return whether the count is positive."""
        return y > 0

    def multipliers(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return x scaled by the curvature of the dual, which is about y."""
        scale = 1.0 / np.sqrt(_TINY_COUNT + y)
        return x * scale, scale

    def coordinates(self, multipliers: FloatArray, y: FloatArray) -> FloatArray:
        """Return the multipliers divided by the scale."""
        return multipliers * np.sqrt(_TINY_COUNT + y)


NOISES: Registry[Any] = Registry(
    "noise",
    "intarsia.collective",
    {"poisson": "noise:PoissonNoise", "gaussian": "noise:GaussianNoise", "exact": "noise:ExactNoise"},
    Noise,
)
