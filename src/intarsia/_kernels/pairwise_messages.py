"""Sum-product sweeps over pairwise graphs whose variables all have k states, in the linear domain.

Only for models in which no product can underflow and no table holds a hard zero (the caller checks the ranges);
variables may have impossible states. Messages lie by *slot*: the factors at a variable next to each other, ordered by
the neighbour, so that those from earlier neighbours come first (`slot_ptr[i]` .. `middle[i]`) and those from later
ones after. A forward half-sweep goes up through the variables and sends to later neighbours, a backward one goes down
and sends to earlier ones. Reading and writing the same array is Gauss-Seidel; two arrays make the sweep parallel.

`rho` is the same for all factors here (1 is belief propagation): then the powers of Domke2013 Eq. 18 need one `pow` per
state of a variable, and a square root for 1/2.
"""

from __future__ import annotations

import numpy as np

from intarsia._jit import fast_kernel, kernel


@kernel
def order_slots(scope_idx, n_variables):
    """Slots of a pairwise graph: pairs sorted by variable, then by neighbour.

    Returns slot_ptr, middle, the pair of each slot, and the slot at the other end of its factor.
    """
    n_pairs = scope_idx.shape[0]
    slot_ptr = np.zeros(n_variables + 1, np.int64)
    for p in range(n_pairs):
        slot_ptr[scope_idx[p] + 1] += 1
    for v in range(n_variables):
        slot_ptr[v + 1] += slot_ptr[v]
    by_neighbour = np.empty(n_pairs, np.int64)  # counting sort by neighbour, then a stable one by variable
    fill = slot_ptr[:-1].copy()
    for p in range(n_pairs):
        u = scope_idx[p ^ 1]
        by_neighbour[fill[u]] = p
        fill[u] += 1
    pair_of_slot = np.empty(n_pairs, np.int64)
    slot_of_pair = np.empty(n_pairs, np.int64)
    fill[:] = slot_ptr[:-1]
    middle = slot_ptr[:-1].copy()
    for k in range(n_pairs):
        p = by_neighbour[k]
        v = scope_idx[p]
        pair_of_slot[fill[v]] = p
        slot_of_pair[p] = fill[v]
        fill[v] += 1
        if scope_idx[p ^ 1] < v:
            middle[v] += 1
    opposite = by_neighbour
    for q in range(n_pairs):
        opposite[q] = slot_of_pair[pair_of_slot[q] ^ 1]
    return slot_ptr, middle, pair_of_slot, opposite


@kernel
def row_spans(rows):
    """Largest entry of each row, and its distance to the smallest finite one."""
    n, width = rows.shape
    top, span = np.empty(n), np.empty(n)
    for i in range(n):
        row = rows[i]
        high, low = -np.inf, np.inf
        for x in range(width):
            high = max(high, row[x])
            if row[x] > -np.inf:
                low = min(low, row[x])
        top[i] = high
        span[i] = high - low if high > -np.inf else 0.0
    return top, span


MANY = 8  # with more receivers than this at a variable, leave-one-out products are built from both ends


@kernel
def most_receivers(slot_ptr, middle):
    """Largest number of later, or of earlier, neighbours of a variable, if above MANY; else 0."""
    most = 0
    for i in range(middle.shape[0]):
        most = max(most, slot_ptr[i + 1] - middle[i], middle[i] - slot_ptr[i])
    return most if most > MANY else 0


@fast_kernel
def products_after(old, a, b, k, after):
    """after[q - a] = product of the messages of the slots after q."""
    for x in range(k):
        after[(b - 1 - a) * k + x] = 1.0
    for q in range(b - 2, a - 1, -1):
        for x in range(k):
            after[(q - a) * k + x] = after[(q + 1 - a) * k + x] * old[(q + 1) * k + x]


@fast_kernel
def _power(value, rho, root):
    """Power value ** rho; `root` square roots when rho is 1/2 or 1/4."""
    if root == 1:
        return np.sqrt(value)
    if root == 2:
        return np.sqrt(np.sqrt(value))
    return value**rho


@fast_kernel
def sweep_binary(
    forward, slot_ptr, middle, opposite, table_of_slot, first_axis, tables, unary, rho, root, damping, old, new
):
    """Half-sweep for two states; returns the largest change, or -1 when a message leaves no state possible."""
    n = middle.shape[0]
    residual = 0.0
    after = np.empty(2 * most_receivers(slot_ptr, middle))
    for step in range(n):
        i = step if forward else n - 1 - step
        start, end = slot_ptr[i], slot_ptr[i + 1]
        a, b = (middle[i], end) if forward else (start, middle[i])
        if a == b:
            continue
        p0, p1 = 1.0, 1.0
        if rho == 1.0:  # leave one out among the receivers, all others are in p
            p0, p1 = unary[i, 0], unary[i, 1]
            c, d = (start, middle[i]) if forward else (middle[i], end)
            for q in range(c, d):
                p0 *= old[q, 0]
                p1 *= old[q, 1]
        else:
            for q in range(start, end):
                p0 *= old[q, 0]
                p1 *= old[q, 1]
            p0 = unary[i, 0] * _power(p0, rho, root)
            p1 = unary[i, 1] * _power(p1, rho, root)
        many = rho == 1.0 and b - a > MANY  # leave one out by products from both ends
        if many:
            products_after(old.reshape(-1), a, b, 2, after)
        for q in range(a, b):
            c0, c1 = p0, p1
            if many:
                c0 *= after[2 * (q - a)]
                c1 *= after[2 * (q - a) + 1]
                p0 *= old[q, 0]
                p1 *= old[q, 1]
            elif rho == 1.0:
                for r in range(a, b):
                    if r != q:
                        c0 *= old[r, 0]
                        c1 *= old[r, 1]
            else:  # a state whose own message is 0 is impossible
                c0 = c0 / old[q, 0] if c0 > 0.0 else 0.0
                c1 = c1 / old[q, 1] if c1 > 0.0 else 0.0
            table = tables[table_of_slot[q]]
            if first_axis[q]:
                m0 = table[0] * c0 + table[2] * c1
                m1 = table[1] * c0 + table[3] * c1
            else:
                m0 = table[0] * c0 + table[1] * c1
                m1 = table[2] * c0 + table[3] * c1
            total = m0 + m1
            if total == 0.0:
                return -1.0
            o = opposite[q]
            inverse = (1.0 - damping) / total
            m0 = m0 * inverse + damping * old[o, 0]
            m1 = m1 * inverse + damping * old[o, 1]
            residual = max(residual, abs(m0 - old[o, 0]))
            new[o, 0] = m0
            new[o, 1] = m1
    return residual


@fast_kernel
def _receive(table, k, is_first, cavity, out):
    """Table^T cavity when the sender is the first axis, else table cavity; rows are slices so that loops vectorise."""
    if is_first:
        for y in range(k):
            out[y] = 0.0
        for x in range(k):
            w = cavity[x]
            row = table[x * k : x * k + k]
            for y in range(k):
                out[y] += w * row[y]
    else:
        for x in range(k):
            row = table[x * k : x * k + k]
            total = 0.0
            for y in range(k):
                total += row[y] * cavity[y]
            out[x] = total


@fast_kernel
def _receive_potts(table, k, cavity, out):
    """Potts in O(k): out[x] = off * (sum of the others) + on * cavity[x], from sums only; the table is (off, on)."""
    off, on = table[0], table[1]
    after = 0.0
    for x in range(k - 1, -1, -1):
        out[x] = after
        after += cavity[x]
    before = 0.0
    for x in range(k):
        out[x] = off * (before + out[x]) + on * cavity[x]
        before += cavity[x]


@fast_kernel
def sweep_equal(
    forward, potts, slot_ptr, middle, opposite, table_of_slot, first_axis, tables, unary, rho, root, damping, old, new
):
    """Half-sweep for k states; a row of `tables` holds k*k entries, or the pair (off, on) if `potts`."""
    n, k = unary.shape
    residual = 0.0
    common, cavity, out = np.empty(k), np.empty(k), np.empty(k)
    after = np.empty(k * most_receivers(slot_ptr, middle))
    for step in range(n):
        i = step if forward else n - 1 - step
        start, end = slot_ptr[i], slot_ptr[i + 1]
        a, b = (middle[i], end) if forward else (start, middle[i])
        if a == b:
            continue
        own = unary[i]
        if rho == 1.0:  # leave one out among the receivers, all others are in `common`
            c, d = (start, middle[i]) if forward else (middle[i], end)
            for x in range(k):
                common[x] = own[x]
            for q in range(c, d):
                message = old[q]
                for x in range(k):
                    common[x] *= message[x]
        else:
            for x in range(k):
                common[x] = 1.0
            for q in range(start, end):
                message = old[q]
                for x in range(k):
                    common[x] *= message[x]
            for x in range(k):
                common[x] = own[x] * _power(common[x], rho, root)
        many = rho == 1.0 and b - a > MANY  # leave one out by products from both ends
        if many:
            products_after(old.reshape(-1), a, b, k, after)
        for q in range(a, b):
            message = old[q]
            if many:
                rest = after[(q - a) * k : (q - a) * k + k]
                for x in range(k):
                    cavity[x] = common[x] * rest[x]
                    common[x] *= message[x]
            elif rho == 1.0:
                for x in range(k):
                    cavity[x] = common[x]
                for r in range(a, b):
                    if r != q:
                        other = old[r]
                        for x in range(k):
                            cavity[x] *= other[x]
            else:  # a state whose own message is 0 is impossible
                for x in range(k):
                    cavity[x] = common[x] / message[x] if common[x] > 0.0 else 0.0
            if potts:
                _receive_potts(tables[table_of_slot[q]], k, cavity, out)
            else:
                _receive(tables[table_of_slot[q]], k, first_axis[q], cavity, out)
            total = 0.0
            for x in range(k):
                total += out[x]
            if total == 0.0:
                return -1.0
            inverse = (1.0 - damping) / total
            before, result = old[opposite[q]], new[opposite[q]]
            change = 0.0
            for x in range(k):
                value = out[x] * inverse + damping * before[x]
                change = max(change, abs(value - before[x]))
                result[x] = value
            residual = max(residual, change)
    return residual
