"""The order in which variables are eliminated, and how large the tables then become."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import IntArray, check_choice
from intarsia.graph.factor_graph import FactorGraph


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


ORDERINGS = ("best", "min_fill", "min_degree")

# Steps of a search take some nanoseconds each: none should take much longer than a second.
_MAX_STEPS = 200_000_000
_SMALL = 5_000
# So few variables are searched in plain Python, unless restarts promise many steps: compiling takes seconds.
_FEW = 1_000
_MANY_STEPS = 2_000_000
# A first order this many times above the limit is not rescued by a better search.
_HOPELESS = 2.0**20
# Where steps are few, one this many times above is given up. Counting fill-in saves less than that on grids.
_GAIN = 4.0


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """An order together with the sizes that follow from it.

    Attributes
    ----------
    order : int array
        Variables, first eliminated first; some are missing if `complete` is False.
    n_cells : float
        Sum over variables of the size of the table that its elimination leaves.
    log2_width : float
        log2 of the largest product of state counts of a variable and its neighbours when it is eliminated.
    complete : bool
        Whether the search came to its end; otherwise the sizes are lower bounds for this order.
    """

    order: IntArray
    n_cells: float
    log2_width: float
    complete: bool


def forest_order(graph: FactorGraph) -> IntArray | None:
    """Leaves-first order of a graph whose factor graph (variables and factors as nodes) is a forest, else None.

    No table larger than the factors' own arises.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph, grid_graph
    >>> forest_order(chain_graph(4, 2))
    array([0, 1, 2, 3])
    >>> forest_order(grid_graph(2, 2, 2)) is None
    True
    """
    from intarsia._kernels.arguments import ForestGraph, ForestOrder
    from intarsia._kernels.elimination_order import peel_forest
    from intarsia._kernels.symbolic import run_loops

    n = graph.n_variables
    order, degree, stack, removed = (np.empty(n, np.int64) for _ in range(4))
    arrays = ForestGraph(graph.scope_ptr, graph.scope_idx, *graph.pairs_by_variable, graph.factor_of_pair)
    result = ForestOrder(np.empty(graph.n_factors, np.int64), degree, stack, removed, order)
    return order if run_loops(peel_forest, n + graph.scope_idx.size, arrays, result) == n else None


def search_order(
    graph: FactorGraph,
    ordering: str = "best",
    *,
    n_restarts: int = 32,
    max_cells: float = np.inf,
    max_steps: float | None = None,
) -> EliminationOrder:
    """Greedy elimination order with small tables.

    Parameters
    ----------
    graph : FactorGraph
        Variables that share a factor are neighbours.
    ordering : {"best", "min_fill", "min_degree"}
        Take next the variable whose elimination joins the fewest pairs of neighbours ("min_fill"), or makes the
        smallest table ("min_degree", quicker); "best" tries both.
    n_restarts : int
        Further searches that break ties at random (always the same ones) by fill-in where that can be afforded, made
        while they are cheap compared with the tables they may save; they often save a factor of 4 or more.
    max_cells : float
        Sum of table sizes above which an order is of no use; a search that is far above it ends early.
    max_steps : float, optional
        Steps, of some nanoseconds each, that one search may take. The search then also ends early in small graphs,
        which otherwise are searched to the end for the true size.

    Returns
    -------
    EliminationOrder
        The one with the least sum of table sizes.

    Examples
    --------
    >>> from intarsia.graph.shapes import grid_graph
    >>> found = search_order(grid_graph(4, 30, 2))
    >>> found.log2_width            # one more than the treewidth
    5.0
    """
    check_choice(ordering, ORDERINGS, "ordering")
    in_python = graph.n_variables <= _FEW
    greedy_order = _compiled_search(graph) if not in_python else _python_search(graph)

    def search(by_fill: bool, noise: bool, limit: float, max_steps: float) -> tuple[EliminationOrder, float]:
        order, n_cells, widest, steps = greedy_order(by_fill, noise, float(limit), float(max_steps))
        return EliminationOrder(order, float(n_cells), float(widest), order.size == graph.n_variables), float(steps)

    # Small graphs are searched to the end even if too wide, so that the refusal can state the true size.
    patience = max_cells if max_steps is not None or graph.n_variables > _SMALL else np.inf
    hopeless = _HOPELESS if max_steps is None else 1.0
    if max_steps is None:
        max_steps = _MAX_STEPS
    elif ordering == "best":
        patience *= _GAIN  # the second search may do better
        hopeless = _GAIN
    by_fill = ordering == "min_fill"
    best, steps = search(by_fill, False, patience, max_steps)
    if by_fill and not best.complete:
        by_fill = False
        best, steps = search(by_fill, False, patience, max_steps)
    if not best.complete or best.n_cells > hopeless * max_cells:
        return best
    if ordering == "best":
        # Counting fill-in is slow around hubs; it should not cost more than the tables it may save.
        most = min(1e6 + 16.0 * best.n_cells, max_steps)
        other, more = search(True, False, best.n_cells, most)
        if more < most:  # with random tie-breaks fill-in does better, even if it did not at first
            steps, by_fill = more, True
        if other.complete and other.n_cells <= best.n_cells:
            best = other
    allowance = min(best.n_cells, max_steps / 2)
    if in_python and n_restarts > 0 and allowance > _MANY_STEPS:
        greedy_order = _compiled_search(graph)
    for _ in range(n_restarts):
        allowance -= steps
        if allowance <= 0:
            break
        other, steps = search(by_fill, True, best.n_cells, allowance)
        if other.complete and other.n_cells < best.n_cells:
            best = other
    return best


_Search = Callable[[bool, bool, float, float], tuple[IntArray, float, float, float]]


def _compiled_search(graph: FactorGraph) -> _Search:
    from intarsia._kernels.elimination_order import greedy_order, neighbour_lists

    ptr, idx = neighbour_lists(
        graph.n_variables, graph.scope_ptr, graph.scope_idx, *graph.pairs_by_variable, graph.factor_of_pair
    )
    log2_states, rng = np.log2(graph.n_states), np.random.default_rng(0)
    return lambda by_fill, noise, limit, most: greedy_order(log2_states, ptr, idx, by_fill, noise, limit, most, rng)


def _python_search(graph: FactorGraph) -> _Search:

    masks = neighbour_masks(graph.n_variables, graph.scope_ptr.tolist(), graph.scope_idx.tolist())
    log2_states, rng = np.log2(graph.n_states).tolist(), random.Random(0)
    return lambda by_fill, noise, limit, most: greedy_order(log2_states, masks, by_fill, noise, limit, most, rng)
