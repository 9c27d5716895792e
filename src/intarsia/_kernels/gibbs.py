"""Gibbs sampling: blocks of variables whose induced subgraph is a forest, each sampled jointly given the rest.

A block may be a single variable, which is the only kind for factors of more than two variables. Helpers are inlined,
because a call with many arrays costs as much as its work.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import inline_kernel, kernel
from intarsia._core.validation import IntArray
from intarsia._kernels.factor_kinds import POTTS, TABLE, TRUNCATED_QUADRATIC


@inline_kernel
def _condition(field, v, y, theta, graph, block_of):
    """Set field[x] to the score of all factors at v, with v in state x and the other variables as in y.

    Factors between v and variables in its own block are left out.
    """
    n_states, variable_ptr, pair_ptr, pair_idx = graph.n_states, graph.variable_ptr, graph.pair_ptr, graph.pair_idx
    factor_of_pair, scope_ptr, scope_idx = graph.factor_of_pair, graph.scope_ptr, graph.scope_idx
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    kind, truncation = graph.table_kind, graph.table_truncation
    k = n_states[v]
    for x in range(k):
        field[x] = theta[variable_ptr[v] + x]
    for q in range(pair_ptr[v], pair_ptr[v + 1]):
        pair = pair_idx[q]
        c = factor_of_pair[pair]
        t = table_of_factor[c]
        first, last = scope_ptr[c], scope_ptr[c + 1]
        other = scope_idx[first if pair != first else last - 1]
        if block_of[other] == block_of[v]:
            continue
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
        elif kind[t] == POTTS:
            field[y[other]] += theta[table_ptr[t]]
        else:
            for x in range(k):
                distance = float(x - y[other])
                if kind[t] == TRUNCATED_QUADRATIC:
                    distance *= distance
                elif distance < 0.0:
                    distance = -distance
                if distance > truncation[t]:
                    distance = truncation[t]
                field[x] -= theta[table_ptr[t]] * distance


@inline_kernel
def _exponentiate(field):
    """Replace scores by weights with maximum 1; return False if no state is possible."""
    maximum = -np.inf
    for x in range(field.shape[0]):
        if field[x] > maximum:
            maximum = field[x]
    if maximum > -np.inf:
        for x in range(field.shape[0]):
            field[x] = np.exp(field[x] - maximum)
    return maximum > -np.inf


@inline_kernel
def _draw(weights, rng):
    """Return a state with probability proportional to its weight; -1 if all weights are zero."""
    total = 0.0
    last = -1
    for x in range(weights.shape[0]):
        total += weights[x]
        if weights[x] > 0.0:
            last = x
    rest = rng.random() * total
    state = 0
    while state < last:
        rest -= weights[state]
        if rest < 0.0:
            break
        state += 1
    return state if last >= 0 else -1


@inline_kernel
def _count(y, count, graph):
    """Add the statistics of y to `count`, in the layout of theta."""
    n_states, variable_ptr, scope_ptr, scope_idx = graph.n_states, graph.variable_ptr, graph.scope_ptr, graph.scope_idx
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    kind, truncation = graph.table_kind, graph.table_truncation
    for v in range(n_states.shape[0]):
        count[variable_ptr[v] + y[v]] += 1.0
    for c in range(table_of_factor.shape[0]):
        t = table_of_factor[c]
        if kind[t] == TABLE:
            position = 0
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                position = position * n_states[scope_idx[s]] + y[scope_idx[s]]
            count[table_ptr[t] + position] += 1.0
            continue
        distance = float(y[scope_idx[scope_ptr[c]]] - y[scope_idx[scope_ptr[c] + 1]])
        if kind[t] == POTTS:
            if distance == 0.0:
                count[table_ptr[t]] += 1.0
            continue
        if kind[t] == TRUNCATED_QUADRATIC:
            distance *= distance
        elif distance < 0.0:
            distance = -distance
        if distance > truncation[t]:
            distance = truncation[t]
        count[table_ptr[t]] -= distance


@kernel
def sample_blocks(theta, y, n_sweeps, rng, count, graph, blocks, belief, draws):
    """Sweep over the blocks; sample each jointly given the rest, by filtering up its trees and sampling down.

    Adds the statistics of each sweep to `count` if it is not empty. `belief` (a score for each state) and `draws` (a
    state for each variable) are scratch.
    """
    n_states, variable_ptr, scope_idx = graph.n_states, graph.variable_ptr, graph.scope_idx
    factor_of_pair, table_of_factor = graph.factor_of_pair, graph.table_of_factor
    weights, weight_ptr, block_of = blocks.weights, blocks.weight_ptr, blocks.block_of
    block_ptr, order, parent_pair = blocks.block_ptr, blocks.order, blocks.parent_pair
    for _ in range(n_sweeps):
        for b in range(block_ptr.shape[0] - 1):
            start, stop = block_ptr[b], block_ptr[b + 1]
            for i in range(start, stop):
                v = order[i]
                _condition(belief[variable_ptr[v] : variable_ptr[v + 1]], v, y, theta, graph, block_of)
            possible = True
            for i in range(stop - 1, start - 1, -1):  # children before parents
                v = order[i]
                own_belief = belief[variable_ptr[v] : variable_ptr[v + 1]]
                possible = possible and _exponentiate(own_belief)
                pair = parent_pair[v]
                if pair < 0 or not possible:
                    continue
                parent = scope_idx[pair ^ 1]
                entry = weight_ptr[table_of_factor[factor_of_pair[pair]]]
                # The child is the second axis of its table when its pair is odd.
                parent_stride, child_stride = (n_states[v], 1) if pair & 1 else (1, n_states[parent])
                for x in range(n_states[parent]):
                    total = 0.0
                    for z in range(n_states[v]):
                        total += weights[entry + x * parent_stride + z * child_stride] * own_belief[z]
                    belief[variable_ptr[parent] + x] += np.log(total)
            for i in range(start, stop):  # parents before children
                if not possible:
                    break
                v = order[i]
                own_belief = belief[variable_ptr[v] : variable_ptr[v + 1]]
                pair = parent_pair[v]
                if pair >= 0:
                    parent = scope_idx[pair ^ 1]
                    parent_stride, child_stride = (n_states[v], 1) if pair & 1 else (1, n_states[parent])
                    entry = weight_ptr[table_of_factor[factor_of_pair[pair]]] + draws[parent] * parent_stride
                    for z in range(n_states[v]):
                        own_belief[z] *= weights[entry + z * child_stride]
                state = _draw(own_belief, rng)
                possible = state >= 0
                draws[v] = state
            if possible:  # otherwise all weights underflowed, and the block keeps its states, which is a valid step
                for i in range(start, stop):
                    y[order[i]] = draws[order[i]]
        if count.shape[0] > 0:
            _count(y, count, graph)


def partition_into_forests(
    n_variables: int, pair_ptr: IntArray, pair_idx: IntArray, scope_idx: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Split the variables of a pairwise graph greedily into blocks whose induced subgraphs are forests.

    Returns (block_of, block_ptr, order, parent_pair): `order` lists the variables block by block, parents before
    children; `parent_pair[v]` is v's position in scope_idx in the factor to its parent, -1 for a root.
    """
    block_of, parent_pair = np.full((2, n_variables), -1)
    order, roots = np.empty((2, n_variables), np.int64)
    block_ptr = np.zeros(n_variables + 1, np.int64)
    n_blocks = _partition(
        pair_ptr, pair_idx, scope_idx, block_of, block_ptr, order, parent_pair, np.arange(n_variables), roots
    )
    return block_of, block_ptr[: n_blocks + 1], order, parent_pair


@kernel
def _partition(pair_ptr, pair_idx, scope_idx, block_of, block_ptr, order, parent_pair, link, roots):
    """Fill the arrays of `partition_into_forests`; return the number of blocks. `link` is a union-find structure."""
    n_variables = block_of.shape[0]
    n_done, block = 0, 0
    while n_done < n_variables:
        for v in range(n_variables):
            if block_of[v] >= 0:
                continue
            n_roots, fits = 0, True
            for q in range(pair_ptr[v], pair_ptr[v + 1]):
                root = scope_idx[pair_idx[q] ^ 1]
                if block_of[root] != block:
                    continue
                while link[root] != root:
                    link[root] = link[link[root]]
                    root = link[root]
                for i in range(n_roots):
                    if roots[i] == root:
                        fits = False
                if not fits:
                    break
                roots[n_roots] = root
                n_roots += 1
            if fits:
                block_of[v] = block
                for i in range(n_roots):
                    link[roots[i]] = v
        head = n_done
        for v in range(n_variables):  # breadth first from each root, so that parents come before children
            # A root of `link` represents its tree; it is the variable that was added last.
            if block_of[v] != block or link[v] != v:
                continue
            order[n_done] = v
            n_done += 1
            while head < n_done:
                u = order[head]
                head += 1
                for q in range(pair_ptr[u], pair_ptr[u + 1]):
                    pair = pair_idx[q] ^ 1
                    other = scope_idx[pair]
                    if block_of[other] == block and pair ^ 1 != parent_pair[u]:
                        parent_pair[other] = pair
                        order[n_done] = other
                        n_done += 1
        block += 1
        block_ptr[block] = n_done
    return block
