"""What is connected: factor graphs, how to build them, and the files they come from."""

from intarsia.graph.batch import GraphBatch, batch_graphs
from intarsia.graph.builder import GraphBuilder
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind
from intarsia.graph.learning_form import LearningForm, learning_form
from intarsia.graph.reduction import Reduction, reduce_graph
from intarsia.graph.shapes import (
    chain_graph,
    complete_graph,
    from_edges,
    from_networkx,
    grid_graph,
    star_graph,
    tree_graph,
)

__all__ = [
    "FactorGraph", "FactorKind", "GraphBatch", "GraphBuilder", "LearningForm", "Reduction", "batch_graphs",
    "chain_graph", "complete_graph", "from_edges", "from_networkx", "grid_graph", "learning_form", "reduce_graph",
    "star_graph", "tree_graph",
]  # fmt: skip
