"""Exponentiated tables for smoothed sweeps of `dual_decomposition`, and extrapolation between these sweeps."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel
from intarsia._kernels.factor_kinds import TABLE


@kernel
def fill_exponentials(theta, t, table_ptr, kind, tops, exps):
    """Compute exp((theta - top) / t) of every full table; `top` is its largest score."""
    for c in range(kind.shape[0]):
        if kind[c] == TABLE:
            for i in range(table_ptr[c], table_ptr[c + 1]):
                exps[i] = np.exp((theta[i] - tops[c]) / t)


@kernel
def extrapolate(delta, before, momentum):
    """Extrapolate `delta` in the direction of the last sweep, in place; `before` becomes the old `delta`."""
    for i in range(delta.shape[0]):
        current = delta[i]
        if current < np.inf:
            delta[i] = current + momentum * (current - before[i])
        before[i] = current
