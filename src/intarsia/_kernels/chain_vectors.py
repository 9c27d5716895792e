"""Arithmetic of vectors over many sequences in one pass over memory; block s is `starts[s]` to `starts[s + 1]` - 1."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel, kernel


@kernel
def move_parts(starts, tilt, slope, fractions, result):
    """Compute `result = tilt + fraction (slope - tilt)`, with one fraction per block."""
    for s in range(starts.shape[0] - 1):
        fraction = fractions[s]
        for i in range(starts[s], starts[s + 1]):
            result[i] = tilt[i] + fraction * (slope[i] - tilt[i])


@fast_kernel
def multiply_parts(starts, a, b, products):
    """Add the inner product of each block of `a` and `b` to `products`."""
    for s in range(starts.shape[0] - 1):
        total = 0.0
        for i in range(starts[s], starts[s + 1]):
            total += a[i] * b[i]
        products[s] += total


@kernel
def compare_parts(starts, a, b, largest):
    """Raise `largest` to the largest absolute difference of `a` and `b` in each block."""
    for s in range(starts.shape[0] - 1):
        first, last = starts[s], starts[s + 1]
        whole = last - (last - first) % 4
        top0 = top1 = top2 = top3 = largest[s]
        for i in range(first, whole, 4):  # four independent comparisons at a time
            d0, d1, d2, d3 = (
                abs(a[i] - b[i]),
                abs(a[i + 1] - b[i + 1]),
                abs(a[i + 2] - b[i + 2]),
                abs(a[i + 3] - b[i + 3]),
            )
            top0, top1 = d0 if d0 > top0 else top0, d1 if d1 > top1 else top1
            top2, top3 = d2 if d2 > top2 else top2, d3 if d3 > top3 else top3
        for i in range(whole, last):
            d0 = abs(a[i] - b[i])
            top0 = d0 if d0 > top0 else top0
        largest[s] = max(max(top0, top1), max(top2, top3))


@kernel
def copy_parts(starts, mask, source, target):
    """Copy the blocks of `source` that `mask` selects to `target`."""
    for s in range(starts.shape[0] - 1):
        if mask[s]:
            target[starts[s] : starts[s + 1]] = source[starts[s] : starts[s + 1]]


@kernel
def row_spans(rows, maxima, spans):
    """Compute the largest entry of each row, and its distance to the smallest finite entry."""
    n, width = rows.shape
    for i in range(n):
        row = rows[i]
        high, low = -np.inf, np.inf
        for x in range(width):
            high = max(high, row[x])
            if row[x] > -np.inf:
                low = min(low, row[x])
        maxima[i] = high
        spans[i] = high - low if high > -np.inf else 0.0
