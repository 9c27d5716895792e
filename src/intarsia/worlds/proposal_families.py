"""Proposals for the cross-entropy method with closed-form fits: independent categories, permutations, Gaussians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.worlds.proposal import Proposal


class CategoricalProposal(Proposal):
    """Independent categorical variables, such as 0/1 decisions; the parameters are their probabilities.

    Parameters
    ----------
    n_states : sequence of int
        Number of states of each variable. A sample is an integer array with one state per variable.

    Examples
    --------
    The largest cut of a square with a diagonal separates opposite corners:

    >>> from intarsia.worlds import cem_optimize
    >>> edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
    >>> cut = lambda side: (side[edges[:, 0]] != side[edges[:, 1]]).sum()
    >>> cem_optimize(CategoricalProposal([2] * 4), cut).value
    4.0
    """

    def __init__(self, n_states: Sequence[int] | IntArray) -> None:
        self.n_states = as_int_array(n_states, "CategoricalProposal: n_states")
        if self.n_states.ndim != 1 or self.n_states.size == 0 or (self.n_states < 1).any():
            raise InvalidInputError(
                f"CategoricalProposal: n_states is {self.n_states.tolist()!s:.80}, expected at least one positive "
                f"integer. Pass the number of states of each variable."
            )
        self._starts = np.concatenate([[0], np.cumsum(self.n_states)])

    def initial(self) -> FloatArray:
        """Return uniform probabilities, one block per variable."""
        return np.repeat(1.0 / self.n_states, self.n_states)

    def sample(self, parameters: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return a state of each variable."""
        return np.asarray(self.sample_many(parameters, rng, 1)[0])

    def sample_many(self, parameters: FloatArray, rng: np.random.Generator, size: int) -> IntArray:
        """Return samples, one per row."""
        states = np.empty((size, self.n_states.size), dtype=np.int64)
        for i in range(self.n_states.size):
            block = np.cumsum(parameters[self._starts[i] : self._starts[i + 1]])
            states[:, i] = np.searchsorted(block[:-1] / block[-1], rng.random(size), side="right")
        return states

    def log_probability(self, parameters: FloatArray, sample: ArrayLike) -> float:
        """Return the log-probability of the states."""
        with np.errstate(divide="ignore"):
            return float(np.log(parameters[self._starts[:-1] + np.asarray(sample)]).sum())

    def fit(self, parameters: FloatArray, elites: Sequence[Any], weights: FloatArray) -> FloatArray:
        """Return the frequencies of the states among the elite samples."""
        entries = self._starts[:-1] + np.asarray(elites, dtype=np.int64)
        mass = np.repeat(weights, self.n_states.size)
        return np.bincount(entries.ravel(), mass, minlength=int(self._starts[-1])).astype(np.float64)


class PermutationProposal(Proposal):
    """Permutations (assignments, tours): positions are filled in random order, without repeating a value.

    The parameters are a matrix of probabilities, position by value. Position i takes value j with a probability
    proportional to entry (i, j) among the values that are still free.

    Parameters
    ----------
    n : int
        Number of positions. A sample is an integer array in which each of 0, ..., n - 1 occurs once.

    Notes
    -----
    The fit is the frequency of value j at position i among the elite samples, as in DeBoer2005: it would be the maximum
    of the likelihood without the constraint that no value repeats. `log_probability` averages over the random order,
    and so is exact only up to `n = 7`; for more positions it raises.

    Examples
    --------
    >>> PermutationProposal(3).sample(np.eye(3).ravel(), np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """

    def __init__(self, n: int) -> None:
        check_number(n, "PermutationProposal: n", low=1, integer=True)
        self.n = int(n)

    def initial(self) -> FloatArray:
        """Return uniform probabilities, row by row."""
        return np.full(self.n * self.n, 1.0 / self.n)

    def sample(self, parameters: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return a permutation."""
        matrix = parameters.reshape(self.n, self.n)
        permutation, is_free = np.empty(self.n, dtype=np.int64), np.ones(self.n, dtype=bool)
        for position in rng.permutation(self.n):
            cumulative = np.cumsum(_free_probabilities(matrix[position], is_free))
            value = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            permutation[position], is_free[value] = value, False
        return permutation

    def log_probability(self, parameters: FloatArray, sample: ArrayLike) -> float:
        """Return the log-probability of a permutation, averaged over the orders in which positions are filled."""
        from itertools import permutations

        if self.n > 7:
            raise InvalidInputError(
                f"PermutationProposal.log_probability: n={self.n} positions have too many orders, expected at most 7. "
                f"Use fit, which does not need it."
            )
        matrix, target = parameters.reshape(self.n, self.n), np.asarray(sample)
        total, n_orders = 0.0, 0
        for order in permutations(range(self.n)):
            is_free, probability = np.ones(self.n, dtype=bool), 1.0
            for position in order:
                probability *= _free_probabilities(matrix[position], is_free)[target[position]]
                is_free[target[position]] = False
            total, n_orders = total + probability, n_orders + 1
        with np.errstate(divide="ignore"):
            return float(np.log(total / n_orders))

    def fit(self, parameters: FloatArray, elites: Sequence[Any], weights: FloatArray) -> FloatArray:
        """Return the frequency of each value at each position among the elite samples."""
        entries = np.arange(self.n) * self.n + np.asarray(elites, dtype=np.int64)
        mass = np.repeat(weights, self.n)
        return np.bincount(entries.ravel(), mass, minlength=self.n * self.n).astype(np.float64)


class GaussianProposal(Proposal):
    """Independent Gaussians for continuous variables; the parameters are means, then logarithms of deviations.

    Parameters
    ----------
    mean : float array (n,)
        First means.
    deviation : float or float array (n,)
        First standard deviations.

    Examples
    --------
    >>> from intarsia.worlds import cem_optimize
    >>> result = cem_optimize(GaussianProposal([0.0, 0.0], 3.0), lambda x: -((x - [1.0, 2.0]) ** 2).sum())
    >>> result.best.round(1).tolist()
    [1.0, 2.0]
    """

    def __init__(self, mean: ArrayLike, deviation: float | ArrayLike = 1.0) -> None:
        self.mean = as_float_array(mean, "GaussianProposal: mean")
        self.deviation = np.broadcast_to(as_float_array(deviation, "GaussianProposal: deviation"), self.mean.shape)
        if self.mean.ndim != 1 or not np.isfinite(self.mean).all() or not (self.deviation > 0.0).all():
            raise InvalidInputError(
                "GaussianProposal: expected a vector of finite means and positive standard deviations. Pass, for "
                "example, GaussianProposal([0.0, 0.0], 1.0)."
            )

    def initial(self) -> FloatArray:
        """Return the means, and the logarithms of the standard deviations."""
        return np.concatenate([self.mean, np.log(self.deviation)])

    def sample(self, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return a vector."""
        mean, log_deviation = np.split(parameters, 2)
        return np.asarray(mean + np.exp(log_deviation) * rng.standard_normal(mean.size))

    def log_probability(self, parameters: FloatArray, sample: ArrayLike) -> float:
        """Return the log-density of a vector."""
        mean, log_deviation = np.split(parameters, 2)
        z = (np.asarray(sample) - mean) / np.exp(log_deviation)
        return float(-0.5 * z @ z - log_deviation.sum() - 0.5 * mean.size * np.log(2.0 * np.pi))

    def fit(self, parameters: FloatArray, elites: Sequence[Any], weights: FloatArray) -> FloatArray:
        """Return mean and standard deviation of the elite samples."""
        rows = np.asarray(elites, dtype=np.float64)
        mean = weights @ rows
        variance = weights @ (rows - mean) ** 2
        return np.concatenate([mean, 0.5 * np.log(np.maximum(variance, 1e-12))])


def _free_probabilities(row: FloatArray, is_free: Any) -> FloatArray:
    """Return the probabilities of the free values; uniform if all of them have probability 0."""
    masked = np.where(is_free, row, 0.0)
    total = masked.sum()
    return masked / total if total > 1e-300 else is_free / is_free.sum()
