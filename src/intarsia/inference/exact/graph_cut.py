"""The best labelling of binary attractive models, proven, by a minimum cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.arguments import FlowNetwork, SearchTrees
from intarsia._kernels.graph_cut import SOURCE, lay_arcs, plant_trees, push_flow
from intarsia.exceptions import NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.relaxation.rounding import round_beliefs


def balanced_flips(n: int, edges: IntArray, signs: FloatArray) -> tuple[NDArray[Any], int | None]:
    """Nodes to flip so that every negative edge joins a flipped and an unflipped one; or an edge that prevents it.

    Every node is doubled, positive edges join equal copies and negative ones unequal copies; a cycle with an odd number
    of negative edges is one that leads from a node to its own copy.

    Examples
    --------
    >>> flips, spoilt = balanced_flips(3, np.array([[0, 1], [1, 2]]), np.array([-1.0, 1.0]))
    >>> flips.tolist(), spoilt
    ([False, True, True], None)
    >>> balanced_flips(3, np.array([[0, 1], [1, 2], [0, 2]]), np.array([-1.0, 1.0, 1.0]))[1]
    0
    """
    signed = signs != 0
    ends, negative = edges[signed], signs[signed] < 0
    tails = np.concatenate([ends[:, 0], ends[:, 0] + n])
    heads = np.concatenate([ends[:, 1] + n * negative, ends[:, 1] + n * ~negative])
    links = coo_array((np.ones(tails.size), (tails, heads)), shape=(2 * n, 2 * n))
    label = connected_components(links, directed=False)[1]
    spoilt = label[:n] == label[n:]
    if spoilt.any():
        bad = np.flatnonzero(signed)[negative & spoilt[ends[:, 0]]]
        return np.zeros(n, dtype=bool), int(bad[0])
    return label[:n] > label[n:], None


_Arcs = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
_OTHERS = "Use integer_program, lp_relaxation or dual_decomposition."
# Augmentations between two looks at the clock.
_ROUND = 20_000
# Couplings below zero by no more than this share of their table are rounding.
_ROUNDING = 1e-12


@dataclass
class _Pairwise:
    """Binary pairwise model: scores (n, 2) of variables and (m, 2, 2) of edges between free ones."""

    unary: FloatArray
    edges: IntArray
    tables: FloatArray
    factor: IntArray


class GraphCut(InferenceMethod):
    r"""The best labelling with a proof, in low polynomial time, for binary variables that like to agree.

    Choose it for binary models with pairwise factors that are attractive (submodular),

    .. math:: \theta_c(0, 0) + \theta_c(1, 1) \ge \theta_c(0, 1) + \theta_c(1, 0),

    or become so when the two states of some variables change names, which is found out. Every such model is a minimum
    cut (Greig1989), and the maximum flow that proves it is found by growing two search trees (Boykov2004). Other
    models are refused, with the factor that spoils it.

    Parameters
    ----------
    temperature : float, optional
        Only 0, the default, makes sense: a cut is a labelling.

    Raises
    ------
    NotSupportedError
        If a variable has more than two states, or couplings of both signs meet in a cycle that cannot be balanced.

    Notes
    -----
    Scores of -inf are allowed wherever what is left stays attractive: x_i <= x_j, x_i = x_j, or a fixed state. At
    `time_limit` the flow so far gives the upper bound.

    References
    ----------
    Greig1989; Boykov2004; Kolmogorov2004 for which models are cuts.

    Examples
    --------
    Two neighbours outvote the one between them:

    >>> import intarsia
    >>> graph = intarsia.chain_graph(3, 2)
    >>> theta = graph.pack(variables=[[0, 3], [1, 0], [0, 3]], tables=[[[1, 0], [0, 1]]] * 2)
    >>> result = intarsia.infer(graph, theta, "graph_cut", task="map")
    >>> result.assignment, result.score, result.status.name
    (array([1, 1, 1]), 8.0, 'EXACT')
    """

    name: ClassVar[str] = "graph_cut"
    summary: ClassVar[str] = "the best labelling, proven, of binary attractive models of any size"
    gives_map: ClassVar[bool] = True
    proves_map: ClassVar[bool] = True
    only_for: ClassVar[str] = "binary attractive"
    max_scope: ClassVar[int | None] = 2
    cost: ClassVar[str] = "a maximum flow: close to linear in the factors of image-like graphs"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Fix what is certain, write the rest as a flow network, cut it."""
        graph = problem.graph
        if (graph.n_states != 2).any():
            v = int(np.argmax(graph.n_states != 2))
            number = v if problem.reduction is None else int(problem.reduction.kept[v])
            raise NotSupportedError(
                f"GraphCut takes binary variables, but variable {number} has {graph.n_states[v]} states. {_OTHERS}"
            )
        model = _Pairwise(
            problem.theta[: 2 * graph.n_variables].reshape(-1, 2).copy(),
            graph.scope_idx.reshape(-1, 2),
            _pair_tables(graph, problem.theta),
            np.arange(graph.n_factors),
        )
        if np.isneginf(problem.theta).any() and not _fix_forced(model):
            return Answer(Status.INFEASIBLE)
        coupling = _couplings(model)
        flip = _flips(problem, model, coupling)
        if flip.any():
            model.unary[flip] = model.unary[flip, ::-1]
            for side in (0, 1):
                turned = flip[model.edges[:, side]]
                model.tables[turned] = np.flip(model.tables[turned], axis=1 + side)
        return self._cut(problem, model, flip)

    def _cut(self, problem: Problem, model: _Pairwise, flip: NDArray[Any]) -> Answer:
        base, terminal, network = _network(model)
        n = terminal.size
        tree, waiting = np.empty(n, np.int8), np.empty(n, np.bool_)
        parent, stamp, distance, queue, orphans = (np.empty(n + 2, np.int32) for _ in range(5))
        trees = SearchTrees(tree, parent, stamp, distance, queue, waiting, np.empty(4, np.int64), orphans)
        flows = FlowNetwork(*network, terminal)
        plant_trees(flows, trees)
        total, done = 0.0, False
        while not (done or problem.clock.expired):
            flow, done = push_flow(_ROUND, flows, trees)
            total += flow
            if total == np.inf:
                return Answer(Status.INFEASIBLE)
        if not done:
            found = round_beliefs(problem, problem.theta[: 2 * n])
            return Answer(Status.TIME_LIMIT, assignment=found.labelling, upper_bound=base - total)
        labelling = (tree != SOURCE).astype(np.int64) ^ flip
        score = float(problem.graph.score(problem.theta, labelling))
        return Answer(Status.EXACT, assignment=labelling, upper_bound=score)


def _pair_tables(graph: FactorGraph, theta: FloatArray) -> FloatArray:
    """Scores (n_factors, 2, 2), written out for every kind."""
    rows = theta[2 * graph.n_variables :].reshape(-1, 4) if not graph.table_kind.any() else None
    if rows is None:
        rows = np.array([graph.factor_table(theta, int(c)).reshape(-1) for c in graph.first_factor_of_table])
    return rows[graph.table_of_factor].reshape(-1, 2, 2)


def _fix_forced(model: _Pairwise) -> bool:
    """Take variables out of the edges whose state follows from hard zeros; False when nothing is possible."""
    first, second = model.edges.T
    allowed = model.unary > -np.inf
    possible = model.tables > -np.inf
    while True:
        before = allowed.sum()
        left = possible & allowed[first][:, :, None] & allowed[second][:, None, :]
        for states, supported in ((first, left.any(axis=2)), (second, left.any(axis=1))):
            np.logical_and.at(allowed, states, supported)
        if not allowed.any(axis=1).all():
            return False
        if allowed.sum() == before:
            break
    model.unary[~allowed] = -np.inf
    fixed = np.asarray(~allowed.all(axis=1))
    state = allowed.argmax(axis=1)
    for here, there, axis in ((first, second, 1), (second, first, 2)):
        edges = np.flatnonzero(fixed[here] & ~fixed[there])
        rows = np.take_along_axis(model.tables[edges], state[here[edges]][:, None, None].repeat(2, 3 - axis), axis)
        np.add.at(model.unary, there[edges], rows.reshape(-1, 2))
    both_free = ~(fixed[first] | fixed[second])
    model.edges, model.tables, model.factor = model.edges[both_free], model.tables[both_free], model.factor[both_free]
    return True


def _couplings(model: _Pairwise) -> FloatArray:
    """How much each edge likes agreement; -inf or inf where it is a matter of the possible."""
    t = model.tables
    agree, differ = t[:, 0, 0] + t[:, 1, 1], t[:, 0, 1] + t[:, 1, 0]
    with np.errstate(invalid="ignore"):  # both forbidden: fixed variables are gone, so this does not occur
        coupling = agree - differ
    if (coupling >= 0.0).all():
        return coupling
    finite = np.where(np.isfinite(t), np.abs(t), 0.0)
    size = np.maximum(finite[:, 0], finite[:, 1]).max(axis=1, initial=0.0)
    small = np.abs(coupling) <= _ROUNDING * size
    return np.where(small, 0.0, coupling)


def _flips(problem: Problem, model: _Pairwise, coupling: FloatArray) -> NDArray[Any]:
    """Variables whose two states change names so that every edge is attractive; refuse where none such exist."""
    if not (coupling < 0).any():
        return np.zeros(len(model.unary), dtype=bool)
    flip, spoilt = balanced_flips(len(model.unary), model.edges, np.sign(coupling))
    if spoilt is None:
        return flip
    factor = int(model.factor[spoilt])
    number = int(np.flatnonzero(problem.factor_of == factor)[0])
    raise NotSupportedError(
        f"GraphCut takes attractive models, but factor {number} over {problem.original.scope(number).tolist()} lies on "
        f"a cycle with an odd number of repulsive factors. {_OTHERS}"
    )


def _network(model: _Pairwise) -> tuple[float, FloatArray, _Arcs]:
    """Score without any cut, capacities at the terminals, arcs by their tail.

    A variable on the source's side has state 0. With c = -score, an edge's cost is
    c00 + (c10 - c00) x_i + (c11 - c10) x_j + (c01 + c10 - c00 - c11) (1 - x_i) x_j,
    or the same with the roles of the states exchanged, which serves where c10 is infinite.
    """
    n = len(model.unary)
    cost = -model.tables
    a, b, c, d = cost[:, 0, 0], cost[:, 0, 1], cost[:, 1, 0], cost[:, 1, 1]
    capacity = np.zeros(model.edges.shape)  # forward, backward
    with np.errstate(invalid="ignore"):  # inf - inf, replaced below
        at_first, at_second = c - a, d - c
        np.maximum(b + c - a - d, 0.0, out=capacity[:, 0])
    if np.isinf(cost).any():
        hard = np.flatnonzero(np.isinf(cost).any(axis=(1, 2)))
        capacity[hard], at_first[hard], at_second[hard] = _hard_edges(cost[hard])
    first, second = model.edges.T
    moved = np.bincount(first, at_first, n) + np.bincount(second, at_second, n)
    low = np.where(np.isneginf(model.unary), 0.0, model.unary)
    lean = low[:, 0] - low[:, 1] + moved  # cost of state 1 over that of state 0
    fixed = np.isneginf(model.unary)
    terminal: FloatArray = np.where(fixed[:, 1], np.inf, np.where(fixed[:, 0], -np.inf, lean))
    # Without a cut every variable takes its better state and every edge costs c00.
    cheap = np.where(fixed[:, 0], lean, np.where(fixed[:, 1], 0.0, np.minimum(lean, 0.0)))
    base = float(low[:, 0].sum() - a.sum() - cheap.sum())
    m = model.edges.size
    arc_ptr, head, reverse, left = np.empty(n + 1, np.int32), np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m)
    lay_arcs(model.edges.reshape(-1), capacity.reshape(-1), np.empty(m, np.int32), arc_ptr, head, reverse, left)
    return base, terminal, (arc_ptr, head, reverse, left)


def _hard_edges(cost: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Capacities forward and backward of edges with infinite costs, and what they add to their two variables."""
    a, b, c, d = cost[:, 0, 0], cost[:, 0, 1], cost[:, 1, 0], cost[:, 1, 1]
    one_way, both_ways = np.isinf(c) & ~np.isinf(b), np.isinf(c) & np.isinf(b)
    with np.errstate(invalid="ignore"):  # inf - inf in branches that are not taken
        weight = np.where(both_ways, np.inf, np.maximum(b + c - a - d, 0.0))
        at_first = np.where(one_way, d - b, np.where(both_ways, d - a, c - a))
        at_second = np.where(one_way, b - a, np.where(both_ways, 0.0, d - c))
    capacity = np.column_stack([np.where(one_way, 0.0, weight), np.where(one_way | both_ways, weight, 0.0)])
    return capacity, at_first, at_second
