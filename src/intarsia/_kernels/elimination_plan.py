"""From an elimination order to a bucket tree, and from theta to the full tables that its passes read."""

from __future__ import annotations

import numpy as np

from intarsia._jit import kernel


@kernel
def build_buckets(n_states, scope_ptr, scope_idx, order):
    """Separators, factors and children of each bucket as CSR arrays, and the (float) size of each message.

    A bucket holds the factors whose first eliminated variable is its own; its separator is everything else that its
    pieces name, and its parent the bucket of the first eliminated variable among these.
    """
    n = order.shape[0]
    n_factors = scope_ptr.shape[0] - 1
    position = np.empty(n, np.int64)
    for k in range(n):
        position[order[k]] = k
    bucket_of = np.empty(n_factors, np.int64)
    factor_ptr = np.zeros(n + 1, np.int64)
    for c in range(n_factors):
        first = n
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            first = min(first, position[scope_idx[s]])
        bucket_of[c] = first
        factor_ptr[first + 1] += 1
    factor_ptr, factor_idx = _group(bucket_of, factor_ptr)
    parent = np.full(n, -1, np.int64)
    first_child = np.full(n, -1, np.int64)  # linked lists while the tree grows
    next_child = np.full(n, -1, np.int64)
    seen = np.full(n, -1, np.int64)
    sep_ptr = np.zeros(n + 1, np.int64)
    sep_idx = np.empty(max(scope_idx.shape[0], 16), np.int64)
    found = np.empty(n, np.int64)
    cells = np.ones(n)
    for k in range(n):
        seen[k] = k
        size = 0
        for f in range(factor_ptr[k], factor_ptr[k + 1]):
            c = factor_idx[f]
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                at = position[scope_idx[s]]
                if seen[at] != k:
                    seen[at] = k
                    found[size] = at
                    size += 1
        child = first_child[k]
        while child >= 0:
            for s in range(sep_ptr[child], sep_ptr[child + 1]):
                at = position[sep_idx[s]]
                if seen[at] != k:
                    seen[at] = k
                    found[size] = at
                    size += 1
            child = next_child[child]
        start = sep_ptr[k]
        sep_ptr[k + 1] = start + size
        if start + size > sep_idx.shape[0]:
            longer = np.empty(2 * (start + size), np.int64)
            for i in range(start):
                longer[i] = sep_idx[i]
            sep_idx = longer
        for a in range(1, size):  # insertion sort: separators are short
            at = found[a]
            b = a
            while b > 0 and found[b - 1] > at:
                found[b] = found[b - 1]
                b -= 1
            found[b] = at
        for a in range(size):
            u = order[found[size - 1 - a]]
            sep_idx[start + a] = u
            cells[k] *= n_states[u]
        if size > 0:
            parent[k] = found[0]
            next_child[k] = first_child[found[0]]
            first_child[found[0]] = k
    child_ptr = np.zeros(n + 1, np.int64)
    for k in range(n):
        if parent[k] >= 0:
            child_ptr[parent[k] + 1] += 1
    child_ptr, child_idx = _group(parent, child_ptr)
    return sep_ptr, sep_idx[: sep_ptr[n]].copy(), factor_ptr, factor_idx, child_ptr, child_idx, cells


@kernel
def _group(owner, ptr):
    """Items by owner, from counts in ptr[1:]; an owner of -1 is left out."""
    for k in range(ptr.shape[0] - 1):
        ptr[k + 1] += ptr[k]
    fill = ptr[:-1].copy()
    items = np.empty(ptr[-1], np.int64)
    for i in range(owner.shape[0]):
        if owner[i] >= 0:
            items[fill[owner[i]]] = i
            fill[owner[i]] += 1
    return ptr, items


@kernel
def measure_buckets(order, n_states, sep_ptr, factor_ptr, child_ptr, child_idx, cells):
    """Room that working on one bucket may need; the entries are those of `Plan.limits`."""
    limits = np.ones(5, np.int64)
    for k in range(order.shape[0]):
        n_axes = sep_ptr[k + 1] - sep_ptr[k]
        n_pieces = 1 + factor_ptr[k + 1] - factor_ptr[k] + child_ptr[k + 1] - child_ptr[k]
        received = 0.0
        for i in range(child_ptr[k], child_ptr[k + 1]):
            received += cells[child_idx[i]]
        own = n_states[order[k]]
        limits[0] = max(limits[0], n_axes)
        limits[1] = max(limits[1], n_pieces)
        limits[2] = max(limits[2], n_axes * n_pieces)
        limits[3] = max(limits[3], (n_axes + 1) * own)
        limits[4] = max(limits[4], int(min(received, 1e18)))
    return limits


@kernel
def fill_tables(theta, n_states, variable_ptr, table_ptr, kind, truncation, table_start, side, out, top, span):
    """Write every variable's scores and every table in full to `out`, the maximum of each block taken out.

    `top` receives these maxima and `span` the range of the finite scores left.
    """
    n_variables = n_states.shape[0]
    for b in range(top.shape[0]):
        if b < n_variables:
            start, size = variable_ptr[b], n_states[b]
            for i in range(start, start + size):
                out[i] = theta[i]
        else:
            t = b - n_variables
            start, size = table_start[t], table_start[t + 1] - table_start[t]
            if kind[t] == 0:
                for i in range(size):
                    out[start + i] = theta[table_ptr[t] + i]
            else:
                weight = theta[table_ptr[t]]
                for i in range(size):
                    statistic = _statistic(kind[t], truncation[t], i // side[t], i % side[t])
                    out[start + i] = 0.0 if statistic == 0.0 else weight * statistic
        high, low = -np.inf, np.inf
        for i in range(start, start + size):
            high = max(high, out[i])
            if out[i] > -np.inf:
                low = min(low, out[i])
        if high > -np.inf:
            for i in range(start, start + size):
                out[i] -= high
            span[b] = high - low
        else:
            span[b] = 0.0
        top[b] = high


@kernel
def _statistic(kind, truncation, first, second):
    """Statistic of a parametric kind; the numbers are those of `FactorKind`."""
    gap = float(abs(first - second))
    if kind == 1:
        return 1.0 if gap == 0.0 else 0.0
    if kind == 2:
        return -min(gap, truncation)
    return -min(gap * gap, truncation)


@kernel
def contract_tables(full, variable_stop, table_ptr, kind, truncation, table_start, side, mu):
    """Marginals in the layout of mu from those of full tables: expected statistics for parametric kinds."""
    for i in range(variable_stop):
        mu[i] = full[i]
    for t in range(kind.shape[0]):
        size = table_start[t + 1] - table_start[t]
        if kind[t] == 0:
            for i in range(size):
                mu[table_ptr[t] + i] = full[table_start[t] + i]
        else:
            total = 0.0
            for i in range(size):
                total += full[table_start[t] + i] * _statistic(kind[t], truncation[t], i // side[t], i % side[t])
            mu[table_ptr[t]] = total
