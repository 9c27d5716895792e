"""Tighter relaxations: pairwise factors around short cycles are joined into one table."""

from __future__ import annotations

from collections import deque

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia.graph import FactorGraph
from intarsia.graph.factor_kinds import is_constraint

# Cycles with more joint states than this are not joined.
_MAX_STATES = 2**14


def join_cycles(graph: FactorGraph, theta: FloatArray, longest: int) -> tuple[FactorGraph, FloatArray]:
    """Return an equivalent graph and its scores, in which short cycles of pairwise factors are joined into tables.

    A relaxation is exact within a table, so joining a cycle never raises its bound. Each factor is joined into at most
    one cycle: in a grid every second square, as on a chessboard.

    Parameters
    ----------
    graph : FactorGraph
        Graph in normal form.
    theta : float array
        Scores in the layout of the graph.
    longest : int
        Maximum number of variables in a cycle.

    Examples
    --------
    >>> from intarsia.graph import grid_graph
    >>> graph = grid_graph(3, 3, 2)
    >>> tighter, theta = join_cycles(graph, graph.zeros() + 1.0, 4)
    >>> graph.n_factors, tighter.n_factors, tighter.max_scope            # two squares of four factors each
    (12, 6, 4)
    >>> tighter.score(theta, [0] * 9)
    21.0
    """
    cycles = _disjoint_cycles(graph, longest)
    if not cycles:
        return graph, theta
    in_cycle = np.zeros(graph.n_factors, dtype=bool)
    for _, factors in cycles:
        in_cycle[factors] = True
    remaining = np.flatnonzero(~in_cycle)
    tables, table_of_remaining = np.unique(graph.table_of_factor[remaining], return_inverse=True)
    scopes = [graph.scope(int(c)) for c in remaining] + [scope for scope, _ in cycles]
    tighter = FactorGraph(
        graph.n_states,
        np.concatenate([[0], np.cumsum([scope.size for scope in scopes])]),
        np.concatenate(scopes),
        table_of_factor=np.concatenate([table_of_remaining.reshape(-1), tables.size + np.arange(len(cycles))]),
        table_kind=np.concatenate([graph.table_kind[tables], np.zeros(len(cycles), np.int64)]),
        table_truncation=np.concatenate([graph.table_truncation[tables], np.full(len(cycles), np.inf)]),
        names=graph.names,
    )
    blocks = [theta[: graph.variable_ptr[-1]]]
    blocks += [theta[graph.table_ptr[t] : graph.table_ptr[t + 1]] for t in tables]
    blocks += [_joint_scores(graph, theta, scope, factors).reshape(-1) for scope, factors in cycles]
    return tighter, read_only(np.concatenate(blocks))


def _joint_scores(graph: FactorGraph, theta: FloatArray, scope: IntArray, factors: IntArray) -> FloatArray:
    """Return the sum of pairwise factors as one table over `scope`, which is sorted."""
    total = np.zeros(tuple(graph.n_states[scope].tolist()))
    for c in factors.tolist():
        first, second = (int(np.searchsorted(scope, v)) for v in graph.scope(c))
        table = graph.factor_table(theta, c)
        shape = [1] * scope.size
        shape[first], shape[second] = table.shape
        total += (table if first < second else table.T).reshape(shape)
    return total


def _disjoint_cycles(graph: FactorGraph, longest: int) -> list[tuple[IntArray, IntArray]]:
    """Return sorted variables and factors (including chords) of cycles that have no factor in common."""
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
        path = _shortest_path(links, u, v, longest - 1)
        if path is None or np.prod(graph.n_states[path], dtype=np.float64) > _MAX_STATES:
            continue
        scope = sorted(path)
        factors = []
        for a in scope:
            for b in scope:
                if a < b and b in links[a]:
                    factors.append(links[a].pop(b))
                    del links[b][a]
        cycles.append((np.array(scope), np.array(factors)))
    return cycles


def _shortest_path(links: list[dict[int, int]], start: int, end: int, max_links: int) -> list[int] | None:
    """Return the shortest path of at most `max_links` links that avoids the direct link; None if there is none."""
    parent = {start: start}
    n_links = {start: 0}
    queue = deque([start])
    while queue:
        v = queue.popleft()
        if n_links[v] == max_links:
            continue
        for u in links[v]:
            if u in parent or (v == start and u == end):
                continue
            parent[u], n_links[u] = v, n_links[v] + 1
            if u == end:
                path = [end]
                while path[-1] != start:
                    path.append(parent[path[-1]])
                return path
            queue.append(u)
    return None
