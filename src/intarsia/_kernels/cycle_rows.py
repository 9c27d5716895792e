"""Violated cycle inequalities of correlation clustering, found as shortest paths."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from intarsia._core.jit import kernel

_MIN_VIOLATION = 1e-6


@kernel
def violated_cycles(pairs, by_first, adjacency, length):
    """Return, for each pair that is longer than the shortest path between its ends, the path and then the pair.

    Parameters
    ----------
    pairs : int array (n_pairs, 2)
        Ends of the pairs.
    by_first : int array (n_pairs,)
        Pairs in the order of their first end.
    adjacency : tuple of int arrays (ptr, others, pair_of)
        Neighbours of each node, and the pair that leads there.
    length : float array (n_pairs,)
        Length of each pair, at least 0.

    Returns
    -------
    row_ptr, columns : int arrays
        Row r consists of the pairs `columns[row_ptr[r]:row_ptr[r + 1]]`, the violated one last.
    """
    ptr, others, pair_of = adjacency
    n_nodes = ptr.shape[0] - 1
    distance = np.full(n_nodes, np.inf)
    before = np.full(n_nodes, -1)
    visited = np.empty(n_nodes, dtype=np.int64)
    row_ptr = [0]
    columns = [0 for _ in range(0)]
    position = 0
    while position < by_first.shape[0]:
        source = pairs[by_first[position], 0]
        begin = position
        farthest = 0.0
        while position < by_first.shape[0] and pairs[by_first[position], 0] == source:
            farthest = max(farthest, length[by_first[position]])
            position += 1
        if farthest <= _MIN_VIOLATION:
            continue
        heap = [(0.0, source)]
        distance[source] = 0.0
        visited[0] = source
        n_visited = 1
        while heap:
            so_far, node = heappop(heap)
            if so_far > distance[node]:
                continue
            for slot in range(ptr[node], ptr[node + 1]):
                new_distance = so_far + length[pair_of[slot]]
                other = others[slot]
                if new_distance < distance[other] and new_distance < farthest:
                    if distance[other] == np.inf:
                        visited[n_visited] = other
                        n_visited += 1
                    distance[other] = new_distance
                    before[other] = slot
                    heappush(heap, (new_distance, other))
        for k in range(begin, position):
            pair = by_first[k]
            node = pairs[pair, 1]
            if length[pair] <= distance[node] + _MIN_VIOLATION:
                continue
            while node != source:
                edge = pair_of[before[node]]
                columns.append(edge)
                node = pairs[edge, 0] + pairs[edge, 1] - node
            columns.append(pair)
            row_ptr.append(len(columns))
        for k in range(n_visited):
            distance[visited[k]] = np.inf
    return np.array(row_ptr), np.array(columns)
