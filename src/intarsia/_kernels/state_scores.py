"""Scores of labels from sparse features, and the gradient of their weights.

Features come in two kinds. *Wide* ones have a row of weights with all labels, in a table, and are processed by complete
rows. The others have weights for few labels and are stored as pairs, one for each weight: its slot in the vector and
its label. Rows of the table may be longer than there are labels, and are zeros there: loops over a multiple of the
vector register length are several times faster than loops with a remainder.

Where all values are equal, the array of values may be one number that is read repeatedly (stride 0).
"""

from __future__ import annotations

from intarsia._core.jit import fast_kernel


@fast_kernel
def add_state_scores(
    ptr, columns, values, table, pair_ptr, pair_slot, pair_label, pair_value, weights, first, last, room, scores
):  # fmt: skip
    """Set row r - first of `scores` to the sum of values times weights of row r, for `first` <= r < `last`.

    `room` is scratch, as long as a row of the table.
    """
    width = table.shape[1]
    for r in range(first, last):
        for y in range(width):
            room[y] = 0.0
        a, b = ptr[r], ptr[r + 1]
        whole = b - (b - a) % 4
        for e in range(a, whole, 4):  # four at a time, so that `room` is read and written less often
            x0, x1, x2, x3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            w0, w1, w2, w3 = table[columns[e]], table[columns[e + 1]], table[columns[e + 2]], table[columns[e + 3]]
            for y in range(width):
                room[y] += x0 * w0[y] + x1 * w1[y] + x2 * w2[y] + x3 * w3[y]
        for e in range(whole, b):
            x, w = values[e], table[columns[e]]
            for y in range(width):
                room[y] += x * w[y]
        for e in range(pair_ptr[r], pair_ptr[r + 1]):
            room[pair_label[e]] += pair_value[e] * weights[pair_slot[e]]
        row = scores[r - first]
        for y in range(row.shape[0]):
            row[y] = room[y]


@fast_kernel
def add_state_gradient(
    ptr, columns, values, pair_ptr, pair_slot, pair_label, pair_value, residual, first, last, room, table, gradient
):  # fmt: skip
    """Add the gradients of rows `first` to `last` - 1 to `table` for wide features, to `gradient` for the others.

    Row r - first of `residual` is the gradient in the scores of row r. `room` is scratch, as long as a row of the
    table, and zero where there is no label.
    """
    width = table.shape[1]
    for r in range(first, last):
        residual_row = residual[r - first]
        for y in range(residual_row.shape[0]):
            room[y] = residual_row[y]
        for e in range(ptr[r], ptr[r + 1]):
            x, weight_row = values[e], table[columns[e]]
            for y in range(width):
                weight_row[y] += x * room[y]
        for e in range(pair_ptr[r], pair_ptr[r + 1]):
            gradient[pair_slot[e]] += pair_value[e] * room[pair_label[e]]
