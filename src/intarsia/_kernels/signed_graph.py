"""Graphs with signed edges: which nodes to flip so that every edge becomes positive."""

from __future__ import annotations

from intarsia._core.jit import kernel


@kernel
def _find_root(v, parent, parity):
    """Return the root of v and whether v differs from it; afterwards v points to the root directly."""
    root, differs = v, False
    while parent[root] != root:
        differs ^= parity[root]
        root = parent[root]
    # Nodes on the way are attached to the root as well, which keeps later searches short.
    node, remaining = v, differs
    while parent[node] != root and node != root:
        next_node, step = parent[node], parity[node]
        parent[node], parity[node] = root, remaining
        remaining ^= step
        node = next_node
    return root, differs


@kernel
def find_flips(edges, signs, parent, parity, is_contradictory):
    """Join the ends of all edges whose sign is not 0 in sets, by union-find with parities.

    Afterwards `parity[v]` is whether v must be flipped if the node with the smallest index of its component is not,
    and `is_contradictory[v]` is whether the component has a cycle with an odd number of negative edges.
    """
    n = parent.shape[0]
    for v in range(n):
        parent[v], parity[v], is_contradictory[v] = v, False, False
    for e in range(edges.shape[0]):
        if signs[e] == 0:
            continue
        first_root, first_differs = _find_root(edges[e, 0], parent, parity)
        second_root, second_differs = _find_root(edges[e, 1], parent, parity)
        is_odd = first_differs ^ second_differs ^ (signs[e] < 0)
        low, high = min(first_root, second_root), max(first_root, second_root)
        if low == high:
            is_contradictory[low] |= is_odd
        else:
            parent[high], parity[high] = low, is_odd
            is_contradictory[low] |= is_contradictory[high]
    for v in range(n):
        root, differs = _find_root(v, parent, parity)
        parity[v] = differs
        is_contradictory[v] = is_contradictory[root]
