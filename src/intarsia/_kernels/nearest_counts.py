"""The nearest of many vectors of counts in the 1-norm."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def find_nearest_counts(expected, counts, excess, nearest, distance):
    """For each row of `expected` the first nearest row of `counts`, and the distance.

    `excess` says by how much the sums of the rows of `counts` differ from that of any row of `expected`, and must not
    fall: no distance is smaller, so most rows are never looked at, and others given up on the way.
    """
    for i in range(expected.shape[0]):
        least, found = np.inf, 0
        for j in range(counts.shape[0]):
            if excess[j] >= least:
                break
            total = 0.0
            for x in range(expected.shape[1]):
                total += abs(expected[i, x] - counts[j, x])
                if total >= least:
                    break
            if total < least:
                least, found = total, j
        nearest[i] = found
        distance[i] = least
