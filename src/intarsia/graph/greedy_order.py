"""Greedy elimination order of a small graph in plain Python, with sets of variables as the bits of integers."""

from __future__ import annotations

import heapq
import itertools
import random

import numpy as np

from intarsia._validation import IntArray


def neighbour_masks(n_variables: int, scope_ptr: list[int], scope_idx: list[int]) -> list[int]:
    """Set of the variables that share a factor with each variable.

    Examples
    --------
    >>> [bin(mask) for mask in neighbour_masks(3, [0, 2, 4], [0, 1, 1, 2])]
    ['0b10', '0b101', '0b10']
    """
    masks = [0] * n_variables
    for begin, end in itertools.pairwise(scope_ptr):
        members = scope_idx[begin:end]
        scope = sum(1 << v for v in members)
        for v in members:
            masks[v] |= scope ^ (1 << v)
    return masks


def _members(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def greedy_order(
    log2_states: list[float],
    masks: list[int],
    by_fill: bool,
    noise: bool,
    max_cells: float,
    max_steps: float,
    rng: random.Random,
) -> tuple[IntArray, float, float, float]:
    """Eliminate the variable that looks cheapest, again and again; the twin of the kernel for large graphs.

    Returns the order, the sum of message sizes, log2 of the largest bucket and the steps made; the order is shorter
    than the number of variables if the sizes exceeded `max_cells` or the search `max_steps`. With `noise`, ties
    are broken at random instead of by table size.

    Examples
    --------
    >>> masks = neighbour_masks(3, [0, 2, 4], [0, 1, 1, 2])
    >>> greedy_order([1.0] * 3, masks, False, False, np.inf, np.inf, random.Random(0))[:3]
    (array([0, 1, 2]), 5.0, 2.0)
    """
    n = len(masks)
    around = masks.copy()
    weight = [own + sum(log2_states[u] for u in _members(mask)) for own, mask in zip(log2_states, around, strict=True)]
    keys: list[tuple[float, float, int]] = []
    steps = 0

    def rate(v: int) -> tuple[float, float, int]:
        nonlocal steps
        key, mask = weight[v], around[v]
        if by_fill:
            members = _members(mask)
            size = len(members)
            steps += 1 + size * (size + 1)
            # Each missing pair is seen from both ends, and each member misses itself.
            key = (sum((mask & ~around[u]).bit_count() for u in members) - size) / 2.0
        return key, rng.random() if noise else weight[v], v

    for v in range(n):
        keys.append(rate(v))
        if steps > max_steps:
            break
    heap = keys.copy()
    heapq.heapify(heap)
    order: list[int] = []
    alive = [True] * n
    cells = widest = 0.0
    while len(order) < n and steps <= max_steps and cells <= max_cells:
        entry = heapq.heappop(heap)
        v = entry[2]
        if not alive[v] or keys[v] != entry:  # rated anew since
            continue
        alive[v] = False
        order.append(v)
        cells += 2.0 ** (weight[v] - log2_states[v])
        widest = max(widest, weight[v])
        clique, own = around[v], 1 << v
        members = _members(clique)
        steps += len(members) * (len(members) + 1)
        filled = False
        once = twice = 0
        for u in members:
            new = clique & ~around[u] & ~(1 << u)
            weight[u] -= log2_states[v]
            if new:
                filled = True
                weight[u] += sum(log2_states[w] for w in _members(new))
            around[u] = (around[u] | new) & ~own
            twice |= once & around[u]
            once |= around[u]
        # A new edge changes the fill-in of everyone who knows both its ends.
        for u in _members(clique | twice) if by_fill and filled else members:
            keys[u] = rate(u)
            heapq.heappush(heap, keys[u])
    return np.array(order, dtype=np.int64), cells, widest, float(steps)
