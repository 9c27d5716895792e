"""Linear relaxation and integer program of correlation clustering, with cycle inequalities added where violated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, csgraph, csr_array, vstack

from intarsia._core.clock import Clock
from intarsia._core.highs import GrowingProgram, Program, solve_program
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.cycle_rows import violated_cycles
from intarsia.clusters.resolution.adjacency import neighbours

_LP_PAIRS = 6_000  # largest linear program, in pairs of nodes
_IP_PAIRS = 1_500  # largest integer program
_ROUNDS = 60


class CycleRows:
    """Cycle inequalities of the program, added round by round.

    Attributes
    ----------
    pairs : int array (n_pairs, 2)
        Nodes of the pair of each variable.
    upper : float array (n_rows,)
        Right sides of the rows.
    matrix : CSR array (n_rows, n_pairs)
        Left sides: 1 for the pairs of a path, -1 for the pair between its ends.
    """

    def __init__(self, pairs: IntArray, n_nodes: int) -> None:
        self.pairs, self.n_nodes = pairs, n_nodes
        self.upper, self.matrix = np.empty(0), csr_array((0, len(pairs)))
        self._adjacency = neighbours(pairs, n_nodes)
        self._by_first = np.argsort(pairs[:, 0], kind="stable")

    def integer_program(self, weights: FloatArray) -> Program:
        """Integer program with all rows so far."""
        lower = np.full(len(self.upper), -np.inf)
        columns = np.arange(len(self.pairs))
        return Program(weights, self.matrix.tocsc(), lower, self.upper, columns, rows_imply_bounds=False)

    def dual_bound(self, weights: FloatArray, dual: FloatArray) -> tuple[float, FloatArray]:
        """Value of the Lagrangian at the multipliers, an upper bound whatever the tolerance of the solver; its weights.

        The bound falls by the reduced weight of a pair if the pair is not joined as the sign of that weight says.
        """
        multipliers = np.maximum(dual, 0.0)
        reduced_weight = weights - self.matrix.T @ multipliers
        return float(multipliers @ self.upper + reduced_weight[reduced_weight > 0].sum()), reduced_weight

    def add_violated(self, x: FloatArray) -> tuple[FloatArray, csr_array]:
        """Add the most violated inequality of each pair, found as a shortest path; return the new rows."""
        length = np.maximum(1.0 - x, 0.0)
        ptr, columns = violated_cycles(self.pairs, self._by_first, self._adjacency, length)
        values = np.ones(len(columns))
        values[ptr[1:] - 1] = -1.0
        upper = np.diff(ptr) - 2.0
        rows = csr_array((values, columns, ptr), shape=(len(upper), len(self.pairs)))
        self.upper, self.matrix = np.concatenate([self.upper, upper]), vstack([self.matrix, rows], format="csr")
        return upper, rows

    def rounded(self, x: FloatArray) -> IntArray:
        """Return the connected components of the pairs whose variable is above one half."""
        linked = self.pairs[x > 0.5]
        graph = coo_array((np.ones(len(linked)), (linked[:, 0], linked[:, 1])), shape=(self.n_nodes,) * 2)
        return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Upper bound of a relaxation, and clusterings read off its solutions.

    Attributes
    ----------
    bound : float
        Number that no clustering can exceed.
    residual : float array (n_pairs,)
        Reduced weights: the bound falls by |residual| of a pair that is not joined or separated as its sign says.
    rows : CycleRows
        Inequalities added so far.
    candidates : list of int arrays
        Clusterings.
    """

    bound: float
    residual: FloatArray
    rows: CycleRows
    candidates: list[IntArray]


def relax(pairs: IntArray, weights: FloatArray, n_nodes: int, score: float, clock: Clock) -> Relaxation | None:
    """Bound the score of every clustering by a linear program.

    Variable z of a pair is 1 if it is joined. For each pair f and each path P between its ends, every clustering
    satisfies `sum over P of z - z_f <= |P| - 1`; such rows are added where the current solution violates them.

    Parameters
    ----------
    pairs, weights : arrays (n_pairs, 2) and (n_pairs,)
        Pairs of nodes and their weights; all other pairs have weight 0.
    n_nodes : int
        Number of nodes.
    score : float
        Score of the best clustering so far; a bound that reaches it ends the search.
    clock : Clock
        Its limit stops the solver.

    Returns
    -------
    Relaxation, or None if the problem is too large or the time is over.
    """
    if len(pairs) > _LP_PAIRS or clock.expired:
        return None
    rows = CycleRows(pairs, n_nodes)
    best = Relaxation(np.inf, weights, rows, [])
    tolerance = 1e-9 * max(float(weights[weights > 0].sum()), 1.0)
    program = GrowingProgram(weights)
    for _ in range(_ROUNDS):
        solution = program.solve(clock)
        if solution.x is None or solution.dual is None:
            break
        bound, residual = rows.dual_bound(weights, solution.dual)
        if bound < best.bound:
            best = Relaxation(bound, residual, rows, [])
        upper, new_rows = rows.add_violated(solution.x)
        if not len(upper) or best.bound - score <= tolerance:
            return replace(best, candidates=[rows.rounded(solution.x)])
        program.add_rows(upper, new_rows)
    return best if np.isfinite(best.bound) else None


def solve_integer(relaxation: Relaxation, weights: FloatArray, labels: IntArray, clock: Clock) -> Relaxation:
    """Improve a relaxation by the integer program, with inequalities added until its solution is a clustering.

    Problems that are too large are returned unchanged. `labels` is the clustering to start from.
    """
    rows = relaxation.rows
    if len(weights) > _IP_PAIRS:
        return relaxation
    bound, candidates = relaxation.bound, relaxation.candidates
    start = (labels[rows.pairs[:, 0]] == labels[rows.pairs[:, 1]]).astype(np.float64)
    for _ in range(_ROUNDS):
        solution = solve_program(rows.integer_program(weights), clock, start=start)
        bound = min(bound, solution.bound)
        if solution.x is None:
            break
        candidates = [*candidates[-1:], rows.rounded(solution.x)]
        if clock.expired or not len(rows.add_violated(np.rint(solution.x))[0]):
            break
    return replace(relaxation, bound=bound, candidates=candidates)
