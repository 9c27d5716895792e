"""Correlation clustering of one connected graph, with an upper bound that proves how good the clustering is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph

from intarsia._core.clock import Clock
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.correlation_arguments import SignedGraph
from intarsia._kernels.correlation_bound import pack_cycles
from intarsia._kernels.correlation_exact import cluster_small_components
from intarsia._kernels.correlation_greedy import join_greedily
from intarsia._kernels.correlation_moves import improve_clusters
from intarsia.clusters.resolution.matching import match_two_sources
from intarsia.clusters.resolution.relaxation import relax

EXACT_NODES = 12  # largest component that is solved by enumeration of its sets of nodes
_EXPLICIT_PAIRS = 40_000  # largest number of pairs without a score that enter the bound one by one
_ABSENT_PAIRS = 2_000_000
_REDISTRIBUTED_NODES = 400  # largest number of nodes of two clusters that are redistributed
_PATH_LENGTHS = (2, 3, 4, 6, 10, 20, 1_000_000)
_FIXED_FRACTION = 0.05  # of the pairs must be decided by a bound, before the bound is computed again
_VISITS = 20_000_000  # edges looked at by one call of the kernel, about a tenth of a second


@dataclass(frozen=True, eq=False)
class JoinProblem:
    """Nodes to be clustered so that the sum of the weights within clusters is as large as possible.

    Attributes
    ----------
    ends : int array (n_edges, 2)
        Nodes of each edge, the smaller first, each edge once.
    weight : float array (n_edges,)
        Weight of each edge minus `absent` for each pair of records; -inf if the ends must be apart.
    size : int array (n_nodes,)
        Number of records of each node.
    source_ptr, source : int arrays
        Sources of the records of node i: `source[source_ptr[i]:source_ptr[i + 1]]`; `source` is empty without sources.
    absent : float
        Weight of a pair of records without an edge, at most 0.
    max_size : int
        Largest number of records of a cluster.
    """

    ends: IntArray
    weight: FloatArray
    size: IntArray
    source_ptr: IntArray
    source: IntArray
    absent: float
    max_size: int

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.size)

    def gains(self) -> FloatArray:
        """Weights of the edges, including the pairs of records without a score between their ends."""
        return self.weight + self.absent * self.size[self.ends[:, 0]] * self.size[self.ends[:, 1]]

    def score(self, labels: IntArray) -> float:
        """Sum of the weights of all pairs of nodes with the same label."""
        together = labels[self.ends[:, 0]] == labels[self.ends[:, 1]]
        n_pairs = np.bincount(labels, self.size) ** 2 - np.bincount(labels, self.size**2)
        return float(self.weight[together].sum() + self.absent * n_pairs.sum() / 2)

    def graph(self) -> SignedGraph:
        """Arrays of the kernels: the neighbours of each node."""
        n, m = self.n_nodes, len(self.ends)
        ends = np.concatenate([self.ends[:, 0], self.ends[:, 1]])
        order = np.argsort(ends, kind="stable")
        ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)
        others = np.concatenate([self.ends[:, 1], self.ends[:, 0]])
        return SignedGraph(
            ptr, others[order], order % max(m, 1), self.weight, self.size, self.source_ptr, self.source, self.absent,
            self.max_size,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class JoinSolution:
    """Clustering of a `JoinProblem`, its score, and an upper bound on the score of every clustering.

    Attributes
    ----------
    labels : int array (n_nodes,)
        Cluster of each node, any numbers from 0 to n_nodes - 1.
    score, bound : float
        Score of the clustering, and a number that no clustering can exceed (up to rounding).
    """

    labels: IntArray
    score: float
    bound: float


def cluster_nodes(
    problem: JoinProblem, clock: Clock, *, prove: bool = True, bound: bool = True, start: IntArray | None = None
) -> JoinSolution:
    """Find a good clustering of the nodes, and prove how far it can be from the best one.

    Up to 12 nodes, and one-to-one linkage of two sources, are solved exactly. Other graphs: greedy joining, local
    moves, a bound from conflicting cycles; edges that this bound decides are fixed, which makes the graph smaller, and
    the rest is treated again. What remains goes to a linear relaxation and an integer program, as far as its size and
    the time allow.

    Parameters
    ----------
    problem : JoinProblem
        Nodes and weights.
    clock : Clock
        Its limit ends the proof; the bound found so far is returned.
    prove : bool
        Whether to go on after the bound from cycles.
    bound : bool
        Whether to compute a bound at all; without, the bound is infinite.
    start : int array, optional
        Clustering to start from, which satisfies the constraints; by default greedy joining.

    Examples
    --------
    >>> none = np.empty(0, dtype=np.int64)
    >>> triangle = JoinProblem(np.array([[0, 1], [0, 2], [1, 2]]), np.array([2.0, -5.0, 1.0]), np.ones(3, int),
    ...                        none, none, 0.0, 3)
    >>> solution = cluster_nodes(triangle, Clock())
    >>> solution.labels.tolist(), solution.score, solution.bound
    ([0, 0, 2], 2.0, 2.0)
    """
    if problem.n_nodes <= EXACT_NODES:
        return _solve_exactly(problem)
    if _is_one_to_one(problem):
        names = np.unique(problem.source, return_inverse=True)[1]
        labels, score = match_two_sources(problem.ends, problem.gains(), names)
        return JoinSolution(labels, score, score)
    original = _separate_sources(problem)
    problem, forbidden = _finite(original)
    scale = float(problem.weight[problem.weight > 0].sum())
    tolerance = 1e-12 * max(scale, 1.0)
    labels = search(problem, clock, tolerance, start)
    score = problem.score(labels)
    if not bound:
        return JoinSolution(labels, score, np.inf)
    pairs, weights = _explicit_pairs(problem, labels)
    residual, upper = _cycle_bound(problem.n_nodes, pairs, weights, clock, tolerance)
    upper = max(upper, score)
    if upper - score <= 1e-9 * max(scale, 1.0) or not prove or clock.expired:
        return JoinSolution(labels, score, upper)
    fixed = (np.abs(residual) > upper - score + 1e-9 * max(scale, 1.0)) & (weights > forbidden / 2)
    if (fixed & (residual > 0)).any() or fixed.sum() > _FIXED_FRACTION * len(pairs):
        rest = _solve_rest(original, pairs, residual, fixed, labels, clock)
        return JoinSolution(rest.labels, rest.score, min(upper, rest.bound))
    relaxed = None
    with clock.stopped_by_interrupt():
        relaxed = relax(pairs, weights, problem.n_nodes, labels, score, clock)
    if relaxed is None:
        return JoinSolution(labels, score, upper)
    upper = min(upper, max(relaxed.bound, score))
    for candidate in relaxed.candidates:
        improved = search(problem, clock, tolerance, candidate) if _is_allowed(problem, candidate) else labels
        if problem.score(improved) > score:
            labels, score = improved, problem.score(improved)
    return JoinSolution(labels, score, max(upper, score))


def search(problem: JoinProblem, clock: Clock, tolerance: float, start: IntArray | None = None) -> IntArray:
    """Return the clustering found by greedy joining (or the start) and local moves; weights must be finite."""
    graph = problem.graph()
    labels = join_greedily(problem.ends, graph) if start is None else start.copy()
    at_optimum = False
    with clock.stopped_by_interrupt():
        while not at_optimum and not clock.expired:
            _, at_optimum = improve_clusters(labels, graph, _REDISTRIBUTED_NODES, 1, tolerance)
    return labels


def _solve_exactly(problem: JoinProblem) -> JoinSolution:
    """Solve a problem of at most 12 nodes by enumeration."""
    n = problem.n_nodes
    labels, scores = np.zeros(n, dtype=np.int64), np.zeros(1)
    cluster_small_components(np.array([0]), np.array([0, n]), problem.graph(), labels, scores)
    return JoinSolution(labels, float(scores[0]), float(scores[0]))


def _is_one_to_one(problem: JoinProblem) -> bool:
    """Return whether every node is one record of one of two sources, so that clusters are single nodes or pairs."""
    return (
        len(problem.source) == problem.n_nodes
        and bool((np.diff(problem.source_ptr) == 1).all() and (problem.size == 1).all())
        and problem.max_size >= 2
        and len(np.unique(problem.source)) == 2
    )


def _separate_sources(problem: JoinProblem) -> JoinProblem:
    """Add a forbidden edge between two nodes of one source wherever both could join the same third node."""
    if not problem.source.size:
        return problem
    n, n_entries = problem.n_nodes, len(problem.source)
    owner = np.repeat(np.arange(n), np.diff(problem.source_ptr))
    member = coo_array((np.ones(n_entries), (owner, problem.source)), shape=(n, int(problem.source.max()) + 1)).tocsr()
    first, second = _two_steps(problem)
    shared = np.asarray(member[first].multiply(member[second]).sum(axis=1)).ravel() > 0
    return _with_edges(problem, np.column_stack([first[shared], second[shared]]), np.full(int(shared.sum()), -np.inf))


def _finite(problem: JoinProblem) -> tuple[JoinProblem, float]:
    """Replace -inf by a finite weight that outweighs all others; return it as well."""
    weight = problem.weight
    total = float(np.abs(weight[np.isfinite(weight)]).sum()) + abs(problem.absent) * float(problem.size.sum()) ** 2
    forbidden = -4.0 * total - 1.0
    return replace(problem, weight=np.where(np.isfinite(weight), weight, forbidden)), forbidden


def _with_edges(problem: JoinProblem, ends: IntArray, weight: FloatArray) -> JoinProblem:
    """Add edges to a problem; weights of parallel edges are summed."""
    return _merged(problem, np.concatenate([problem.ends, ends]), np.concatenate([problem.weight, weight]))


def _merged(problem: JoinProblem, ends: IntArray, weight: FloatArray) -> JoinProblem:
    """Return the problem with these edges, each pair of nodes once."""
    key, row = np.unique(ends.min(axis=1) * problem.n_nodes + ends.max(axis=1), return_inverse=True)
    merged_ends = np.column_stack([key // max(problem.n_nodes, 1), key % max(problem.n_nodes, 1)]).astype(np.int64)
    merged_weight = np.zeros(len(key))
    np.add.at(merged_weight, row, weight)
    return replace(problem, ends=merged_ends, weight=merged_weight)


def _explicit_pairs(problem: JoinProblem, labels: IntArray) -> tuple[IntArray, FloatArray]:
    """Return pairs of nodes with their weights; pairs without an edge are included where there are not too many.

    Leaving out pairs without an edge can only raise the bound, since their weight is not positive. Those that matter
    have a common neighbour, or are in two clusters that an edge with a positive gain connects.
    """
    n = problem.n_nodes
    if problem.absent == 0.0:
        return problem.ends, problem.gains()
    if n * (n - 1) // 2 <= _EXPLICIT_PAIRS:
        absent_pairs = [np.column_stack(np.triu_indices(n, 1))]
    else:
        absent_pairs = [np.column_stack(_two_steps(problem)), _pairs_between_clusters(problem, labels)]
    ends = np.concatenate([problem.ends, *(pairs for pairs in absent_pairs if len(pairs) <= _ABSENT_PAIRS)])
    weight = np.concatenate([problem.weight, np.zeros(len(ends) - len(problem.ends))])
    explicit = _merged(problem, ends.astype(np.int64), weight)
    return explicit.ends, explicit.gains()


def _pairs_between_clusters(problem: JoinProblem, labels: IntArray) -> IntArray:
    """Return all pairs of nodes of two clusters that an edge with a positive gain connects, small clusters first."""
    cluster_pairs = np.sort(labels[problem.ends[problem.gains() > 0]], axis=1)
    cluster_pairs = np.unique(cluster_pairs[cluster_pairs[:, 0] != cluster_pairs[:, 1]], axis=0)
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels, minlength=problem.n_nodes)
    first = np.cumsum(size) - size
    n_pairs = size[cluster_pairs[:, 0]] * size[cluster_pairs[:, 1]]
    smallest = np.argsort(n_pairs, kind="stable")
    smallest = smallest[np.cumsum(n_pairs[smallest]) <= _ABSENT_PAIRS]
    cluster_pairs, n_pairs = cluster_pairs[smallest], n_pairs[smallest]
    row = np.repeat(np.arange(len(cluster_pairs)), n_pairs)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    size_of_second = size[cluster_pairs[row, 1]]
    return np.column_stack(
        [
            order[first[cluster_pairs[row, 0]] + offset // size_of_second],
            order[first[cluster_pairs[row, 1]] + offset % size_of_second],
        ]
    )


def _two_steps(problem: JoinProblem) -> tuple[IntArray, IntArray]:
    """Return the pairs of nodes that have a common neighbour over edges with a positive gain, the smaller first."""
    n, positive = problem.n_nodes, problem.ends[problem.gains() > 0]
    both_ways = np.concatenate([positive, positive[:, ::-1]])
    linked = coo_array((np.ones(len(both_ways)), (both_ways[:, 0], both_ways[:, 1])), shape=(n, n)).tocsr()
    first, second = (linked @ linked).tocoo().coords
    return first[first < second], second[first < second]


def _cycle_bound(
    n: int, pairs: IntArray, weights: FloatArray, clock: Clock, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the weights after packing conflicting cycles, and the bound: positive sum minus packed weight."""
    residual, packed = weights.copy(), 0.0
    positive = np.flatnonzero(weights > 0)
    ends = np.concatenate([pairs[positive, 0], pairs[positive, 1]])
    order = np.argsort(ends, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)
    others = np.concatenate([pairs[positive, 1], pairs[positive, 0]])[order]
    adjacency = (ptr, others, np.tile(positive, 2)[order])
    for max_length in _PATH_LENGTHS:
        negative = np.flatnonzero(residual < -tolerance)
        negative = negative[np.argsort(residual[negative], kind="stable")]
        # Weight that is packed but not counted, because of an interrupt, leaves a weaker bound.
        with clock.stopped_by_interrupt():
            while negative.size and not clock.expired:
                amount, n_treated = pack_cycles(negative, pairs, adjacency, residual, max_length, _VISITS, tolerance)
                packed, negative = packed + amount, negative[n_treated:]
    return residual, float(weights[positive].sum()) - packed


def _solve_rest(
    problem: JoinProblem,
    pairs: IntArray,
    residual: FloatArray,
    fixed: NDArray[np.bool_],
    labels: IntArray,
    clock: Clock,
) -> JoinSolution:
    """Join and separate the pairs that the bound decides, and cluster what is left, component by component."""
    n = problem.n_nodes
    fixed_joins = pairs[fixed & (residual > 0)]
    graph = coo_array((np.ones(len(fixed_joins)), (fixed_joins[:, 0], fixed_joins[:, 1])), shape=(n, n))
    node_of = csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
    contracted, base = contract(problem, node_of)
    fixed_cuts = np.sort(node_of[pairs[fixed & (residual < 0)]], axis=1)
    fixed_cuts = fixed_cuts[fixed_cuts[:, 0] != fixed_cuts[:, 1]]
    contracted = _with_edges(contracted, fixed_cuts, np.full(len(fixed_cuts), -np.inf))
    start = np.zeros(contracted.n_nodes, dtype=np.int64)
    start[node_of] = np.unique(labels, return_inverse=True)[1]
    score = bound = base
    answer = np.empty(contracted.n_nodes, dtype=np.int64)
    components = split_components(contracted)
    for k in range(len(components.node_ptr) - 1):
        nodes = components.order[components.node_ptr[k] : components.node_ptr[k + 1]]
        answer[nodes] = nodes[0]
        if len(nodes) > 1:
            local_start = np.unique(start[nodes], return_inverse=True)[1].astype(np.int64)
            solution = cluster_nodes(components.part(k), clock, start=local_start)
            answer[nodes] = nodes[solution.labels]
            score, bound = score + solution.score, bound + solution.bound
    return JoinSolution(np.unique(answer[node_of], return_inverse=True)[1].astype(np.int64), score, bound)


def contract(problem: JoinProblem, node_of: IntArray) -> tuple[JoinProblem, float]:
    """Merge nodes with the same number in `node_of`; return the smaller problem and the weight within merged nodes.

    Examples
    --------
    >>> none = np.empty(0, dtype=np.int64)
    >>> path = JoinProblem(np.array([[0, 1], [1, 2]]), np.array([2.0, -1.0]), np.ones(3, int), none, none, 0.0, 3)
    >>> smaller, within = contract(path, np.array([0, 0, 1]))
    >>> smaller.ends.tolist(), smaller.weight.tolist(), smaller.size.tolist(), within
    ([[0, 1]], [-1.0], [2, 1], 2.0)
    """
    within = problem.score(node_of)
    ends = node_of[problem.ends]
    between = ends[:, 0] != ends[:, 1]
    n = int(node_of.max()) + 1
    source_ptr, source = problem.source_ptr, problem.source
    if source.size:
        owner = node_of[np.repeat(np.arange(problem.n_nodes), np.diff(source_ptr))]
        source = source[np.argsort(owner, kind="stable")]
        source_ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))]).astype(np.int64)
    smaller = replace(
        problem, size=np.bincount(node_of, problem.size).astype(np.int64), source_ptr=source_ptr, source=source
    )
    return _merged(smaller, ends[between], problem.weight[between]), within


@dataclass(frozen=True, eq=False)
class Components:
    """Problem whose nodes are ordered by connected component, so that each component is a slice.

    Attributes
    ----------
    problem : JoinProblem
        Problem with renumbered nodes, without edges between components.
    order : int array (n_nodes,)
        Old number of each node.
    node_ptr, edge_ptr : int arrays (n_components + 1,)
        First node and first edge of each component.
    """

    problem: JoinProblem
    order: IntArray
    node_ptr: IntArray
    edge_ptr: IntArray

    def part(self, k: int) -> JoinProblem:
        """Component k as a problem of its own."""
        nodes = slice(self.node_ptr[k], self.node_ptr[k + 1])
        edges = slice(self.edge_ptr[k], self.edge_ptr[k + 1])
        source_ptr, source = self.problem.source_ptr, self.problem.source
        if source.size:
            source_ptr = source_ptr[nodes.start : nodes.stop + 1]
            source, source_ptr = source[source_ptr[0] : source_ptr[-1]], source_ptr - source_ptr[0]
        return replace(
            self.problem,
            ends=self.problem.ends[edges] - nodes.start,
            weight=self.problem.weight[edges],
            size=self.problem.size[nodes],
            source_ptr=source_ptr,
            source=source,
        )


def split_components(problem: JoinProblem, least_gain: float = 0.0) -> Components:
    """Split a problem into the connected components of its edges with a gain above `least_gain`.

    No cluster of a best clustering reaches over two components of the edges with a positive gain.
    """
    n = problem.n_nodes
    linking = problem.ends[problem.gains() > least_gain]
    graph = coo_array((np.ones(len(linking), dtype=bool), (linking[:, 0], linking[:, 1])), shape=(n, n))
    n_components, component = csgraph.connected_components(graph, directed=False)
    order = np.argsort(component, kind="stable").astype(np.int64)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    component_of_edge = component[problem.ends[:, 0]]
    rows = np.flatnonzero(component_of_edge == component[problem.ends[:, 1]])
    rows = rows[np.argsort(component_of_edge[rows], kind="stable")]
    source_ptr, source = problem.source_ptr, problem.source
    if source.size:
        lengths = np.diff(source_ptr)[order]
        entries = np.repeat(source_ptr[:-1][order] - np.cumsum(lengths) + lengths, lengths) + np.arange(len(source))
        source, source_ptr = source[entries], np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    sorted_problem = replace(
        problem,
        ends=np.sort(position[problem.ends[rows]], axis=1),
        weight=problem.weight[rows],
        size=problem.size[order],
        source_ptr=source_ptr,
        source=source,
    )
    numbers = np.arange(n_components + 1)
    node_ptr = np.searchsorted(component[order], numbers).astype(np.int64)
    edge_ptr = np.searchsorted(component_of_edge[rows], numbers).astype(np.int64)
    return Components(sorted_problem, order, node_ptr, edge_ptr)


def _is_allowed(problem: JoinProblem, labels: IntArray) -> bool:
    """Return whether a clustering keeps the largest size and has no source twice in a cluster."""
    if np.bincount(labels, problem.size).max() > problem.max_size:
        return False
    owner = labels[np.repeat(np.arange(problem.n_nodes), np.diff(problem.source_ptr))] if problem.source.size else None
    return owner is None or len(np.unique(np.column_stack([owner, problem.source]), axis=0)) == len(owner)
