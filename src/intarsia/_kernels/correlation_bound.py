"""Upper bounds for correlation clustering: disjoint conflicting cycles, packed into the weights.

A negative edge and a path of positive edges between its ends conflict: every clustering either separates an edge of
the path or joins the ends. So it loses at least the smallest absolute weight on the cycle, compared with the sum of
all positive weights. Cycles that share no weight lose independently.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _find_path(start, goal, max_length, adjacency, residual, tolerance, came_by, stamp, tick, queue, depth):
    """Search a shortest path of positive edges by breadth; return whether there is one, and the edges looked at."""
    ptr, node, edge = adjacency
    queue[0], stamp[start], depth[start] = start, tick, 0
    head, tail, n_visits = 0, 1, 0
    while head < tail:
        v = queue[head]
        head += 1
        if depth[v] >= max_length:
            break
        for k in range(ptr[v], ptr[v + 1]):
            n_visits += 1
            u = node[k]
            if residual[edge[k]] > tolerance and stamp[u] != tick:
                stamp[u], came_by[u], depth[u] = tick, k, depth[v] + 1
                if u == goal:
                    return True, n_visits
                queue[tail] = u
                tail += 1
    return False, n_visits


@kernel
def pack_cycles(negative, ends, adjacency, residual, max_length, max_visits, tolerance):
    """Pack conflicting cycles of the negative edges into `residual`, in place.

    Paths have at most `max_length` edges. Return the packed weight, and the number of negative edges that were treated
    before `max_visits` edges had been looked at.
    """
    ptr, _, edge = adjacency
    n = ptr.shape[0] - 1
    came_by, stamp = np.empty(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    queue, depth = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    packed, n_visits, tick = 0.0, 0, 0
    for position in range(negative.shape[0]):
        e = negative[position]
        start, goal = ends[e, 0], ends[e, 1]
        while residual[e] < -tolerance:
            has_path, n_looked = _find_path(
                start, goal, max_length, adjacency, residual, tolerance, came_by, stamp, tick, queue, depth
            )
            n_visits += n_looked
            tick += 1
            if not has_path:
                break
            amount, v = -residual[e], goal
            while v != start:
                k = came_by[v]
                amount = min(amount, residual[edge[k]])
                f = edge[k]
                v = ends[f, 0] + ends[f, 1] - v
            residual[e] += amount
            packed += amount
            v = goal
            while v != start:
                f = edge[came_by[v]]
                residual[f] -= amount
                v = ends[f, 0] + ends[f, 1] - v
        if n_visits > max_visits:
            return packed, position + 1
    return packed, negative.shape[0]
