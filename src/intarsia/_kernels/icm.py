"""Iterated conditional modes: single-variable moves by the exact change of score."""

from __future__ import annotations

from intarsia._jit import kernel


@kernel
def _condition(field, v, y, theta, graph):
    """Set field[x] to the score of all that involves v, were v in state x and the rest as in y."""
    n_states, variable_ptr, pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx = graph[:7]
    table_of_factor, table_ptr, kind, truncation = graph[7:]
    k = n_states[v]
    for x in range(k):
        field[x] = theta[variable_ptr[v] + x]
    for q in range(pair_ptr[v], pair_ptr[v + 1]):
        pair = pair_idx[q]
        c = factor_of_pair[pair]
        t = table_of_factor[c]
        first, last = scope_ptr[c], scope_ptr[c + 1]
        if kind[t] != 0:
            state = y[scope_idx[first]] if pair != first else y[scope_idx[last - 1]]
            weight = theta[table_ptr[t]]
            if kind[t] == 1:
                field[state] += weight
                continue
            for x in range(k):
                gap = float(abs(x - state))
                field[x] -= weight * min(gap if kind[t] == 2 else gap * gap, truncation[t])
            continue
        base, stride = 0, 1
        for s in range(last - 1, first - 1, -1):
            if s == pair:
                step = stride
            else:
                base += stride * y[scope_idx[s]]
            stride *= n_states[scope_idx[s]]
        base += table_ptr[t]
        for x in range(k):
            field[x] += theta[base + x * step]


@kernel
def sweep_icm(theta, y, active, field, graph):
    """Move each active variable to its best state given the rest; return how many moved. Ties stay where they are."""
    n_states, _, pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx = graph[:7]
    moved = 0
    for v in range(n_states.shape[0]):
        if not active[v]:
            continue
        active[v] = False
        _condition(field, v, y, theta, graph)
        best = y[v]
        for x in range(n_states[v]):
            if field[x] > field[best]:
                best = x
        if best == y[v]:
            continue
        y[v] = best
        moved += 1
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[q]]
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                if scope_idx[s] != v:
                    active[scope_idx[s]] = True
    return moved
