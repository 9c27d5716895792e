"""Estimation of the Fellegi-Sunter model by expectation maximization (EM) over patterns of agreement levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray

# Pseudocount of each level, so that a level without pairs does not get the probability 0.
_PSEUDOCOUNT = 0.01


@dataclass(frozen=True, eq=False)
class Estimate:
    """Result of EM.

    Attributes
    ----------
    prior : float
        Probability that a random pair matches.
    m : list of arrays
        Probability of each level of each column among pairs that match.
    log_likelihood : list of float
        Log-likelihood of the candidate pairs in each iteration.
    converged : bool
        Whether the largest change of a probability fell below the tolerance.
    """

    prior: float
    m: list[FloatArray]
    log_likelihood: list[float]
    converged: bool


def count_patterns(levels: IntArray, n_levels: Sequence[int], weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct rows of levels, and the sum of the weights of each.

    Examples
    --------
    >>> patterns, counts = count_patterns(np.array([[1, 0], [-1, 0], [1, 0]]), [2, 2], np.ones(3))
    >>> patterns.tolist(), counts.tolist()
    ([[-1, 0], [1, 0]], [1.0, 2.0])
    """
    key = np.zeros(len(levels), dtype=np.int64)
    for k, n in enumerate(n_levels):
        key = np.unique(key * (n + 1) + levels[:, k] + 1, return_inverse=True)[1].astype(np.int64)
    _, first, pattern = np.unique(key, return_index=True, return_inverse=True)
    return levels[first], np.bincount(pattern, weights, len(first)).astype(np.float64)


def log_ratios(patterns: IntArray, m: Sequence[FloatArray], u: Sequence[FloatArray]) -> FloatArray:
    """Return log m / u of each pattern, summed over the columns; a missing value adds 0.

    Examples
    --------
    >>> log_ratios(np.array([[1], [-1]]), [np.array([0.5, 0.5])], [np.array([0.75, 0.25])]).round(4)
    array([0.6931, 0.    ])
    """
    total = np.zeros(len(patterns))
    for k, (of_matches, of_others) in enumerate(zip(m, u, strict=True)):
        ratio = np.append(np.log(of_matches) - np.log(of_others), 0.0)  # index -1 is a missing value
        total += ratio[patterns[:, k]]
    return total


def smoothed(counts: FloatArray) -> FloatArray:
    """Return probabilities proportional to counts plus a small pseudocount.

    Examples
    --------
    >>> smoothed(np.array([0.0, 0.98])).round(4)
    array([0.01, 0.99])
    """
    raised = counts + _PSEUDOCOUNT
    return np.asarray(raised / raised.sum(), dtype=np.float64)


def estimate_matches(
    patterns: IntArray, counts: FloatArray, u: Sequence[FloatArray], n_all_pairs: float, prior: float,
    *, smallest_prior: float = 1e-12, max_iter: int = 500, tol: float = 1e-5,
) -> Estimate:  # fmt: skip
    r"""Estimate the prior and the m probabilities by EM, with fixed u probabilities.

    The E step computes the probability that a pair with the pattern :math:`\gamma` matches,
    :math:`\lambda m(\gamma) / (\lambda m(\gamma) + (1 - \lambda) u(\gamma))`; the M step sets m to the expected
    fraction of matches with each level. The prior :math:`\lambda` is that of all pairs: pairs that are not candidates
    count as pairs that do not match.

    Parameters
    ----------
    patterns : (n_patterns, n_columns) int array
        Distinct rows of levels of the candidate pairs, -1 for missing values.
    counts : (n_patterns,) array
        Number of candidate pairs of each pattern.
    u : list of arrays
        Probability of each level of each column among pairs that do not match.
    n_all_pairs : float
        Number of pairs of records, candidates or not.
    prior : float
        Initial probability that a random pair matches.
    smallest_prior : float
        Lower limit of the prior: with few columns EM can lose all matches.
    max_iter : int
        Largest number of iterations.
    tol : float
        EM stops when no probability changes by more than this.
    """
    m = [_initial_m(len(of_others)) for of_others in u]
    history: list[float] = []
    converged = len(patterns) == 0
    for _ in range(max_iter if len(patterns) else 0):
        log_odds = log_ratios(patterns, m, u) + np.log(prior) - np.log1p(-prior)
        posterior = 0.5 * (1.0 + np.tanh(0.5 * log_odds))
        history.append(float(counts @ np.logaddexp(0.0, log_odds)))
        weight = counts * posterior
        new_prior = float(np.clip(weight.sum() / n_all_pairs, smallest_prior, 0.5))
        new_m = []
        for k, of_matches in enumerate(m):
            present = patterns[:, k] >= 0
            expected = np.bincount(patterns[present, k], weight[present], len(of_matches)).astype(np.float64)
            new_m.append(smoothed(expected) if expected.sum() > 0 else of_matches)
        change = max(float(np.abs(new - old).max()) for new, old in zip(new_m, m, strict=True))
        change = max(change, abs(new_prior - prior) / new_prior)
        m, prior = new_m, new_prior
        if change < tol:
            converged = True
            break
    return Estimate(prior, m, history, converged)


def _initial_m(n_levels: int) -> FloatArray:
    """Return initial probabilities of levels among matches, each three times that of the next lower level."""
    m = 3.0 ** np.arange(n_levels)
    return np.asarray(m / m.sum(), dtype=np.float64)
