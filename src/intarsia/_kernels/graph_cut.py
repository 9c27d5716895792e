"""Maximum flow by two search trees that are kept between augmentations (Boykov2004), with real capacities.

Arcs are sorted by their tail: those of node v are `arc_ptr[v]` to `arc_ptr[v + 1]`, `head` is the node where an arc
ends, `reverse` the opposite arc, `capacity` its residual capacity. `terminal[v]` is the residual capacity from the
source (positive) or to the sink (negative). `parent[v]` is the arc from v towards the root of its tree. Capacities may
be infinite. Queues are circular with room for more than all nodes, so that begin = end means empty.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

FREE, SOURCE, SINK = 0, 1, 2
_ROOT, _NONE, _ORPHAN = -1, -2, -3
# Positions in `cursor`: begin and end of the queue, node whose growth was interrupted, time stamp.
_BEGIN, _END, _CURRENT, _TIME = 0, 1, 2, 3


@kernel
def lay_arcs(ends, capacities, position_of_arc, arc_ptr, head, reverse, capacity):
    """Sort arcs by their tail: arc p leads from `ends[p]` to `ends[p ^ 1]` with capacity `capacities[p]`."""
    arc_ptr[:] = 0
    for p in range(ends.shape[0]):
        arc_ptr[ends[p] + 1] += 1
    for v in range(1, arc_ptr.shape[0]):
        arc_ptr[v] += arc_ptr[v - 1]
    for p in range(ends.shape[0]):  # arc_ptr[v] advances to the end of v's arcs
        position = arc_ptr[ends[p]]
        arc_ptr[ends[p]] += 1
        position_of_arc[p] = position
        head[position] = ends[p ^ 1]
        capacity[position] = capacities[p]
    for v in range(arc_ptr.shape[0] - 1, 0, -1):
        arc_ptr[v] = arc_ptr[v - 1]
    arc_ptr[0] = 0
    for p in range(ends.shape[0]):
        reverse[position_of_arc[p]] = position_of_arc[p ^ 1]


@kernel
def plant_trees(network, trees):
    """Make every node with a terminal capacity the root of a tree, and active."""
    terminal, tree, parent, stamp, distance = network.terminal, trees.tree, trees.parent, trees.stamp, trees.distance
    queue, waiting, cursor = trees.queue, trees.waiting, trees.cursor
    n = terminal.shape[0]
    cursor[:] = 0
    cursor[_CURRENT] = -1
    for v in range(n):
        tree[v] = SOURCE if terminal[v] > 0.0 else (SINK if terminal[v] < 0.0 else FREE)
        parent[v] = _ROOT if tree[v] != FREE else _NONE
        stamp[v], distance[v] = 0, 1
        waiting[v] = tree[v] != FREE
        if waiting[v]:
            queue[cursor[_END]] = v
            cursor[_END] += 1


@kernel
def _activate(v, queue, waiting, cursor):
    """Append a node to the queue of active nodes, unless it is in it."""
    if not waiting[v]:
        waiting[v] = True
        end = cursor[_END]
        queue[end] = v
        cursor[_END] = end + 1 if end + 1 < queue.shape[0] else 0


@kernel
def _grow(v, arc_ptr, head, reverse, capacity, tree, parent, stamp, distance, queue, waiting, cursor):
    """Add the free neighbours of v to its tree; return an arc from the source's tree to the sink's, or -1."""
    side = tree[v]
    for a in range(arc_ptr[v], arc_ptr[v + 1]):
        forward = a if side == SOURCE else reverse[a]
        if capacity[forward] <= 0.0:
            continue
        u = head[a]
        if tree[u] == FREE:
            tree[u] = side
            parent[u] = reverse[a]
            stamp[u], distance[u] = stamp[v], distance[v] + 1
            _activate(u, queue, waiting, cursor)
        elif tree[u] != side:
            return forward
        elif stamp[u] <= stamp[v] and distance[u] > distance[v]:  # a shorter path to the root
            parent[u] = reverse[a]
            stamp[u], distance[u] = stamp[v], distance[v] + 1
    return -1


@kernel
def _augment(middle, head, reverse, capacity, terminal, parent, orphans):
    """Push the largest possible flow along the path through arc `middle`; return it and the number of orphans."""
    flow = capacity[middle]
    v = head[reverse[middle]]
    while parent[v] != _ROOT:
        flow = min(flow, capacity[reverse[parent[v]]])
        v = head[parent[v]]
    flow = min(flow, terminal[v])
    v = head[middle]
    while parent[v] != _ROOT:
        flow = min(flow, capacity[parent[v]])
        v = head[parent[v]]
    flow = min(flow, -terminal[v])
    if flow == np.inf:
        return flow, 0
    n = 0
    capacity[middle] -= flow
    capacity[reverse[middle]] += flow
    for towards_source in (True, False):
        v = head[reverse[middle]] if towards_source else head[middle]
        while parent[v] != _ROOT:
            a = parent[v]
            forward_arc, backward_arc = (reverse[a], a) if towards_source else (a, reverse[a])
            capacity[forward_arc] -= flow
            capacity[backward_arc] += flow
            u = head[a]
            if capacity[forward_arc] <= 0.0:
                parent[v] = _ORPHAN
                orphans[n] = v
                n += 1
            v = u
        terminal[v] += -flow if towards_source else flow
        if terminal[v] == 0.0:
            parent[v] = _ORPHAN
            orphans[n] = v
            n += 1
    return flow, n


@kernel
def _distance_to_root(u, time, head, parent, stamp, distance):
    """Return the distance from u to the root of its tree, or -1 if the path ends at an orphan.

    The search stops at nodes that were already visited at this time.
    """
    steps = 0
    while True:
        if stamp[u] == time:
            return steps + distance[u]
        if parent[u] == _ROOT:
            stamp[u], distance[u] = time, 1
            return steps + 1
        if parent[u] == _ORPHAN or parent[u] == _NONE:
            return -1
        steps += 1
        u = head[parent[u]]


@kernel
def _adopt(n_orphans, arc_ptr, head, reverse, capacity, tree, parent, stamp, distance, queue, waiting, cursor, orphans):
    """Attach each orphan to a new parent in its tree, the one nearest to the root, or set it free."""
    begin, end, size = 0, n_orphans, orphans.shape[0]
    time = cursor[_TIME]
    while begin != end:
        v = orphans[begin]
        begin = begin + 1 if begin + 1 < size else 0
        side = tree[v]
        best, nearest = -1, -1
        for a in range(arc_ptr[v], arc_ptr[v + 1]):
            inward = reverse[a] if side == SOURCE else a
            u = head[a]
            if capacity[inward] <= 0.0 or tree[u] != side or parent[u] == _NONE:
                continue
            steps = _distance_to_root(u, time, head, parent, stamp, distance)
            if steps < 0:
                continue
            if best < 0 or steps < nearest:
                best, nearest = a, steps
            while stamp[u] != time:
                stamp[u], distance[u] = time, steps
                steps -= 1
                u = head[parent[u]]
        if best >= 0:
            parent[v] = best
            stamp[v], distance[v] = time, nearest + 1
            continue
        for a in range(arc_ptr[v], arc_ptr[v + 1]):
            u = head[a]
            if tree[u] != side or parent[u] == _NONE:
                continue
            inward = reverse[a] if side == SOURCE else a
            if capacity[inward] > 0.0:
                _activate(u, queue, waiting, cursor)
            if parent[u] >= 0 and head[parent[u]] == v:
                parent[u] = _ORPHAN
                orphans[end] = u
                end = end + 1 if end + 1 < size else 0
        tree[v], parent[v] = FREE, _NONE


@kernel
def push_flow(budget, network, trees):
    """Augment at most `budget` times; return the flow pushed (inf: no finite cut) and whether the flow is maximal."""
    arc_ptr, head, reverse, capacity = network.arc_ptr, network.head, network.reverse, network.capacity
    terminal, orphans = network.terminal, trees.orphans
    tree, parent, stamp, distance = trees.tree, trees.parent, trees.stamp, trees.distance
    queue, waiting, cursor = trees.queue, trees.waiting, trees.cursor
    total = 0.0
    n = queue.shape[0]
    while budget > 0:
        v = cursor[_CURRENT]
        if v < 0 or tree[v] == FREE:
            v = -1
            while cursor[_BEGIN] != cursor[_END]:
                u = queue[cursor[_BEGIN]]
                cursor[_BEGIN] = cursor[_BEGIN] + 1 if cursor[_BEGIN] + 1 < n else 0
                waiting[u] = False
                if tree[u] != FREE:
                    v = u
                    break
            if v < 0:
                return total, True
        middle = _grow(v, arc_ptr, head, reverse, capacity, tree, parent, stamp, distance, queue, waiting, cursor)
        cursor[_TIME] += 1
        if middle < 0:
            cursor[_CURRENT] = -1
            continue
        cursor[_CURRENT] = v
        flow, n_orphans = _augment(middle, head, reverse, capacity, terminal, parent, orphans)
        if flow == np.inf:
            return flow, True
        total += flow
        budget -= 1
        _adopt(
            n_orphans, arc_ptr, head, reverse, capacity, tree, parent, stamp, distance, queue, waiting, cursor, orphans
        )
    return total, False
