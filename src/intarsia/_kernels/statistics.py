"""Scores and sufficient statistics of complete labellings."""

from __future__ import annotations

import numpy as np

from intarsia._jit import kernel


@kernel
def _add_factor(y, n_states, scope_ptr, scope_idx, table_ptr, kind, truncation, c, t, theta, out, want_score):
    """Return factor c's score, or add its statistic to `out`; table kinds are those of `FactorKind`."""
    if kind[t] == 0:
        position = 0
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            v = scope_idx[s]
            position = position * n_states[v] + y[v]
        position += table_ptr[t]
        if want_score:
            return theta[position]
        out[position] += 1.0
        return 0.0
    first = y[scope_idx[scope_ptr[c]]]
    second = y[scope_idx[scope_ptr[c] + 1]]
    gap = float(abs(first - second))
    if kind[t] == 1:
        value = 1.0 if gap == 0.0 else 0.0
    elif kind[t] == 2:
        value = -min(gap, truncation[t])
    else:
        value = -min(gap * gap, truncation[t])
    if value == 0.0:
        return 0.0
    if want_score:
        return theta[table_ptr[t]] * value
    out[table_ptr[t]] += value
    return 0.0


@kernel
def score_labellings(
    labellings,
    theta,
    n_states,
    variable_ptr,
    scope_ptr,
    scope_idx,
    table_of_factor,
    table_ptr,
    kind,
    truncation,
):
    """Score of each row of `labellings` (m, n_variables)."""
    scores = np.zeros(labellings.shape[0])
    unused = np.empty(0)
    for m in range(labellings.shape[0]):
        y = labellings[m]
        total = 0.0
        for v in range(n_states.shape[0]):
            total += theta[variable_ptr[v] + y[v]]
        for c in range(table_of_factor.shape[0]):
            total += _add_factor(
                y,
                n_states,
                scope_ptr,
                scope_idx,
                table_ptr,
                kind,
                truncation,
                c,
                table_of_factor[c],
                theta,
                unused,
                True,
            )
        scores[m] = total
    return scores


@kernel
def count_statistics(
    labellings,
    n_theta,
    n_states,
    variable_ptr,
    scope_ptr,
    scope_idx,
    table_of_factor,
    table_ptr,
    kind,
    truncation,
):
    """Sum over rows of `labellings` of the sufficient statistics, in the layout of theta."""
    out = np.zeros(n_theta)
    unused = np.empty(0)
    for m in range(labellings.shape[0]):
        y = labellings[m]
        for v in range(n_states.shape[0]):
            out[variable_ptr[v] + y[v]] += 1.0
        for c in range(table_of_factor.shape[0]):
            _add_factor(
                y,
                n_states,
                scope_ptr,
                scope_idx,
                table_ptr,
                kind,
                truncation,
                c,
                table_of_factor[c],
                unused,
                out,
                False,
            )
    return out
