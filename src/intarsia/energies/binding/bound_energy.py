"""An energy on one graph: linear readings of mu, their value and slope, and every way to evaluate them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray, as_float_array, frozen
from intarsia.energies.binding.label_index import MarginalLayout, graph_of, subtract_from_all
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph

if TYPE_CHECKING:
    from intarsia.energies.binding.scalar_terms import ScalarTerms

READS = ("variables", "tables", "factors")
"""Blocks of mu that an energy reads, from few to many: variables only, all of mu, or single factors."""
# Largest number of entries of a matrix that is stored as a dense array instead of a sparse one.
_MAX_DENSE_SIZE = 2048


class Readings(ABC):
    """Linear readings `A mu` of the marginals; every method takes one vector or an array of rows.

    `measure_counts` and `spread_counts` need `counts_only`.
    """

    size: int
    """Number of readings."""
    counts_only: bool = False
    """Whether all readings depend only on the expected number of variables with each label."""

    @abstractmethod
    def measure(self, mu: FloatArray) -> FloatArray:
        """Return the readings `A mu`."""

    @abstractmethod
    def subtract(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Write the scores `theta - A^T weights` to `out`, which may be `theta` itself."""

    def spread(self, weights: FloatArray, n: int) -> FloatArray:
        """Return the first n entries of `A^T weights` for one vector; the other entries must be 0."""
        total = np.zeros(n)
        self.subtract(-weights, total, total)
        return total

    def measure_counts(self, counts: FloatArray) -> FloatArray:
        """Return the readings (n, size) of expected numbers of labels (n, n_labels)."""
        raise self._needs_marginals()

    def spread_counts(self, weights: FloatArray) -> FloatArray:
        """Return `A^T weights` at any single variable, (n, n_labels)."""
        raise self._needs_marginals()

    def _needs_marginals(self) -> NotSupportedError:
        return NotSupportedError(
            f"{type(self).__name__} reads more than the number of variables with each label (`counts_only` is False). "
            "Pass marginals to `read_rows` and `subtract_rows`."
        )


class AllMarginals(Readings):
    """Readings that are mu itself, for energies that are no function of a few measurements."""

    def __init__(self, n_theta: int) -> None:
        self.size = n_theta

    def measure(self, mu: FloatArray) -> FloatArray:
        """Return mu unchanged."""
        return mu

    def subtract(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Write `theta - weights`."""
        np.subtract(theta, weights, out=out)

    def spread(self, weights: FloatArray, n: int) -> FloatArray:
        """Return the first n weights."""
        return weights[:n]


class LinearMaps(Readings):
    """Readings by a sparse matrix A of measurements.

    Most measurements of sequences are counts: their coefficients are the same at every variable. Counts are computed
    from the sum of the marginals of all variables, which is computed once for all measurements.

    Parameters
    ----------
    layout : FactorGraph or ChainShape
        Model whose mu is measured.
    matrix : csr_array (n_measurements, n_theta)
        Coefficients A.

    Examples
    --------
    >>> from intarsia.graph import from_edges
    >>> matrix = csr_array(np.array([[0.0, 1, 0, 1], [5, 0, 0, 0]]))
    >>> maps = LinearMaps(from_edges(2, [], n_variables=2), matrix)
    >>> maps.measure(np.array([0.25, 0.75, 0.5, 0.5]))
    array([1.25, 1.25])
    >>> theta = np.zeros((2, 4))
    >>> maps.subtract(np.array([[1.0, 0.0], [0.0, 2.0]]), theta, theta)
    >>> theta
    array([[  0.,  -1.,   0.,  -1.],
           [-10.,   0.,   0.,   0.]])
    """

    def __init__(self, layout: MarginalLayout, matrix: csr_array) -> None:
        self.n_variables, self.n_node_entries = layout.n_variables, int(layout.variable_ptr[-1])
        self.size = matrix.shape[0]
        # Tables are far larger than variables, and most energies do not read them.
        reads_nodes_only = bool((matrix.indices < self.n_node_entries).all())
        self.n_read = self.n_node_entries if reads_nodes_only else matrix.shape[1]
        matrix = csr_array((matrix.data, matrix.indices, matrix.indptr), (self.size, self.n_read))
        equal_states = layout.n_variables > 0 and bool((layout.n_states == layout.n_states[0]).all())
        self.n_states = int(layout.n_states[0]) if equal_states else 0
        is_count = self._find_counts(matrix) if equal_states else np.zeros(self.size, dtype=bool)
        self._count_rows, self._other_rows = np.flatnonzero(is_count), np.flatnonzero(~is_count)
        if self._other_rows.size or not self._count_rows.size:
            self._matrix = matrix[self._other_rows]
            self._transpose = self._matrix.T.tocsr()
        if self._count_rows.size:
            pooled = self._pool_columns(matrix[self._count_rows] if self._other_rows.size else matrix)
            # Products with small sparse matrices cost more in overhead than in arithmetic.
            is_small = pooled.shape[0] * pooled.shape[1] <= _MAX_DENSE_SIZE
            self._pooled = pooled.toarray() if is_small else pooled
            self._pooled_transpose = np.ascontiguousarray(self._pooled.T) if is_small else pooled.T.tocsr()
        self.counts_only = bool(self.n_states) and reads_nodes_only and not self._other_rows.size

    def counts_like(self, other: LinearMaps) -> bool:
        """Return whether both have only counts, with equal coefficients."""
        shape, other_shape = (self.size, self.n_states), (other.size, other.n_states)
        if not (self.counts_only and other.counts_only) or shape != other_shape:
            return False
        return not self.size or not abs(csr_array(self._pooled) - csr_array(other._pooled)).sum()

    def count_coefficients(self, n_columns: int) -> FloatArray | None:
        """Return the coefficients (size, n_columns) of numbers of labels and transitions; None if others are read.

        Columns are labels, followed by the entries of the table, with 0 where the tables are not read.
        """
        if not self._count_rows.size or self._other_rows.size:
            return None
        pooled = self._pooled if isinstance(self._pooled, np.ndarray) else self._pooled.toarray()
        coefficients = np.zeros((self.size, n_columns))
        coefficients[:, : pooled.shape[1]] = pooled
        return coefficients

    def measure_counts(self, counts: FloatArray) -> FloatArray:
        """Return `A mu` from the sums (n, n_states) of the marginals of all variables."""
        return np.asarray((self._pooled @ counts.T).T) if self._count_rows.size else np.empty((len(counts), 0))

    def spread_counts(self, weights: FloatArray) -> FloatArray:
        """Return `A^T weights` at any single variable, (n, n_states)."""
        if not self._count_rows.size:
            return np.zeros((len(weights), self.n_states))
        return np.asarray((self._pooled_transpose @ weights.T).T)

    def measure(self, mu: FloatArray) -> FloatArray:
        """Return `A mu` of a vector (n_theta,) or of rows (n, n_theta)."""
        mu = mu[..., : self.n_read]
        if not self._count_rows.size:
            return np.asarray((self._matrix @ mu.T).T)
        readings = np.empty((*mu.shape[:-1], self.size))
        if self._other_rows.size:
            readings[..., self._other_rows] = (self._matrix @ mu.T).T
        readings[..., self._count_rows] = (self._pooled @ self._pool(mu).T).T
        return readings

    def subtract(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Write `theta - A^T weights` of a vector (n_measurements,) or of rows (n, n_measurements)."""
        if out is not theta and self.n_read < theta.shape[-1]:
            out[..., self.n_read :] = theta[..., self.n_read :]
        theta, out, n_nodes = theta[..., : self.n_read], out[..., : self.n_read], self.n_node_entries
        if self._other_rows.size or not self._count_rows.size:
            np.subtract(theta, (self._transpose @ weights[..., self._other_rows].T).T, out=out)
            theta = out
        if self._count_rows.size:
            pooled = (self._pooled_transpose @ weights[..., self._count_rows].T).T
            subtract_from_all(pooled[..., : self.n_states], theta[..., :n_nodes], out[..., :n_nodes])
            if n_nodes < self.n_read:
                np.subtract(theta[..., n_nodes:], pooled[..., self.n_states :], out=out[..., n_nodes:])

    def _pool(self, mu: FloatArray) -> FloatArray:
        """Return the sum of the marginals of all variables, followed by the tables."""
        n_nodes = self.n_node_entries
        nodes = mu[..., :n_nodes].reshape(*mu.shape[:-1], self.n_variables, self.n_states).sum(axis=-2)
        return nodes if n_nodes == self.n_read else np.concatenate([nodes, mu[..., n_nodes:]], axis=-1)

    def _pool_columns(self, matrix: csr_array) -> csr_array:
        """Return the coefficients of the first variable, followed by those of the tables."""
        if self.n_node_entries == self.n_read:
            return matrix[:, : self.n_states]
        columns = np.concatenate([np.arange(self.n_states), np.arange(self.n_node_entries, self.n_read)])
        return matrix[:, columns]

    def _find_counts(self, matrix: csr_array) -> NDArray[np.bool_]:
        """Return which measurements have the same coefficients at every variable."""
        row = np.repeat(np.arange(self.size), np.diff(matrix.indptr))
        in_nodes = (matrix.indices < self.n_node_entries) & (matrix.data != 0)
        key = row[in_nodes] * self.n_states + matrix.indices[in_nodes] % self.n_states
        pairs, pair_of_entry, n_entries = np.unique(key, return_inverse=True, return_counts=True)
        high, low = np.full(pairs.size, -np.inf), np.full(pairs.size, np.inf)
        np.maximum.at(high, pair_of_entry, matrix.data[in_nodes])
        np.minimum.at(low, pair_of_entry, matrix.data[in_nodes])
        differs = (n_entries != self.n_variables) | (high != low)
        is_count = np.ones(self.size, dtype=bool)
        is_count[pairs[differs] // self.n_states] = False
        return is_count


class BoundEnergy(ABC):
    r"""Energy L(mu) of one graph: a sum of preferences with weights psi >= 0, in the layout of the graph's mu.

    .. math:: L(\mu) = \sum_j \psi_j \ell_j(A \mu)

    (Vilnis2015 Eq. 4). `Energy.bind` returns it. A subclass passes its linear readings `A mu` to `__init__` (by default
    mu itself) and implements `evaluate`: values and slopes of the preferences, from the readings. All other methods
    follow from these two. The weights psi are separate, so that learning can change them.

    Parameters
    ----------
    layout : FactorGraph or ChainShape
        Model to which mu belongs.
    psi : float or (n_psi,) float array
        Weights of the preferences.
    readings : Readings, optional
        Linear readings of mu.
    psi_of_reading : (n_readings,) int array, optional
        Preference to which each reading belongs; by default there is one preference.
    n_psi : int
        Number of preferences.
    reads : {"variables", "tables", "factors"}
        Blocks of mu that are read.
    convex, smooth : bool
        Whether L is convex; whether it has a gradient wherever it is finite.
    floor : float or (n_psi,) float array
        Lower bound of each preference.
    lipschitz : float or (n_psi,) float array
        For each preference a constant c with `l(nu) <= l(mu) + <grad l(mu), nu - mu> + c KL(nu, mu)` for any two
        distributions with these marginals: smoothness relative to the negative entropy. NaN if unknown.

    Attributes
    ----------
    floor : float
        Lower bound of L.
    lipschitz : float or None
        Constant of smoothness of L; None if unknown.
    """

    psi: FloatArray
    convex: bool
    smooth: bool
    floor: float

    def __init__(
        self,
        layout: MarginalLayout,
        psi: ArrayLike,
        *,
        readings: Readings | None = None,
        psi_of_reading: IntArray | None = None,
        n_psi: int = 1,
        reads: str = "tables",
        convex: bool = True,
        smooth: bool = True,
        floor: ArrayLike = 0.0,
        lipschitz: ArrayLike = np.nan,
    ) -> None:
        self.layout, self.reads, self.convex, self.smooth = layout, reads, convex, smooth
        self.psi = check_psi(psi, n_psi)
        self.readings = AllMarginals(layout.n_theta) if readings is None else readings
        self.psi_of_reading = np.zeros(self.readings.size, np.int64) if psi_of_reading is None else psi_of_reading
        self.unit_floor, self.unit_lipschitz = (
            np.broadcast_to(np.asarray(values, dtype=np.float64), n_psi) for values in (floor, lipschitz)
        )
        self.update_shape()

    @abstractmethod
    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the preferences (n, n_psi) of rows of readings (n, n_readings), and their slopes in the readings.

        Both are without psi. At a kink, any subgradient is valid.
        """

    # ------------------------------------------------------------ adapters of `evaluate`; override for speed only

    def update_shape(self) -> None:
        """Recompute the attributes that depend on psi."""
        self.floor = float(self.floor_rows(self.psi[None])[0])

    @property
    def graph(self) -> FactorGraph:
        """Factor graph to which mu belongs."""
        return graph_of(self.layout)

    @property
    def lipschitz(self) -> float | None:
        """Constant of smoothness relative to the negative entropy, computed on access; None if unknown."""
        constant = float(self.lipschitz_rows(self.psi[None])[0])
        return None if np.isnan(constant) else constant

    @property
    def terms(self) -> ScalarTerms | None:
        """Equal energy that consists of scalar convex functions of linear measurements; None if there is none."""
        return None

    def with_psi(self, psi: ArrayLike) -> BoundEnergy:
        """Return a copy with other weights psi."""
        changed = copy.copy(self)
        changed.psi = check_psi(psi, self.psi.size)
        changed.update_shape()
        return changed

    def parts(self, mu: FloatArray) -> FloatArray:
        """Return the values of the preferences (n_psi,) without psi."""
        return self.evaluate(self.read(mu)[None])[0][0]

    def value(self, mu: FloatArray) -> float:
        """Return L(mu); infinite if a hard constraint is violated."""
        parts = self.parts(mu)
        active = (self.psi > 0) & (parts != 0)
        return float(self.psi[active] @ parts[active])

    def gradient(self, mu: FloatArray) -> FloatArray:
        """Return the gradient of L at mu, or a subgradient at a kink."""
        return self.spread(self.judge(self.read(mu))[1], mu.size)

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the derivative of `<grad L(mu), direction>` in psi at fixed mu: `<grad l_j(mu), direction>`.

        With `direction = S(y) - m` this is minus the gradient of the surrogate log-likelihood (Vilnis2015 Eq. 17 prints
        the opposite sign).
        """
        slopes = self.evaluate(self.read(mu)[None])[1][0]
        return np.bincount(self.psi_of_reading, slopes * self.read(direction), self.psi.size).astype(np.float64)

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the Hessian of L in the readings, with psi, times a direction (n_readings,).

        By default this is a central difference of `evaluate` with about 8 correct digits; override it for more.
        """
        largest = float(np.abs(direction).max(initial=0.0))
        if largest == 0.0:
            return np.zeros(readings.size)
        step = 6e-6 / largest
        below, above = self.evaluate(np.stack([readings - step * direction, readings + step * direction]))[1]
        return self.psi[self.psi_of_reading] * (above - below) / (2.0 * step)

    def hessian_diagonal(self, readings: FloatArray) -> FloatArray | None:
        """Return the diagonal of the Hessian in readings (..., n_readings), with psi; None if it is not diagonal."""
        return None

    def read(self, mu: FloatArray) -> FloatArray:
        """Return the readings of one mu."""
        return self.readings.measure(mu)

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """Return the energy and its slope in the readings of one mu, both with psi."""
        values, slopes = self.evaluate(readings[None])
        active = (self.psi > 0) & (values[0] != 0)
        return float(self.psi[active] @ values[0][active]), self.psi[self.psi_of_reading] * slopes[0]

    def spread(self, slope: FloatArray, n: int) -> FloatArray:
        """Return the first n entries of the slope in mu from the slope in the readings; the other entries must be 0."""
        return self.readings.spread(slope, n)

    def read_rows(self, mu: FloatArray) -> FloatArray:
        """Return the readings (n, n_readings) of rows of marginals (n, n_theta)."""
        return self.readings.measure(mu)

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return energies (n,) with finite psi (n, n_psi) of each row, and slopes in the readings without psi."""
        values, slopes = self.evaluate(readings)
        return (psi * values).sum(axis=1), slopes

    def subtract_rows(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Write rows of scores (n, n_theta) minus the weighted sums of the rows of A."""
        self.readings.subtract(weights, theta, out)

    @property
    def counts_labels(self) -> bool:
        """Whether all readings depend only on the expected number of variables with each label."""
        return self.readings.counts_only

    def counts_like(self, other: BoundEnergy) -> bool:
        """Return whether an energy of another graph is surely the same function of the numbers of labels."""
        return self is other

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """Return the readings (n, n_readings) of expected numbers of labels (n, n_labels)."""
        return self.readings.measure_counts(counts)

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """Return the scores (n, n_labels) that `subtract_rows` subtracts at every variable."""
        return self.readings.spread_counts(weights)

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """Return `lipschitz` (n,) for each row of psi (n, n_psi); NaN if unknown."""
        return np.asarray(psi @ self.unit_lipschitz)

    def floor_rows(self, psi: FloatArray) -> FloatArray:
        """Return `floor` (n,) for each row of psi (n, n_psi); a preference without weight contributes 0."""
        products = np.zeros(psi.shape)
        np.multiply(psi, self.unit_floor, where=(psi > 0) & np.isfinite(psi), out=products)
        return np.asarray(products.sum(axis=1))


def check_psi(psi: ArrayLike, n_psi: int) -> FloatArray:
    """Return weights psi as an array, or raise: they must not be negative; infinity is a hard constraint."""
    values = np.atleast_1d(as_float_array(psi, "psi"))
    if values.shape != (n_psi,):
        raise InvalidInputError(
            f"psi has shape {values.shape}, but there are {n_psi} preferences. Pass one weight each."
        )
    is_invalid = ~(values >= 0)
    if is_invalid.any():
        j = int(np.argmax(is_invalid))
        raise InvalidInputError(
            f"psi[{j}] is {values[j]}, but weights must be at least 0, because a preference with a negative weight is "
            f"not convex. Use a non-negative form of psi (softplus, clip or drop)."
        )
    return frozen(values.copy())
