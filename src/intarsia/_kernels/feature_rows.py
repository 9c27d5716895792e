"""Rows of sparse features: put in order, and divided into the two kinds of entries that scores are computed from."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

_SHORT = 64  # rows up to this length are sorted by insertion


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
