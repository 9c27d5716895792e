"""Arguments of the kernels of correlation clustering: a graph of nodes, signed weights and sources."""

from __future__ import annotations

from typing import NamedTuple

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
