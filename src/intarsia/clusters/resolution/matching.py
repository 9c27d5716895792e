"""One-to-one linkage of two sources: the best clustering is a bipartite matching of maximum weight."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from intarsia._core.validation import FloatArray, IntArray


def match_two_sources(ends: IntArray, gains: FloatArray, source_of_node: IntArray) -> tuple[IntArray, float]:
    """Return the label of each node (its partner's if it is the larger one) and the total gain of the best matching.

    Parameters
    ----------
    ends : int array (n_edges, 2)
        Nodes of each edge, the smaller first.
    gains : float array (n_edges,)
        Gain of joining the two nodes.
    source_of_node : int array (n_nodes,)
        Source of each node, 0 or 1.

    Examples
    --------
    Joining 0 and 2 would gain most, but 1 would then have no partner.

    >>> match_two_sources(np.array([[0, 2], [0, 3], [1, 2]]), np.array([3.0, 2.0, 2.0]), np.array([0, 0, 1, 1]))
    (array([0, 1, 1, 0]), 4.0)
    """
    n = len(source_of_node)
    useful = (gains > 0) & (source_of_node[ends[:, 0]] != source_of_node[ends[:, 1]])
    ends, gains = ends[useful], gains[useful]
    swap = source_of_node[ends[:, 0]] == 1
    left, right = np.where(swap, ends[:, 1], ends[:, 0]), np.where(swap, ends[:, 0], ends[:, 1])
    rows, row = np.unique(left, return_inverse=True)
    columns, column = np.unique(right, return_inverse=True)
    labels = np.arange(n)
    if not len(rows):
        return labels, 0.0
    # Every row may stay alone: it is then matched with a column of its own, at the cost of gain 0.
    largest = float(gains.max()) + 1.0
    cost = np.concatenate([largest - gains, np.full(len(rows), largest)])
    shape = (len(rows), len(columns) + len(rows))
    positions = (
        np.concatenate([row, np.arange(len(rows))]),
        np.concatenate([column, len(columns) + np.arange(len(rows))]),
    )
    matched_rows, matched_columns = min_weight_full_bipartite_matching(csr_array((cost, positions), shape=shape))
    is_pair = matched_columns < len(columns)
    first, second = rows[matched_rows[is_pair]], columns[matched_columns[is_pair]]
    labels[np.maximum(first, second)] = np.minimum(first, second)
    gain_of = csr_array((gains, (row, column)), shape=(len(rows), len(columns)))
    total = float(np.sum(gain_of[matched_rows[is_pair], matched_columns[is_pair]]))
    return labels, total
