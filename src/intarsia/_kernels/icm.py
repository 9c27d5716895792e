"""Iterated conditional modes: single-variable moves by the exact change of score."""

from __future__ import annotations

from intarsia._core.jit import kernel
from intarsia._kernels.factor_kinds import (
    AT_MOST,
    AT_MOST_OUTPUT,
    POTTS,
    TABLE,
    TRUNCATED_QUADRATIC,
    count_on,
    violated,
)


@kernel
def sweep_icm(theta, y, active, field, graph):
    """Move each active variable to its best state given the rest; return how many moved. Ties keep their state.

    `field` is scratch: the score of all factors at a variable, for each of its states, with the other variables as in
    y.
    """
    n_states, variable_ptr, pair_ptr, pair_idx = graph.n_states, graph.variable_ptr, graph.pair_ptr, graph.pair_idx
    factor_of_pair, scope_ptr, scope_idx = graph.factor_of_pair, graph.scope_ptr, graph.scope_idx
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    kind, truncation = graph.table_kind, graph.table_truncation
    n_moved = 0
    for v in range(n_states.shape[0]):
        if not active[v]:
            continue
        active[v] = False
        k = n_states[v]
        for x in range(k):
            field[x] = theta[variable_ptr[v] + x]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            c = factor_of_pair[pair]
            t = table_of_factor[c]
            first, last = scope_ptr[c], scope_ptr[c + 1]
            if kind[t] == TABLE:
                entry, stride, step = table_ptr[t], 1, 1
                for s in range(last - 1, first - 1, -1):
                    if s == pair:
                        step = stride
                    else:
                        entry += stride * y[scope_idx[s]]
                    stride *= n_states[scope_idx[s]]
                for x in range(k):
                    field[x] += theta[entry + x * step]
                continue
            weight = theta[table_ptr[t]]
            if kind[t] >= AT_MOST:
                count = count_on(c, pair, -1, y, kind[t], scope_ptr, scope_idx)
                off = kind[t] >= AT_MOST_OUTPUT and pair == last - 1
                for x in range(2):
                    if violated(kind[t], truncation[t], count + (1 - x if off else x)):
                        field[x] += weight
                continue
            state = y[scope_idx[first if pair != first else last - 1]]
            if kind[t] == POTTS:
                field[state] += weight
                continue
            for x in range(k):
                distance = float(x - state)
                if kind[t] == TRUNCATED_QUADRATIC:
                    distance *= distance
                elif distance < 0.0:
                    distance = -distance
                if distance > truncation[t]:
                    distance = truncation[t]
                field[x] -= weight * distance
        best = y[v]
        for x in range(k):
            if field[x] > field[best]:
                best = x
        if best == y[v]:
            continue
        y[v] = best
        n_moved += 1
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            c = factor_of_pair[pair_idx[q]]
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                if scope_idx[s] != v:
                    active[scope_idx[s]] = True
    return n_moved
