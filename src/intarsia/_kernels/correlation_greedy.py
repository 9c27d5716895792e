"""Correlation clustering of one graph by greedy joining of the two clusters with the largest gain."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from intarsia._core.jit import kernel

_EMPTY = -1


@kernel
def _find_root(v, parent):
    """Return the node that stands for the cluster of v, with path halving."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@kernel
def _slot_of(a, b, n, keys):
    """Return the slot of the hash table with the edge between two clusters, or the empty slot where it belongs."""
    low, high = min(a, b), max(a, b)
    key = low * n + high
    mask = keys.shape[0] - 1
    slot = (key * 0x9E3779B1 ^ (key >> 17)) & mask
    while keys[slot] != _EMPTY and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _fill_table(ends, alive, parent, n, keys, edge_at):
    """Rebuild the hash table of all edges between clusters; return their number."""
    keys[:] = _EMPTY
    n_used = 0
    for e in range(ends.shape[0]):
        if alive[e]:
            a, b = _find_root(ends[e, 0], parent), _find_root(ends[e, 1], parent)
            slot = _slot_of(a, b, n, keys)
            keys[slot], edge_at[slot] = min(a, b) * n + max(a, b), e
            n_used += 1
    return n_used


@kernel
def _share_source(a, b, next_source, first_source, source, stamp, tick):
    """Return whether two clusters have records of the same source."""
    p = first_source[a]
    while p >= 0:
        stamp[source[p]] = tick
        p = next_source[p]
    p = first_source[b]
    while p >= 0:
        if stamp[source[p]] == tick:
            return True
        p = next_source[p]
    return False


@kernel
def join_greedily(ends, graph):
    """Return the cluster of each node, as the number of one of its nodes.

    A heap holds the gains of joining two clusters. Gains fall when a cluster grows (`absent` is not positive) and rise
    when parallel edges are merged: a rise is entered at once, a fall when the old entry is taken from the heap. Edges
    are found by their two clusters in a hash table; when two clusters are joined, the edges of the one with fewer
    edges are moved.
    """
    n, m = graph.size.shape[0], ends.shape[0]
    parent, size, weight = np.arange(n), graph.size.copy(), graph.weight.copy()
    alive = np.ones(m, dtype=np.bool_)
    n_slots = 16
    while n_slots < 3 * m:
        n_slots *= 2
    keys, edge_at = np.empty(n_slots, dtype=np.int64), np.empty(n_slots, dtype=np.int64)
    n_used = _fill_table(ends, alive, parent, n, keys, edge_at)
    # Edges of each cluster in a linked list of half edges: 2 e and 2 e + 1 belong to edge e.
    first, last = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    following, degree = np.full(2 * m, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for h in range(2 * m):
        v = ends[h // 2, h % 2]
        if first[v] < 0:
            first[v] = h
        else:
            following[last[v]] = h
        last[v] = h
        degree[v] += 1
    n_sources = graph.source.shape[0]
    first_source, last_source = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    next_source = np.full(n_sources, -1, dtype=np.int64)
    stamp, tick = np.zeros(graph.source.max() + 1 if n_sources else 0, dtype=np.int64), 0
    if n_sources:
        for v in range(n):
            for p in range(graph.source_ptr[v], graph.source_ptr[v + 1]):
                if first_source[v] < 0:
                    first_source[v] = p
                else:
                    next_source[last_source[v]] = p
                last_source[v] = p
    heap = [(0.0, 0) for _ in range(0)]
    for e in range(m):
        gain = weight[e] + graph.absent * size[ends[e, 0]] * size[ends[e, 1]]
        if gain > 0.0:
            heap.append((-gain, e))
    heapify(heap)
    while len(heap):
        priority, e = heappop(heap)
        if not alive[e]:
            continue
        a, b = _find_root(ends[e, 0], parent), _find_root(ends[e, 1], parent)
        gain = weight[e] + graph.absent * size[a] * size[b]
        if gain <= 0.0 or size[a] + size[b] > graph.max_size:
            continue
        if gain < -priority:
            heappush(heap, (-gain, e))
            continue
        tick += 1
        if n_sources and _share_source(a, b, next_source, first_source, graph.source, stamp, tick):
            continue
        if degree[a] < degree[b]:
            a, b = b, a
        alive[e] = False
        parent[b] = a
        size[a] += size[b]
        if n_sources and first_source[b] >= 0:
            if first_source[a] < 0:
                first_source[a] = first_source[b]
            else:
                next_source[last_source[a]] = first_source[b]
            last_source[a] = last_source[b]
        h = first[b]
        while h >= 0:
            f = h // 2
            after = following[h]
            if alive[f]:
                # The other end; it is a itself if the edge connects the two clusters.
                v = _find_root(ends[f, 1 - h % 2], parent)
                if v == a:
                    alive[f] = False
                else:
                    slot = _slot_of(a, v, n, keys)
                    if keys[slot] == _EMPTY:
                        keys[slot], edge_at[slot] = min(a, v) * n + max(a, v), f
                        n_used += 1
                    else:
                        kept_edge = edge_at[slot]
                        weight[kept_edge] += weight[f]
                        alive[f] = False
                        f = kept_edge
                    gain = weight[f] + graph.absent * size[a] * size[v]
                    if gain > 0.0:
                        heappush(heap, (-gain, f))
            h = after
        if first[b] >= 0:
            if first[a] < 0:
                first[a] = first[b]
            else:
                following[last[a]] = first[b]
            last[a] = last[b]
            degree[a] += degree[b]
        if 3 * n_used > 2 * n_slots:
            n_used = _fill_table(ends, alive, parent, n, keys, edge_at)
    labels = np.empty(n, dtype=np.int64)
    for v in range(n):
        labels[v] = _find_root(v, parent)
    return labels
