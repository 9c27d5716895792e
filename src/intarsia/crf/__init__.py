"""Conditional random fields on images and graphs: `GridCRF`, `GraphCRF`, their data and their files."""

from intarsia.crf.graph_crf import GraphCRF
from intarsia.crf.graph_data import Factors, GraphInstance
from intarsia.crf.grid_crf import GridCRF

__all__ = [
    "Factors", "GraphCRF", "GraphInstance", "GridCRF",
]  # fmt: skip
