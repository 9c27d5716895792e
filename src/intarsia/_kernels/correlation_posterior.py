"""Posterior of correlation clustering: exact for small components, by Metropolis-Hastings for large ones.

A clustering has probability proportional to exp(sum of the weights within its clusters). Only clusterings whose
clusters are connected by supporting edges count: records that were never compared, directly or by way of others, are
not joined. The sampler alternates two moves, both exact. Heat bath: a node chooses among the clusters of its neighbours
and a cluster of its own, unless its cluster would fall apart without it. Split or merge: of the two ends of a random
supporting edge, as in Jain and Neal (2004) and Dahl (2005), with sequential allocation of the other nodes.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel
from intarsia._kernels.correlation_arguments import Clusters, has_source_of, insert_node, remove_node


@kernel
def _is_connected(members, n_members, side, value, graph, support, stack, stamp, tick):
    """Return whether the members on one side are connected by supporting edges."""
    start, n_side = -1, 0
    for i in range(n_members):
        if side[members[i]] == value:
            start = members[i]
            n_side += 1
    stack[0], stamp[start], n_stack, n_reached = start, tick, 1, 1
    while n_stack:
        n_stack -= 1
        v = stack[n_stack]
        for k in range(graph.ptr[v], graph.ptr[v + 1]):
            u = graph.node[k]
            if side[u] == value and stamp[u] != tick and support[graph.edge[k]]:
                stamp[u], stack[n_stack] = tick, u
                n_stack += 1
                n_reached += 1
    return n_reached == n_side


@kernel
def _is_removable(v, graph, support, clusters, stack, stamp, tick):
    """Return whether the cluster of v without v is connected by supporting edges."""
    home, start, n_targets = clusters.label[v], -1, 0
    for k in range(graph.ptr[v], graph.ptr[v + 1]):
        u = graph.node[k]
        if clusters.label[u] == home and support[graph.edge[k]]:
            start = u
            stamp[u] = tick
            n_targets += 1
    if n_targets <= 1:
        return True
    # Nodes to be connected have the stamp `tick`, nodes that were connected `tick + 1`.
    stack[0], stamp[start], n_stack, n_reached = start, tick + 1, 1, 1
    while n_stack:
        n_stack -= 1
        w = stack[n_stack]
        for k in range(graph.ptr[w], graph.ptr[w + 1]):
            u = graph.node[k]
            if u != v and clusters.label[u] == home and stamp[u] != tick + 1 and support[graph.edge[k]]:
                n_reached += stamp[u] == tick
                if n_reached == n_targets:
                    return True
                stamp[u], stack[n_stack] = tick + 1, u
                n_stack += 1
    return False


@kernel
def _choose_cluster(v, rng, graph, support, clusters, empty, n_empty, total, near_clusters, has_support):
    """Draw the cluster of a node from its conditional distribution; return the number of empty clusters."""
    home, n_near = clusters.label[v], 0
    remove_node(v, graph, clusters)
    if clusters.first[home] < 0:
        empty[n_empty] = home
        n_empty += 1
    for k in range(graph.ptr[v], graph.ptr[v + 1]):
        c = clusters.label[graph.node[k]]
        if not support[graph.edge[k]] or has_support[c]:
            continue
        has_support[c] = True
        near_clusters[n_near] = c
        n_near += 1
    for k in range(graph.ptr[v], graph.ptr[v + 1]):
        total[clusters.label[graph.node[k]]] += graph.weight[graph.edge[k]]
    size, highest = graph.size[v], 0.0
    for k in range(n_near):
        c = near_clusters[k]
        total[c] += graph.absent * size * clusters.n_records[c]
        if clusters.n_records[c] + size > graph.max_size or (
            graph.source.shape[0] and has_source_of(v, c, graph, clusters)
        ):
            total[c] = -np.inf
        highest = max(highest, total[c])
    normalizer = np.exp(-highest)
    for k in range(n_near):
        normalizer += np.exp(total[near_clusters[k]] - highest)
    rest, target = rng.random() * normalizer - np.exp(-highest), -1
    for k in range(n_near):
        c = near_clusters[k]
        if rest >= 0.0 and target < 0:
            rest -= np.exp(total[c] - highest)
            if rest < 0.0:
                target = c
        has_support[c] = False
    for k in range(graph.ptr[v], graph.ptr[v + 1]):
        total[clusters.label[graph.node[k]]] = 0.0
    if target < 0:
        n_empty -= 1
        target = empty[n_empty]
    insert_node(v, target, graph, clusters)
    return n_empty


@kernel
def _allocate(i, j, members, n_members, forced_label, rng, graph, clusters, side):
    """Allocate the members to the sides of i and j one after another; return log probability and weight between.

    With a label in `forced_label`, the members with this label go to the side of i, the others to the side of j. A
    label of -1 draws the sides.
    """
    records = np.array([graph.size[i], graph.size[j]])
    log_probability, between = 0.0, graph.absent * records[0] * records[1]
    side[i], side[j] = 0, 1
    for k in range(graph.ptr[i], graph.ptr[i + 1]):
        if graph.node[k] == j:
            between += graph.weight[graph.edge[k]]
    for m in range(n_members):
        u = members[m]
        to_first = graph.absent * graph.size[u] * records[0]
        to_second = graph.absent * graph.size[u] * records[1]
        for k in range(graph.ptr[u], graph.ptr[u + 1]):
            if side[graph.node[k]] == 0:
                to_first += graph.weight[graph.edge[k]]
            elif side[graph.node[k]] == 1:
                to_second += graph.weight[graph.edge[k]]
        log_odds = to_first - to_second
        if forced_label < 0:
            new_side = 0 if rng.random() * (1.0 + np.exp(-log_odds)) < 1.0 else 1
        else:
            new_side = 0 if clusters.label[u] == forced_label else 1
        log_probability -= np.logaddexp(0.0, -log_odds if new_side == 0 else log_odds)
        between += to_second if new_side == 0 else to_first
        side[u] = new_side
        records[new_side] += graph.size[u]
    return log_probability, between


@kernel
def _collect(c, i, j, members, n_members, clusters):
    """Append the nodes of a cluster other than i and j to the members; return their number."""
    v = clusters.first[c]
    while v >= 0:
        if v != i and v != j:
            members[n_members] = v
            n_members += 1
        v = clusters.following[v]
    return n_members


@kernel
def _split_or_merge(i, j, rng, graph, support, clusters, empty, n_empty, members, side, stack, stamp, tick):
    """Propose to split the cluster of i and j, or to merge their two clusters; return the number of empty clusters."""
    a, b = clusters.label[i], clusters.label[j]
    n_members = _collect(a, i, j, members, 0, clusters)
    if a != b:
        if clusters.n_records[a] + clusters.n_records[b] > graph.max_size:
            return n_empty
        n_members = _collect(b, i, j, members, n_members, clusters)
        if graph.source.shape[0]:
            v = clusters.first[b]
            while v >= 0:
                if has_source_of(v, a, graph, clusters):
                    return n_empty
                v = clusters.following[v]
    for k in range(n_members - 1, 0, -1):
        swap = int(rng.random() * (k + 1))
        members[k], members[swap] = members[swap], members[k]
    log_probability, between = _allocate(i, j, members, n_members, -1 if a == b else a, rng, graph, clusters, side)
    if a == b:
        accept = np.log(rng.random()) < -between - log_probability
        members[n_members], members[n_members + 1] = i, j
        for value in (0, 1):
            accept = accept and _is_connected(
                members, n_members + 2, side, value, graph, support, stack, stamp, tick + value
            )
        if accept:
            n_empty -= 1
            for k in range(n_members + 2):
                if side[members[k]] == 1:
                    remove_node(members[k], graph, clusters)
                    insert_node(members[k], empty[n_empty], graph, clusters)
    elif np.log(rng.random()) < between + log_probability:
        while clusters.first[b] >= 0:
            v = clusters.first[b]
            remove_node(v, graph, clusters)
            insert_node(v, a, graph, clusters)
        empty[n_empty] = b
        n_empty += 1
    side[i], side[j] = -1, -1
    for k in range(n_members):
        side[members[k]] = -1
    return n_empty


@kernel
def sample_clusterings(labels, entity, ends, support, graph, n_samples, rng, edge_sum, node_sum, node_square):
    """Sample clusterings, one after each sweep over the nodes, and add up how often each pair is together.

    `labels` is the first clustering and becomes the last one. `edge_sum` counts the samples in which the ends of an
    edge are together. `node_sum` and `node_square` add up a number for each node and its square: the fraction of the
    other records of its entity that are in its cluster, or whether it is alone, if it is an entity of one record.
    """
    n = graph.size.shape[0]
    none = np.full(n, -1, dtype=np.int64)
    clusters = Clusters(
        labels, none.copy(), none.copy(), none.copy(), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    )
    records_of_entity = np.zeros(n, dtype=np.int64)
    for v in range(n):
        insert_node(v, labels[v], graph, clusters)
        records_of_entity[entity[v]] += graph.size[v]
    empty, n_empty = np.empty(n, dtype=np.int64), 0
    for c in range(n):
        if clusters.first[c] < 0:
            empty[n_empty] = c
            n_empty += 1
    stamp, side, stack, members, near_clusters = none.copy(), none.copy(), none.copy(), none.copy(), none.copy()
    total, has_support, count = np.zeros(n), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.int64)
    supporting = np.flatnonzero(support)
    tick = 0
    for _ in range(n_samples):
        for _ in range(n):
            v = int(rng.random() * n)
            tick += 2
            if _is_removable(v, graph, support, clusters, stack, stamp, tick):
                n_empty = _choose_cluster(
                    v, rng, graph, support, clusters, empty, n_empty, total, near_clusters, has_support
                )
        for _ in range(1 + n // 4 if supporting.shape[0] else 0):
            e = supporting[int(rng.random() * supporting.shape[0])]
            tick += 2
            n_empty = _split_or_merge(
                ends[e, 0], ends[e, 1], rng, graph, support, clusters, empty, n_empty, members, side, stack, stamp, tick
            )
        for e in range(ends.shape[0]):
            edge_sum[e] += labels[ends[e, 0]] == labels[ends[e, 1]]
        for c in range(n):
            v = clusters.first[c]
            while v >= 0:
                count[entity[v]] += graph.size[v]
                v = clusters.following[v]
            v = clusters.first[c]
            while v >= 0:
                n_others = records_of_entity[entity[v]] - 1
                value = (count[entity[v]] - 1) / n_others if n_others else 1.0 * (clusters.n_records[c] == 1)
                node_sum[v] += value
                node_square[v] += value * value
                v = clusters.following[v]
            v = clusters.first[c]
            while v >= 0:
                count[entity[v]] = 0
                v = clusters.following[v]


@kernel
def sum_over_clusterings(chosen_components, component_ptr, entity, support, graph, edge_probability, node_value):
    """Compute for small components what `sample_clusterings` estimates, by dynamic programming over sets of nodes.

    The partition function of a set is the sum over the clusters of its lowest node. The probability of a cluster is
    its weight times the partition function of the remaining nodes, divided by that of all nodes.
    """
    for c in chosen_components:
        first, n = component_ptr[c], component_ptr[c + 1] - component_ptr[c]
        pair, linked = np.empty((n, n)), np.zeros(n, dtype=np.int64)
        for i in range(n):
            for j in range(n):
                pair[i, j] = graph.absent * graph.size[first + i] * graph.size[first + j]
                if graph.source.shape[0] and i != j:
                    for p in range(graph.source_ptr[first + i], graph.source_ptr[first + i + 1]):
                        for q in range(graph.source_ptr[first + j], graph.source_ptr[first + j + 1]):
                            if graph.source[p] == graph.source[q]:
                                pair[i, j] = -np.inf
        for i in range(n):
            for k in range(graph.ptr[first + i], graph.ptr[first + i + 1]):
                j = graph.node[k] - first
                pair[i, j] += graph.weight[graph.edge[k]]
                if support[graph.edge[k]]:
                    linked[i] |= 1 << j
        n_sets = 1 << n
        value, log_partition = np.zeros(n_sets), np.zeros(n_sets)
        members = np.zeros(n_sets, dtype=np.int64)
        for s in range(1, n_sets):
            low = 0
            while not (s >> low) & 1:
                low += 1
            rest = s & (s - 1)
            members[s] = members[rest] + graph.size[first + low]
            total = 0.0
            for i in range(low, n):
                for j in range(i + 1, n):
                    if (s >> i) & 1 and (s >> j) & 1:
                        total += pair[i, j]
            connected, before = 1 << low, 0
            while connected != before:
                before = connected
                for i in range(low, n):
                    if (before >> i) & 1:
                        connected |= linked[i] & s
            value[s] = total if connected == s and (rest == 0 or members[s] <= graph.max_size) else -np.inf
        for s in range(1, n_sets):
            low = 0
            while not (s >> low) & 1:
                low += 1
            rest = s & (s - 1)
            highest, subset = -np.inf, rest
            while True:
                highest = max(highest, value[subset | (1 << low)] + log_partition[rest & ~subset])
                if subset == 0:
                    break
                subset = (subset - 1) & rest
            total, subset = 0.0, rest
            while True:
                total += np.exp(value[subset | (1 << low)] + log_partition[rest & ~subset] - highest)
                if subset == 0:
                    break
                subset = (subset - 1) & rest
            log_partition[s] = highest + np.log(total)
        together = np.zeros((n, n))  # on the diagonal: the probability of being alone
        for s in range(1, n_sets):
            probability = np.exp(value[s] + log_partition[(n_sets - 1) & ~s] - log_partition[n_sets - 1])
            for i in range(n):
                for j in range(n):
                    if (s >> i) & 1 and (s >> j) & 1 and (i != j or s == 1 << i):
                        together[i, j] += probability
        for i in range(n):
            v = first + i
            for k in range(graph.ptr[v], graph.ptr[v + 1]):
                edge_probability[graph.edge[k]] = together[i, graph.node[k] - first]
            n_others, total = graph.size[v] - 1, graph.size[v] - 1.0
            for j in range(n):
                if j != i and entity[first + j] == entity[v]:
                    n_others += graph.size[first + j]
                    total += graph.size[first + j] * together[i, j]
            node_value[v] = total / n_others if n_others else together[i, i]
