"""Coordinate descent for a quadratic function plus an L1 penalty, where the matrix is a multiple of I less low rank."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def descend_coordinates(start, gradient, scale, factors, scaled_factors, l1, max_passes, tol, point):
    """Minimize g (u - w) + (u - w) B (u - w) / 2 + l1 |u|_1 over u; return the number of passes.

    `start` is w, `gradient` is g, and B = scale I - factors scaled_factors^T. The result is written to `point`. The
    passes end when no coordinate changes by more than `tol` divided by its curvature.
    """
    n, rank = factors.shape
    curvature = np.empty(n)
    for i in range(n):
        removed = 0.0
        for j in range(rank):
            removed += factors[i, j] * scaled_factors[i, j]
        curvature[i] = max(scale - removed, 1e-10 * scale)  # B is positive definite up to rounding
        point[i] = start[i]
    product = np.zeros(rank)  # scaled_factors^T (u - w)
    for n_passes in range(1, max_passes + 1):
        largest = 0.0
        for i in range(n):
            slope = gradient[i] + scale * (point[i] - start[i])
            for j in range(rank):
                slope -= factors[i, j] * product[j]
            target, threshold = point[i] - slope / curvature[i], l1 / curvature[i]
            if target > threshold:
                target -= threshold
            elif target < -threshold:
                target += threshold
            else:
                target = 0.0
            change = target - point[i]
            if change != 0.0:
                point[i] = target
                for j in range(rank):
                    product[j] += change * scaled_factors[i, j]
                largest = max(largest, abs(change) * curvature[i])
        if largest <= tol:
            return n_passes
    return max_passes
