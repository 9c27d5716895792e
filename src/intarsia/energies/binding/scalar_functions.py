"""Convex functions of one number, many at once: values, slopes, and the conjugates that a dual needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from intarsia._core.validation import FloatArray, IntArray

# A rate below this counts as this: slopes then stay below the largest score.
_LEAST_RATE = 1e-100


class ScalarFunctions(ABC):
    """n convex functions f_1 ... f_n of one number each; all methods work on vectors of length n.

    `value` and `derivative` take rows of such vectors as well.

    The conjugate of `psi f` is asked for as a whole, `sup_z lambda z - psi f(z)`, because it stays finite where psi is
    infinite (a hard constraint) and f a penalty.
    """

    floor: FloatArray
    """Least value of each."""
    curvature: FloatArray
    """Largest second derivative of each; inf where there is none."""
    differentiable: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether each has a slope wherever it is finite."""

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.floor.size)

    def same(self, other: ScalarFunctions) -> bool:
        """Whether these are surely the same functions."""
        return self is other

    @abstractmethod
    def value(self, z: FloatArray) -> FloatArray:
        """f_i(z_i)."""

    @abstractmethod
    def derivative(self, z: FloatArray) -> FloatArray:
        """Slope at z_i; at a kink the one nearest to 0."""

    def value_and_derivative(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both, where one helps the other."""
        return self.value(z), self.derivative(z)

    @abstractmethod
    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Least and largest lambda at which the conjugate of psi f is finite."""

    @abstractmethod
    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Supremum over z of lambda z - psi f(z), for lambda within the bounds."""

    @abstractmethod
    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """The z where that supremum is reached."""


class Penalties(ScalarFunctions):
    r"""Hinge, absolute value, square and their smoothed versions: one family.

    .. math:: f(z) = \max_{low \le u \le high} u (z - shift) - width \, u^2 / 2

    so that `low, high` are the extreme slopes and `width` the stretch over which the slope rises by 1. A hinge above
    is (0, 1), one below (-1, 0), the absolute value (-1, 1), each with width 0; with a width they are the smoothed
    hinge and Huber's function; the square is (-inf, inf) with width 1. The conjugate is
    `shift u + width u^2 / 2` on [low, high].

    Examples
    --------
    >>> f = Penalties([1.0, 1.0], low=[0.0, -1.0], high=[1.0, 1.0], width=[0.0, 2.0])
    >>> f.value(np.array([3.0, 2.0]))       # hinge: 3 - 1; Huber: 1 / (2 x 2)
    array([2.  , 0.25])
    """

    def __init__(
        self, shift: Sequence[float], low: Sequence[float], high: Sequence[float], width: Sequence[float]
    ) -> None:
        self.shift, self.low, self.high, self.width = (
            np.asarray(values, dtype=np.float64) for values in (shift, low, high, width)
        )
        self.floor = np.zeros(self.shift.size)
        self.differentiable = self.width > 0
        self.curvature = np.where(self.differentiable, 1.0 / np.where(self.differentiable, self.width, 1.0), np.inf)
        self._half_width = 0.5 * self.width
        self._steepness = np.minimum(self.curvature, 1e200)  # so steep that a kink is one, without infinities

    def same(self, other: ScalarFunctions) -> bool:
        """Whether all their numbers are the same."""
        return isinstance(other, Penalties) and all(
            np.array_equal(getattr(self, key), getattr(other, key)) for key in ("shift", "low", "high", "width")
        )

    def value(self, z: FloatArray) -> FloatArray:
        """f_i(z_i)."""
        return self.value_and_derivative(z)[0]

    def value_and_derivative(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The value at the maximising u, and that u."""
        u = self.derivative(z)
        return u * (z - self.shift - self._half_width * u), u

    def derivative(self, z: FloatArray) -> FloatArray:
        """The maximising u; at a kink the one nearest to 0."""
        return np.minimum(np.maximum((z - self.shift) * self._steepness, self.low), self.high)

    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Strength times the extreme slopes; psi may be infinite."""
        with np.errstate(invalid="ignore"):
            low, high = psi * self.low, psi * self.high
        return np.where((self.low == 0) | (psi == 0), 0.0, low), np.where((self.high == 0) | (psi == 0), 0.0, high)

    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Conjugate of psi f: `shift lambda + width lambda^2 / (2 psi)`."""
        return multipliers * (self.shift + 0.5 * self._softness(psi) * multipliers)

    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """`shift + width lambda / psi`."""
        return self.shift + self._softness(psi) * multipliers

    def _softness(self, psi: FloatArray) -> FloatArray:
        return self.width / np.where(psi > 0, psi, np.inf)


class PoissonDeviances(ScalarFunctions):
    r"""Half the deviance of counts y under Poisson laws with mean `rate z + background`.

    .. math:: f(z) = m - y + y \log(y / m), \quad m = rate \, z + background

    is minus the log-likelihood, shifted so that its least value is 0. Without a background the slope has no bound near
    z = 0.

    Examples
    --------
    >>> f = PoissonDeviances([2.0, 0.0], rate=[1.0, 3.0])
    >>> f.value(np.array([2.0, 1.0]))       # a mean of 2 where 2 were seen; a mean of 3 where none was
    array([0., 3.])
    """

    def __init__(
        self, count: Sequence[float], rate: Sequence[float], background: Sequence[float] | None = None
    ) -> None:
        self.count = np.asarray(count, dtype=np.float64)
        self.rate = np.broadcast_to(np.asarray(rate, dtype=np.float64), self.count.shape)
        given = 0.0 if background is None else np.asarray(background, dtype=np.float64)
        self.background = np.broadcast_to(given, self.count.shape)
        y = self.count
        self.floor = np.zeros(y.size)
        self.differentiable = np.ones(y.size, dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.curvature = np.where(y > 0, y * (self.rate / self.background) ** 2, 0.0)
        self._constant = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)) - y, 0.0)

    def _mean(self, z: FloatArray) -> FloatArray:
        return np.maximum(self.rate * z + self.background, _LEAST_RATE)

    def value(self, z: FloatArray) -> FloatArray:
        """f_i(z_i)."""
        mean = self._mean(z)
        return mean - self.count * np.log(mean) + self._constant

    def derivative(self, z: FloatArray) -> FloatArray:
        """`rate (1 - y / m)`."""
        return self.rate * (1.0 - self.count / self._mean(z))

    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Any slope below psi times the rate."""
        # A count above 0 makes the conjugate infinite at the end of the interval itself.
        return np.full(self.size, -np.inf), psi * self.rate * np.where(self.count > 0, 1.0 - 1e-12, 1.0)

    def _share(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        return 1.0 - multipliers / np.where(psi > 0, psi * self.rate, np.inf)

    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """`-psi ((1 - s) background + y log s)` with s = 1 - lambda / (psi rate)."""
        s = self._share(multipliers, psi)
        logs = np.log(np.where(self.count > 0, s, 1.0))
        return -psi * ((1.0 - s) * self.background + self.count * logs)

    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """`(y / s - background) / rate`."""
        s = np.where(self.count > 0, self._share(multipliers, psi), 1.0)
        return (self.count / s - self.background) / self.rate


class StackedFunctions(ScalarFunctions):
    """Functions of several families, one family after the other."""

    def __init__(self, parts: Sequence[ScalarFunctions]) -> None:
        self.parts = tuple(parts)
        ends = np.cumsum([part.size for part in self.parts])
        self._slices = [slice(int(end) - part.size, int(end)) for part, end in zip(self.parts, ends, strict=True)]
        self.floor = np.concatenate([part.floor for part in self.parts])
        self.curvature = np.concatenate([part.curvature for part in self.parts])
        self.differentiable = np.concatenate([part.differentiable for part in self.parts])

    def value(self, z: FloatArray) -> FloatArray:
        """f_i(z_i)."""
        return np.concatenate([part.value(z[..., at]) for part, at in self._each()], axis=-1)

    def derivative(self, z: FloatArray) -> FloatArray:
        """Slopes."""
        return np.concatenate([part.derivative(z[..., at]) for part, at in self._each()], axis=-1)

    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Least and largest multipliers."""
        pairs = [part.bounds(psi[at]) for part, at in self._each()]
        return np.concatenate([low for low, _ in pairs]), np.concatenate([high for _, high in pairs])

    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Conjugates."""
        return np.concatenate([part.conjugate(multipliers[at], psi[at]) for part, at in self._each()])

    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Where they are reached."""
        return np.concatenate([part.conjugate_derivative(multipliers[at], psi[at]) for part, at in self._each()])

    def _each(self) -> list[tuple[ScalarFunctions, slice]]:
        return list(zip(self.parts, self._slices, strict=True))


def stack_functions(parts: Sequence[ScalarFunctions]) -> ScalarFunctions:
    """One set of functions from several; neighbours of the family of penalties become one.

    Examples
    --------
    >>> hinge = Penalties([1.0], [0.0], [1.0], [0.0])
    >>> type(stack_functions([hinge, hinge])).__name__
    'Penalties'
    """
    merged: list[ScalarFunctions] = []
    run: list[Penalties] = []
    for part in [*parts, None]:
        if isinstance(part, Penalties):
            run.append(part)
            continue
        if run:
            columns = [np.concatenate([getattr(p, key) for p in run]) for key in ("shift", "low", "high", "width")]
            merged.append(Penalties(*columns))  # type: ignore[arg-type]
            run = []
        if part is not None:
            merged.append(part)
    if not merged:
        return Penalties([], [], [], [])
    return merged[0] if len(merged) == 1 else StackedFunctions(merged)


def repeat_rows(functions: ScalarFunctions, n_rows: int) -> tuple[ScalarFunctions, IntArray]:
    """The same functions for each of several measurements, and which measurement each of them reads."""
    every = [functions] * n_rows
    return stack_functions(every), np.repeat(np.arange(n_rows), functions.size)
