"""Strengths of preferences as functions of the input, kept non-negative: psi(x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_generator, check_choice, check_number
from intarsia.exceptions import InvalidInputError

POSITIVE = ("softplus", "clip", "drop")
# Inputs whose random features are worked out together, and the largest matrix of features.
_AT_ONCE = 128
_MOST_NUMBERS = 200_000_000


class Psi(BaseEstimator, ABC):  # type: ignore[misc]
    """Strengths `psi = positive(W phi(x))`: W is learned, phi and the way to stay non-negative are settings.

    `positive` is "softplus" (log(1 + e^r): smooth, never 0), "clip" (max(r, 0); where psi is constant the weights
    themselves are kept at 0 or above after every step) or "drop" (max(r, 0) in the energy, but the gradient passes as
    if nothing had been cut off: a preference of negative weight is left out and may come back, as in section 8.1 of
    Vilnis2015).
    """

    name: ClassVar[str]
    """Name in the registry."""
    positive: str

    @abstractmethod
    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """Features phi (n, n_features) of inputs, first a 1; input i has rows `ptr[i]` .. `ptr[i + 1] - 1`."""

    def n_features(self, n_columns: int) -> int:
        """Number of features of inputs whose rows have so many columns."""
        return int(self.features_of(np.zeros((1, n_columns)), np.array([0, 1])).shape[1])

    def features(self, x: Any) -> FloatArray:
        """phi(x) of one input, a matrix with a row per position (or a vector)."""
        rows = _rows(x, type(self).__name__)
        return self.features_of(rows, np.array([0, len(rows)]))[0]

    def initial(self, psi: ArrayLike, x: Any) -> FloatArray:
        """Weights (n_psi, n_features) with which psi has the given values for every input."""
        wanted = np.atleast_1d(as_float_array(psi, "psi"))
        return self.initial_of(wanted, self.features(x).size)

    def initial_of(self, wanted: FloatArray, n_features: int) -> FloatArray:
        """The same, for a number of features."""
        if not (np.isfinite(wanted) & (wanted >= 0)).all():
            raise InvalidInputError(f"{type(self).__name__}: strengths to begin with must be finite and at least 0.")
        weights = np.zeros((wanted.size, n_features))
        if self.positive == "softplus":
            if not (wanted > 0).all():
                raise InvalidInputError(f"{type(self).__name__}: softplus is never 0. Begin above 0, or use 'clip'.")
            wanted = wanted + np.log(-np.expm1(-wanted))
        weights[:, 0] = wanted
        return weights

    def values(self, weights: FloatArray, features: FloatArray) -> FloatArray:
        """Strengths (n_psi,) of one input or (n, n_psi) of rows of features, all at least 0."""
        check_choice(self.positive, POSITIVE, f"{type(self).__name__}: positive")
        raw: FloatArray = features @ weights.T
        return np.logaddexp(0.0, raw) if self.positive == "softplus" else np.maximum(raw, 0.0)

    def pull_back(self, weights: FloatArray, features: FloatArray, gradient: FloatArray) -> FloatArray:
        """Gradient in the weights from one in psi, or the sum over rows of features and of gradients."""
        raw = features @ weights.T
        if self.positive == "softplus":
            slope = 0.5 * (1.0 + np.tanh(0.5 * raw))
        elif self.positive == "clip":
            slope = (raw >= 0).astype(np.float64)
        else:
            slope = np.ones(raw.shape)
        return np.asarray(np.atleast_2d(slope * gradient).T @ np.atleast_2d(features))

    def project(self, weights: FloatArray) -> FloatArray:
        """Weights after a step, brought back to where they belong."""
        return weights


class ConstantPsi(Psi):
    """The same strengths for every input.

    Parameters
    ----------
    positive : {"softplus", "clip", "drop"}
        How they stay non-negative.

    Examples
    --------
    >>> psi = ConstantPsi(positive="clip")
    >>> weights = psi.initial([0.5, 2.0], x=None)
    >>> psi.values(weights, psi.features(None))
    array([0.5, 2. ])
    """

    name: ClassVar[str] = "constant"

    def __init__(self, *, positive: str = "clip") -> None:
        self.positive = positive

    def features(self, x: Any) -> FloatArray:
        """Only a 1, whatever the input."""
        return np.ones(1)

    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """Only a 1 each."""
        return np.ones((ptr.size - 1, 1))

    def project(self, weights: FloatArray) -> FloatArray:
        """With "clip", weights are strengths and stay at 0 or above."""
        return np.maximum(weights, 0.0) if self.positive == "clip" else weights


class LinearPsi(Psi):
    """Strengths linear in features of the input: its vector, or the mean of the rows of its matrix.

    Parameters
    ----------
    positive : {"softplus", "clip", "drop"}
        How they stay non-negative.

    Examples
    --------
    >>> LinearPsi().features([[1.0, 0.0], [3.0, 2.0]])
    array([1., 2., 1.])
    """

    name: ClassVar[str] = "linear"

    def __init__(self, *, positive: str = "softplus") -> None:
        self.positive = positive

    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """1 and the mean features of each."""
        _check_size(ptr.size - 1, matrix.shape[1], "LinearPsi")
        lengths = np.diff(ptr)
        which = np.repeat(np.arange(lengths.size), lengths)
        means = csr_array(((1.0 / lengths)[which], (which, np.arange(which.size))), shape=(lengths.size, which.size))
        found = means @ matrix
        return np.column_stack([np.ones(lengths.size), found.toarray() if hasattr(found, "toarray") else found])


class MeanMapPsi(Psi):
    r"""Strengths linear in the mean map of the input's rows under a Gaussian kernel, by random Fourier features.

    .. math:: \phi(x) = \frac{1}{T} \sum_t \sqrt{2 / D} \cos(\Omega x_t + b), \quad
              \Omega \sim N(0, 2 \gamma), \quad b \sim U(0, 2 \pi)

    so that `phi(x) . phi(x')` is near the mean of `exp(-gamma |x_t - x'_s|^2)` (Rahimi2007, Smola2007).

    Parameters
    ----------
    n_components : int
        D, the number of random features.
    gamma : float
        Of the kernel; None takes 1 over the number of columns.
    positive : {"softplus", "clip", "drop"}
        How strengths stay non-negative.
    random_state : int
        Seed: inputs must all meet the same random features.

    Examples
    --------
    >>> psi = MeanMapPsi(n_components=2000, gamma=0.5)
    >>> a, b = psi.features([[0.0, 0.0]])[1:], psi.features([[1.0, 1.0]])[1:]
    >>> abs(a @ b - np.exp(-0.5 * 2)) < 0.05
    np.True_
    """

    name: ClassVar[str] = "mean_map"

    def __init__(
        self,
        *,
        n_components: int = 1000,
        gamma: float | None = None,
        positive: str = "softplus",
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.positive = positive
        self.random_state = random_state

    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """1 and the mean map of each."""
        directions, phases = self._draw(int(matrix.shape[1]))
        found = np.ones((ptr.size - 1, 1 + phases.size))
        # In parts, since every position has n_components numbers on the way.
        for first in range(0, ptr.size - 1, _AT_ONCE):
            part = ptr[first : first + _AT_ONCE + 1]
            waves = np.cos(np.asarray(matrix[part[0] : part[-1]] @ directions) + phases)
            sums = np.add.reduceat(waves, part[:-1] - part[0], axis=0)
            found[first : first + part.size - 1, 1:] = sums / np.diff(part)[:, None]
        found[:, 1:] *= np.sqrt(2.0 / self.n_components)
        return found

    def n_features(self, n_columns: int) -> int:
        """One more than there are components."""
        return 1 + int(self.n_components)

    def _draw(self, n_columns: int) -> tuple[FloatArray, FloatArray]:
        check_number(self.n_components, "MeanMapPsi: n_components", low=1, integer=True)
        gamma = 1.0 / n_columns if self.gamma is None else self.gamma
        check_number(gamma, "MeanMapPsi: gamma", low=0.0, open_low=True)
        _check_size(n_columns, int(self.n_components), "MeanMapPsi")
        rng = as_generator(self.random_state)
        directions = np.sqrt(2.0 * gamma) * rng.standard_normal((n_columns, int(self.n_components)))
        return directions, rng.uniform(0.0, 2.0 * np.pi, int(self.n_components))


def _check_size(n_rows: int, n_columns: int, name: str) -> None:
    """Raise where a matrix would need more memory than strengths are worth."""
    if n_rows * n_columns > _MOST_NUMBERS:
        raise InvalidInputError(
            f"{name}: a matrix of {n_rows} x {n_columns} numbers would be needed, because the input has many features."
            f" Use ConstantPsi, or fewer features."
        )


def _rows(x: Any, name: str) -> FloatArray:
    """Features of an input as a matrix; sparse ones are made dense."""
    dense = x.toarray() if hasattr(x, "toarray") else x
    rows = np.atleast_2d(as_float_array(dense, name))
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise InvalidInputError(f"{name}: expected features of shape (T, d) with T > 0, got {rows.shape}.")
    return rows
