"""Scores of labels from sparse features, of which each has weights for some labels only; and the way back."""

from __future__ import annotations

from intarsia._jit import kernel


@kernel
def add_state_scores(row_ptr, columns, values, pair_ptr, pair_label, weights, first, last, scores):
    """Add to row r - first of `scores` the weights of the features of row r, for r from `first` to `last` - 1."""
    for r in range(first, last):
        own = scores[r - first]
        for e in range(row_ptr[r], row_ptr[r + 1]):
            f, x = columns[e], values[e]
            for p in range(pair_ptr[f], pair_ptr[f + 1]):
                own[pair_label[p]] += x * weights[p]


@kernel
def gather_state_gradient(column_ptr, rows, values, pair_ptr, pair_label, residual, first, last, gradient):
    """Add to the pairs of features `first` .. `last` - 1 what the rows that have them say; other pairs are untouched.

    Features come by column, so that blocks of them can be worked in threads, with the same sums as in one go.
    """
    for f in range(first, last):
        for e in range(column_ptr[f], column_ptr[f + 1]):
            own, x = residual[rows[e]], values[e]
            for p in range(pair_ptr[f], pair_ptr[f + 1]):
                gradient[p] += x * own[pair_label[p]]
