"""Exact MAP inference for binary attractive (submodular) models by a minimum cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.graph_arguments import FlowNetwork, SearchTrees
from intarsia._kernels.graph_cut import SOURCE, balance_terminals, lay_network, plant_trees, push_flow
from intarsia._kernels.signed_graph import find_flips
from intarsia.exceptions import NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.relaxation.rounding import round_beliefs


def balanced_flips(n: int, edges: IntArray, signs: FloatArray) -> tuple[NDArray[Any], int | None]:
    """Return which nodes to flip so that every edge becomes positive, or an edge on a cycle that prevents it.

    A flip of a node changes the signs of its edges. The first node of each component is not flipped. A cycle with an
    odd number of negative edges is a contradiction.

    Examples
    --------
    >>> flips, bad_edge = balanced_flips(3, np.array([[0, 1], [1, 2]]), np.array([-1.0, 1.0]))
    >>> flips.tolist(), bad_edge
    ([False, True, True], None)
    >>> balanced_flips(3, np.array([[0, 1], [1, 2], [0, 2]]), np.array([-1.0, 1.0, 1.0]))[1]
    0
    """
    flips, is_contradictory = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.bool_)
    find_flips(read_only(edges), read_only(signs), np.empty(n, dtype=np.int64), flips, is_contradictory)
    if is_contradictory.any():
        bad_edges = np.flatnonzero((signs < 0) & is_contradictory[edges[:, 0]])
        return np.zeros(n, dtype=bool), int(bad_edges[0])
    return flips, None


_ALTERNATIVES = "Use integer_program, lp_relaxation or dual_decomposition."
# Number of augmentations between two checks of the time limit.
_ROUND = 20_000
# Number of sweeps that move terminal capacities before the search trees grow; more cost as much as they save.
_N_SWEEPS = 4
# Couplings whose absolute value is at most this fraction of the largest score of their table are rounding errors.
_ROUNDING = 1e-12


@dataclass
class _Pairwise:
    """Binary pairwise model: scores (n, 2) of variables and (m, 2, 2) of edges between free variables."""

    unary: FloatArray
    edges: IntArray
    tables: FloatArray
    factor: IntArray


class GraphCut(InferenceMethod):
    r"""Graph cut: the best labelling of binary attractive models with a proof, in low polynomial time.

    Choose it for MAP inference in binary models with pairwise factors that are attractive (submodular),

    .. math:: \theta_c(0, 0) + \theta_c(1, 1) \ge \theta_c(0, 1) + \theta_c(1, 0),

    or become attractive when the two states of some variables are exchanged, which is detected. Such a model is a
    minimum cut problem (Greig1989); the maximum flow that proves the cut is computed with two search trees
    (Boykov2004). Other models raise an error that names a factor on a cycle that cannot be made attractive.

    Parameters
    ----------
    temperature : float, optional
        Must be 0, the default, since a cut is a labelling.

    Raises
    ------
    NotSupportedError
        If a variable has more than two states, or a cycle has an odd number of repulsive factors.

    Notes
    -----
    Scores of -inf are allowed if the model stays attractive: x_i <= x_j, x_i = x_j, or a fixed state. At `time_limit`,
    the upper bound follows from the flow so far.

    References
    ----------
    Greig1989; Boykov2004; Kolmogorov2004 for the models that can be solved by cuts.

    Examples
    --------
    Two neighbours that prefer state 1 outweigh the variable between them:

    >>> import intarsia
    >>> graph = intarsia.chain_graph(3, 2)
    >>> theta = graph.pack(variables=[[0, 3], [1, 0], [0, 3]], tables=[[[1, 0], [0, 1]]] * 2)
    >>> result = intarsia.infer(graph, theta, "graph_cut", task="map")
    >>> result.assignment, result.score, result.status.name
    (array([1, 1, 1]), 8.0, 'EXACT')
    """

    name: ClassVar[str] = "graph_cut"
    summary: ClassVar[str] = "the best labelling with a proof, for binary attractive models of any size"
    gives_map: ClassVar[bool] = True
    proves_map: ClassVar[bool] = True
    limited_to: ClassVar[str] = "binary attractive"
    max_scope: ClassVar[int | None] = 2
    cost: ClassVar[str] = "a maximum flow: close to linear in the factors of image-like graphs"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Fix forced variables, build the flow network of the others, and compute its minimum cut."""
        graph = problem.graph
        if (graph.n_states != 2).any():
            v = int(np.argmax(graph.n_states != 2))
            number = v if problem.reduction is None else int(problem.reduction.free_variables[v])
            raise NotSupportedError(
                f"GraphCut needs binary variables, but variable {number} has {graph.n_states[v]} states. "
                f"{_ALTERNATIVES}"
            )
        model = _Pairwise(
            problem.theta[: 2 * graph.n_variables].reshape(-1, 2),
            graph.scope_idx.reshape(-1, 2),
            _pair_tables(graph, problem.theta),
            np.arange(graph.n_factors),
        )
        if problem.theta.min(initial=0.0) == -np.inf and not _fix_forced(model):
            return Answer(Status.INFEASIBLE)
        coupling = _couplings(model)
        flip = _flips(problem, model, coupling)
        if flip.any():
            model.unary, model.tables = model.unary.copy(), model.tables.copy()
            model.unary[flip] = model.unary[flip, ::-1]
            for side in (0, 1):
                is_flipped = flip[model.edges[:, side]]
                model.tables[is_flipped] = np.flip(model.tables[is_flipped], axis=1 + side)
        return self._cut(problem, model, flip)

    def _cut(self, problem: Problem, model: _Pairwise, flip: NDArray[Any]) -> Answer:
        """Compute the minimum cut of an attractive model and read the labelling off it."""
        base, network = _network(model)
        n = len(model.unary)
        tree, waiting = np.empty(n, np.int8), np.empty(n, np.bool_)
        parent, queue, orphans = (np.empty(n + 2, np.uint32) for _ in range(3))
        stamp, distance = np.empty(n, np.int32), np.empty(n, np.int32)
        trees = SearchTrees(tree, parent, stamp, distance, queue, waiting, np.empty(4, np.int64), orphans)
        plant_trees(network, trees)
        total, is_maximal = 0.0, False
        while not (is_maximal or problem.clock.expired):
            flow, is_maximal = push_flow(_ROUND, network, trees)
            total += flow
            if total == np.inf:
                return Answer(Status.INFEASIBLE)
        if not is_maximal:
            rounded = round_beliefs(problem, problem.theta[: 2 * n])
            return Answer(Status.TIME_LIMIT, assignment=rounded.labelling, upper_bound=base - total)
        labelling = (tree != SOURCE).astype(np.int64) ^ flip
        score = float(problem.graph.score(problem.theta, labelling))
        return Answer(Status.EXACT, assignment=labelling, upper_bound=score)


def _pair_tables(graph: FactorGraph, theta: FloatArray) -> FloatArray:
    """Return the scores of all factors as an array (n_factors, 2, 2), whatever their kind."""
    rows = theta[2 * graph.n_variables :].reshape(-1, 4) if not graph.table_kind.any() else None
    if rows is None:
        rows = np.array([graph.factor_table(theta, int(c)).reshape(-1) for c in graph.first_factor_of_table])
    if not np.array_equal(graph.table_of_factor, np.arange(len(rows))):
        rows = rows[graph.table_of_factor]
    return rows.reshape(-1, 2, 2)


def _fix_forced(model: _Pairwise) -> bool:
    """Fix variables whose state follows from hard zeros and remove their edges; return whether it is feasible."""
    first, second = model.edges.T
    allowed = model.unary > -np.inf
    possible = model.tables > -np.inf
    while True:
        n_allowed = allowed.sum()
        remaining = possible & allowed[first][:, :, None] & allowed[second][:, None, :]
        for states, supported in ((first, remaining.any(axis=2)), (second, remaining.any(axis=1))):
            np.logical_and.at(allowed, states, supported)
        if not allowed.any(axis=1).all():
            return False
        if allowed.sum() == n_allowed:
            break
    model.unary = np.where(allowed, model.unary, -np.inf)
    fixed = np.asarray(~allowed.all(axis=1))
    state = allowed.argmax(axis=1)
    for fixed_end, free_end, axis in ((first, second, 1), (second, first, 2)):
        edges = np.flatnonzero(fixed[fixed_end] & ~fixed[free_end])
        rows = np.take_along_axis(model.tables[edges], state[fixed_end[edges]][:, None, None].repeat(2, 3 - axis), axis)
        np.add.at(model.unary, free_end[edges], rows.reshape(-1, 2))
    both_free = ~(fixed[first] | fixed[second])
    model.edges, model.tables, model.factor = model.edges[both_free], model.tables[both_free], model.factor[both_free]
    return True


def _couplings(model: _Pairwise) -> FloatArray:
    """Return the coupling of each edge, positive if it is attractive; infinite for hard constraints."""
    t = model.tables
    agree, differ = t[:, 0, 0] + t[:, 1, 1], t[:, 0, 1] + t[:, 1, 0]
    with np.errstate(invalid="ignore"):  # inf - inf does not occur, as fixed variables are removed
        coupling = agree - differ
    if (coupling >= 0.0).all():
        return coupling
    finite = np.where(np.isfinite(t), np.abs(t), 0.0)
    size = np.maximum(finite[:, 0], finite[:, 1]).max(axis=1, initial=0.0)
    small = np.abs(coupling) <= _ROUNDING * size
    return np.where(small, 0.0, coupling)


def _flips(problem: Problem, model: _Pairwise, coupling: FloatArray) -> NDArray[Any]:
    """Return the variables whose states must be exchanged to make every edge attractive; raise if impossible."""
    if not (coupling < 0).any():
        return np.zeros(len(model.unary), dtype=bool)
    flip, bad_edge = balanced_flips(len(model.unary), model.edges, np.sign(coupling))
    if bad_edge is None:
        return flip
    factor = int(model.factor[bad_edge])
    number = int(np.flatnonzero(problem.factor_of == factor)[0])
    raise NotSupportedError(
        f"GraphCut needs an attractive model, but factor {number} over {problem.original.scope(number).tolist()} is on "
        f"a cycle with an odd number of repulsive factors. {_ALTERNATIVES}"
    )


def _network(model: _Pairwise) -> tuple[float, FlowNetwork]:
    """Return the score without a cut, in which every variable has its better state, and the flow network."""
    n, n_arcs = len(model.unary), model.edges.size
    arc_ptr, next_arc, head, reverse = (np.empty(size, np.uint32) for size in (n + 1, n, n_arcs, n_arcs))
    network = FlowNetwork(arc_ptr, head, reverse, np.empty(n_arcs), np.empty(n))
    score = lay_network(read_only(model.unary), read_only(model.edges), read_only(model.tables), next_arc, network)
    return float(score + balance_terminals(network, _N_SWEEPS)), network
