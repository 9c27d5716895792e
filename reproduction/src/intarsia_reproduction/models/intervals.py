"""Confidence intervals of means over folds, seeds and examples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import t as student

from intarsia._core.validation import FloatArray, IntArray

N_BOOTSTRAP = 10_000


def mean_interval(values: FloatArray) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean, by Student's t.

    Examples
    --------
    >>> [round(end, 2) for end in mean_interval(np.array([1.0, 3.0]))]       # 2 -+ 12.71 * 1
    [-10.71, 14.71]
    """
    half = float(student.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return float(values.mean()) - half, float(values.mean()) + half


def bootstrap_mean(
    values: FloatArray, weights: FloatArray | None = None, n_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean over resampled examples, weighted by their sizes if given.

    Examples
    --------
    >>> low, high = bootstrap_mean(np.array([0.0, 1.0] * 50))
    >>> low < 0.5 < high
    True
    >>> bootstrap_mean(np.array([1.0, 1.0]), weights=np.array([1.0, 3.0]))
    (1.0, 1.0)
    """
    n = values.size
    sizes = np.ones(n) if weights is None else weights
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=n_resamples).astype(np.float64)
    low, high = np.quantile(counts @ (sizes * values) / (counts @ sizes), [0.025, 0.975])
    return float(low), float(high)


def bootstrap_interval(differences: FloatArray) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean difference by resampling the cases.

    Examples
    --------
    >>> bootstrap_interval(np.array([0.5, 0.5]))
    (0.5, 0.5)
    """
    rng = np.random.default_rng(0)
    means = differences[rng.integers(0, differences.size, (N_BOOTSTRAP, differences.size))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def bootstrap_f1(
    counts: FloatArray, base_counts: FloatArray | None = None, n_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % percentile interval of F1 over resampled sequences, or of its gain over a base model.

    Parameters
    ----------
    counts : float array (n_sequences, 3)
        Numbers of correct, true and predicted segments of each sequence.
    base_counts : float array (n_sequences, 3), optional
        The same of a base model; the interval is then that of the difference, with the same resamples for both.
    n_resamples, seed : int
        Number of resamples, and seed.

    Examples
    --------
    >>> counts = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]] * 50)
    >>> low, high = bootstrap_f1(counts)
    >>> low < 0.5 < high, bootstrap_f1(counts, counts)
    (True, (0.0, 0.0))
    """
    return _bootstrap(_f1, counts, base_counts, n_resamples, seed)


def bootstrap_error(
    counts: IntArray, base_counts: IntArray | None = None, n_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % percentile interval of an error rate over resampled images, or of its difference to a base model.

    Parameters
    ----------
    counts : int array (n_images, 2)
        Numbers of wrong and of all pixels of each image; the error rate pools all pixels.
    base_counts : int array (n_images, 2), optional
        The same of a base model; the interval is then that of the difference, with the same resamples for both.
    n_resamples, seed : int
        Number of resamples, and seed.

    Examples
    --------
    >>> counts = np.array([[1, 10], [3, 10]] * 50)
    >>> low, high = bootstrap_error(counts)
    >>> low < 0.2 < high
    True
    >>> [round(end, 6) for end in bootstrap_error(counts, counts - [1, 0])]      # each image has an error more
    [0.1, 0.1]
    """
    return _bootstrap(_error_rate, counts, base_counts, n_resamples, seed)


def pooled_error(counts: IntArray) -> float:
    """Return the error rate of all images together, from the numbers of wrong and of all pixels of each image.

    Examples
    --------
    >>> pooled_error(np.array([[1, 10], [3, 30]]))
    0.1
    """
    return float(counts[:, 0].sum() / counts[:, 1].sum())


def _bootstrap(
    score: Callable[[FloatArray], FloatArray],
    counts: FloatArray | IntArray,
    base_counts: FloatArray | IntArray | None,
    n_resamples: int,
    seed: int,
) -> tuple[float, float]:
    """Return the percentile interval of a score of summed counts, or of its difference to that of a base model."""
    n = len(counts)
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=n_resamples).astype(np.float64)
    values = score(weights @ counts)
    if base_counts is not None:
        values = values - score(weights @ base_counts)
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _error_rate(sums: FloatArray) -> FloatArray:
    return np.asarray(sums[:, 0] / np.maximum(sums[:, 1], 1.0))


def _f1(sums: FloatArray) -> FloatArray:
    return np.asarray(2.0 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1.0))
