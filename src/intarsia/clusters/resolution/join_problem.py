"""Problem of correlation clustering, its connected components, and smaller problems with some nodes merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, csgraph

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.correlation_arguments import SignedGraph
from intarsia.clusters.resolution.adjacency import neighbours


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
        ptr, others, edges = neighbours(self.ends, self.n_nodes)
        return SignedGraph(
            ptr, others, edges, self.weight, self.size, self.source_ptr, self.source, self.absent, self.max_size
        )


def add_edges(problem: JoinProblem, ends: IntArray, weight: FloatArray) -> JoinProblem:
    """Add edges to a problem; weights of parallel edges are summed."""
    return merge_edges(problem, np.concatenate([problem.ends, ends]), np.concatenate([problem.weight, weight]))


def merge_edges(problem: JoinProblem, ends: IntArray, weight: FloatArray) -> JoinProblem:
    """Return the problem with these edges, each pair of nodes once."""
    key, row = np.unique(ends.min(axis=1) * problem.n_nodes + ends.max(axis=1), return_inverse=True)
    merged_ends = np.column_stack([key // max(problem.n_nodes, 1), key % max(problem.n_nodes, 1)]).astype(np.int64)
    merged_weight = np.zeros(len(key))
    np.add.at(merged_weight, row, weight)
    return replace(problem, ends=merged_ends, weight=merged_weight)


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
    return merge_edges(smaller, ends[between], problem.weight[between]), within


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
