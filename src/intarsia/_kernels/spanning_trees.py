"""Random forests of factors, and two tests of whether weights of factors are a mixture of such forests.

A set of factors is a forest when the bipartite graph of its factors and variables has no cycle; with scope 2 that is
the usual forest of edges. Scopes are CSR lists with at least two variables each.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

MAX_SCOPE = 64  # of factors in `find_overloaded_root`, which packs a position in a scope into few bits


@kernel
def _find(parent, v):
    """Return the root of v, with path halving."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@kernel
def label_components(scope_ptr, scope_idx, n_variables):
    """Return the component of each variable, numbered in the order of their first variable, and their number."""
    parent = np.arange(n_variables)
    for c in range(scope_ptr.shape[0] - 1):
        first = _find(parent, scope_idx[scope_ptr[c]])
        for s in range(scope_ptr[c] + 1, scope_ptr[c + 1]):
            other = _find(parent, scope_idx[s])
            # The smaller index stays the root, so that roots come in the order of first variables.
            if other < first:
                parent[first] = other
                first = other
            else:
                parent[other] = first
    label = np.empty(n_variables, np.int64)
    count = 0
    for v in range(n_variables):
        root = _find(parent, v)
        if root == v:
            label[v] = count
            count += 1
        else:
            label[v] = label[root]
    return label, count


@kernel
def count_in_forests(scope_ptr, scope_idx, n_variables, n_components, order, min_forests, patience_after):
    """Return how often each factor is in one of many maximal forests, and their number; every factor is in one.

    Forests are grown greedily in the order of a queue: factors that a forest takes go to the end, those that it cannot
    take stay in front. So the least recently used factors come first, all are covered after few forests, and the counts
    stay even. The first factor of the queue always fits, which is why the loop ends. Once `patience_after` factors were
    visited in all, a forest is left unfinished after 1000 refusals in a row (it is still a forest).
    """
    n_factors = scope_ptr.shape[0] - 1
    counts = np.zeros(n_factors, np.int64)
    # The queue is a window of a buffer twice its size, so that moving it costs O(1) per factor taken.
    queue = np.empty(2 * n_factors + 1, np.int32)
    queue[:n_factors] = order
    start, end = 0, n_factors
    parent = np.empty(n_variables, np.int32)
    roots = np.empty(n_variables, np.int32)
    members = np.empty(n_factors, np.int32)
    uncovered = n_factors
    n_forests = 0
    looked = 0
    while n_forests < min_forests or uncovered > 0:
        for v in range(n_variables):
            parent[v] = v
        components = n_variables
        n_members = 0
        n_refused = 0
        stop = start
        while stop < end and components > n_components:
            c = queue[stop]
            low, width = scope_ptr[c], scope_ptr[c + 1] - scope_ptr[c]
            fits = True
            for k in range(width):
                roots[k] = _find(parent, scope_idx[low + k])
                for j in range(k):
                    if roots[j] == roots[k]:
                        fits = False
                        break
                if not fits:
                    break
            if fits:
                for k in range(1, width):
                    parent[roots[k]] = roots[0]
                components -= width - 1
                members[n_members] = c
                n_members += 1
                queue[stop] = -1
                n_refused = 0
            else:
                n_refused += 1
                if n_refused > 1000 and looked > patience_after:
                    stop += 1
                    break
            stop += 1
        looked += stop - start
        write = stop - 1
        for read in range(stop - 1, start - 1, -1):
            if queue[read] >= 0:
                queue[write] = queue[read]
                write -= 1
        start = write + 1
        if end + n_members > queue.shape[0]:
            for k in range(end - start):
                queue[k] = queue[start + k]
            end -= start
            start = 0
        for k in range(n_members):
            c = members[k]
            if counts[c] == 0:
                uncovered -= 1
            counts[c] += 1
            queue[end + k] = c
        end += n_members
        n_forests += 1
    return counts, n_forests


@kernel
def average_over_growth_orders(edges, pair_ptr, pair_idx, n_orders, rng):
    """Return the mean probability of each edge over random trees, without drawing them; for dense graphs.

    Variables join in a random order of growth and each picks one of the j neighbours that joined before, so each of
    those edges has probability 1/j. Positions in `pair_idx` are those in the flat edge list.
    """
    n_variables = pair_ptr.shape[0] - 1
    rho = np.zeros(edges.shape[0])
    frontier = np.empty(n_variables, np.int64)
    state = np.empty(n_variables, np.int8)  # 0 far, 1 in the frontier, 2 joined
    for _ in range(n_orders):
        state[:] = 0
        first = rng.integers(0, n_variables)
        for k in range(n_variables):
            root = (first + k) % n_variables
            if state[root] != 0:
                continue
            frontier[0] = root
            height = 1
            state[root] = 1
            while height > 0:
                pick = rng.integers(0, height)
                v = frontier[pick]
                height -= 1
                frontier[pick] = frontier[height]
                state[v] = 2
                n_joined = 0
                for p in range(pair_ptr[v], pair_ptr[v + 1]):
                    e = pair_idx[p] // 2
                    u = edges[e, 0] + edges[e, 1] - v
                    if state[u] == 2:
                        n_joined += 1
                    elif state[u] == 0:
                        state[u] = 1
                        frontier[height] = u
                        height += 1
                for p in range(pair_ptr[v], pair_ptr[v + 1]):
                    e = pair_idx[p] // 2
                    if state[edges[e, 0] + edges[e, 1] - v] == 2:
                        rho[e] += 1.0 / (n_joined * n_orders)
    return rho


@kernel
def peel_variables(scope_ptr, scope_idx, pair_ptr, pair_idx, factor_of_pair, rho, tolerance):
    """Return which variables remain after repeatedly removing those with at most weight 1 of live factors.

    A factor loses the variable and is live while it has two. See `is_valid_appearance` for why an empty rest is a
    proof.
    """
    n_variables = pair_ptr.shape[0] - 1
    n_factors = scope_ptr.shape[0] - 1
    weight = np.zeros(n_variables)
    size = np.empty(n_factors, np.int64)
    for c in range(n_factors):
        size[c] = scope_ptr[c + 1] - scope_ptr[c]
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            weight[scope_idx[s]] += rho[c]
    remaining = np.ones(n_variables, np.bool_)
    stack = np.empty(n_variables, np.int64)
    queued = np.zeros(n_variables, np.bool_)
    height = 0
    for v in range(n_variables):
        if weight[v] <= 1.0 + tolerance:
            stack[height] = v
            height += 1
            queued[v] = True
    while height > 0:
        height -= 1
        v = stack[height]
        remaining[v] = False
        for p in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[p]]
            size[c] -= 1
            if size[c] == 1:
                for s in range(scope_ptr[c], scope_ptr[c + 1]):
                    u = scope_idx[s]
                    if remaining[u]:
                        weight[u] -= rho[c]
                        if not queued[u] and weight[u] <= 1.0 + tolerance:
                            stack[height] = u
                            height += 1
                            queued[u] = True
    return remaining


@kernel
def _route(
    start,
    need,
    flow,
    capacity,
    scope_ptr,
    scope_idx,
    pair_ptr,
    pair_idx,
    factor_of_pair,
    predecessor,
    visited,
    queue,
    counters,
):
    """Push `need` from one variable to factors with capacity by shortest augmenting paths; return the remainder."""
    smallest = 1e-13
    while need > smallest:
        counters[0] += 1
        stamp = counters[0]
        head, tail = 0, 1
        queue[0] = start
        visited[start] = stamp
        predecessor[start] = -1
        goal = -1  # the pair through which a factor with spare capacity is reached
        while head < tail and goal < 0:
            v = queue[head]
            head += 1
            counters[1] += pair_ptr[v + 1] - pair_ptr[v]
            for p in range(pair_ptr[v], pair_ptr[v + 1]):
                s = pair_idx[p]
                c = factor_of_pair[s]
                if capacity[c] > smallest:
                    goal = s
                    break
                for r in range(scope_ptr[c], scope_ptr[c + 1]):
                    u = scope_idx[r]
                    if flow[r] > smallest and visited[u] != stamp:
                        visited[u] = stamp
                        # u gives up flow at pair r so that v can use it through pair s of the same factor.
                        predecessor[u] = s * MAX_SCOPE + (r - scope_ptr[c])
                        queue[tail] = u
                        tail += 1
        if goal < 0:
            return need
        amount = min(need, capacity[factor_of_pair[goal]])
        v = scope_idx[goal]
        while predecessor[v] >= 0:
            s = predecessor[v] // MAX_SCOPE
            amount = min(amount, flow[scope_ptr[factor_of_pair[s]] + predecessor[v] % MAX_SCOPE])
            v = scope_idx[s]
        capacity[factor_of_pair[goal]] -= amount
        flow[goal] += amount
        v = scope_idx[goal]
        while predecessor[v] >= 0:
            s = predecessor[v] // MAX_SCOPE
            flow[scope_ptr[factor_of_pair[s]] + predecessor[v] % MAX_SCOPE] -= amount
            flow[s] += amount
            v = scope_idx[s]
        need -= amount
    return 0.0


@kernel
def find_overloaded_root(scope_ptr, scope_idx, pair_ptr, pair_idx, factor_of_pair, rho, tolerance, max_work):
    """Return a variable in an overloaded set T, or -1 if there is none or `max_work` is used up; and the work done.

    T is overloaded when the sum over c of rho_c (|c and T| - 1)+ exceeds |T| - 1, that is when the sum over v in T of
    (w_v - 1), w_v being the weight of the factors at v, exceeds the weight of the factors that touch T by more than -1.
    For T with a given variable r that is Hall's condition for a transport: every v other than r sends w_v - 1 to
    factors at v that do not touch r, each of which takes rho_c. The transports of different r differ little, so each is
    repaired from the one without r.
    """
    n_variables = pair_ptr.shape[0] - 1
    demand = np.full(n_variables, -1.0)
    for c in range(rho.shape[0]):
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            demand[scope_idx[s]] += rho[c]
    flow = np.zeros(scope_idx.shape[0])
    capacity = rho.copy()
    predecessor = np.empty(n_variables, np.int64)
    visited = np.zeros(n_variables, np.int64)
    queue = np.empty(n_variables, np.int64)
    counters = np.zeros(2, np.int64)  # stamp of the current search, steps made in all
    for v in range(n_variables):
        rest = _route(
            v,
            demand[v],
            flow,
            capacity,
            scope_ptr,
            scope_idx,
            pair_ptr,
            pair_idx,
            factor_of_pair,
            predecessor,
            visited,
            queue,
            counters,
        )
        if rest > tolerance:
            return v, counters[1]
        if counters[1] > max_work:
            return -1, counters[1]
    base_flow, base_capacity = flow.copy(), capacity.copy()
    evicted = np.zeros(n_variables)
    for root in range(n_variables):
        flow[:] = base_flow
        capacity[:] = base_capacity
        for p in range(pair_ptr[root], pair_ptr[root + 1]):
            c = factor_of_pair[pair_idx[p]]
            capacity[c] = 0.0
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                evicted[scope_idx[s]] += flow[s]
                flow[s] = 0.0
        evicted[root] = 0.0
        for p in range(pair_ptr[root], pair_ptr[root + 1]):
            c = factor_of_pair[pair_idx[p]]
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                v = scope_idx[s]
                need = evicted[v]
                evicted[v] = 0.0
                rest = _route(
                    v, need, flow, capacity, scope_ptr, scope_idx, pair_ptr, pair_idx, factor_of_pair, predecessor,
                    visited, queue, counters,
                )  # fmt: skip
                if rest > tolerance:
                    return root, counters[1]
        counters[1] += scope_idx.shape[0] // 8
        if counters[1] > max_work:
            break
    return -1, counters[1]
