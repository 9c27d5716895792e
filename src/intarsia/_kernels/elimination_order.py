"""Orders in which to eliminate variables: leaves first on forests, greedy by fill-in or by table size elsewhere."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def peel_forest(graph, result):
    """Remove leaves from the factor graph; return how many variables are in `result.order`, fewer if there is a cycle.

    Run through `symbolic.run_loops`.
    """
    scope_ptr, scope_idx, factor_of_pair = graph.scope_ptr, graph.scope_idx, graph.factor_of_pair
    pair_ptr, pair_idx = graph.pair_ptr, graph.pair_idx
    n_remaining, degree, stack, removed, order = (
        result.n_remaining, result.degree, result.stack, result.removed, result.order,
    )  # fmt: skip
    n = len(order)
    for c in range(len(n_remaining)):
        n_remaining[c] = scope_ptr[c + 1] - scope_ptr[c]
    size = 0
    for v in range(n - 1, -1, -1):
        removed[v] = 0
        degree[v] = 0
        for i in range(pair_ptr[v], pair_ptr[v + 1]):
            if n_remaining[factor_of_pair[pair_idx[i]]] > 1:
                degree[v] += 1
        if degree[v] <= 1:
            stack[size] = v
            size += 1
    n_removed = 0
    while size > 0:
        size -= 1
        v = stack[size]
        removed[v] = 1
        order[n_removed] = v
        n_removed += 1
        for i in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[i]]
            n_remaining[c] -= 1
            if n_remaining[c] != 1:
                continue
            # One variable remains: the factor is a message to it now.
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                u = scope_idx[s]
                if removed[u] == 0:
                    degree[u] -= 1
                    if degree[u] == 1:
                        stack[size] = u
                        size += 1
    return n_removed


@kernel
def neighbour_lists(n_variables, scope_ptr, scope_idx, pair_ptr, pair_idx, factor_of_pair):
    """Return CSR lists of the variables that share a factor with each variable."""
    ptr = np.zeros(n_variables + 1, np.int64)
    idx = np.empty(max(16, 2 * scope_idx.shape[0]), np.int64)
    last_visitor = np.full(n_variables, -1, np.int64)
    size = 0
    for v in range(n_variables):
        last_visitor[v] = v
        for i in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[i]]
            if size + scope_ptr[c + 1] - scope_ptr[c] > idx.shape[0]:
                longer = np.empty(2 * idx.shape[0] + scope_ptr[c + 1] - scope_ptr[c], np.int64)
                for j in range(size):
                    longer[j] = idx[j]
                idx = longer
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                u = scope_idx[s]
                if last_visitor[u] != v:
                    last_visitor[u] = v
                    idx[size] = u
                    size += 1
        ptr[v + 1] = size
    return ptr, idx[:size].copy()


@kernel
def _compact(v, start, length, pool, alive):
    """Drop eliminated variables from v's list of neighbours."""
    n_alive = 0
    for i in range(start[v], start[v] + length[v]):
        if alive[pool[i]]:
            pool[start[v] + n_alive] = pool[i]
            n_alive += 1
    length[v] = n_alive


@kernel
def _fill_in(v, start, length, pool, alive, stamp, clock):
    """Return the number of pairs of v's neighbours that are not adjacent, and the steps that counting took."""
    clock[0] += 1
    time = clock[0]
    _compact(v, start, length, pool, alive)
    d = length[v]
    if d < 2:
        return 0.0, 1
    for i in range(start[v], start[v] + d):
        stamp[pool[i]] = time
    n_joined, steps = 0, d
    for i in range(start[v], start[v] + d):
        u = pool[i]
        steps += length[u]
        for j in range(start[u], start[u] + length[u]):
            if stamp[pool[j]] == time and alive[pool[j]]:
                n_joined += 1
    return (d * (d - 1) - n_joined) / 2.0, steps


@kernel
def _before(u, w, key, tie):
    """Return whether u precedes w in the heap: by key, then by tie, then by index."""
    return key[u] < key[w] or (key[u] == key[w] and (tie[u] < tie[w] or (tie[u] == tie[w] and u < w)))


@kernel
def _settle(v, size, heap, position_of, key, tie):
    """Move v up or down to its position in the binary heap."""
    i = position_of[v]
    while i > 0 and _before(v, heap[(i - 1) // 2], key, tie):
        heap[i] = heap[(i - 1) // 2]
        position_of[heap[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _before(heap[child + 1], heap[child], key, tie):
            child += 1
        if not _before(heap[child], v, key, tie):
            break
        heap[i] = heap[child]
        position_of[heap[i]] = i
        i = child
    heap[i] = v
    position_of[v] = i


@kernel
def _join(a, b, start, length, room, pool, n_used):
    """Append b to a's list, which moves to the end of the pool when it is full; return the pool and its used length."""
    if length[a] == room[a]:
        room[a] = 2 * room[a] + 4
        if n_used + room[a] > pool.shape[0]:
            longer = np.empty(2 * (n_used + room[a]), np.int64)
            for i in range(n_used):
                longer[i] = pool[i]
            pool = longer
        for i in range(length[a]):
            pool[n_used + i] = pool[start[a] + i]
        start[a] = n_used
        n_used += room[a]
    pool[start[a] + length[a]] = b
    length[a] += 1
    return pool, n_used


@kernel
def greedy_order(log2_states, ptr, idx, by_fill, noise, max_cells, max_steps, rng):
    """Eliminate the variable that looks cheapest, repeatedly: by fill-in (`by_fill`) or by table size.

    Returns the order, the sum of message sizes, log2 of the largest bucket and the steps made; the order is shorter
    than the number of variables if the sizes exceeded `max_cells` or the search `max_steps`. With `noise`, ties are
    broken at random instead of by table size.
    """
    n = log2_states.shape[0]
    start, length, room = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    pool, n_used = idx.copy(), idx.shape[0]
    alive = np.ones(n, np.bool_)
    stamp, clock = np.zeros(n, np.int64), np.zeros(1, np.int64)
    weight = log2_states.copy()  # log2 size of the bucket that eliminating v makes
    key, tie = np.empty(n), np.empty(n)
    counts = np.zeros(n, np.int64)
    around, affected = np.empty(n, np.int64), np.empty(n, np.int64)
    heap, position_of = np.empty(n, np.int64), np.empty(n, np.int64)
    steps = 0
    for v in range(n):
        start[v] = ptr[v]
        length[v] = room[v] = ptr[v + 1] - ptr[v]
        for i in range(ptr[v], ptr[v + 1]):
            weight[v] += log2_states[idx[i]]
    for v in range(n):
        key[v] = weight[v]
        if by_fill:
            key[v], extra_steps = _fill_in(v, start, length, pool, alive, stamp, clock)
            steps += extra_steps
        tie[v] = rng.random() if noise else weight[v]
        position_of[v] = v
        _settle(v, v + 1, heap, position_of, key, tie)
        if steps > max_steps:
            break
    order = np.empty(n, np.int64)
    n_eliminated = 0
    cells, widest = 0.0, 0.0
    while n_eliminated < n and steps <= max_steps and cells <= max_cells:
        v = heap[0]
        size = n - n_eliminated - 1
        if size > 0:
            last_item = heap[size]
            position_of[last_item] = 0
            _settle(last_item, size, heap, position_of, key, tie)
        _compact(v, start, length, pool, alive)
        alive[v] = False
        order[n_eliminated] = v
        n_eliminated += 1
        cells += 2.0 ** (weight[v] - log2_states[v])
        widest = max(widest, weight[v])
        d = length[v]
        longest = 0
        for i in range(d):
            around[i] = pool[start[v] + i]
            weight[around[i]] -= log2_states[v]
            if length[around[i]] > length[around[longest]]:
                longest = i
        if d > 0:  # the longest list comes last, because the last one is not read; this matters for hubs
            around[longest], around[d - 1] = around[d - 1], around[longest]
        has_fill_in = False
        for i in range(d - 1):
            u = around[i]
            _compact(u, start, length, pool, alive)
            clock[0] += 1
            steps += length[u] + d
            for j in range(start[u], start[u] + length[u]):
                stamp[pool[j]] = clock[0]
            for j in range(i + 1, d):
                w = around[j]
                if stamp[w] != clock[0]:
                    has_fill_in = True
                    weight[u] += log2_states[w]
                    weight[w] += log2_states[u]
                    pool, n_used = _join(u, w, start, length, room, pool, n_used)
                    pool, n_used = _join(w, u, start, length, room, pool, n_used)
        n_affected = d
        for i in range(d):
            affected[i] = around[i]
            counts[around[i]] = 2
        if by_fill and has_fill_in:  # a new edge changes the fill-in of every neighbour of both its ends
            for i in range(d):
                u = around[i]
                steps += length[u]
                for j in range(start[u], start[u] + length[u]):
                    w = pool[j]
                    if alive[w] and counts[w] < 2:
                        counts[w] += 1
                        if counts[w] == 2:
                            affected[n_affected] = w
                            n_affected += 1
            for i in range(d):
                u = around[i]
                for j in range(start[u], start[u] + length[u]):
                    counts[pool[j]] = 0
        for i in range(d):
            counts[around[i]] = 0
        for i in range(n_affected):
            u = affected[i]
            key[u] = weight[u]
            if by_fill:
                key[u], extra_steps = _fill_in(u, start, length, pool, alive, stamp, clock)
                steps += extra_steps
            tie[u] = rng.random() if noise else weight[u]
            _settle(u, n - n_eliminated, heap, position_of, key, tie)
    return order[:n_eliminated], cells, widest, steps
