"""An energy on one graph: value, slope and what is known of its shape."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray, as_float_array, frozen
from intarsia.energies.binding.linear_maps import LinearMaps
from intarsia.energies.binding.scalar_functions import ScalarFunctions
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph

READS = ("variables", "tables", "factors")
"""What an energy may look at, from the least to the most: the variables' blocks, all of mu, single factors."""


class BoundEnergy(ABC):
    r"""L(mu) of one graph, in the flat layout of its mu; a sum of preferences with strengths psi >= 0.

    .. math:: L(\mu) = \sum_j \psi_j \ell_j(\mu)

    (Vilnis2015 Eq. 4). Made by `Energy.bind`. The strengths are apart from the shape, so that learning can put in
    others.

    Attributes
    ----------
    graph : FactorGraph
        Whose mu is meant.
    psi : float array (n_psi,)
        Strengths.
    convex, smooth : bool
        Whether L is convex; whether it has a slope wherever it is finite.
    lipschitz : float or None
        A constant c with `L(nu) <= L(mu) + <grad L(mu), nu - mu> + c KL(nu, mu)` for any two distributions with these
        marginals: smoothness relative to the negative entropy. None where none is known.
    floor : float
        A lower bound on L.
    reads : {"variables", "tables", "factors"}
        Which blocks of mu it looks at.
    """

    graph: FactorGraph
    psi: FloatArray
    convex: bool
    smooth: bool
    floor: float
    reads: str

    @abstractmethod
    def parts(self, mu: FloatArray) -> FloatArray:
        """Values of the preferences l_j, without their strengths."""

    @abstractmethod
    def gradient(self, mu: FloatArray) -> FloatArray:
        """Slope of L at mu, a subgradient where it has a kink."""

    @abstractmethod
    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """Derivative of `<grad L(mu), direction>` in psi, mu held fixed: `<grad l_j(mu), direction>`.

        With `direction = S(y) - m` this is minus the gradient of the surrogate log-likelihood (Vilnis2015 Eq. 17, whose
        printed sign is the other one).
        """

    @abstractmethod
    def describe(self) -> None:
        """Set what depends on psi: `convex`, `smooth`, `floor`."""

    @property
    @abstractmethod
    def lipschitz(self) -> float | None:
        """Constant of smoothness relative to the negative entropy; worked out when asked for."""

    @property
    def terms(self) -> ScalarTerms | None:
        """The same energy as scalar convex functions of linear measurements, where it is one."""
        return None

    def value(self, mu: FloatArray) -> float:
        """L(mu); infinite where a hard constraint is broken."""
        parts = self.parts(mu)
        active = (self.psi > 0) & (parts != 0)
        return float(self.psi[active] @ parts[active])

    # ------------------------------------------------------------ by readings
    #
    # An energy looks at linear readings z of mu; its slope is then a combination of the readings' vectors. Searches
    # that work with readings need not touch the whole of mu for every step. Unless told otherwise, mu itself is read.

    def read(self, mu: FloatArray) -> FloatArray:
        """Readings of mu."""
        return mu

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """Value of the energy, and its slope in the readings."""
        return self.value(readings), self.gradient(readings)

    def spread(self, slope: FloatArray, n: int) -> FloatArray:
        """The first n entries of a slope in mu, from that in the readings; beyond them there must be only zeros."""
        return slope[:n]

    # ------------------------------------------------------------ many marginals of this graph at once

    @property
    def psi_of_reading(self) -> IntArray:
        """Which strength multiplies the slope in each reading; by default there is one."""
        return np.zeros(self.graph.n_theta, dtype=np.int64)

    def read_rows(self, mu: FloatArray) -> FloatArray:
        """Readings (n, n_readings) of rows of marginals (n, n_theta)."""
        return mu

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (n,) with finite strengths (n, n_psi) of each row, and slopes in the readings without strengths."""
        one = self.with_psi(np.ones(1))
        values = np.array([float(self.parts(row)[0]) for row in readings])
        slopes = np.array([one.gradient(row) for row in readings])
        return psi[:, 0] * values, slopes.reshape(readings.shape)

    def subtract_rows(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """Write rows of scores (n, n_theta) less the combinations of the readings' vectors with these weights."""
        np.subtract(theta, weights, out=into)

    @property
    def counts_labels(self) -> bool:
        """Whether all readings tell how many variables have each label; then `read_counts` and `count_scores` work."""
        return False

    def counts_like(self, other: BoundEnergy) -> bool:
        """Whether an energy of another graph is the same function of numbers of labels."""
        return self is other

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """Readings (n, n_readings) of rows of expected numbers of labels (n, n_labels)."""
        raise self._reads_more_than_counts()

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """What `subtract_rows` takes from the scores of every variable (n, n_labels)."""
        raise self._reads_more_than_counts()

    def _reads_more_than_counts(self) -> NotSupportedError:
        return NotSupportedError(
            f"{type(self).__name__} reads more than how many variables have each label (`counts_labels` is False). "
            "Give it marginals: `read_rows` and `subtract_rows`."
        )

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """`lipschitz` (n,) for strengths (n, n_psi); NaN where none is known."""
        found = [self.with_psi(own).lipschitz for own in psi]
        return np.array([np.nan if known is None else known for known in found], dtype=np.float64)

    def floor_rows(self, psi: FloatArray) -> FloatArray:
        """`floor` (n,) for strengths (n, n_psi)."""
        return np.array([self.with_psi(own).floor for own in psi], dtype=np.float64)

    def with_psi(self, psi: ArrayLike) -> BoundEnergy:
        """Return the same preferences with other strengths."""
        changed = copy.copy(self)
        changed.psi = check_psi(psi, self.psi.size)
        changed.describe()
        return changed


def check_psi(psi: ArrayLike, n_psi: int) -> FloatArray:
    """Return strengths as an array, or raise: they must be non-negative (infinite means hard)."""
    values = np.atleast_1d(as_float_array(psi, "psi"))
    if values.shape != (n_psi,):
        raise InvalidInputError(f"psi has shape {values.shape}, but there are {n_psi} preferences. Give one each.")
    bad = ~(values >= 0)
    if bad.any():
        j = int(np.argmax(bad))
        raise InvalidInputError(
            f"psi[{j}] is {values[j]}, but strengths must be at least 0: below it a preference would not be convex. "
            f"Use a positive form of psi (softplus, clip or drop)."
        )
    return frozen(values.copy())


class ScalarTerms(BoundEnergy):
    """Scalar convex functions of linear measurements (Vilnis2015 Eq. 5): `sum_i psi[psi_of[i]] f_i(a_i . mu)`.

    Attributes
    ----------
    measurements : csr_array (n_terms, n_theta)
        The vectors a_i.
    functions : ScalarFunctions
        The functions f_i.
    psi_of : int array (n_terms,)
        Which strength each term has.
    strengths : float array (n_terms,)
        The strength of each term.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> from intarsia.energies.functions import Squared
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> terms = MeasuredEnergy(Count(1), Squared(1.0), psi=3.0).bind(graph).terms
    >>> terms.measurements.toarray()[:, :4].tolist()            # state 1 of both variables
    [[0.0, 1.0, 0.0, 1.0]]
    >>> mu = graph.statistics([1, 1])
    >>> terms.value(mu), terms.gradient(mu)[:4].tolist()        # 3 x (2 - 1)^2 / 2, and 3 x (2 - 1)
    (1.5, [0.0, 3.0, 0.0, 3.0])
    """

    convex = True

    def __init__(
        self,
        graph: FactorGraph,
        measurements: csr_array,
        functions: ScalarFunctions,
        psi: ArrayLike,
        psi_of: IntArray,
        n_psi: int,
    ) -> None:
        self.graph = graph
        self.measurements = measurements
        self.functions = functions
        self.psi_of = psi_of
        self.psi = check_psi(psi, n_psi)
        self._maps = LinearMaps(graph, measurements)
        inside = measurements.indices < int(graph.variable_ptr[-1])
        self.reads = "variables" if inside.all() else "tables"
        self._ranges: list[FloatArray] = []  # worked out at first need, then shared by all strengths
        self.describe()

    @property
    def terms(self) -> ScalarTerms:
        """Itself."""
        return self

    def describe(self) -> None:
        """Smooth unless a term with a kink counts."""
        self.strengths: FloatArray = self.psi[self.psi_of]
        psi, functions = self.strengths, self.functions
        counts = psi > 0
        hard = np.isinf(psi)
        self._all_finite = not hard.any()
        self.floor = float(psi[counts & ~hard] @ functions.floor[counts & ~hard])
        self.smooth = bool(functions.differentiable[counts].all() and not hard.any())

    @property
    def lipschitz(self) -> float | None:
        """`psi c range^2 / 4` summed over the terms, c the largest second derivative."""
        known = float(self.lipschitz_rows(self.psi[None])[0]) if self.smooth else np.nan
        return None if np.isnan(known) else known

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """The same for strengths of several rows."""
        if not self._ranges:
            self._ranges.append(measurement_ranges(self.graph, self.measurements))
        finite = np.isfinite(self.functions.curvature)
        each = np.where(finite, self.functions.curvature, 0.0) * self._ranges[0] ** 2 / 4.0
        strengths = psi[:, self.psi_of]
        return np.where((strengths[:, ~finite] > 0).any(axis=1), np.nan, strengths @ each)

    def floor_rows(self, psi: FloatArray) -> FloatArray:
        """Strengths times the least values of the functions."""
        return np.asarray(psi[:, self.psi_of] @ self.functions.floor)

    def parts(self, mu: FloatArray) -> FloatArray:
        """Sum of the terms of each strength."""
        values = self.functions.value(self._maps.measure(mu))
        return np.bincount(self.psi_of, values, self.psi.size).astype(np.float64, copy=False)

    def gradient(self, mu: FloatArray) -> FloatArray:
        """`sum_i psi_i f_i'(a_i . mu) a_i`."""
        return self.tilt(self.judge(self.read(mu))[1])

    def read(self, mu: FloatArray) -> FloatArray:
        """All measurements."""
        return self._maps.measure(mu)

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """The functions and their derivatives, times strengths: these may be infinite, so 0 is not multiplied."""
        values, slopes = self.functions.value_and_derivative(readings)
        psi = self.strengths
        if self._all_finite:
            return float(psi @ values), psi * slopes
        counts, pulls = (psi > 0) & (values != 0), np.zeros(slopes.shape)
        np.multiply(psi, slopes, where=(psi > 0) & (slopes != 0), out=pulls)
        return float(psi[counts] @ values[counts]), pulls

    def spread(self, slope: FloatArray, n: int) -> FloatArray:
        """The slope times the measurements."""
        return self.tilt(slope, n)

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`f_i'(a_i . mu) a_i . direction`, summed over the terms of each strength (Vilnis2015 Eq. 17)."""
        along = self.functions.derivative(self._maps.measure(mu)) * self._maps.measure(direction)
        return np.bincount(self.psi_of, along, self.psi.size).astype(np.float64, copy=False)

    @property
    def psi_of_reading(self) -> IntArray:
        """Every measurement is read."""
        return self.psi_of

    def read_rows(self, mu: FloatArray) -> FloatArray:
        """Measurements of all rows by one product."""
        return self._maps.measure(mu)

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The functions and their derivatives."""
        values, slopes = self.functions.value_and_derivative(readings)
        return np.einsum("ij,ij->i", psi[:, self.psi_of], values), slopes

    def subtract_rows(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """`theta - A^T w`."""
        self._maps.subtract(weights, theta, into)

    @property
    def counts_labels(self) -> bool:
        """Whether the coefficients of every measurement are the same at every variable, and 0 elsewhere."""
        return self._maps.counts_only

    def counts_like(self, other: BoundEnergy) -> bool:
        """Whether coefficients and functions are the same."""
        return (
            isinstance(other, ScalarTerms)
            and np.array_equal(self.psi_of, other.psi_of)
            and self.functions.same(other.functions)
            and self._maps.counts_like(other._maps)
        )

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """Coefficients of one variable times numbers of labels."""
        return self._maps.measure_counts(counts)

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """`A^T w` at one variable."""
        return self._maps.turn_counts(weights)

    def tilt(self, multipliers: FloatArray, n: int | None = None) -> FloatArray:
        """`A^T lambda`: what multipliers of the measurements take from theta, or from its first n entries."""
        made = np.zeros(self.graph.n_theta if n is None else n)
        self._maps.subtract(-multipliers, made, made)
        return made


def measurement_ranges(graph: FactorGraph, measurements: csr_array) -> FloatArray:
    """Upper bounds on `max_y a . S(y) - min_y a . S(y)` for each row a: the sum over blocks of their ranges."""
    starts = np.concatenate([graph.variable_ptr[:-1], graph.table_ptr])
    sizes = np.diff(starts)
    n_blocks, n_rows = sizes.size, measurements.shape[0]
    uses = np.ones(n_blocks)
    uses[graph.n_variables :] = np.bincount(graph.table_of_factor, minlength=graph.n_tables)
    row = np.repeat(np.arange(n_rows), np.diff(measurements.indptr))
    key = row * n_blocks + np.searchsorted(starts, measurements.indices, side="right") - 1
    touched, place, listed = np.unique(key, return_inverse=True, return_counts=True)
    row, block = touched // n_blocks, touched % n_blocks
    # A state that is not listed has the coefficient 0.
    partly = listed < sizes[block]
    high, low = np.where(partly, 0.0, -np.inf), np.where(partly, 0.0, np.inf)
    np.maximum.at(high, place, measurements.data)
    np.minimum.at(low, place, measurements.data)
    span = high - low
    for i in np.flatnonzero((block >= graph.n_variables) & (sizes[block] == 1)).tolist():
        span[i] = _parametric_range(graph, int(block[i]) - graph.n_variables, float(high[i]))
    return np.bincount(row, uses[block] * span, n_rows).astype(np.float64, copy=False)


def _parametric_range(graph: FactorGraph, table: int, coefficient: float) -> float:
    """Range over the pairs of states of one weight's statistic, times its coefficient."""
    if graph.table_kind[table] == 0:
        return 0.0
    unit = np.zeros(graph.n_theta)
    unit[graph.table_ptr[table]] = 1.0
    statistic = graph.factor_table(unit, int(graph.first_factor_of_table[table]))
    return abs(coefficient) * float(statistic.max() - statistic.min())
