"""Labellings of sequences: the best ones by maxima (Viterbi), and samples from forward messages."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _highest_prefixes(rows, tables, first_step, prefix):
    """Set row t of `prefix` to the highest score of the positions up to t, for each label at t (Viterbi).

    prefix_t(y) = rows_t(y) + max_x (prefix_(t-1)(x) + table(x, y)).
    """
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    for t in range(length):
        node_row, row = rows[t], prefix[t]
        if t == 0:
            for y in range(k):
                row[y] = node_row[y]
            continue
        table, before = tables[(first_step + t - 1) * stride], prefix[t - 1]
        # Maxima only, contiguous in y and two labels at a time; the best x is searched along the best paths alone.
        for y in range(k):
            row[y] = before[0] + table[0, y]
        for x in range(k % 2, k, 2):
            w0, w1, scores0, scores1 = before[x], before[x + 1], table[x], table[x + 1]
            for y in range(k):
                value0, value1 = w0 + scores0[y], w1 + scores1[y]
                value = value0 if value0 > value1 else value1
                row[y] = value if value > row[y] else row[y]
        for y in range(k):
            row[y] += node_row[y]


@kernel
def insert_candidate(score, parent, t, x, n_waiting, waiting_scores, waiting):
    """Insert a candidate into the list of waiting ones, which is sorted by rising score; return its length.

    When the list is full, the lowest candidate is dropped. Of equal candidates the earlier one is used first.
    """
    room = waiting_scores.shape[0]
    if n_waiting == room:
        if score <= waiting_scores[0]:
            return n_waiting
        position = 0
        while position + 1 < room and waiting_scores[position + 1] < score:
            waiting_scores[position] = waiting_scores[position + 1]
            waiting[position] = waiting[position + 1]
            position += 1
    else:
        position = n_waiting
        while position > 0 and waiting_scores[position - 1] >= score:
            waiting_scores[position] = waiting_scores[position - 1]
            waiting[position] = waiting[position - 1]
            position -= 1
        n_waiting += 1
    waiting_scores[position] = score
    waiting[position, 0], waiting[position, 1], waiting[position, 2] = parent, t, x
    return n_waiting


@kernel
def find_best_paths(ptr, nodes, tables, paths, scores, prefix, waiting_scores, waiting):
    """Fill the columns of each sequence in `paths` (n_best, n_positions) with its best labellings in falling order.

    Where there are fewer labellings, `paths` keeps -1 and `scores` keeps -inf. The next best labelling branches off an
    earlier one: it has the same labels after some position t, takes another label at t, and is completed towards the
    front by the highest prefix. Up to n_best of these candidates wait in order (rows of `waiting`: rank of the earlier
    labelling, position, label); each labelling comes from one candidate only.
    """
    n_best, k = paths.shape[0], nodes.shape[1]
    stride = 1 if tables.shape[0] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        a, b = ptr[s], ptr[s + 1]
        _highest_prefixes(nodes[a:b], tables, a - s, prefix)
        n_waiting = 0
        for x in range(k):
            if prefix[b - a - 1, x] > -np.inf:
                n_waiting = insert_candidate(prefix[b - a - 1, x], 0, b - 1, x, n_waiting, waiting_scores, waiting)
        for rank in range(n_best):
            if n_waiting == 0:
                break
            n_waiting -= 1
            score = waiting_scores[n_waiting]
            parent, position, label = waiting[n_waiting]
            scores[rank, s] = score
            path = paths[rank]
            for t in range(position + 1, b):
                path[t] = paths[parent, t]
            path[position] = label
            for t in range(position - 1, a - 1, -1):
                table, row, y = tables[(t - s) * stride], prefix[t - a], path[t + 1]
                best, highest = 0, row[0] + table[0, y]
                for x in range(1, k):
                    value = row[x] + table[x, y]
                    if value > highest:
                        best, highest = x, value
                path[t] = best
                for x in range(k if n_best > 1 else 0):
                    other = row[x] + table[x, y]
                    if x != best and other > -np.inf:
                        n_waiting = insert_candidate(
                            score + (other - highest), rank, t, x, n_waiting, waiting_scores, waiting
                        )


@kernel
def draw_paths(ptr, log_alpha, tables, rng, products, paths):
    """Fill the columns of each sequence in the rows of `paths` with samples, last label first.

    `log_alpha` are logarithms of forward messages; each row may be shifted by a constant. A label is -1 where no
    labelling is possible.
    """
    k = log_alpha.shape[1]
    stride = 1 if tables.shape[0] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        a, b = ptr[s], ptr[s + 1]
        for m in range(paths.shape[0]):
            path = paths[m]
            for t in range(b - 1, a - 1, -1):
                row, table = log_alpha[t], tables[(t - s) * stride if t < b - 1 else 0]
                maximum = -np.inf
                for x in range(k):
                    products[x] = row[x] + table[x, path[t + 1]] if t < b - 1 else row[x]
                    maximum = max(maximum, products[x])
                if maximum == -np.inf:
                    break
                total = 0.0
                for x in range(k):
                    products[x] = np.exp(products[x] - maximum)
                    total += products[x]
                remainder = rng.random() * total
                label = -1
                for x in range(k):
                    if products[x] > 0.0:  # rounding may leave a remainder: then it is the last possible label
                        label = x
                        remainder -= products[x]
                        if remainder < 0.0:
                            break
                path[t] = label
