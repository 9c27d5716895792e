"""Grid models for timing Intarsia and its peers: fixed seeds, identical on every machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia.graph import FactorGraph, grid_graph
from intarsia.graph.shapes import grid_edges


@dataclass(frozen=True)
class GridWorkload:
    """A 4-connected grid with a separate table for every edge; larger scores are more probable.

    `edges` to the right come before edges down, each in row-major order, as in `grid_graph`.

    Examples
    --------
    >>> workload = grid_workload("tiny", 2, 3, 2, seed=0)
    >>> graph, theta = workload.model()
    >>> graph.n_factors, theta.size       # 7 edges; 6 * 2 + 7 * 4 scores
    (7, 40)
    """

    name: str
    shape: tuple[int, int]
    unary: FloatArray
    edges: IntArray
    pair: FloatArray

    @property
    def n_states(self) -> int:
        """Number of states of each variable."""
        return int(self.unary.shape[1])

    def model(self) -> tuple[FactorGraph, FloatArray]:
        """Return the graph and theta for `intarsia.infer`."""
        graph = grid_graph(*self.shape, self.n_states)
        return graph, graph.pack(self.unary, self.pair)

    def checksum(self) -> str:
        """Return the SHA-256 of the three arrays, little-endian."""
        digest = hashlib.sha256()
        for array, dtype in ((self.unary, "<f8"), (self.edges, "<i8"), (self.pair, "<f8")):
            digest.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
        return digest.hexdigest()


def grid_workload(name: str, height: int, width: int, n_states: int, seed: int) -> GridWorkload:
    """Draw a grid whose unary scores and tables, in this order, are independent N(0, 1).

    Examples
    --------
    >>> grid_workload("tiny", 2, 3, 2, seed=0).pair.shape
    (7, 2, 2)
    """
    rng = np.random.default_rng(seed)
    unary = rng.standard_normal((height * width, n_states))
    edges = np.concatenate(grid_edges(height, width))
    pair = rng.standard_normal((len(edges), n_states, n_states))
    return GridWorkload(name, (height, width), unary, edges, pair)


# Name -> height, width, labels, seed.
_GRIDS = {
    "w1_binary": (100, 100, 2, 101),
    "w1_multi": (60, 60, 21, 102),
    "w1_small": (12, 12, 2, 103),  # narrow enough for exact inference by the junction tree
    "w4_grid": (30, 30, 5, 401),  # its relaxation is far from tight
}


def inference_workload(name: str) -> GridWorkload:
    """Return a workload for inference by its name: `w1_binary`, `w1_multi`, `w1_small` or `w4_grid`.

    Examples
    --------
    >>> workload = inference_workload("w1_small")
    >>> workload.unary.shape, workload.pair.shape
    ((144, 2), (264, 2, 2))
    """
    check_choice(name, _GRIDS, "workload")
    height, width, n_states, seed = _GRIDS[name]
    return grid_workload(name, height, width, n_states, seed)
