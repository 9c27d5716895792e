"""Linear relaxation and integer program of correlation clustering, with cycle inequalities added where violated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csc_array, csgraph

from intarsia._core.clock import Clock
from intarsia._core.highs import Program, solve_program
from intarsia._core.validation import FloatArray, IntArray

_LP_PAIRS = 6_000  # largest linear program, in pairs of nodes
_IP_PAIRS = 1_500  # largest integer program
_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Upper bound of a relaxation, and clusterings read off its solutions."""

    bound: float
    candidates: list[IntArray]


def relax(
    pairs: IntArray, weights: FloatArray, n_nodes: int, labels: IntArray, score: float, clock: Clock
) -> Relaxation | None:
    """Bound the score of every clustering by a linear program, and by an integer program if that is not enough.

    Variable z of a pair is 1 if it is joined. For each pair f and each path P between its ends, every clustering
    satisfies `sum over P of z - z_f <= |P| - 1`; such rows are added where the current solution violates them.

    Parameters
    ----------
    pairs, weights : arrays (n_pairs, 2) and (n_pairs,)
        Pairs of nodes and their weights; all other pairs have weight 0.
    n_nodes : int
        Number of nodes.
    labels, score : int array, float
        Best clustering so far and its score.
    clock : Clock
        Its limit stops the solver.

    Returns
    -------
    Relaxation, or None if the problem is too large or the time is over.
    """
    if len(pairs) > _LP_PAIRS or clock.expired:
        return None
    rows = _Rows(len(pairs))
    bound, candidates = np.inf, []
    tolerance = 1e-9 * max(float(weights[weights > 0].sum()), 1.0)
    for _ in range(_ROUNDS):
        solution = solve_program(rows.program(weights), clock)
        if solution.x is None or solution.dual is None:
            break
        bound = min(bound, rows.dual_bound(weights, solution.dual))
        if not rows.add_violated(pairs, n_nodes, solution.x) or bound - score <= tolerance:
            candidates.append(_rounded(pairs, n_nodes, solution.x))
            break
    if not np.isfinite(bound):
        return None
    if bound - score > tolerance and len(pairs) <= _IP_PAIRS:
        bound = min(bound, _integer_bound(rows, pairs, weights, n_nodes, labels, candidates, clock))
    return Relaxation(bound, candidates)


class _Rows:
    """Cycle inequalities of the program, added round by round."""

    def __init__(self, n_pairs: int) -> None:
        self.n_pairs = n_pairs
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.upper: list[float] = []

    def program(self, weights: FloatArray, integer: bool = False) -> Program:
        """Program with all rows so far."""
        matrix = csc_array((self.value, (self.row, self.column)), shape=(len(self.upper), self.n_pairs))
        columns = np.arange(self.n_pairs) if integer else None
        lower = np.full(len(self.upper), -np.inf)
        return Program(weights, matrix, lower, np.array(self.upper), columns, rows_imply_bounds=False)

    def dual_bound(self, weights: FloatArray, dual: FloatArray) -> float:
        """Value of the Lagrangian at the multipliers: an upper bound whatever the tolerance of the solver."""
        multipliers = np.maximum(dual, 0.0)
        matrix = csc_array((self.value, (self.row, self.column)), shape=(len(self.upper), self.n_pairs))
        reduced_weight = weights - matrix.T @ multipliers
        return float(multipliers @ np.array(self.upper) + reduced_weight[reduced_weight > 0].sum())

    def add_violated(self, pairs: IntArray, n_nodes: int, x: FloatArray) -> int:
        """Add the most violated inequality of each pair, found as a shortest path; return their number."""
        length = np.maximum(1.0 - x, 0.0) + 1e-9  # entries of 0 would be no edges for the shortest paths
        graph = coo_array((length, (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes)).tocsr()
        distance, before = csgraph.dijkstra(graph, directed=False, return_predecessors=True)
        column_of = {(int(a), int(b)): e for e, (a, b) in enumerate(pairs)}
        violated = np.flatnonzero(1.0 - x > distance[pairs[:, 0], pairs[:, 1]] + 1e-6)
        for e in violated:
            start, node = (int(v) for v in pairs[e])
            path = []
            while node != start:
                previous = int(before[start, node])
                path.append(column_of[(min(previous, node), max(previous, node))])
                node = previous
            row = len(self.upper)
            self.row += [row] * (len(path) + 1)
            self.column += [*path, int(e)]
            self.value += [*([1.0] * len(path)), -1.0]
            self.upper.append(len(path) - 1.0)
        return len(violated)


def _rounded(pairs: IntArray, n_nodes: int, x: FloatArray) -> IntArray:
    """Return the connected components of the pairs whose variable is above one half."""
    linked = pairs[x > 0.5]
    graph = coo_array((np.ones(len(linked)), (linked[:, 0], linked[:, 1])), shape=(n_nodes, n_nodes))
    return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


def _integer_bound(
    rows: _Rows, pairs: IntArray, weights: FloatArray, n_nodes: int, labels: IntArray, candidates: list[IntArray],
    clock: Clock,
) -> float:  # fmt: skip
    """Return the bound of the integer program, with inequalities added until its solution is a clustering."""
    bound = np.inf
    start = (labels[pairs[:, 0]] == labels[pairs[:, 1]]).astype(np.float64)
    for _ in range(_ROUNDS):
        solution = solve_program(rows.program(weights, integer=True), clock, start=start)
        bound = min(bound, solution.bound)
        if solution.x is None:
            break
        candidates.append(_rounded(pairs, n_nodes, solution.x))
        if clock.expired or not rows.add_violated(pairs, n_nodes, np.rint(solution.x)):
            break
    del candidates[:-2]
    return bound
