"""Layout of the messages of a pairwise graph, and the ranges of its scores; see `pairwise_messages.py`."""

from __future__ import annotations

from intarsia._core.jit import kernel


@kernel
def order_slots(
    scope_idx, variable_of_rank, rank, slot_ptr, middle, backward, pair_of_slot, opposite, edge_of_slot, factor_of_edge,
    flipped, fill, scratch,
):  # fmt: skip
    """Rank the variables and lay out their slots; all arrays but `scope_idx` are filled here.

    `pair_of_slot` is the pair (position of `scope_idx`) of each slot, `opposite` the slot at the other end of its
    factor. Edges are numbered in the order in which a forward half-sweep meets them; `flipped` marks factors whose
    first axis is the later variable. `backward` is the order of a backward half-sweep: level by level downwards, but
    upwards within a level, so that tables are read in rising order there too. `fill` (n_variables + 1) and `scratch`
    (n_pairs) are work space.
    """
    n_variables, n_pairs = rank.shape[0], scope_idx.shape[0]
    slot_ptr[:] = 0
    for p in range(n_pairs):
        slot_ptr[scope_idx[p] + 1] += 1
    for v in range(n_variables):
        slot_ptr[v + 1] += slot_ptr[v]
        fill[v] = slot_ptr[v]
    for p in range(n_pairs):
        scratch[fill[scope_idx[p]]] = p
        fill[scope_idx[p]] += 1
    for v in range(n_variables):  # level: longest path of rising indices that ends here
        level = 0
        for q in range(slot_ptr[v], slot_ptr[v + 1]):
            u = scope_idx[scratch[q] ^ 1]
            if u < v:
                level = max(level, rank[u] + 1)
        rank[v] = level
    fill[:] = 0
    n_levels = 0
    for v in range(n_variables):
        fill[rank[v] + 1] += 1
        n_levels = max(n_levels, rank[v] + 1)
    for v in range(n_variables):
        fill[v + 1] += fill[v]
    for v in range(n_variables):
        level = rank[v]
        rank[v] = fill[level]
        variable_of_rank[fill[level]] = v
        fill[level] += 1
    position = 0
    for level in range(n_levels - 1, -1, -1):  # fill[level] is the end of the level now
        for i in range(fill[level - 1] if level > 0 else 0, fill[level]):
            backward[position] = i
            position += 1
    slot_ptr[:] = 0  # counting sort of the pairs by neighbour, then a stable one by variable
    for p in range(n_pairs):
        slot_ptr[rank[scope_idx[p]] + 1] += 1
    for i in range(n_variables):
        slot_ptr[i + 1] += slot_ptr[i]
        fill[i] = slot_ptr[i]
        middle[i] = slot_ptr[i]
    for p in range(n_pairs):
        u = rank[scope_idx[p ^ 1]]
        scratch[fill[u]] = p
        fill[u] += 1
    for i in range(n_variables):
        fill[i] = slot_ptr[i]
    for k in range(n_pairs):
        p = scratch[k]
        i = rank[scope_idx[p]]
        pair_of_slot[fill[i]] = p
        fill[i] += 1
        if rank[scope_idx[p ^ 1]] < i:
            middle[i] += 1
    for q in range(n_pairs):
        scratch[pair_of_slot[q]] = q
    for q in range(n_pairs):
        opposite[q] = scratch[pair_of_slot[q] ^ 1]
    edge = 0
    for i in range(n_variables):
        for q in range(middle[i], slot_ptr[i + 1]):
            edge_of_slot[q] = edge
            edge_of_slot[opposite[q]] = edge
            factor_of_edge[edge] = pair_of_slot[q] // 2
            flipped[edge] = pair_of_slot[q] % 2 == 1
            edge += 1
