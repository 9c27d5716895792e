"""Search for an order in which to eliminate variables such that the tables stay small."""

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
    """Return, for each variable, the bit set of the variables that share a factor with it.

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
    variables = []
    while mask:
        lowest = mask & -mask
        variables.append(lowest.bit_length() - 1)
        mask ^= lowest
    return variables


def greedy_order(
    log2_states: list[float],
    masks: list[int],
    by_fill: bool,
    noise: bool,
    max_cells: float,
    max_steps: float,
    rng: random.Random,
) -> tuple[IntArray, float, float, float]:
    """Compute a greedy elimination order in plain Python; a compiled kernel does the same for large graphs.

    Returns the order, the sum of message sizes, log2 of the largest bucket and the number of steps. The order is
    incomplete if the sizes exceeded `max_cells` or the search exceeded `max_steps`. With `noise`, ties are broken at
    random instead of by table size.

    Examples
    --------
    >>> masks = neighbour_masks(3, [0, 2, 4], [0, 1, 1, 2])
    >>> greedy_order([1.0] * 3, masks, False, False, np.inf, np.inf, random.Random(0))[:3]
    (array([0, 1, 2]), 5.0, 2.0)
    """
    n = len(masks)
    neighbours = masks.copy()
    weight = [
        log2_count + sum(log2_states[u] for u in _members(mask))
        for log2_count, mask in zip(log2_states, neighbours, strict=True)
    ]
    keys: list[tuple[float, float, int]] = []
    steps = 0

    def priority(v: int) -> tuple[float, float, int]:
        nonlocal steps
        key, mask = weight[v], neighbours[v]
        if by_fill:
            members = _members(mask)
            size = len(members)
            steps += 1 + size * (size + 1)
            # Each missing pair is counted at both of its ends, and each member counts as missing itself.
            key = (sum((mask & ~neighbours[u]).bit_count() for u in members) - size) / 2.0
        return key, rng.random() if noise else weight[v], v

    for v in range(n):
        keys.append(priority(v))
        if steps > max_steps:
            break
    heap = keys.copy()
    heapq.heapify(heap)
    order: list[int] = []
    is_present = [True] * n
    cells = log2_width = 0.0
    while len(order) < n and steps <= max_steps and cells <= max_cells:
        heap_entry = heapq.heappop(heap)
        v = heap_entry[2]
        if not is_present[v] or keys[v] != heap_entry:  # outdated: the variable has a newer entry
            continue
        is_present[v] = False
        order.append(v)
        cells += 2.0 ** (weight[v] - log2_states[v])
        log2_width = max(log2_width, weight[v])
        clique, eliminated = neighbours[v], 1 << v
        members = _members(clique)
        steps += len(members) * (len(members) + 1)
        has_new_edge = False
        seen_once = seen_twice = 0
        for u in members:
            new_neighbours = clique & ~neighbours[u] & ~(1 << u)
            weight[u] -= log2_states[v]
            if new_neighbours:
                has_new_edge = True
                weight[u] += sum(log2_states[w] for w in _members(new_neighbours))
            neighbours[u] = (neighbours[u] | new_neighbours) & ~eliminated
            seen_twice |= seen_once & neighbours[u]
            seen_once |= neighbours[u]
        # A new edge changes the fill-in of every variable that is a neighbour of both its ends.
        for u in _members(clique | seen_twice) if by_fill and has_new_edge else members:
            keys[u] = priority(u)
            heapq.heappush(heap, keys[u])
    return np.array(order, dtype=np.int64), cells, log2_width, float(steps)


ORDERINGS = ("best", "min_fill", "min_degree")

# A step of a search takes some nanoseconds; no search should take much longer than a second.
_MAX_STEPS = 200_000_000
_MAX_EXHAUSTIVE_VARIABLES = 5_000
# Graphs with up to this many variables are searched in plain Python, because compiling takes seconds, unless the
# restarts may take more than this many steps.
_MAX_PYTHON_VARIABLES = 1_000
_MAX_PYTHON_STEPS = 2_000_000
# If the first order exceeds the limit by this factor, a better search will not get below the limit.
_MAX_EXCESS = 2.0**20
# The same factor for searches with few steps. Counting fill-in saves less than this factor on grids.
_MAX_GAIN = 4.0


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """Elimination order of the variables together with the resulting table sizes.

    Attributes
    ----------
    order : int array
        Variables in the order of elimination; incomplete if `complete` is False.
    n_cells : float
        Sum over variables of the size of the table that results from eliminating the variable.
    log2_width : float
        log2 of the largest product of the numbers of states of a variable and its neighbours at its elimination.
    complete : bool
        Whether the search finished; otherwise the sizes are lower bounds for this order.
    """

    order: IntArray
    n_cells: float
    log2_width: float
    complete: bool


def forest_order(graph: FactorGraph) -> IntArray | None:
    """Return an elimination order from the leaves of a factor graph that is a forest, or None if it is not a forest.

    This order creates no table that is larger than the tables of the factors.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph, grid_graph
    >>> forest_order(chain_graph(4, 2))
    array([0, 1, 2, 3])
    >>> forest_order(grid_graph(2, 2, 2)) is None
    True
    """
    from intarsia._kernels.elimination_order import peel_forest
    from intarsia._kernels.graph_arguments import ForestGraph, ForestOrder
    from intarsia._kernels.symbolic import run_loops

    n = graph.n_variables
    order, degree, stack, removed = (np.empty(n, np.int64) for _ in range(4))
    inputs = ForestGraph(graph.scope_ptr, graph.scope_idx, *graph.pairs_by_variable, graph.factor_of_pair)
    outputs = ForestOrder(np.empty(graph.n_factors, np.int64), degree, stack, removed, order)
    return order if run_loops(peel_forest, n + graph.scope_idx.size, inputs, outputs) == n else None


def search_order(
    graph: FactorGraph,
    ordering: str = "best",
    *,
    n_restarts: int = 32,
    max_cells: float = np.inf,
    max_steps: float | None = None,
) -> EliminationOrder:
    """Search greedily for an elimination order with small tables.

    Parameters
    ----------
    graph : FactorGraph
        Graph in which variables that share a factor are neighbours.
    ordering : {"best", "min_fill", "min_degree"}
        Next eliminate the variable whose elimination connects the fewest pairs of neighbours ("min_fill"), or creates
        the smallest table ("min_degree", faster); "best" tries both.
    n_restarts : int
        Number of further searches that break ties at random, with a fixed seed. They stop when they become expensive
        compared with the tables that they may save, and often reduce the sizes by a factor of 4 or more.
    max_cells : float
        Sum of table sizes above which an order is of no use; a search that is far above it ends early.
    max_steps : float, optional
        Largest number of steps of one search; a step takes some nanoseconds. If set, searches in small graphs may end
        early too; otherwise these continue to the end to get the true size.

    Returns
    -------
    EliminationOrder
        The order with the smallest sum of table sizes.

    Examples
    --------
    >>> from intarsia.graph.shapes import grid_graph
    >>> result = search_order(grid_graph(4, 30, 2))
    >>> result.log2_width           # the treewidth plus 1
    5.0
    """
    check_choice(ordering, ORDERINGS, "ordering")
    in_python = graph.n_variables <= _MAX_PYTHON_VARIABLES
    greedy_order = _compiled_search(graph) if not in_python else _python_search(graph)

    def run_search(by_fill: bool, noise: bool, limit: float, max_steps: float) -> tuple[EliminationOrder, float]:
        order, n_cells, log2_width, steps = greedy_order(by_fill, noise, float(limit), float(max_steps))
        return EliminationOrder(order, float(n_cells), float(log2_width), order.size == graph.n_variables), float(steps)

    # Small graphs are searched to the end even if too wide, so that the error message can state the true size.
    cell_limit = max_cells if max_steps is not None or graph.n_variables > _MAX_EXHAUSTIVE_VARIABLES else np.inf
    excess_limit = _MAX_EXCESS if max_steps is None else 1.0
    if max_steps is None:
        max_steps = _MAX_STEPS
    elif ordering == "best":
        cell_limit *= _MAX_GAIN  # the second search may find a better order
        excess_limit = _MAX_GAIN
    by_fill = ordering == "min_fill"
    best, steps = run_search(by_fill, False, cell_limit, max_steps)
    if by_fill and not best.complete:
        by_fill = False
        best, steps = run_search(by_fill, False, cell_limit, max_steps)
    if not best.complete or best.n_cells > excess_limit * max_cells:
        return best
    if ordering == "best":
        # Counting fill-in is slow around hubs; it should not take longer than computing the tables that it may save.
        step_limit = min(1e6 + 16.0 * best.n_cells, max_steps)
        other, other_steps = run_search(True, False, best.n_cells, step_limit)
        if other_steps < step_limit:  # restarts with random ties do better by fill-in, even if this search did not
            steps, by_fill = other_steps, True
        if other.complete and other.n_cells <= best.n_cells:
            best = other
    remaining_steps = min(best.n_cells, max_steps / 2)
    if in_python and n_restarts > 0 and remaining_steps > _MAX_PYTHON_STEPS:
        greedy_order = _compiled_search(graph)
    for _ in range(n_restarts):
        remaining_steps -= steps
        if remaining_steps <= 0:
            break
        other, steps = run_search(by_fill, True, best.n_cells, remaining_steps)
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
    return lambda by_fill, noise, limit, max_steps: greedy_order(
        log2_states, ptr, idx, by_fill, noise, limit, max_steps, rng
    )


def _python_search(graph: FactorGraph) -> _Search:

    masks = neighbour_masks(graph.n_variables, graph.scope_ptr.tolist(), graph.scope_idx.tolist())
    log2_states, rng = np.log2(graph.n_states).tolist(), random.Random(0)
    return lambda by_fill, noise, limit, max_steps: greedy_order(
        log2_states, masks, by_fill, noise, limit, max_steps, rng
    )
