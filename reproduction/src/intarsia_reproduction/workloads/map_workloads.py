"""Models for timing MAP inference, and their linear programming relaxation."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from intarsia._core.highs import Program
from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph import FactorGraph, grid_graph
from intarsia.graph.shapes import grid_edges
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia_reproduction.datasets.archive import Field, read_arrays
from intarsia_reproduction.datasets.location import require

_TSUKUBA = (288, 384, 16)  # height, width, labels
_SMOOTHNESS = 20.0


@dataclass(frozen=True)
class AttractiveGrid:
    """Binary attractive grid: scores (n, 2) of pixels, edges (m, 2), couplings (m,) >= 0.

    Examples
    --------
    >>> grid = attractive_grid(2, 3)
    >>> graph, theta = grid.model()
    >>> bool(graph.score(theta, [1] * 6) == grid.unary[:, 1].sum() + grid.coupling.sum())
    True
    """

    shape: tuple[int, int]
    unary: FloatArray
    edges: IntArray
    coupling: FloatArray

    def model(self) -> tuple[FactorGraph, FloatArray]:
        """Return the graph and theta, with a table for every edge."""
        graph = grid_graph(*self.shape, 2)
        return graph, graph.pack(self.unary, self.coupling[:, None, None] * np.eye(2))


def attractive_grid(height: int = 100, width: int = 100, seed: int = 402) -> AttractiveGrid:
    """Draw `w4_binary_submodular`: N(0, 1) scores of pixels, then |N(0, 1)| scores of equal neighbours.

    Examples
    --------
    >>> attractive_grid(3, 3).coupling.size
    12
    """
    rng = np.random.default_rng(seed)
    unary = rng.standard_normal((height * width, 2))
    edges = np.concatenate(grid_edges(height, width))
    return AttractiveGrid((height, width), unary, edges, np.abs(rng.standard_normal(len(edges))))


def tsukuba(data: str | os.PathLike[str] | None = None) -> tuple[FactorGraph, FloatArray]:
    """Load stereo matching on the Tsukuba pair: costs of 16 disparities per pixel, and 20 if two neighbours differ.

    Scores are savings of costs, so the energy of a labelling is `tsukuba_energy` of its score.

    Raises
    ------
    MissingDataError
        If the file does not exist; the message says where to download it.
    """
    height, width, n_labels = _TSUKUBA
    path = next(file for file in require("mrf_vision", data) if file.name == "tsukuba_potts_alahari.npz")
    cost = read_arrays(path, {"unary": Field((height * width, n_labels))})["unary"]
    graph = grid_graph(height, width, n_labels, shared=True, kind="potts")
    # The file has the pixels in column-major order.
    scores = -cost.reshape(width, height, n_labels).transpose(1, 0, 2).astype(np.float64)
    return graph, graph.pack(scores, np.full(graph.n_tables, _SMOOTHNESS))


def tsukuba_energy(score: float) -> float:
    """Return the energy of a labelling of `tsukuba`: the cost if all neighbours differ, minus the score.

    Examples
    --------
    >>> tsukuba_energy(0.0)             # 287 x 384 + 288 x 383 pairs of neighbours
    4410240.0
    """
    height, width, _ = _TSUKUBA
    return _SMOOTHNESS * ((height - 1) * width + height * (width - 1)) - score


def relaxation(graph: FactorGraph, theta: FloatArray) -> tuple[LocalPolytope, Program]:
    """Return the local polytope of a pairwise model and its linear program, as `lp_relaxation` passes it to HiGHS.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> relaxation(graph, graph.zeros())[1].matrix.shape    # 2 + 2 x 3 rows; 2 x 3 + 9 columns
    (8, 15)
    """
    polytope = LocalPolytope(graph, theta)
    return polytope, Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper)
