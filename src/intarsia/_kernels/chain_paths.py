"""Labellings of sequences: the best ones from maxima, and draws from forward messages."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _highest_prefixes(rows, tables, first_step, prefix):
    """Row t of `prefix` becomes the highest score of the positions up to t, for each label there (Viterbi)."""
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    for t in range(length):
        own, row = rows[t], prefix[t]
        if t == 0:
            for y in range(k):
                row[y] = own[y]
            continue
        table, before = tables[(first_step + t - 1) * stride], prefix[t - 1]
        # Maxima only, contiguous in y and two labels at a time; which x it was is asked along the best paths alone.
        for y in range(k):
            row[y] = before[0] + table[0, y]
        for x in range(k % 2, k, 2):
            w0, w1, scores0, scores1 = before[x], before[x + 1], table[x], table[x + 1]
            for y in range(k):
                value0, value1 = w0 + scores0[y], w1 + scores1[y]
                value = value0 if value0 > value1 else value1
                row[y] = value if value > row[y] else row[y]
        for y in range(k):
            row[y] += own[y]


@kernel
def _wait(score, parent, t, x, n_waiting, waiting_scores, waiting):
    """Put a candidate among those waiting, which are sorted by rising score; the lowest gives way when they are full.

    Of equal ones the earlier is served first. Returns how many wait.
    """
    room = waiting_scores.shape[0]
    if n_waiting == room:
        if score <= waiting_scores[0]:
            return n_waiting
        at = 0
        while at + 1 < room and waiting_scores[at + 1] < score:
            waiting_scores[at] = waiting_scores[at + 1]
            waiting[at] = waiting[at + 1]
            at += 1
    else:
        at = n_waiting
        while at > 0 and waiting_scores[at - 1] >= score:
            waiting_scores[at] = waiting_scores[at - 1]
            waiting[at] = waiting[at - 1]
            at -= 1
        n_waiting += 1
    waiting_scores[at] = score
    waiting[at, 0], waiting[at, 1], waiting[at, 2] = parent, t, x
    return n_waiting


@kernel
def find_best_paths(ptr, nodes, tables, paths, scores, prefix, waiting_scores, waiting):
    """Fill the columns of each sequence in `paths` (n_best, n_positions) with its best labellings in falling order.

    Where there are fewer, -1 is left in `paths` and -inf in `scores`. The next best labelling leaves one of those found
    before: it keeps its labels after some position t, takes another label at t, and is completed towards the front by
    the highest prefix. As many of these candidates as are wanted wait in order (rows of `waiting`: labelling left,
    position, label); each labelling comes from one candidate only.
    """
    n_best, k = paths.shape[0], nodes.shape[1]
    stride = 1 if tables.shape[0] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        a, b = ptr[s], ptr[s + 1]
        _highest_prefixes(nodes[a:b], tables, a - s, prefix)
        n_waiting = 0
        for x in range(k):
            if prefix[b - a - 1, x] > -np.inf:
                n_waiting = _wait(prefix[b - a - 1, x], 0, b - 1, x, n_waiting, waiting_scores, waiting)
        for found in range(n_best):
            if n_waiting == 0:
                break
            n_waiting -= 1
            score = waiting_scores[n_waiting]
            parent, at, label = waiting[n_waiting]
            scores[found, s] = score
            path = paths[found]
            for t in range(at + 1, b):
                path[t] = paths[parent, t]
            path[at] = label
            for t in range(at - 1, a - 1, -1):
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
                        n_waiting = _wait(score + (other - highest), found, t, x, n_waiting, waiting_scores, waiting)


@kernel
def draw_paths(ptr, log_alpha, tables, rng, products, paths):
    """Fill the columns of each sequence in the rows of `paths` with draws, last label first; -1 where none is possible.

    `log_alpha` are logarithms of forward messages; each row may be shifted by a constant.
    """
    k = log_alpha.shape[1]
    stride = 1 if tables.shape[0] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        a, b = ptr[s], ptr[s + 1]
        for m in range(paths.shape[0]):
            path = paths[m]
            for t in range(b - 1, a - 1, -1):
                row, table = log_alpha[t], tables[(t - s) * stride if t < b - 1 else 0]
                top = -np.inf
                for x in range(k):
                    products[x] = row[x] + table[x, path[t + 1]] if t < b - 1 else row[x]
                    top = max(top, products[x])
                if top == -np.inf:
                    break
                total = 0.0
                for x in range(k):
                    products[x] = np.exp(products[x] - top)
                    total += products[x]
                left = rng.random() * total
                chosen = -1
                for x in range(k):
                    if products[x] > 0.0:  # rounding may leave a remainder: then it is the last possible label
                        chosen = x
                        left -= products[x]
                        if left < 0.0:
                            break
                path[t] = chosen
