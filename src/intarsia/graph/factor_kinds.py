"""The kinds of factors: tables, and those whose scores follow from a single weight."""

from __future__ import annotations

import enum

import numpy as np

from intarsia._validation import FloatArray


class FactorKind(enum.IntEnum):
    """How a factor's scores follow from its block of theta.

    `TABLE` has one entry per joint state. The other kinds join two variables with equally many states and have a
    single entry `w`, the score being `w` times the statistic given here.
    """

    TABLE = 0
    POTTS = 1  # [x_i == x_j]
    TRUNCATED_LINEAR = 2  # -min(|x_i - x_j|, truncation)
    TRUNCATED_QUADRATIC = 3  # -min((x_i - x_j)^2, truncation)


def parametric_statistic(kind: int, truncation: float, n_states: int) -> FloatArray:
    """Table (n_states, n_states) of the statistic that multiplies a parametric kind's weight."""
    gap = np.abs(np.subtract.outer(np.arange(n_states), np.arange(n_states))).astype(float)
    if kind == FactorKind.POTTS:
        return (gap == 0).astype(float)
    if kind == FactorKind.TRUNCATED_LINEAR:
        return -np.minimum(gap, truncation)
    return -np.minimum(gap**2, truncation)
