"""Factor graphs (Markov random fields): the data structure, builders, and readers and writers of UAI files."""

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
from intarsia.graph.spanning_trees import appearance_probabilities, is_valid_appearance
from intarsia.graph.uai import read_uai, write_uai
from intarsia.graph.uai_evidence import read_uai_evidence, write_uai_evidence
from intarsia.graph.uai_solution import read_uai_solution, write_uai_solution

__all__ = [
    "FactorGraph", "FactorKind", "GraphBatch", "GraphBuilder", "LearningForm", "Reduction", "appearance_probabilities",
    "batch_graphs", "chain_graph", "complete_graph", "from_edges", "from_networkx", "grid_graph", "is_valid_appearance",
    "learning_form", "read_uai", "read_uai_evidence", "read_uai_solution", "reduce_graph", "star_graph", "tree_graph",
    "write_uai", "write_uai_evidence", "write_uai_solution",
]  # fmt: skip
