"""Neighbours of each node of a graph given by its edges."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import IntArray


def neighbours(ends: IntArray, n_nodes: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the neighbours of each node and the edges that lead to them, as arrays `(ptr, others, edges)`.

    Node i has the neighbours `others[ptr[i]:ptr[i + 1]]`, in the order of the edges.

    Examples
    --------
    >>> ptr, others, edges = neighbours(np.array([[0, 2], [1, 2]]), 3)
    >>> ptr.tolist(), others.tolist(), edges.tolist()
    ([0, 1, 2, 4], [2, 2, 0, 1], [0, 1, 0, 1])
    """
    all_ends = np.concatenate([ends[:, 0], ends[:, 1]])
    order = np.argsort(all_ends, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(all_ends, minlength=n_nodes))]).astype(np.int64)
    others = np.concatenate([ends[:, 1], ends[:, 0]])
    return ptr, others[order], order % max(len(ends), 1)
