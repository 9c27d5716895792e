"""Linear functions of a few variables each, as compressed rows."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def evaluate_rows(ptr, idx, coef, const, x):
    """Return `coef . x[idx] + const` of every row."""
    out = np.empty(const.size)
    for j in range(const.size):
        total = const[j]
        for e in range(ptr[j], ptr[j + 1]):
            total += coef[e] * x[idx[e]]
        out[j] = total
    return out


@kernel
def add_rows(ptr, idx, coef, scale, out):
    """Add `scale[j]` times the coefficients of row j to `out`: the transposed product."""
    for j in range(scale.size):
        if scale[j] != 0.0:
            for e in range(ptr[j], ptr[j + 1]):
                out[idx[e]] += scale[j] * coef[e]


@kernel
def hinge_features(ptr, idx, coef, const, power, group, x, out):
    """Add every `max(0, row)^power` to the entry of its group in `out`."""
    for j in range(const.size):
        value = const[j]
        for e in range(ptr[j], ptr[j + 1]):
            value += coef[e] * x[idx[e]]
        if value > 0.0:
            out[group[j]] += value * value if power[j] == 2 else value


@kernel
def hinge_objective(ptr, idx, coef, const, weight, power, x):
    """Return the weighted sum of `max(0, row)^power`."""
    total = 0.0
    for j in range(const.size):
        value = const[j]
        for e in range(ptr[j], ptr[j + 1]):
            value += coef[e] * x[idx[e]]
        if value > 0.0:
            total += weight[j] * (value * value if power[j] == 2 else value)
    return total
