"""Scores of labels from sparse features, and the way back.

Features come in two kinds: *wide* ones have a row of weights with all labels, in a table, and are worked by whole
rows; the others have weights for few labels, `weights[begin[f]:end[f]]` for the labels
`pair_label[begin[f]:end[f]]`. In every row of features the wide ones come first, up to `row_mid`.
"""

from __future__ import annotations

from intarsia._jit import fast_kernel


@fast_kernel
def add_state_scores(row_ptr, row_mid, columns, values, table, begin, end, pair_label, weights, first, last, scores):
    """Add to row r - first of `scores` the weights of the features of row r, for r from `first` to `last` - 1."""
    k = scores.shape[1]
    for r in range(first, last):
        own = scores[r - first]
        a, b = row_ptr[r], row_mid[r]
        whole = b - (b - a) % 4
        for e in range(a, whole, 4):  # four at a time, so that `own` is read and written less often
            x0, x1, x2, x3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            w0, w1, w2, w3 = table[columns[e]], table[columns[e + 1]], table[columns[e + 2]], table[columns[e + 3]]
            for y in range(k):
                own[y] += x0 * w0[y] + x1 * w1[y] + x2 * w2[y] + x3 * w3[y]
        for e in range(whole, b):
            x, w = values[e], table[columns[e]]
            for y in range(k):
                own[y] += x * w[y]
        for e in range(b, row_ptr[r + 1]):
            f, x = columns[e], values[e]
            for p in range(begin[f], end[f]):
                own[pair_label[p]] += x * weights[p]


@fast_kernel
def add_state_gradient(
    row_ptr, row_mid, columns, values, residual, begin, end, pair_label, first, last, table, gradient
):  # fmt: skip
    """Add what rows `first` .. `last` - 1 say to `table` for wide features, and to `gradient` for the others.

    Row r - first of `residual` is the gradient in the scores of row r.
    """
    k = residual.shape[1]
    for r in range(first, last):
        own = residual[r - first]
        for e in range(row_ptr[r], row_mid[r]):
            x, into = values[e], table[columns[e]]
            for y in range(k):
                into[y] += x * own[y]
        for e in range(row_mid[r], row_ptr[r + 1]):
            f, x = columns[e], values[e]
            for p in range(begin[f], end[f]):
                gradient[p] += x * own[pair_label[p]]
