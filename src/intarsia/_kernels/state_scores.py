"""Scores of labels from sparse features, and the gradient of their weights.

Features come in two kinds. *Wide* ones have a row of weights with all labels, in a table, and are processed by complete
rows. The others have weights for few labels and are stored as pairs, one for each weight: its slot in the vector and
its label. Rows of the table may be longer than there are labels, and are zeros there: loops over a multiple of the
vector register length are several times faster than loops with a remainder.

Where all values are equal, the array of values may be one number that is read repeatedly (stride 0).
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel, kernel

_SHORT = 64  # rows up to this length are sorted by insertion


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


@kernel
def _sort_row(columns, values):
    """Sort the entries of one row by column in place; return whether a column occurs twice."""
    has_values = values.shape[0] > 0
    if columns.shape[0] > _SHORT:
        order = np.argsort(columns, kind="mergesort")
        columns[:] = columns[order]
        if has_values:
            values[:] = values[order]
    else:
        for e in range(1, columns.shape[0]):
            column, position = columns[e], e
            if columns[e - 1] <= column:
                continue
            value = values[e] if has_values else 1.0
            while position > 0 and columns[position - 1] > column:
                columns[position] = columns[position - 1]
                if has_values:
                    values[position] = values[position - 1]
                position -= 1
            columns[position] = column
            if has_values:
                values[position] = value
    n_repeated = 0
    for e in range(1, columns.shape[0]):
        n_repeated += columns[e] >= 0 and columns[e] == columns[e - 1]
    return n_repeated > 0


@kernel
def sort_rows(columns, values, row_ptr):
    """Sort the entries of each row by column, drop negative columns and merge repeated columns, all in place.

    `values` is empty if all values are 1. `row_ptr` is updated to the remaining entries. Returns their number; or -1,
    with all rows sorted and nothing dropped, if a column is repeated and there are no values to add up.
    """
    has_values, is_repeated = values.shape[0] > 0, False
    for r in range(row_ptr.shape[0] - 1):
        a, b = row_ptr[r], row_ptr[r + 1]
        is_repeated |= _sort_row(columns[a:b], values[a:b])
    if is_repeated and not has_values:
        return -1
    n_entries, begin = 0, row_ptr[0]
    for r in range(row_ptr.shape[0] - 1):
        first, end = n_entries, row_ptr[r + 1]
        for e in range(begin, end):
            if columns[e] < 0:
                continue
            if n_entries > first and columns[e] == columns[n_entries - 1]:
                values[n_entries - 1] += values[e]
                continue
            columns[n_entries] = columns[e]
            if has_values:
                values[n_entries] = values[e]
            n_entries += 1
        row_ptr[r + 1] = n_entries
        begin = end
    return n_entries


@kernel
def count_entries(columns, number, pair_ptr):
    """Return the number of entries of wide features, and the number of weights of the other entries."""
    n_wide, n_pairs = 0, 0
    for e in range(columns.shape[0]):
        column = columns[e]
        if number[column] >= 0:
            n_wide += 1
        else:
            n_pairs += pair_ptr[column + 1] - pair_ptr[column]
    return n_wide, n_pairs


@kernel
def split_entries(
    columns, values, row_ptr, number, pair_ptr, pair_label,
    wide_ptr, wide_columns, wide_values, entry_ptr, entry_slot, entry_label, entry_values,
):  # fmt: skip
    """Divide the entries of rows into those of wide features and, for the others, one entry per weight.

    Values are written only where `wide_values` and `entry_values` are not empty.
    """
    n_wide, n_pairs = 0, 0
    has_wide_values, has_pair_values = wide_values.shape[0] > 0, entry_values.shape[0] > 0
    wide_ptr[0], entry_ptr[0] = 0, 0
    for r in range(row_ptr.shape[0] - 1):
        for e in range(row_ptr[r], row_ptr[r + 1]):
            column = columns[e]
            if number[column] >= 0:
                wide_columns[n_wide] = number[column]
                if has_wide_values:
                    wide_values[n_wide] = values[e]
                n_wide += 1
                continue
            for slot in range(pair_ptr[column], pair_ptr[column + 1]):
                entry_slot[n_pairs] = slot
                entry_label[n_pairs] = pair_label[slot]
                if has_pair_values:
                    entry_values[n_pairs] = values[e]
                n_pairs += 1
        wide_ptr[r + 1], entry_ptr[r + 1] = n_wide, n_pairs
