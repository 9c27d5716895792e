"""Arguments of the kernels of correlation clustering: a graph of nodes, signed weights and sources; clusters of nodes.

The cache of compiled kernels follows edits of this file, so it also holds the helpers that several kernels share.
"""

from __future__ import annotations

from typing import NamedTuple

from intarsia._core.jit import kernel
from intarsia._core.validation import FloatArray, IntArray


class SignedGraph(NamedTuple):
    """Graph whose best clustering has the largest sum of weights within clusters.

    A node is a record, or several records that must stay together. The weight of a pair of nodes is `absent` times the
    product of their sizes plus the weight of their edge, if they have one.

    Attributes
    ----------
    ptr, node, edge : int arrays
        Neighbours of node i: `node[ptr[i]:ptr[i + 1]]`, over the edges `edge[ptr[i]:ptr[i + 1]]`.
    weight : float array (n_edges,)
        Weight of each edge minus `absent` for each pair of records it stands for; -inf if the ends must be apart.
    size : int array (n_nodes,)
        Number of records of each node.
    source_ptr, source : int arrays
        Sources of the records of node i: `source[source_ptr[i]:source_ptr[i + 1]]`. Empty without sources.
    absent : float
        Weight of a pair of records without an edge, at most 0.
    max_size : int
        Largest number of records of a cluster.
    """

    ptr: IntArray
    node: IntArray
    edge: IntArray
    weight: FloatArray
    size: IntArray
    source_ptr: IntArray
    source: IntArray
    absent: float
    max_size: int


class Clusters(NamedTuple):
    """Clusters during a search: members as linked lists, number of records, and a mark for clusters that changed."""

    label: IntArray
    first: IntArray
    following: IntArray
    previous: IntArray
    n_records: IntArray
    changed: IntArray


@kernel
def insert_node(v, c, graph, clusters):
    """Add a node to a cluster."""
    clusters.label[v] = c
    clusters.previous[v], clusters.following[v] = -1, clusters.first[c]
    if clusters.first[c] >= 0:
        clusters.previous[clusters.first[c]] = v
    clusters.first[c] = v
    clusters.n_records[c] += graph.size[v]
    clusters.changed[c] = 1


@kernel
def remove_node(v, graph, clusters):
    """Take a node out of its cluster."""
    c, before, after = clusters.label[v], clusters.previous[v], clusters.following[v]
    if before >= 0:
        clusters.following[before] = after
    else:
        clusters.first[c] = after
    if after >= 0:
        clusters.previous[after] = before
    clusters.n_records[c] -= graph.size[v]
    clusters.changed[c] = 1


@kernel
def has_source_of(v, c, graph, clusters):
    """Return whether a cluster has a record of a source of node v."""
    u = clusters.first[c]
    while u >= 0:
        for p in range(graph.source_ptr[u], graph.source_ptr[u + 1]):
            for q in range(graph.source_ptr[v], graph.source_ptr[v + 1]):
                if graph.source[p] == graph.source[q]:
                    return True
        u = clusters.following[u]
    return False
