"""Correlation clustering of one graph by local moves: move single nodes, and redistribute pairs of clusters.

The second kind of move follows Kernighan and Lin: the nodes of two clusters (or of one cluster and an empty one) change
sides one after another, the best first and each once, even if the score falls; the best of the partitions on the way
is kept. It joins, splits and exchanges.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel
from intarsia._kernels.correlation_arguments import Clusters, has_source_of, insert_node, remove_node


@kernel
def _move_nodes(graph, clusters, empty, n_empty, total, stamp, tolerance):
    """Move each node to the neighbouring or empty cluster where it adds most; return gain and number of empty ones."""
    n, gain = graph.size.shape[0], 0.0
    near_clusters = np.empty(n, dtype=np.int64)
    for v in range(n):
        home, n_near = clusters.label[v], 0
        for k in range(graph.ptr[v], graph.ptr[v + 1]):
            c = clusters.label[graph.node[k]]
            if stamp[c] != v:
                stamp[c], total[c] = v, 0.0
                near_clusters[n_near] = c
                n_near += 1
            total[c] += graph.weight[graph.edge[k]]
        size = graph.size[v]
        at_home = graph.absent * size * (clusters.n_records[home] - size)
        if stamp[home] == v:
            at_home += total[home]
        best, target = tolerance, -1
        for k in range(n_near):
            c = near_clusters[k]
            value = total[c] + graph.absent * size * clusters.n_records[c] - at_home
            if (
                c != home
                and value > best
                and clusters.n_records[c] + size <= graph.max_size
                and not (graph.source.shape[0] and has_source_of(v, c, graph, clusters))
            ):
                best, target = value, c
        if -at_home > best and clusters.n_records[home] > size:
            best, target = -at_home, empty[n_empty - 1]
        for k in range(n_near):
            stamp[near_clusters[k]] = -1
        if target >= 0:
            if clusters.first[target] < 0:
                n_empty -= 1
            remove_node(v, graph, clusters)
            insert_node(v, target, graph, clusters)
            gain += best
            if clusters.first[home] < 0:
                empty[n_empty] = home
                n_empty += 1
    return gain, n_empty


@kernel
def _sources_differ(nodes, side, graph):
    """Return whether no source occurs twice on one side."""
    for i in range(nodes.shape[0]):
        for j in range(i):
            if side[i] == side[j]:
                for p in range(graph.source_ptr[nodes[i]], graph.source_ptr[nodes[i] + 1]):
                    for q in range(graph.source_ptr[nodes[j]], graph.source_ptr[nodes[j] + 1]):
                        if graph.source[p] == graph.source[q]:
                            return False
    return True


@kernel
def _redistribute(a, b, graph, clusters, place, max_nodes, tolerance):
    """Redistribute the nodes of clusters a and b between the two; return the gain (0 if nothing changed)."""
    n = 0
    for c in (a, b):
        v = clusters.first[c]
        while v >= 0:
            n += 1
            v = clusters.following[v]
    if n < 2 or n > max_nodes:
        return 0.0
    nodes, side, n = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_), 0
    for c in (a, b):
        v = clusters.first[c]
        while v >= 0:
            nodes[n], side[n], place[v] = v, c == b, n
            n += 1
            v = clusters.following[v]
    gain_of_edges = np.zeros(n)  # weight of edges to the other side minus weight of edges to the own side
    records = np.zeros(2, dtype=np.int64)
    for i in range(n):
        records[int(side[i])] += graph.size[nodes[i]]
        for k in range(graph.ptr[nodes[i]], graph.ptr[nodes[i] + 1]):
            j = place[graph.node[k]]
            if j >= 0:
                gain_of_edges[i] += graph.weight[graph.edge[k]] * (1.0 if side[i] != side[j] else -1.0)
    order, locked = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    current = best = 0.0
    n_best = 0
    start = side.copy()
    for step in range(n):
        best_node, best_gain = -1, -np.inf
        for i in range(n):
            if not locked[i]:
                n_own_side, n_other_side = records[int(side[i])], records[int(not side[i])]
                gain = gain_of_edges[i] + graph.absent * graph.size[nodes[i]] * (
                    n_other_side - n_own_side + graph.size[nodes[i]]
                )
                if gain > best_gain:
                    best_node, best_gain = i, gain
        i = best_node
        locked[i], order[step] = True, i
        records[int(side[i])] -= graph.size[nodes[i]]
        side[i] = not side[i]
        records[int(side[i])] += graph.size[nodes[i]]
        current += best_gain
        for k in range(graph.ptr[nodes[i]], graph.ptr[nodes[i] + 1]):
            j = place[graph.node[k]]
            if j >= 0:
                gain_of_edges[j] += 2.0 * graph.weight[graph.edge[k]] * (1.0 if side[i] != side[j] else -1.0)
        gain_of_edges[i] = -gain_of_edges[i]
        if (
            current > best + tolerance
            and max(records[0], records[1]) <= graph.max_size
            and (not graph.source.shape[0] or _sources_differ(nodes, side, graph))
        ):
            best, n_best = current, step + 1
    for i in range(n):
        place[nodes[i]] = -1
    for step in range(n_best):
        i = order[step]
        remove_node(nodes[i], graph, clusters)
        insert_node(nodes[i], a if start[i] else b, graph, clusters)
    return best


@kernel
def improve_clusters(labels, graph, max_nodes, max_rounds, tolerance):
    """Improve a clustering in place by rounds of local moves; return the gain and whether the last gained nothing.

    The weights must be finite: a forbidden pair has a weight below minus the sum of all positive weights.
    """
    n = graph.size.shape[0]
    none = np.full(n, -1, dtype=np.int64)
    clusters = Clusters(
        labels, none.copy(), none.copy(), none.copy(), np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    )
    for v in range(n):
        insert_node(v, labels[v], graph, clusters)
    empty, n_empty = np.empty(n, dtype=np.int64), 0
    for c in range(n):
        if clusters.first[c] < 0:
            empty[n_empty] = c
            n_empty += 1
    total, stamp, place = np.zeros(n), none.copy(), none.copy()
    gain = 0.0
    for _ in range(max_rounds):
        gain_of_round = 0.0
        while True:
            step, n_empty = _move_nodes(graph, clusters, empty, n_empty, total, stamp, tolerance)
            gain_of_round += step
            if step <= 0.0:
                break
        was_changed = clusters.changed.copy()
        clusters.changed[:] = 0
        neighbours = np.empty(n, dtype=np.int64)
        for a in range(n):
            if clusters.first[a] < 0:
                continue
            n_neighbours = 0
            v = clusters.first[a]
            while v >= 0:
                for k in range(graph.ptr[v], graph.ptr[v + 1]):
                    c = clusters.label[graph.node[k]]
                    if c != a and stamp[c] != a and (c > a or not was_changed[c]):
                        stamp[c] = a
                        neighbours[n_neighbours] = c
                        n_neighbours += 1
                v = clusters.following[v]
            for k in range(n_neighbours):
                stamp[neighbours[k]] = -1
            for k in range(n_neighbours):
                b = neighbours[k]
                if (was_changed[a] or was_changed[b]) and clusters.first[b] >= 0 and clusters.first[a] >= 0:
                    gain_of_round += _redistribute(a, b, graph, clusters, place, max_nodes, tolerance)
                    for c in (a, b):
                        if clusters.first[c] < 0:
                            empty[n_empty] = c
                            n_empty += 1
            if was_changed[a] and clusters.first[a] >= 0 and n_empty:
                b = empty[n_empty - 1]
                gain_of_round += _redistribute(a, b, graph, clusters, place, max_nodes, tolerance)
                if clusters.first[b] >= 0:
                    n_empty -= 1
                    if clusters.first[a] < 0:
                        empty[n_empty] = a
                        n_empty += 1
        gain += gain_of_round
        if gain_of_round <= 0.0:
            return gain, True
    return gain, False
