"""A tighter relaxation of the same model: the factors around short cycles become one table."""

from __future__ import annotations

from collections import deque

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia.graph import FactorGraph
from intarsia.graph.factor_kinds import is_constraint

# Cycles with more joint states than this are left as they are.
_MOST_STATES = 2**14


def join_cycles(graph: FactorGraph, theta: FloatArray, longest: int) -> tuple[FactorGraph, FloatArray]:
    """Graph and scores of the same labellings, in which short cycles of pairwise factors are tables of their own.

    What a relaxation gives away around a cycle it cannot give away within one table, so that its bound is never higher
    for it. Each factor goes into one cycle at most: of a grid's squares every other one, as on a chessboard.

    Parameters
    ----------
    graph : FactorGraph
        In normal form.
    theta : float array
        Its scores.
    longest : int
        Most variables of a cycle.

    Examples
    --------
    >>> from intarsia.graph import grid_graph
    >>> graph = grid_graph(3, 3, 2)
    >>> joined, theta = join_cycles(graph, graph.zeros() + 1.0, 4)
    >>> graph.n_factors, joined.n_factors, joined.max_scope            # two squares take four factors each
    (12, 6, 4)
    >>> joined.score(theta, [0] * 9)
    21.0
    """
    cycles = _disjoint_cycles(graph, longest)
    if not cycles:
        return graph, theta
    inside = np.zeros(graph.n_factors, dtype=bool)
    for _, factors in cycles:
        inside[factors] = True
    kept = np.flatnonzero(~inside)
    tables, table_of_kept = np.unique(graph.table_of_factor[kept], return_inverse=True)
    scopes = [graph.scope(int(c)) for c in kept] + [scope for scope, _ in cycles]
    joined = FactorGraph(
        graph.n_states,
        np.concatenate([[0], np.cumsum([scope.size for scope in scopes])]),
        np.concatenate(scopes),
        table_of_factor=np.concatenate([table_of_kept.reshape(-1), tables.size + np.arange(len(cycles))]),
        table_kind=np.concatenate([graph.table_kind[tables], np.zeros(len(cycles), np.int64)]),
        table_truncation=np.concatenate([graph.table_truncation[tables], np.full(len(cycles), np.inf)]),
        names=graph.names,
    )
    blocks = [theta[: graph.variable_ptr[-1]]]
    blocks += [theta[graph.table_ptr[t] : graph.table_ptr[t + 1]] for t in tables]
    blocks += [_joint_scores(graph, theta, scope, factors).reshape(-1) for scope, factors in cycles]
    return joined, read_only(np.concatenate(blocks))


def _joint_scores(graph: FactorGraph, theta: FloatArray, scope: IntArray, factors: IntArray) -> FloatArray:
    """Sum of factors over two variables each as one table over `scope`, which is in order."""
    total = np.zeros(tuple(graph.n_states[scope].tolist()))
    for c in factors.tolist():
        first, second = (int(np.searchsorted(scope, v)) for v in graph.scope(c))
        table = graph.factor_table(theta, c)
        shape = [1] * scope.size
        shape[first], shape[second] = table.shape
        total += (table if first < second else table.T).reshape(shape)
    return total


def _disjoint_cycles(graph: FactorGraph, longest: int) -> list[tuple[IntArray, IntArray]]:
    """Variables (in order) and factors of cycles that have no factor in common, chords included."""
    usable = (np.diff(graph.scope_ptr) == 2) & ~is_constraint(graph.table_kind[graph.table_of_factor])
    links: list[dict[int, int]] = [{} for _ in range(graph.n_variables)]  # neighbour -> factor not in a cycle yet
    for c in np.flatnonzero(usable).tolist():
        u, v = graph.scope(c).tolist()
        links[u][v] = links[v][u] = c
    cycles = []
    for c in np.flatnonzero(usable).tolist():
        u, v = graph.scope(c).tolist()
        if links[u].get(v) != c:
            continue
        way = _shortest_way(links, u, v, longest - 1)
        if way is None or np.prod(graph.n_states[way], dtype=np.float64) > _MOST_STATES:
            continue
        scope = sorted(way)
        factors = []
        for a in scope:
            for b in scope:
                if a < b and b in links[a]:
                    factors.append(links[a].pop(b))
                    del links[b][a]
        cycles.append((np.array(scope), np.array(factors)))
    return cycles


def _shortest_way(links: list[dict[int, int]], start: int, end: int, most: int) -> list[int] | None:
    """Variables from start to end by at most `most` links, the direct one left out; None if there is no such way."""
    before = {start: start}
    steps = {start: 0}
    queue = deque([start])
    while queue:
        v = queue.popleft()
        if steps[v] == most:
            continue
        for u in links[v]:
            if u in before or (v == start and u == end):
                continue
            before[u], steps[u] = v, steps[v] + 1
            if u == end:
                way = [end]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way
            queue.append(u)
    return None
