"""Weights psi of energies as non-negative functions of the input: psi(x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_generator, check_choice, check_number
from intarsia.exceptions import InvalidInputError

POSITIVE = ("softplus", "clip", "drop")
# Number of inputs whose random features are computed together, and largest size of a matrix of features.
_CHUNK_SIZE = 128
_MAX_SIZE = 200_000_000


class Psi(Settings, ABC):
    """Base class of the weights psi of energies, `psi = positive(W phi(x))`, with learned W.

    `positive` keeps psi non-negative. "softplus": log(1 + e^r), smooth and never 0. "clip": max(r, 0); if psi is
    constant, its weights are clipped at 0 after every step. "drop": max(r, 0) in the energy, but the gradient ignores
    the maximum, so that a preference with a negative weight is inactive but can become active again (section 8.1 of
    Vilnis2015).
    """

    name: ClassVar[str]
    """Name in the registry."""
    positive: str

    @abstractmethod
    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """Return the features phi (n, n_features) of inputs, of which the first is 1.

        Input i has the rows `ptr[i]` .. `ptr[i + 1] - 1` of the matrix.
        """

    def n_features(self, n_columns: int) -> int:
        """Return the number of features phi of inputs with this number of columns."""
        return int(self.features_of(np.zeros((1, n_columns)), np.array([0, 1])).shape[1])

    def features(self, x: Any) -> FloatArray:
        """Return phi(x) of one input: a matrix with one row per position, or a vector."""
        rows = _rows(x, type(self).__name__)
        return self.features_of(rows, np.array([0, len(rows)]))[0]

    def initial(self, psi: ArrayLike, x: Any) -> FloatArray:
        """Return weights W (n_psi, n_features) that give these psi for every input."""
        return self.initial_of(np.atleast_1d(as_float_array(psi, "psi")), self.features(x).size)

    def initial_of(self, psi: FloatArray, n_features: int) -> FloatArray:
        """Return weights W (n_psi, n_features) that give these psi for every input with this number of features."""
        name = type(self).__name__
        is_valid = np.isfinite(psi) & (psi >= 0)
        if not is_valid.all():
            j = int(np.argmin(is_valid))
            raise InvalidInputError(f"{name}: initial psi must be finite and at least 0, got psi[{j}] = {psi[j]}.")
        weights = np.zeros((psi.size, n_features))
        if self.positive == "softplus":
            if not (psi > 0).all():
                j = int(np.argmin(psi > 0))
                raise InvalidInputError(
                    f"{name}: psi[{j}] is 0, but positive='softplus' is never 0. Set a positive psi of the energy, or "
                    f"use positive='clip'."
                )
            psi = psi + np.log(-np.expm1(-psi))
        weights[:, 0] = psi
        return weights

    def values(self, weights: FloatArray, features: FloatArray) -> FloatArray:
        """Return psi (n_psi,) of one input or (n, n_psi) of rows of features."""
        check_choice(self.positive, POSITIVE, f"{type(self).__name__}: positive")
        raw: FloatArray = features @ weights.T
        return np.logaddexp(0.0, raw) if self.positive == "softplus" else np.maximum(raw, 0.0)

    def pull_back(self, weights: FloatArray, features: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the gradient in W from the gradient in psi, summed over rows of features."""
        raw = features @ weights.T
        if self.positive == "softplus":
            slope = 0.5 * (1.0 + np.tanh(0.5 * raw))
        elif self.positive == "clip":
            slope = (raw >= 0).astype(np.float64)
        else:
            slope = np.ones(raw.shape)
        return np.asarray(np.atleast_2d(slope * gradient).T @ np.atleast_2d(features))

    def project(self, weights: FloatArray) -> FloatArray:
        """Return the weights W projected to their domain after a step."""
        return weights


class ConstantPsi(Psi):
    """Weights psi that are constant, that is equal for every input.

    Parameters
    ----------
    positive : {"softplus", "clip", "drop"}
        Function that keeps psi non-negative; see `Psi`.

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
        """Return a single 1 for any input."""
        return np.ones(1)

    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """Return a single 1 for each input."""
        return np.ones((ptr.size - 1, 1))

    def project(self, weights: FloatArray) -> FloatArray:
        """Clip the weights, which equal psi, at 0 if `positive` is "clip"."""
        return np.maximum(weights, 0.0) if self.positive == "clip" else weights


class LinearPsi(Psi):
    """Weights psi linear in features of the input: its vector, or the mean of the rows of its matrix.

    Parameters
    ----------
    positive : {"softplus", "clip", "drop"}
        Function that keeps psi non-negative; see `Psi`.

    Examples
    --------
    >>> LinearPsi().features([[1.0, 0.0], [3.0, 2.0]])
    array([1., 2., 1.])
    """

    name: ClassVar[str] = "linear"

    def __init__(self, *, positive: str = "softplus") -> None:
        self.positive = positive

    def features_of(self, matrix: Any, ptr: IntArray) -> FloatArray:
        """Return 1 and the mean features of each input."""
        _check_size(ptr.size - 1, matrix.shape[1], "LinearPsi")
        lengths = np.diff(ptr)
        input_of = np.repeat(np.arange(lengths.size), lengths)
        shape = (lengths.size, input_of.size)
        averaging = csr_array(((1.0 / lengths)[input_of], (input_of, np.arange(input_of.size))), shape=shape)
        means = averaging @ matrix
        return np.column_stack([np.ones(lengths.size), means.toarray() if hasattr(means, "toarray") else means])


class MeanMapPsi(Psi):
    r"""Weights psi linear in the kernel mean map of the rows of the input, by random Fourier features.

    .. math:: \phi(x) = \frac{1}{T} \sum_t \sqrt{2 / D} \cos(\Omega x_t + b), \quad
              \Omega \sim N(0, 2 \gamma), \quad b \sim U(0, 2 \pi)

    so that `phi(x) . phi(x')` approximates the mean of `exp(-gamma |x_t - x'_s|^2)` (Rahimi2007, Smola2007).

    Parameters
    ----------
    n_components : int
        Number D of random features.
    gamma : float
        Parameter of the Gaussian kernel; None for 1 / number of columns.
    positive : {"softplus", "clip", "drop"}
        Function that keeps psi non-negative; see `Psi`.
    random_state : int
        Seed; an integer, because all inputs need the same random features.

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
        """Return 1 and the mean map of each input."""
        directions, phases = self._draw(int(matrix.shape[1]))
        features = np.ones((ptr.size - 1, 1 + phases.size))
        # In chunks, because every position needs n_components numbers.
        for first in range(0, ptr.size - 1, _CHUNK_SIZE):
            chunk = ptr[first : first + _CHUNK_SIZE + 1]
            waves = np.cos(np.asarray(matrix[chunk[0] : chunk[-1]] @ directions) + phases)
            sums = np.add.reduceat(waves, chunk[:-1] - chunk[0], axis=0)
            features[first : first + chunk.size - 1, 1:] = sums / np.diff(chunk)[:, None]
        features[:, 1:] *= np.sqrt(2.0 / self.n_components)
        return features

    def n_features(self, n_columns: int) -> int:
        """Return the number of components plus 1."""
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
    """Raise if a matrix of features would need too much memory."""
    if n_rows * n_columns > _MAX_SIZE:
        raise InvalidInputError(
            f"{name}: the input has so many features that a matrix of {n_rows} x {n_columns} numbers is needed. Use "
            f"ConstantPsi, or fewer features."
        )


def _rows(x: Any, name: str) -> FloatArray:
    """Return the features of an input as a dense matrix."""
    dense = x.toarray() if hasattr(x, "toarray") else x
    rows = np.atleast_2d(as_float_array(dense, name))
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise InvalidInputError(f"{name}: expected features of shape (T, d) with T > 0, got {rows.shape}.")
    return rows
