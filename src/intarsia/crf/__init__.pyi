"""Conditional random fields on images and graphs: `GridCRF`, `GraphCRF`, their data and their files."""

from .graph_crf import GraphCRF as GraphCRF
from .graph_data import Factors as Factors
from .graph_data import GraphInstance as GraphInstance
from .grid_crf import GridCRF as GridCRF
