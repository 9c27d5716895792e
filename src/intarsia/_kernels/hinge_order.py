"""Independent blocks of variables and rows, ordered so that values that are used together are stored together."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel, prefetch

# Rows of a large model are far apart in memory. These are the numbers of steps ahead at which the start of a row and
# its entries are prefetched.
_ROWS_AHEAD, _ENTRIES_AHEAD = 32, 16
_VARIABLES_AHEAD = 4  # number of variables ahead whose rows are prefetched in a search


@kernel
def transpose_rows(ptr, idx, n_variables):
    """Return the rows of each variable, in rising order, as `col_ptr` and `col_row`."""
    col_ptr = np.zeros(n_variables + 1, np.int64)
    for e in range(idx.size):
        col_ptr[idx[e] + 1] += 1
    for i in range(n_variables):
        col_ptr[i + 1] += col_ptr[i]
    next_entry = col_ptr[:-1].copy()
    col_row = np.empty(idx.size, np.uint32)
    for j in range(ptr.size - 1):
        for e in range(ptr[j], ptr[j + 1]):
            col_row[next_entry[idx[e]]] = j
            next_entry[idx[e]] += 1
    return col_ptr, col_row


@kernel
def search_blocks(ptr, idx, col_ptr, col_row):
    """Find the connected components (blocks) of variables and rows by breadth-first search.

    Returns the variables and the rows in the order of the search, and the start of each block in both. Rows without
    variables and variables without rows are in no block.
    """
    n, m = col_ptr.size - 1, ptr.size - 1
    variables, rows = np.empty(n, np.int32), np.empty(m, np.int32)
    variable_visited, row_visited = np.zeros(n, np.bool_), np.zeros(m, np.bool_)
    variable_start, row_start = [np.int64(0)], [np.int64(0)]
    head = tail = n_rows = 0
    for start in range(n):
        if variable_visited[start] or col_ptr[start] == col_ptr[start + 1]:
            continue
        variable_visited[start] = True
        variables[tail] = start
        tail += 1
        while head < tail:
            i = variables[head]
            head += 1
            if head + 4 * _VARIABLES_AHEAD < tail:
                prefetch(col_ptr, variables[head + 4 * _VARIABLES_AHEAD])
                prefetch(col_row, col_ptr[variables[head + 3 * _VARIABLES_AHEAD]])
                upcoming = variables[head + 2 * _VARIABLES_AHEAD]
                for f in range(col_ptr[upcoming], col_ptr[upcoming + 1]):
                    prefetch(row_visited, col_row[f])
                    prefetch(ptr, col_row[f])
                upcoming = variables[head + _VARIABLES_AHEAD]
                for f in range(col_ptr[upcoming], col_ptr[upcoming + 1]):
                    if not row_visited[col_row[f]]:
                        prefetch(idx, ptr[col_row[f]])
            for f in range(col_ptr[i], col_ptr[i + 1]):
                j = col_row[f]
                if row_visited[j]:
                    continue
                row_visited[j] = True
                rows[n_rows] = j
                n_rows += 1
                for e in range(ptr[j], ptr[j + 1]):
                    if not variable_visited[idx[e]]:
                        variable_visited[idx[e]] = True
                        variables[tail] = idx[e]
                        tail += 1
        variable_start.append(tail)
        row_start.append(n_rows)
    return variables[:tail].copy(), rows[:n_rows].copy(), np.array(variable_start), np.array(row_start)


@kernel
def sort_by_length(ptr, rows, row_start):
    """Sort the rows of each block by length, with those of four and more variables together; the sort is stable."""
    length_of = np.empty(rows.size, np.uint8)  # a separate pass, since rows are far apart in memory
    for k in range(rows.size):
        length_of[k] = min(ptr[rows[k] + 1] - ptr[rows[k]], 4)
    sorted_rows = np.empty(rows.size, np.int32)
    for b in range(row_start.size - 1):
        position = row_start[b]
        for length in range(1, 5):
            for k in range(row_start[b], row_start[b + 1]):
                if length_of[k] == length:
                    sorted_rows[position] = rows[k]
                    position += 1
    return sorted_rows


@kernel
def permute_rows(ptr, idx, coef, rows, new_index):
    """Return the selected rows in their new order, with variables renumbered by `new_index`."""
    n_entries = 0
    for j in rows:
        n_entries += ptr[j + 1] - ptr[j]
    new_ptr = np.empty(rows.size + 1, np.uint64)
    new_idx, new_coef = np.empty(n_entries, np.uint32), np.empty(n_entries)
    entry = 0
    new_ptr[0] = 0
    for k in range(rows.size):
        j = rows[k]
        if k + _ROWS_AHEAD < rows.size:
            prefetch(ptr, rows[k + _ROWS_AHEAD])
            prefetch(idx, ptr[rows[k + _ENTRIES_AHEAD]])
            prefetch(coef, ptr[rows[k + _ENTRIES_AHEAD]])
        for e in range(ptr[j], ptr[j + 1]):
            new_idx[entry] = new_index[idx[e]]
            new_coef[entry] = coef[e]
            entry += 1
        new_ptr[k + 1] = entry
    return new_ptr, new_idx, new_coef
