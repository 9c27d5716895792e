"""Sums of hinges by group, from the values of their linear functions."""

from __future__ import annotations

from intarsia._core.jit import kernel


@kernel
def sum_hinges(values, power, group, out):
    """Add max(0, value)^power of every term to `out` at its group."""
    for j in range(values.size):
        value = values[j]
        if value > 0.0:
            out[group[j]] += value * value if power[j] == 2 else value
