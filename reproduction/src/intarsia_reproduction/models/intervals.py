"""Confidence intervals of means over folds, seeds and examples."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from intarsia._core.validation import FloatArray


def mean_interval(values: FloatArray) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean, by Student's t.

    Examples
    --------
    >>> [round(end, 2) for end in mean_interval(np.array([1.0, 3.0]))]       # 2 -+ 12.71 * 1
    [-10.71, 14.71]
    """
    half = float(student.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return float(values.mean()) - half, float(values.mean()) + half
