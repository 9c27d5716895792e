"""Scalar convex functions of linear measurements: the functions, many at once, and the energy they add up to."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.chain_arguments import PenaltyFunctions
from intarsia.energies.binding.bound_energy import BoundEnergy, LinearMaps
from intarsia.energies.binding.label_index import MarginalLayout, measurement_ranges

# Smaller rates are replaced by this value, so that slopes stay below the largest score.
_MIN_RATE = 1e-100


class ScalarFunctions(ABC):
    """Convex functions f_1 ... f_n of one number each; all methods take vectors of length n.

    `value` and `derivative` also take rows of such vectors. The conjugate is that of `psi f`,
    `sup_z lambda z - psi f(z)`, because it stays finite if psi is infinite (a hard constraint) and f is a penalty.
    """

    floor: FloatArray
    """Minimum of each function."""
    curvature: FloatArray
    """Largest second derivative of each function; inf if there is none."""
    differentiable: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether each function has a derivative wherever it is finite."""

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.floor.size)

    def same(self, other: ScalarFunctions) -> bool:
        """Return whether these are surely the same functions."""
        return self is other

    @abstractmethod
    def value(self, z: FloatArray) -> FloatArray:
        """Return the values f_i(z_i)."""

    @abstractmethod
    def derivative(self, z: FloatArray) -> FloatArray:
        """Return the derivative at z_i; at a kink the subgradient nearest to 0."""

    @abstractmethod
    def second_derivative(self, z: FloatArray) -> FloatArray:
        """Return the second derivative at z_i; 0 at a kink."""

    def value_and_derivative(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value and derivative, which may share work."""
        return self.value(z), self.derivative(z)

    @abstractmethod
    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and largest lambda with a finite conjugate of psi f."""

    @abstractmethod
    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the supremum over z of lambda z - psi f(z), for lambda within the bounds."""

    @abstractmethod
    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the z that attains the supremum of the conjugate."""


class Penalties(ScalarFunctions):
    r"""Hinge, absolute value, square and their smoothed versions as one family.

    .. math:: f(z) = \max_{low \le u \le high} u (z - shift) - width \, u^2 / 2

    `low` and `high` are the extreme slopes, `width` is the length over which the slope rises by 1. Hinge above a limit:
    (0, 1); below: (-1, 0); absolute value: (-1, 1); each with width 0. A positive width gives the smoothed hinge and
    the Huber function. Square: (-inf, inf) with width 1. The conjugate is `shift u + width u^2 / 2` on [low, high].

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
        self._steepness = np.minimum(self.curvature, 1e200)  # as good as a kink, without infinite products

    @property
    def kernel_arguments(self) -> PenaltyFunctions:
        """Parameters for kernels."""
        return PenaltyFunctions(self.shift, self.low, self.high, self._steepness, self._half_width)

    def same(self, other: ScalarFunctions) -> bool:
        """Return whether all parameters are equal."""
        return isinstance(other, Penalties) and all(
            np.array_equal(getattr(self, key), getattr(other, key)) for key in ("shift", "low", "high", "width")
        )

    def value(self, z: FloatArray) -> FloatArray:
        """Return the values f_i(z_i)."""
        return self.value_and_derivative(z)[0]

    def value_and_derivative(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the value at the maximising u, and u."""
        u = self.derivative(z)
        return u * (z - self.shift - self._half_width * u), u

    def derivative(self, z: FloatArray) -> FloatArray:
        """Return the maximising u; at a kink the value nearest to 0."""
        return np.minimum(np.maximum((z - self.shift) * self._steepness, self.low), self.high)

    def second_derivative(self, z: FloatArray) -> FloatArray:
        """Return `1 / width` on the parabola, and 0 elsewhere."""
        slope = (z - self.shift) * self._steepness
        return np.where(self.differentiable & (slope > self.low) & (slope < self.high), self.curvature, 0.0)

    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return psi times the extreme slopes; psi may be infinite."""
        with np.errstate(invalid="ignore"):
            low, high = psi * self.low, psi * self.high
        return np.where((self.low == 0) | (psi == 0), 0.0, low), np.where((self.high == 0) | (psi == 0), 0.0, high)

    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return `shift lambda + width lambda^2 / (2 psi)`."""
        return multipliers * (self.shift + 0.5 * self._scaled_width(psi) * multipliers)

    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return `shift + width lambda / psi`."""
        return self.shift + self._scaled_width(psi) * multipliers

    def _scaled_width(self, psi: FloatArray) -> FloatArray:
        return self.width / np.where(psi > 0, psi, np.inf)


class PoissonDeviances(ScalarFunctions):
    r"""Half the deviance of counts y under Poisson distributions with mean `rate z + background`.

    .. math:: f(z) = m - y + y \log(y / m), \quad m = rate \, z + background

    This is the negative log-likelihood, shifted to a minimum of 0. Without a background the slope is unbounded near 0.

    Examples
    --------
    >>> f = PoissonDeviances([2.0, 0.0], rate=[1.0, 3.0])
    >>> f.value(np.array([2.0, 1.0]))       # mean 2 and count 2; mean 3 and count 0
    array([0., 3.])
    """

    def __init__(
        self, count: Sequence[float], rate: Sequence[float], background: Sequence[float] | None = None
    ) -> None:
        self.count = np.asarray(count, dtype=np.float64)
        self.rate = np.broadcast_to(np.asarray(rate, dtype=np.float64), self.count.shape)
        offset = 0.0 if background is None else np.asarray(background, dtype=np.float64)
        self.background = np.broadcast_to(offset, self.count.shape)
        y = self.count
        self.floor = np.zeros(y.size)
        self.differentiable = np.ones(y.size, dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.curvature = np.where(y > 0, y * (self.rate / self.background) ** 2, 0.0)
        self._constant = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)) - y, 0.0)

    def _mean(self, z: FloatArray) -> FloatArray:
        return np.maximum(self.rate * z + self.background, _MIN_RATE)

    def value(self, z: FloatArray) -> FloatArray:
        """Return the values f_i(z_i)."""
        mean = self._mean(z)
        return mean - self.count * np.log(mean) + self._constant

    def derivative(self, z: FloatArray) -> FloatArray:
        """Return `rate (1 - y / m)`."""
        return self.rate * (1.0 - self.count / self._mean(z))

    def second_derivative(self, z: FloatArray) -> FloatArray:
        """Return `y (rate / m)^2`."""
        return np.where(self.count > 0, self.count * (self.rate / self._mean(z)) ** 2, 0.0)

    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -inf and psi times the rate."""
        # If the count is positive, the conjugate is infinite at the end of the interval itself.
        return np.full(self.size, -np.inf), psi * self.rate * np.where(self.count > 0, 1.0 - 1e-12, 1.0)

    def _ratio(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        return 1.0 - multipliers / np.where(psi > 0, psi * self.rate, np.inf)

    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return `-psi ((1 - s) background + y log s)` with s = 1 - lambda / (psi rate)."""
        s = self._ratio(multipliers, psi)
        logs = np.log(np.where(self.count > 0, s, 1.0))
        return -psi * ((1.0 - s) * self.background + self.count * logs)

    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return `(y / s - background) / rate`."""
        s = np.where(self.count > 0, self._ratio(multipliers, psi), 1.0)
        return (self.count / s - self.background) / self.rate


class StackedFunctions(ScalarFunctions):
    """Functions of several families, one family after the other."""

    def __init__(self, families: Sequence[ScalarFunctions]) -> None:
        self.families = tuple(families)
        ends = np.cumsum([family.size for family in self.families]).tolist()
        slices = [slice(end - family.size, end) for family, end in zip(self.families, ends, strict=True)]
        self._pairs = list(zip(self.families, slices, strict=True))
        self.floor, self.curvature = (
            np.concatenate([getattr(family, name) for family in self.families]) for name in ("floor", "curvature")
        )
        self.differentiable = np.concatenate([family.differentiable for family in self.families])

    def value(self, z: FloatArray) -> FloatArray:
        """Return the values f_i(z_i)."""
        return np.concatenate([family.value(z[..., block]) for family, block in self._pairs], axis=-1)

    def derivative(self, z: FloatArray) -> FloatArray:
        """Return the derivatives of all families."""
        return np.concatenate([family.derivative(z[..., block]) for family, block in self._pairs], axis=-1)

    def second_derivative(self, z: FloatArray) -> FloatArray:
        """Return the second derivatives of all families."""
        return np.concatenate([family.second_derivative(z[..., block]) for family, block in self._pairs], axis=-1)

    def bounds(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and largest multipliers."""
        pairs = [family.bounds(psi[block]) for family, block in self._pairs]
        return np.concatenate([low for low, _ in pairs]), np.concatenate([high for _, high in pairs])

    def conjugate(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the conjugates of all families."""
        return np.concatenate([family.conjugate(multipliers[block], psi[block]) for family, block in self._pairs])

    def conjugate_derivative(self, multipliers: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the maximisers of the conjugates of all families."""
        pairs = self._pairs
        return np.concatenate([family.conjugate_derivative(multipliers[block], psi[block]) for family, block in pairs])


def stack_functions(families: Sequence[ScalarFunctions]) -> ScalarFunctions:
    """Combine several sets of functions into one; adjacent penalties become one set of penalties.

    Examples
    --------
    >>> hinge = Penalties([1.0], [0.0], [1.0], [0.0])
    >>> type(stack_functions([hinge, hinge])).__name__
    'Penalties'
    """
    stacked: list[ScalarFunctions] = []
    for is_penalty, group in itertools.groupby(families, lambda family: isinstance(family, Penalties)):
        if is_penalty:
            run = list(group)
            columns = [np.concatenate([getattr(p, key) for p in run]) for key in ("shift", "low", "high", "width")]
            stacked.append(Penalties(*columns))  # type: ignore[arg-type]
        else:
            stacked.extend(group)
    if not stacked:
        return Penalties([], [], [], [])
    return stacked[0] if len(stacked) == 1 else StackedFunctions(stacked)


class ScalarTerms(BoundEnergy):
    """Sum of scalar convex functions of linear measurements (Vilnis2015 Eq. 5): `sum_i psi[psi_of[i]] f_i(a_i . mu)`.

    Attributes
    ----------
    measurements : csr_array (n_terms, n_theta)
        Coefficients a_i of the measurements.
    functions : ScalarFunctions
        Functions f_i.
    psi_of : int array (n_terms,)
        Preference to which each term belongs.
    strengths : float array (n_terms,)
        Weight psi of each term.

    Examples
    --------
    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> terms = MeasuredEnergy(Count(1), Squared(1.0), psi=3.0).bind(graph).terms
    >>> terms.measurements.toarray()[:, :4].tolist()            # state 1 of both variables
    [[0.0, 1.0, 0.0, 1.0]]
    >>> mu = graph.statistics([1, 1])
    >>> terms.value(mu), terms.gradient(mu)[:4].tolist()        # 3 x (2 - 1)^2 / 2, and 3 x (2 - 1)
    (1.5, [0.0, 3.0, 0.0, 3.0])
    """

    def __init__(
        self,
        layout: MarginalLayout,
        measurements: csr_array,
        functions: ScalarFunctions,
        psi: ArrayLike,
        psi_of: IntArray,
        n_psi: int,
    ) -> None:
        self.measurements, self.functions, self.psi_of = measurements, functions, psi_of
        self._ranges: list[FloatArray] = []  # computed at first use, then shared by all copies with other psi
        reads_nodes_only = (measurements.indices < int(layout.variable_ptr[-1])).all()
        super().__init__(
            layout, psi, readings=LinearMaps(layout, measurements), psi_of_reading=psi_of, n_psi=n_psi,
            reads="variables" if reads_nodes_only else "tables",
            floor=np.bincount(psi_of, functions.floor, n_psi),
        )  # fmt: skip

    @property
    def terms(self) -> ScalarTerms:
        """Return the energy itself."""
        return self

    def update_shape(self) -> None:
        """Recompute the weight of each term; the energy is smooth unless a term with positive weight has a kink."""
        super().update_shape()
        self.strengths: FloatArray = self.psi[self.psi_of]
        is_hard = np.isinf(self.strengths)
        self._all_finite = not is_hard.any()
        self.smooth = bool(self.functions.differentiable[self.strengths > 0].all() and self._all_finite)

    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of the functions of each preference, and the derivatives of the functions."""
        values, slopes = self.functions.value_and_derivative(readings)
        n_psi = self.psi.size
        sums = [np.bincount(self.psi_of, row, n_psi).astype(np.float64, copy=False) for row in values]
        return np.array(sums).reshape(len(values), n_psi), slopes

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """Return the energy and its slope; if psi is infinite, 0 times infinity counts as 0."""
        values, slopes = self.functions.value_and_derivative(readings)
        psi = self.strengths
        if self._all_finite:
            return float(psi @ values), psi * slopes
        active, weighted = (psi > 0) & (values != 0), np.zeros(slopes.shape)
        np.multiply(psi, slopes, where=(psi > 0) & (slopes != 0), out=weighted)
        return float(psi[active] @ values[active]), weighted

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return energies and derivatives of all rows, without the sums of each preference."""
        values, slopes = self.functions.value_and_derivative(readings)
        return np.einsum("ij,ij->i", psi[:, self.psi_of], values), slopes

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """Return the sum over the terms of `psi c range^2 / 4`, with c the largest second derivative."""
        if not self._ranges:
            self._ranges.append(measurement_ranges(self.layout, self.measurements))
        is_finite = np.isfinite(self.functions.curvature)
        constants = np.where(is_finite, self.functions.curvature, 0.0) * self._ranges[0] ** 2 / 4.0
        strengths = psi[:, self.psi_of]
        return np.where((strengths[:, ~is_finite] > 0).any(axis=1), np.nan, strengths @ constants)

    def hessian_diagonal(self, readings: FloatArray) -> FloatArray:
        """Return psi times the second derivatives of the functions; infinite psi counts only where these are not 0."""
        second, psi = self.functions.second_derivative(readings), self.strengths
        return np.multiply(psi, second, where=(psi > 0) & (second > 0), out=np.zeros(second.shape))

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the second derivatives times the direction."""
        return self.hessian_diagonal(readings) * direction

    def counts_like(self, other: BoundEnergy) -> bool:
        """Return whether coefficients and functions are equal."""
        return (
            isinstance(other, ScalarTerms)
            and np.array_equal(self.psi_of, other.psi_of)
            and self.functions.same(other.functions)
            and self.readings.counts_like(other.readings)  # type: ignore[attr-defined]
        )

    def tilt(self, multipliers: FloatArray) -> FloatArray:
        """Return `A^T lambda`, which multipliers of the measurements subtract from theta."""
        return self.spread(multipliers, self.layout.n_theta)


def repeat_rows(functions: ScalarFunctions, n_rows: int) -> tuple[ScalarFunctions, IntArray]:
    """Return the functions repeated for several measurements, and the measurement that each function reads."""
    return stack_functions([functions] * n_rows), np.repeat(np.arange(n_rows), functions.size)
