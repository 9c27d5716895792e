"""Gibbs sampling: one variable at a time for any factor graph, one induced forest at a time for pairwise graphs."""

from __future__ import annotations

import numpy as np

from intarsia._jit import kernel


@kernel
def _condition(field, v, y, theta, graph, block_of):
    """Set field[x] to the score of all that involves v, were v in state x and the rest as in y.

    Factors to variables in v's own block are left out; `block_of` is empty when there are no blocks.
    """
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
        other = scope_idx[first] if pair != first else scope_idx[last - 1]
        if block_of.shape[0] > 0 and block_of[other] == block_of[v]:
            continue
        if kind[t] != 0:
            weight = theta[table_ptr[t]]
            if kind[t] == 1:
                field[y[other]] += weight
                continue
            for x in range(k):
                gap = float(abs(x - y[other]))
                field[x] -= weight * min(gap if kind[t] == 2 else gap * gap, truncation[t])
            continue
        base, stride, step = table_ptr[t], 1, 1
        for s in range(last - 1, first - 1, -1):
            if s == pair:
                step = stride
            else:
                base += stride * y[scope_idx[s]]
            stride *= n_states[scope_idx[s]]
        for x in range(k):
            field[x] += theta[base + x * step]


@kernel
def _exponentiate(field, k):
    """Replace scores by weights with maximum 1; False if no state is possible."""
    top = -np.inf
    for x in range(k):
        top = max(top, field[x])
    if top == -np.inf:
        return False
    for x in range(k):
        field[x] = np.exp(field[x] - top)
    return True


@kernel
def _draw(weights, k, rng):
    """A state with probability proportional to its weight; -1 if all weights are zero."""
    total = 0.0
    last = -1
    for x in range(k):
        total += weights[x]
        if weights[x] > 0.0:
            last = x
    rest = rng.random() * total
    for x in range(last):
        rest -= weights[x]
        if rest < 0.0:
            return x
    return last


@kernel
def _count(y, count, graph):
    """Add the statistics of y to `count`, in the layout of theta."""
    n_states, variable_ptr, _, _, _, scope_ptr, scope_idx, table_of_factor, table_ptr, kind, truncation = graph
    for v in range(n_states.shape[0]):
        count[variable_ptr[v] + y[v]] += 1.0
    for c in range(table_of_factor.shape[0]):
        t = table_of_factor[c]
        if kind[t] == 0:
            position = 0
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                position = position * n_states[scope_idx[s]] + y[scope_idx[s]]
            count[table_ptr[t] + position] += 1.0
            continue
        gap = float(abs(y[scope_idx[scope_ptr[c]]] - y[scope_idx[scope_ptr[c] + 1]]))
        if kind[t] == 1:
            count[table_ptr[t]] += gap == 0.0
        else:
            count[table_ptr[t]] -= min(gap if kind[t] == 2 else gap * gap, truncation[t])


@kernel
def sample_single(theta, y, n_sweeps, rng, count, graph):
    """Sweep `n_sweeps` times over all variables, each drawn given the rest; add up statistics if `count` has room."""
    n_states = graph[0]
    field = np.empty(n_states.max())
    no_blocks = np.empty(0, np.int64)
    for _ in range(n_sweeps):
        for v in range(n_states.shape[0]):
            _condition(field, v, y, theta, graph, no_blocks)
            if _exponentiate(field, n_states[v]):
                y[v] = _draw(field, n_states[v], rng)
        if count.shape[0] > 0:
            _count(y, count, graph)


@kernel
def _find_root(up, v):
    while up[v] != v:
        up[v] = up[up[v]]
        v = up[v]
    return v


@kernel
def partition_into_forests(n_variables, pair_ptr, pair_idx, scope_idx):
    """Split the variables of a pairwise graph greedily into blocks whose induced subgraphs are forests.

    Returns (block_of, block_ptr, order, parent_pair): `order` lists the variables block by block, parents before
    children; `parent_pair[v]` is v's position in scope_idx in the factor to its parent, -1 for a root.
    """
    block_of = np.full(n_variables, -1, np.int64)
    up = np.arange(n_variables)
    roots = np.empty(n_variables, np.int64)
    n_done, block = 0, 0
    block_ptr = [0]
    order = np.empty(n_variables, np.int64)
    parent_pair = np.full(n_variables, -1, np.int64)
    seen = np.zeros(n_variables, np.bool_)
    while n_done < n_variables:
        for v in range(n_variables):
            if block_of[v] >= 0:
                continue
            n_roots, fits = 0, True
            for q in range(pair_ptr[v], pair_ptr[v + 1]):
                other = scope_idx[pair_idx[q] ^ 1]
                if block_of[other] != block:
                    continue
                root = _find_root(up, other)
                for k in range(n_roots):
                    fits = fits and roots[k] != root
                if not fits:
                    break
                roots[n_roots] = root
                n_roots += 1
            if fits:
                block_of[v] = block
                for k in range(n_roots):
                    up[roots[k]] = v
        head = n_done
        for v in range(n_variables):  # breadth first from each root, so that parents come before children
            if block_of[v] != block or seen[v]:
                continue
            seen[v] = True
            order[n_done] = v
            n_done += 1
            while head < n_done:
                u = order[head]
                head += 1
                for q in range(pair_ptr[u], pair_ptr[u + 1]):
                    other_pair = pair_idx[q] ^ 1
                    other = scope_idx[other_pair]
                    if block_of[other] == block and not seen[other]:
                        seen[other] = True
                        parent_pair[other] = other_pair
                        order[n_done] = other
                        n_done += 1
        block_ptr.append(n_done)
        block += 1
    return block_of, np.array(block_ptr), order, parent_pair


@kernel
def exponentiate_tables(theta, weight_ptr, side, table_ptr, kind, truncation):
    """exp(score - highest score) of each pairwise table, parametric ones written out; `side` is their state count."""
    weights = np.empty(weight_ptr[-1])
    for t in range(kind.shape[0]):
        block = weights[weight_ptr[t] : weight_ptr[t + 1]]
        for at in range(block.shape[0]):
            if kind[t] == 0:
                block[at] = theta[table_ptr[t] + at]
                continue
            gap = float(abs(at // side[t] - at % side[t]))
            if kind[t] == 1:
                block[at] = theta[table_ptr[t]] if gap == 0.0 else 0.0
            else:
                block[at] = -theta[table_ptr[t]] * min(gap if kind[t] == 2 else gap * gap, truncation[t])
        _exponentiate(block, block.shape[0])
    return weights


@kernel
def sample_forests(theta, y, n_sweeps, rng, count, graph, weights, weight_ptr, block_of, block_ptr, order, parent_pair):
    """Sweep over the blocks, each drawn jointly given the rest by filtering up its trees and sampling down."""
    n_states, variable_ptr, _, _, factor_of_pair, _, scope_idx, table_of_factor = graph[:8]
    belief = np.empty(variable_ptr[-1])
    field = np.empty(n_states.max())
    drawn = y.copy()
    for _ in range(n_sweeps):
        for b in range(block_ptr.shape[0] - 1):
            start, stop = block_ptr[b], block_ptr[b + 1]
            for k in range(start, stop):
                v = order[k]
                _condition(belief[variable_ptr[v] : variable_ptr[v + 1]], v, y, theta, graph, block_of)
            possible = True
            for k in range(stop - 1, start - 1, -1):
                v = order[k]
                mine = belief[variable_ptr[v] : variable_ptr[v + 1]]
                possible = possible and _exponentiate(mine, n_states[v])
                pair = parent_pair[v]
                if pair < 0 or not possible:
                    continue
                parent = scope_idx[pair ^ 1]
                above = belief[variable_ptr[parent] : variable_ptr[parent + 1]]
                table = weights[weight_ptr[table_of_factor[factor_of_pair[pair]]] :]
                # The child is the second axis of its table when its pair is odd.
                down, across = (n_states[v], 1) if pair & 1 else (1, n_states[parent])
                for x in range(n_states[parent]):
                    total = 0.0
                    for z in range(n_states[v]):
                        total += table[x * down + z * across] * mine[z]
                    above[x] += np.log(total)
            for k in range(start, stop):
                if not possible:
                    break
                v = order[k]
                mine = belief[variable_ptr[v] : variable_ptr[v + 1]]
                pair = parent_pair[v]
                if pair < 0:
                    state = _draw(mine, n_states[v], rng)
                else:
                    parent = scope_idx[pair ^ 1]
                    table = weights[weight_ptr[table_of_factor[factor_of_pair[pair]]] :]
                    down, across = (n_states[v], 1) if pair & 1 else (1, n_states[parent])
                    for z in range(n_states[v]):
                        field[z] = table[drawn[parent] * down + z * across] * mine[z]
                    state = _draw(field, n_states[v], rng)
                possible = possible and state >= 0
                drawn[v] = state
            if possible:  # else all weights underflowed: the block keeps its states, which is a valid if idle step
                for k in range(start, stop):
                    y[order[k]] = drawn[order[k]]
        if count.shape[0] > 0:
            _count(y, count, graph)
