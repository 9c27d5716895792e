"""Balance of signed graphs: which variables to turn round so that all couplings become attractive."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia._validation import FloatArray, IntArray


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
