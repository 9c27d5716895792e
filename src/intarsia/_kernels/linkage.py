"""Order of records in which all records that are joined above any threshold stand together."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _root(r, parent):
    """Return the representative of a record's group, with path halving."""
    while parent[r] != r:
        parent[r] = parent[parent[r]]
        r = parent[r]
    return r


@kernel
def order_by_linkage(rows, ends, n):
    """Join the ends of the pairs in the order of `rows`, appending one group to the other; return the final order.

    With pairs sorted by falling similarity, this is the order of the leaves of single linkage.
    """
    parent, after, end = np.arange(n), np.full(n, -1, dtype=np.int64), np.arange(n)
    size = np.ones(n, dtype=np.int64)
    first = np.arange(n)  # of a group, by its representative
    for e in rows:
        a, b = _root(ends[e, 0], parent), _root(ends[e, 1], parent)
        if a != b:
            if size[a] < size[b]:
                a, b = b, a
            after[end[a]] = first[b]
            end[a] = end[b]
            size[a] += size[b]
            parent[b] = a
    order, m = np.empty(n, dtype=np.int64), 0
    for root in range(n):
        if parent[root] == root:
            r = first[root]
            while r >= 0:
                order[m] = r
                m += 1
                r = after[r]
    return order
