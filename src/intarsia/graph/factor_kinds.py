"""Kinds of factors: full tables, factors with a single weight, and logical constraints on counts."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray


class FactorKind(enum.IntEnum):
    """Rule by which the scores of a factor follow from its block of theta.

    `TABLE` has one entry per joint state. The other kinds have a single weight `w`, and the score is `w` times the
    statistic shown beside each kind. `POTTS` and the truncated kinds join two variables with equally many states.
    Constraints join any number of binary variables. Their statistic is 1 where they are violated: a weight of -inf
    forbids violations, and a finite weight (never above 0) is a penalty. A constraint compares a number, which is
    stored as its truncation, with the count of variables in state 1; in the kinds that end in `OUTPUT`, the last
    variable counts when it is in state 0.

    Examples
    --------
    >>> FactorKind.POTTS.name, FactorKind(4).name
    ('POTTS', 'AT_MOST')
    """

    TABLE = 0
    POTTS = 1  # [x_i == x_j]
    TRUNCATED_LINEAR = 2  # -min(|x_i - x_j|, truncation)
    TRUNCATED_QUADRATIC = 3  # -min((x_i - x_j)^2, truncation)
    AT_MOST = 4  # [count > number]
    AT_LEAST = 5  # [count < number]
    EXACTLY = 6  # [count != number]
    AT_MOST_OUTPUT = 7
    AT_LEAST_OUTPUT = 8
    EXACTLY_OUTPUT = 9


_OUTPUT = FactorKind.AT_MOST_OUTPUT - FactorKind.AT_MOST
_FIRST_CONSTRAINT = int(FactorKind.AT_MOST)  # NumPy compares arrays with members of an enum many times more slowly


def is_constraint(kind: IntArray) -> NDArray[Any]:
    """Return a mask of the kinds that are constraints on counts."""
    return np.asarray(kind) >= _FIRST_CONSTRAINT


def pair_statistic(
    kind: IntArray | int, truncation: FloatArray | float, first: IntArray, second: IntArray
) -> FloatArray:
    """Compute the statistic of Potts and truncated factors at pairs of states, elementwise.

    Examples
    --------
    >>> pair_statistic(np.array([1, 1, 2, 3]), 2.0, np.array([4, 4, 4, 4]), np.array([4, 3, 3, 1]))
    array([ 1.,  0., -1., -2.])
    """
    gap = np.abs(first - second).astype(np.float64)
    distance = np.where(kind == FactorKind.TRUNCATED_LINEAR, gap, gap * gap)
    return np.where(kind == FactorKind.POTTS, gap == 0.0, -np.minimum(distance, truncation))


def parametric_statistic(kind: int, truncation: float, n_states: int) -> FloatArray:
    """Return the statistic of a Potts or truncated factor as a table (n_states, n_states)."""
    return pair_statistic(kind, truncation, *np.indices((n_states, n_states)))


def count_range(kind: int, number: float, width: int) -> tuple[int, int]:
    """Return the smallest and largest count that a constraint on `width` variables allows.

    The smallest is above the largest if the constraint cannot be satisfied.
    """
    base = kind - _OUTPUT if kind >= FactorKind.AT_MOST_OUTPUT else kind
    threshold = int(min(number, width + 1))
    return 0 if base == FactorKind.AT_MOST else threshold, width if base == FactorKind.AT_LEAST else threshold


def counts_off(kind: int) -> bool:
    """Return whether the last variable of a constraint counts when it is in state 0 (kinds with an output)."""
    return kind >= FactorKind.AT_MOST_OUTPUT


def statistic_table(kind: int, number: float, shape: tuple[int, ...]) -> FloatArray:
    """Return the statistic of each joint state of a factor with a single weight.

    Examples
    --------
    >>> statistic_table(FactorKind.EXACTLY, 1, (2, 2))        # violated unless one of two is on
    array([[1., 0.],
           [0., 1.]])
    """
    if kind < FactorKind.AT_MOST:
        return parametric_statistic(kind, number, shape[0])
    states = np.indices(shape)
    if counts_off(kind) and len(shape):
        states[-1] = 1 - states[-1]
    count = states.sum(axis=0)
    low, high = count_range(kind, number, len(shape))
    return ((count < low) | (count > high)).astype(float)


def condition_constraint(kind: int, number: float, n_on: int, n_free: int, output_is_free: bool) -> tuple[int, float]:
    """Return kind and number of the constraint that remains after some variables are observed, `n_on` of which count.

    Examples
    --------
    >>> kind, number = condition_constraint(FactorKind.AT_MOST, 3, n_on=1, n_free=4, output_is_free=True)
    >>> FactorKind(kind).name, number
    ('AT_MOST', 2.0)
    """
    if counts_off(kind) and not output_is_free:
        kind -= _OUTPUT
    remaining = float(number) - n_on
    if remaining >= 0:
        return int(kind), remaining
    base = kind - _OUTPUT if counts_off(kind) else kind
    if base == FactorKind.AT_LEAST:  # the observed variables satisfy the constraint
        return int(kind), 0.0
    # The observed variables violate the constraint: return one that no count can satisfy.
    return int(FactorKind.AT_LEAST + (kind - base)), n_free + 1.0
