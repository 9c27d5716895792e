"""Nearest of many vectors of counts in the 1-norm."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def find_nearest_counts(expected, counts, excess, nearest, distance):
    """Find, for each row of `expected`, the first nearest row of `counts` and its distance.

    `excess` is the difference between the sum of each row of `counts` and the sum of any row of `expected`, in rising
    order. No distance is smaller than it, so most rows are never compared, and others are abandoned early.
    """
    for i in range(expected.shape[0]):
        smallest, best = np.inf, 0
        for j in range(counts.shape[0]):
            if excess[j] >= smallest:
                break
            total = 0.0
            for x in range(expected.shape[1]):
                total += abs(expected[i, x] - counts[j, x])
                if total >= smallest:
                    break
            if total < smallest:
                smallest, best = total, j
        nearest[i] = best
        distance[i] = smallest
