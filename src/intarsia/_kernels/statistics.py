"""Scores and sufficient statistics of complete labellings.

The compiled loops handle only full tables. Parametric factors are rare and handled in NumPy, and arrays are passed as
read-only, since to the compiler a writable array has another type: both keep the first call short. `graph` is
`FactorGraph.statistics_arguments`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.jit import kernel
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.factor_kinds import (
    AT_LEAST,
    AT_LEAST_OUTPUT,
    AT_MOST,
    AT_MOST_OUTPUT,
    POTTS,
    TABLE,
    TRUNCATED_LINEAR,
)


def score_labellings(labellings: IntArray, theta: FloatArray, *graph: NDArray[Any]) -> FloatArray:
    """Return the score of each row of `labellings` (m, n_variables)."""
    scores = np.zeros(labellings.shape[0])
    _score_tables(_read_only(labellings), _read_only(theta), scores, *graph[:7])
    positions, values = _parametric_statistics(labellings, *graph)
    if positions.size:
        weights = np.broadcast_to(theta[positions], values.shape)
        # A weight of -inf counts only where its statistic is not zero.
        scores += np.multiply(weights, values, where=values != 0.0, out=np.zeros(values.shape)).sum(axis=1)
    return scores


def count_statistics(labellings: IntArray, n_theta: int, *graph: NDArray[Any]) -> FloatArray:
    """Return the sum over rows of `labellings` of the sufficient statistics, in the layout of theta."""
    counts = np.zeros(n_theta)
    _count_tables(_read_only(labellings), counts, *graph[:7])
    positions, values = _parametric_statistics(labellings, *graph)
    np.add.at(counts, positions, values.sum(axis=0))
    return counts


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def _parametric_statistics(labellings: IntArray, *graph: NDArray[Any]) -> tuple[IntArray, FloatArray]:
    """Return the position in theta of each parametric factor, and its statistic for each row."""
    _, _, scope_ptr, scope_idx, table_of_factor, table_ptr, kind, truncation = graph
    if kind.max(initial=0) >= AT_MOST:
        return _with_constraints(labellings, *graph)
    factors = np.flatnonzero(kind[table_of_factor]) if kind.any() else np.empty(0, np.int64)
    first, tables = scope_ptr[factors], table_of_factor[factors]
    gap = np.abs(labellings[:, scope_idx[first]] - labellings[:, scope_idx[first + 1]]).astype(np.float64)
    distance = np.minimum(np.where(kind[tables] == TRUNCATED_LINEAR, gap, gap * gap), truncation[tables])
    return table_ptr[tables], np.where(kind[tables] == POTTS, gap == 0.0, -distance)


def _with_constraints(labellings: IntArray, *graph: NDArray[Any]) -> tuple[IntArray, FloatArray]:
    """Return positions and statistics where some factors constrain counts; theirs is 1 if violated, else 0."""
    n_states, variable_ptr, scope_ptr, scope_idx, table_of_factor, table_ptr, kind, truncation = graph
    others = np.where(kind >= AT_MOST, 0, kind)
    positions, values = _parametric_statistics(
        labellings, n_states, variable_ptr, scope_ptr, scope_idx, table_of_factor, table_ptr, others, truncation
    )
    factors = np.flatnonzero(kind[table_of_factor] >= AT_MOST)
    tables, begins, widths = table_of_factor[factors], scope_ptr[factors], np.diff(scope_ptr)[factors]
    ends = np.cumsum(widths)
    pairs = np.arange(widths.sum()) + np.repeat(begins - (ends - widths), widths)
    counting = labellings[:, scope_idx[pairs]]
    output = (ends - 1)[(kind[tables] >= AT_MOST_OUTPUT) & (widths > 0)]
    counting[:, output] = 1 - counting[:, output]  # the last variable counts when it is off
    sums = np.concatenate([np.zeros((len(counting), 1), np.int64), np.cumsum(counting, axis=1)], axis=1)
    count, number = sums[:, ends] - sums[:, ends - widths], truncation[tables]
    at_most = np.isin(kind[tables], (AT_MOST, AT_MOST_OUTPUT))
    at_least = np.isin(kind[tables], (AT_LEAST, AT_LEAST_OUTPUT))
    violated = np.where(at_most, count > number, np.where(at_least, count < number, count != number))
    return np.concatenate([positions, table_ptr[tables]]), np.concatenate([values, violated], axis=1)


@kernel
def _score_tables(
    labellings, theta, scores, n_states, variable_ptr, scope_ptr, scope_idx, table_of_factor, table_ptr, kind
):
    """Set `scores` to the sums of the scores of variables and full tables."""
    for m in range(labellings.shape[0]):
        y = labellings[m]
        total = 0.0
        for v in range(n_states.shape[0]):
            total += theta[variable_ptr[v] + y[v]]
        for c in range(table_of_factor.shape[0]):
            t = table_of_factor[c]
            if kind[t] == TABLE:
                entry = 0
                for s in range(scope_ptr[c], scope_ptr[c + 1]):
                    v = scope_idx[s]
                    entry = entry * n_states[v] + y[v]
                total += theta[table_ptr[t] + entry]
        scores[m] = total


@kernel
def _count_tables(labellings, counts, n_states, variable_ptr, scope_ptr, scope_idx, table_of_factor, table_ptr, kind):
    """Add the number of times that each state of variables and full tables occurs to `counts`."""
    for m in range(labellings.shape[0]):
        y = labellings[m]
        for v in range(n_states.shape[0]):
            counts[variable_ptr[v] + y[v]] += 1.0
        for c in range(table_of_factor.shape[0]):
            t = table_of_factor[c]
            if kind[t] == TABLE:
                entry = 0
                for s in range(scope_ptr[c], scope_ptr[c + 1]):
                    v = scope_idx[s]
                    entry = entry * n_states[v] + y[v]
                counts[table_ptr[t] + entry] += 1.0
