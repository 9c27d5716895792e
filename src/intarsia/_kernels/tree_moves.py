"""Local search with large moves: all variables of a random induced forest move to their joint optimum, the rest fixed.

A forest is grown so that no factor holds more than two of its variables and no cycle closes. With the other variables
fixed, each factor is then a score of one or two variables, and dynamic programming is exact. The score never falls
(Hamze2004 uses such trees for sampling).
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel
from intarsia._kernels.factor_kinds import AT_MOST, AT_MOST_OUTPUT, POTTS, TABLE, TRUNCATED_LINEAR, count_on, violated


@kernel
def _root_of(group, v):
    """Return the representative of v's group, with path halving."""
    while group[v] != v:
        group[v] = group[group[v]]
        v = group[v]
    return v


@kernel
def _grow_forest(order, in_forest, group, n_in_factor, visited, graph):
    """Mark the variables of a maximal forest in `in_forest`; `n_in_factor` counts them in each factor."""
    pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx = (
        graph.pair_ptr,
        graph.pair_idx,
        graph.factor_of_pair,
        graph.scope_ptr,
        graph.scope_idx,
    )
    for v in range(in_forest.shape[0]):
        in_forest[v], group[v], visited[v] = False, v, -1
    n_in_factor[:] = 0
    for v in order:
        fits = True
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[q]]
            if n_in_factor[c] == 0:
                continue
            if n_in_factor[c] > 1:
                fits = False
                break
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                u = scope_idx[s]
                if in_forest[u]:
                    root = _root_of(group, u)
                    if visited[root] == v:  # connected already by another factor
                        fits = False
                    visited[root] = v
            if not fits:
                break
        if not fits:
            continue
        in_forest[v] = True
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[q]]
            if n_in_factor[c] == 1:
                for s in range(scope_ptr[c], scope_ptr[c + 1]):
                    if in_forest[scope_idx[s]] and scope_idx[s] != v:
                        group[_root_of(group, scope_idx[s])] = v
            n_in_factor[c] += 1


@kernel
def _table_position(c, a, b, y, graph):
    """Return the start of the table of c and the strides of pairs a and b (b may be -1), the others as in y."""
    n_states, scope_ptr, scope_idx, table_of_factor, table_ptr = (
        graph.n_states,
        graph.scope_ptr,
        graph.scope_idx,
        graph.table_of_factor,
        graph.table_ptr,
    )
    start, stride, step_a, step_b = table_ptr[table_of_factor[c]], 1, 0, 0
    for s in range(scope_ptr[c + 1] - 1, scope_ptr[c] - 1, -1):
        if s == a:
            step_a = stride
        elif s == b:
            step_b = stride
        else:
            start += stride * y[scope_idx[s]]
        stride *= n_states[scope_idx[s]]
    return start, step_a, step_b


@kernel
def _by_distance(kind, weight, truncation, x, z):
    """Return the score of states x and z under a Potts or truncated factor."""
    gap = float(abs(x - z))
    if kind == POTTS:
        return weight if gap == 0.0 else 0.0
    return -weight * min(gap if kind == TRUNCATED_LINEAR else gap * gap, truncation)


@kernel
def _add_fixed(v, k, theta, y, n_in_factor, field, graph):
    """Add to `field` the scores of v, and of factors in which it is the only variable that moves."""
    variable_ptr, pair_ptr, pair_idx = graph.variable_ptr, graph.pair_ptr, graph.pair_idx
    factor_of_pair, scope_ptr, scope_idx = graph.factor_of_pair, graph.scope_ptr, graph.scope_idx
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    kinds, truncation = graph.table_kind, graph.table_truncation
    for x in range(k):
        field[x] += theta[variable_ptr[v] + x]
    for q in range(pair_ptr[v], pair_ptr[v + 1]):
        pair = pair_idx[q]
        c = factor_of_pair[pair]
        if n_in_factor[c] > 1:
            continue
        t = table_of_factor[c]
        if kinds[t] == TABLE:
            start, step, _ = _table_position(c, pair, -1, y, graph)
            for x in range(k):
                field[x] += theta[start + x * step]
        elif kinds[t] >= AT_MOST:
            count = count_on(c, pair, -1, y, kinds[t], scope_ptr, scope_idx)
            off = kinds[t] >= AT_MOST_OUTPUT and pair == scope_ptr[c + 1] - 1
            for x in range(2):
                if violated(kinds[t], truncation[t], count + (1 - x if off else x)):
                    field[x] += theta[table_ptr[t]]
        else:
            state = y[scope_idx[2 * scope_ptr[c] + 1 - pair]]
            for x in range(k):
                field[x] += _by_distance(kinds[t], theta[table_ptr[t]], truncation[t], x, state)


@kernel
def _send(v, u, c, theta, y, fields, choice, n_states, graph):
    """Add the best score of v for each of u's states to the field of u, and store v's best state in `choice`."""
    scope_ptr, scope_idx, kinds, truncation = (
        graph.scope_ptr, graph.scope_idx, graph.table_kind, graph.table_truncation,
    )  # fmt: skip
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    t = table_of_factor[c]
    a, b = -1, -1
    for s in range(scope_ptr[c], scope_ptr[c + 1]):
        if scope_idx[s] == v:
            a = s
        elif scope_idx[s] == u:
            b = s
    start, step_v, step_u = _table_position(c, a, b, y, graph) if kinds[t] == TABLE else (0, 0, 0)
    count = count_on(c, a, b, y, kinds[t], scope_ptr, scope_idx) if kinds[t] >= AT_MOST else 0
    output = scope_ptr[c + 1] - 1 if kinds[t] >= AT_MOST_OUTPUT else -2  # matches no pair
    v_off, u_off = a == output, b == output
    for z in range(n_states[u]):
        best, value = y[v], -np.inf
        for x in range(n_states[v]):
            if kinds[t] == TABLE:
                score = fields[v, x] + theta[start + x * step_v + z * step_u]
            elif kinds[t] >= AT_MOST:
                total = count + (1 - x if v_off else x) + (1 - z if u_off else z)
                score = fields[v, x] + (theta[table_ptr[t]] if violated(kinds[t], truncation[t], total) else 0.0)
            else:
                score = fields[v, x] + _by_distance(kinds[t], theta[table_ptr[t]], truncation[t], x, z)
            if score > value:
                best, value = x, score
        choice[v, z] = best
        fields[u, z] += value


@kernel
def move_forest(theta, y, order, in_forest, group, n_in_factor, visited, fields, choice, queue, parent, link, graph):
    """Move the variables of one random forest to their joint optimum, in place."""
    n_states, pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx = (
        graph.n_states, graph.pair_ptr, graph.pair_idx, graph.factor_of_pair, graph.scope_ptr, graph.scope_idx
    )  # fmt: skip
    _grow_forest(order, in_forest, group, n_in_factor, visited, graph)
    n = 0
    visited[:] = -1
    for r in order:  # breadth first, each tree from its first variable
        if not in_forest[r] or visited[r] >= 0:
            continue
        visited[r], parent[n], link[n] = n, -1, -1
        queue[n] = r
        n += 1
        head = n - 1
        while head < n:
            v = queue[head]
            for q in range(pair_ptr[v], pair_ptr[v + 1]):
                c = factor_of_pair[pair_idx[q]]
                if n_in_factor[c] != 2:
                    continue
                for s in range(scope_ptr[c], scope_ptr[c + 1]):
                    u = scope_idx[s]
                    if in_forest[u] and visited[u] < 0:
                        visited[u], parent[n], link[n] = n, v, c
                        queue[n] = u
                        n += 1
            head += 1
    for i in range(n):
        fields[queue[i], :] = 0.0
    for i in range(n - 1, -1, -1):
        v = queue[i]
        _add_fixed(v, n_states[v], theta, y, n_in_factor, fields[v], graph)
        if parent[i] >= 0:
            _send(v, parent[i], link[i], theta, y, fields, choice, n_states, graph)
    for i in range(n):
        v = queue[i]
        if parent[i] >= 0:
            y[v] = choice[v, y[parent[i]]]
            continue
        best = y[v]
        for x in range(n_states[v]):
            if fields[v, x] > fields[v, best]:
                best = x
        y[v] = best
