"""Negative log-probabilities of single variables given all others, and their gradient."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def add_pseudo_likelihood(theta, gradient, y, allowed, weight, graph, field, inside, start, step):
    """Return the pseudo-likelihood loss and add its derivative to `gradient`; inf if all allowed states are forbidden.

    The loss is the sum over variables of weight_v times -log p(y_v allowed | y of the others). Variables of weight 0
    are left out; the neighbours of the others must be labelled in y. `field` and `inside` are scratch for the states of
    a variable, `start` and `step` for the factors at one.
    """
    n_states, variable_ptr, table_ptr = graph.n_states, graph.variable_ptr, graph.table_ptr
    pair_ptr, pair_idx, factor_of_pair = graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    scope_ptr, scope_idx = graph.scope_ptr, graph.scope_idx
    value = 0.0
    for v in range(n_states.shape[0]):
        if weight[v] == 0.0:
            continue
        first = variable_ptr[v]
        for x in range(n_states[v]):
            field[x] = theta[first + x]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            c = factor_of_pair[pair]
            entry, stride, own_stride = table_ptr[c], 1, 1
            for s in range(scope_ptr[c + 1] - 1, scope_ptr[c] - 1, -1):
                if s == pair:
                    own_stride = stride
                else:
                    entry += stride * y[scope_idx[s]]
                stride *= n_states[scope_idx[s]]
            start[q - pair_ptr[v]], step[q - pair_ptr[v]] = entry, own_stride
            for x in range(n_states[v]):
                field[x] += theta[entry + x * own_stride]
        maximum, true_maximum = -np.inf, -np.inf
        for x in range(n_states[v]):
            maximum = max(maximum, field[x])
            if allowed[first + x]:
                true_maximum = max(true_maximum, field[x])
        if true_maximum == -np.inf:
            return np.inf
        total, true_total = 0.0, 0.0
        for x in range(n_states[v]):
            inside[x] = 0.0
            if allowed[first + x]:  # relative to its own maximum, since far below the best state it would underflow
                inside[x] = np.exp(field[x] - true_maximum)
                true_total += inside[x]
            field[x] = np.exp(field[x] - maximum)
            total += field[x]
        value += weight[v] * (maximum + np.log(total) - true_maximum - np.log(true_total))
        for x in range(n_states[v]):
            field[x] = weight[v] * (field[x] / total - inside[x] / true_total)
            gradient[first + x] += field[x]
        for q in range(pair_ptr[v + 1] - pair_ptr[v]):
            for x in range(n_states[v]):
                gradient[start[q] + x * step[q]] += field[x]
    return value
