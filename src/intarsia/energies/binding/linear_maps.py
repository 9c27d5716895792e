"""Products with a matrix of measurements and its transpose, for one mu or many, with little work where it repeats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray
from intarsia.graph import FactorGraph

# Entries of a matrix that is kept as it is rather than as a sparse one.
_SMALL = 2048


def subtract_from_all(each: FloatArray, theta: FloatArray, into: FloatArray) -> None:
    """Write scores of every variable (..., n k), which may be a slice, less those of states (..., k).

    Examples
    --------
    >>> theta = np.array([[10.0, 20.0, 30.0, 40.0]])
    >>> subtract_from_all(np.array([[1.0, 2.0]]), theta, theta)
    >>> theta
    array([[ 9., 18., 29., 38.]])
    """
    k = each.shape[-1]
    if theta.flags.c_contiguous and into.flags.c_contiguous and k:
        shape = (*theta.shape[:-1], theta.shape[-1] // k, k)
        np.subtract(theta.reshape(shape), each[..., None, :], out=into.reshape(shape))
        return
    for first in range(0, theta.shape[-1], max(k, 1)):  # a slice of rows cannot be reshaped without a copy
        np.subtract(theta[..., first : first + k], each, out=into[..., first : first + k])


class LinearMaps:
    """Measurements `A mu`, and scores less combinations `A^T w`; both take a vector or rows of them.

    Most measurements of taggers count: their coefficients are the same at every variable. Those act on the sum of the
    variables' marginals, which is taken once for all of them.

    Parameters
    ----------
    graph : FactorGraph
        Whose mu is measured.
    matrix : csr_array (n_measurements, n_theta)
        A.

    Examples
    --------
    >>> from intarsia.graph import from_edges
    >>> both = csr_array(np.array([[0.0, 1, 0, 1], [5, 0, 0, 0]]))
    >>> maps = LinearMaps(from_edges(2, [], n_variables=2), both)
    >>> maps.measure(np.array([0.25, 0.75, 0.5, 0.5]))
    array([1.25, 1.25])
    >>> theta = np.zeros((2, 4))
    >>> maps.subtract(np.array([[1.0, 0.0], [0.0, 2.0]]), theta, theta)
    >>> theta
    array([[  0.,  -1.,   0.,  -1.],
           [-10.,   0.,   0.,   0.]])
    """

    def __init__(self, graph: FactorGraph, matrix: csr_array) -> None:
        self.n_variables, self.split = graph.n_variables, int(graph.variable_ptr[-1])
        self.n_rows = matrix.shape[0]
        # Tables are far larger than variables, and mostly not looked at.
        self.n_read = self.split if (matrix.indices < self.split).all() else matrix.shape[1]
        matrix = csr_array((matrix.data, matrix.indices, matrix.indptr), (self.n_rows, self.n_read))
        alike = graph.n_variables > 0 and bool((graph.n_states == graph.n_states[0]).all())
        self.n_states = int(graph.n_states[0]) if alike else 0
        counts = self._counts(matrix) if alike else np.zeros(self.n_rows, dtype=bool)
        self._counting, self._other = np.flatnonzero(counts), np.flatnonzero(~counts)
        if self._other.size or not self._counting.size:
            self._whole = matrix[self._other]
            self._whole_turned = self._whole.T.tocsr()
        if self._counting.size:
            pooled = self._first_columns(matrix[self._counting] if self._other.size else matrix)
            # Products with few numbers take longer to begin than to work out, the more so with sparse ones.
            small = pooled.shape[0] * pooled.shape[1] <= _SMALL
            self._pooled = pooled.toarray() if small else pooled
            self._pooled_turned = np.ascontiguousarray(self._pooled.T) if small else pooled.T.tocsr()

    @property
    def counts_only(self) -> bool:
        """Whether every measurement has the same coefficients at every variable, and reads nothing else."""
        return bool(self.n_states) and self.n_read == self.split and not self._other.size

    def counts_like(self, other: LinearMaps) -> bool:
        """Whether both have nothing but counts, and the same."""
        if not (self.counts_only and other.counts_only) or (self.n_rows, self.n_states) != (
            other.n_rows,
            other.n_states,
        ):
            return False
        return not self.n_rows or not abs(csr_array(self._pooled) - csr_array(other._pooled)).sum()

    def measure_counts(self, counts: FloatArray) -> FloatArray:
        """`A mu` from rows (n, n_states) of the sums of the variables' marginals, where there is nothing but counts."""
        return np.asarray((self._pooled @ counts.T).T) if self._counting.size else np.empty((len(counts), 0))

    def turn_counts(self, weights: FloatArray) -> FloatArray:
        """`A^T w` at every variable, (n, n_states), where there is nothing but counts."""
        if not self._counting.size:
            return np.zeros((len(weights), self.n_states))
        return np.asarray((self._pooled_turned @ weights.T).T)

    def measure(self, mu: FloatArray) -> FloatArray:
        """`A mu` of a vector (n_theta,) or of rows (n, n_theta)."""
        mu = mu[..., : self.n_read]
        if not self._counting.size:
            return np.asarray((self._whole @ mu.T).T)
        found = np.empty((*mu.shape[:-1], self.n_rows))
        if self._other.size:
            found[..., self._other] = (self._whole @ mu.T).T
        found[..., self._counting] = (self._pooled @ self._pool(mu).T).T
        return found

    def subtract(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """Write scores less `A^T w`: of a vector (n_measurements,) or of rows (n, n_measurements)."""
        if into is not theta and self.n_read < theta.shape[-1]:
            into[..., self.n_read :] = theta[..., self.n_read :]
        theta, into = theta[..., : self.n_read], into[..., : self.n_read]
        if self._other.size or not self._counting.size:
            np.subtract(theta, (self._whole_turned @ weights[..., self._other].T).T, out=into)
            theta = into
        if self._counting.size:
            pooled = (self._pooled_turned @ weights[..., self._counting].T).T
            subtract_from_all(pooled[..., : self.n_states], theta[..., : self.split], into[..., : self.split])
            if self.split < self.n_read:
                np.subtract(theta[..., self.split :], pooled[..., self.n_states :], out=into[..., self.split :])

    def _pool(self, mu: FloatArray) -> FloatArray:
        """Sum of the variables' marginals, and the rest."""
        variables = mu[..., : self.split].reshape(*mu.shape[:-1], self.n_variables, self.n_states).sum(axis=-2)
        return variables if self.split == self.n_read else np.concatenate([variables, mu[..., self.split :]], axis=-1)

    def _first_columns(self, matrix: csr_array) -> csr_array:
        """Coefficients of the first variable, and of the tables."""
        if self.split == self.n_read:
            return matrix[:, : self.n_states]
        return matrix[:, np.concatenate([np.arange(self.n_states), np.arange(self.split, self.n_read)])]

    def _counts(self, matrix: csr_array) -> NDArray[np.bool_]:
        """Which measurements have the same coefficients at every variable."""
        row = np.repeat(np.arange(self.n_rows), np.diff(matrix.indptr))
        inside = (matrix.indices < self.split) & (matrix.data != 0)
        key = row[inside] * self.n_states + matrix.indices[inside] % self.n_states
        pairs, place, listed = np.unique(key, return_inverse=True, return_counts=True)
        high, low = np.full(pairs.size, -np.inf), np.full(pairs.size, np.inf)
        np.maximum.at(high, place, matrix.data[inside])
        np.minimum.at(low, place, matrix.data[inside])
        odd = (listed != self.n_variables) | (high != low)
        same = np.ones(self.n_rows, dtype=bool)
        same[pairs[odd] // self.n_states] = False
        return same
