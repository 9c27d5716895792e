"""Maximum flow by two search trees that are kept between augmentations (Boykov2004), with real capacities.

Arcs are sorted by their tail: those of node v are `arc_ptr[v]` to `arc_ptr[v + 1]`, `head` is the node where an arc
ends, `reverse` the opposite arc, `capacity` its residual capacity. `terminal[v]` is the residual capacity from the
source (positive) or to the sink (negative). `parent[v]` is the arc from v towards the root of its tree. Capacities may
be infinite. Queues are circular with room for more than all nodes, so that begin = end means empty.

Nodes and arcs are unsigned integers: Numba then omits the check for negative indices, which takes a fifth off the time.
Numbers that are added to them are unsigned too, as the sum of a signed and an unsigned integer is a float.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

FREE, SOURCE, SINK = 0, 1, 2
# Values of `parent` that are not arcs; every arc is below `_ORPHAN`.
_ROOT, _NONE, _ORPHAN = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
# Positions in `cursor`: begin and end of the queue, node whose growth was interrupted, time stamp.
_BEGIN, _END, _CURRENT, _TIME = 0, 1, 2, 3
_NEXT = np.uint64(1)


@kernel
def lay_network(unary, edges, tables, next_arc, network):
    """Fill the network of an attractive model; return the score if free variables have state 0 and no edge is cut.

    A variable on the side of the source has state 0. With c = -score, the cost of an edge is
    c00 + (c10 - c00) x_i + (c11 - c10) x_j + (c01 + c10 - c00 - c11) (1 - x_i) x_j,
    or the equivalent form with exchanged states, which is used where c10 is infinite. `next_arc` is a work array with
    an entry per variable.
    """
    arc_ptr, head, reverse, capacity, terminal = network
    arc_ptr[:] = 0
    for e in range(edges.shape[0]):
        arc_ptr[edges[e, 0] + 1] += 1
        arc_ptr[edges[e, 1] + 1] += 1
    for v in range(terminal.shape[0]):
        arc_ptr[v + 1] += arc_ptr[v]
        next_arc[v] = arc_ptr[v]
        terminal[v] = 0.0
    score = 0.0
    for e in range(edges.shape[0]):
        first, second = edges[e, 0], edges[e, 1]
        cost_00, cost_01, cost_10, cost_11 = -tables[e, 0, 0], -tables[e, 0, 1], -tables[e, 1, 0], -tables[e, 1, 1]
        forward, backward = max(cost_01 + cost_10 - cost_00 - cost_11, 0.0), 0.0
        if cost_10 < np.inf:
            cost_first, cost_second = cost_10 - cost_00, cost_11 - cost_10
        elif cost_01 < np.inf:
            forward, backward = 0.0, forward
            cost_first, cost_second = cost_11 - cost_01, cost_01 - cost_00
        else:
            backward = forward
            cost_first, cost_second = cost_11 - cost_00, 0.0
        score -= cost_00
        terminal[first] += cost_first
        terminal[second] += cost_second
        a, b = next_arc[first], next_arc[second]
        next_arc[first] += 1
        next_arc[second] += 1
        head[a], head[b] = second, first
        reverse[a], reverse[b] = b, a
        capacity[a], capacity[b] = forward, backward
    for v in range(terminal.shape[0]):
        if unary[v, 1] == -np.inf:  # fixed to state 0
            score += unary[v, 0]
            terminal[v] = np.inf
        elif unary[v, 0] == -np.inf:  # fixed to state 1
            score += unary[v, 1] - terminal[v]
            terminal[v] = -np.inf
        else:
            score += unary[v, 0]
            terminal[v] += unary[v, 0] - unary[v, 1]
    return score


@kernel
def balance_terminals(network, n_sweeps):
    """Move terminal capacities along the arcs, forward and backward in turns; return the finite capacity to the sink.

    Flow f on the arc (v, u) and a transfer of f from the terminal capacity of v to that of u leave the cost of every
    cut as it is, and opposite capacities that meet in a node cancel. Each node passes as much as possible, in equal
    portions, to its later neighbours (sweep forward) or its earlier ones (sweep backward).
    Most of the flow is found in this way, and a sweep is cheaper than the search trees.
    """
    arc_ptr, head, reverse, capacity, terminal = network
    n = terminal.shape[0]
    for sweep in range(n_sweeps):
        forward = sweep % 2 == 0
        for i in range(n):
            v = np.uint64(i if forward else n - 1 - i)
            begin, end = np.uint64(arc_ptr[v]), np.uint64(arc_ptr[v + _NEXT])
            n_neighbours = 0
            for a in range(begin, end):
                n_neighbours += np.int64((head[a] > v) == forward)
            excess = terminal[v]
            if abs(excess) == np.inf:
                continue
            for a in range(begin, end):
                u = head[a]
                if (u > v) == forward:
                    b = reverse[a]
                    flow = min(max(excess / n_neighbours, -capacity[b]), capacity[a])
                    n_neighbours -= 1
                    capacity[a] -= flow
                    capacity[b] += flow
                    excess -= flow
                    terminal[u] += flow
            terminal[v] = excess
    to_sink = 0.0
    for v in range(n):
        if -np.inf < terminal[v] < 0.0:
            to_sink -= terminal[v]
    return to_sink


@kernel
def plant_trees(network, trees):
    """Make every node with a terminal capacity the root of a tree, and active."""
    terminal, tree, parent, stamp, distance = network.terminal, trees.tree, trees.parent, trees.stamp, trees.distance
    queue, waiting, cursor = trees.queue, trees.waiting, trees.cursor
    n_active = 0
    for v in range(terminal.shape[0]):
        side = SOURCE if terminal[v] > 0.0 else (SINK if terminal[v] < 0.0 else FREE)
        tree[v] = side
        parent[v] = _ROOT if side != FREE else _NONE
        stamp[v], distance[v] = 0, 1
        waiting[v] = side != FREE
        if side != FREE:
            queue[n_active] = v
            n_active += 1
    cursor[_BEGIN], cursor[_END], cursor[_CURRENT], cursor[_TIME] = 0, n_active, -1, 0


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
    for a in range(np.uint64(arc_ptr[v]), np.uint64(arc_ptr[v + _NEXT])):
        b, u = reverse[a], head[a]
        if (capacity[a] if side == SOURCE else capacity[b]) <= 0.0:
            continue
        if tree[u] == FREE:
            tree[u] = side
            parent[u] = b
            stamp[u], distance[u] = stamp[v], distance[v] + 1
            _activate(u, queue, waiting, cursor)
        elif tree[u] != side:
            return np.int64(a) if side == SOURCE else np.int64(b)
        elif stamp[u] <= stamp[v] and distance[u] > distance[v]:  # a shorter path to the root
            parent[u] = b
            stamp[u], distance[u] = stamp[v], distance[v] + 1
    return -1


@kernel
def _augment(middle, head, reverse, capacity, terminal, parent, orphans):
    """Push the largest possible flow along the path through arc `middle`; return it and the number of orphans."""
    flow = capacity[middle]
    tail = head[reverse[middle]]
    v = tail
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
        v = tail if towards_source else head[middle]
        while parent[v] != _ROOT:
            a = parent[v]
            forward_arc, backward_arc = (reverse[a], a) if towards_source else (a, reverse[a])
            capacity[forward_arc] -= flow
            capacity[backward_arc] += flow
            if capacity[forward_arc] <= 0.0:
                parent[v] = _ORPHAN
                orphans[n] = v
                n += 1
            v = head[a]
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
        if parent[u] >= _ORPHAN:
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
        for a in range(np.uint64(arc_ptr[v]), np.uint64(arc_ptr[v + _NEXT])):
            u = head[a]
            if tree[u] != side or (capacity[reverse[a]] if side == SOURCE else capacity[a]) <= 0.0:
                continue
            steps = _distance_to_root(u, time, head, parent, stamp, distance)
            if steps < 0:
                continue
            if best < 0 or steps < nearest:
                best, nearest = np.int64(a), steps
            while stamp[u] != time:
                stamp[u], distance[u] = time, steps
                steps -= 1
                u = head[parent[u]]
        if best >= 0:
            parent[v] = best
            stamp[v], distance[v] = time, nearest + 1
            continue
        for a in range(np.uint64(arc_ptr[v]), np.uint64(arc_ptr[v + _NEXT])):
            u = head[a]
            if tree[u] != side:
                continue
            if (capacity[reverse[a]] if side == SOURCE else capacity[a]) > 0.0:
                _activate(u, queue, waiting, cursor)
            if parent[u] < _ORPHAN and head[parent[u]] == v:
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
                    v = np.int64(u)
                    break
            if v < 0:
                return total, True
        middle = _grow(
            np.uint64(v), arc_ptr, head, reverse, capacity, tree, parent, stamp, distance, queue, waiting, cursor
        )
        cursor[_TIME] += 1
        if middle < 0:
            cursor[_CURRENT] = -1
            continue
        cursor[_CURRENT] = v
        flow, n_orphans = _augment(np.uint64(middle), head, reverse, capacity, terminal, parent, orphans)
        if flow == np.inf:
            return flow, True
        total += flow
        budget -= 1
        _adopt(
            n_orphans, arc_ptr, head, reverse, capacity, tree, parent, stamp, distance, queue, waiting, cursor, orphans
        )
    return total, False
