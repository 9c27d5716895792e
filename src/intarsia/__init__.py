"""Intarsia: structured prediction in which learning and inference are cut to fit each other.

Names are resolved at first use, so that `import intarsia` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intarsia._version import __version__

if TYPE_CHECKING:
    from intarsia.graph import (
        FactorGraph,
        FactorKind,
        GraphBatch,
        GraphBuilder,
        batch_graphs,
        chain_graph,
        complete_graph,
        from_edges,
        from_networkx,
        grid_graph,
        star_graph,
        tree_graph,
    )
    from intarsia.graph.spanning_trees import appearance_probabilities, is_valid_appearance
    from intarsia.graph.uai import (
        read_uai,
        read_uai_evidence,
        read_uai_solution,
        write_uai,
        write_uai_evidence,
        write_uai_solution,
    )
    from intarsia.inference import InferenceMethod, InferenceResult, Status, infer, method_class, method_names
    from intarsia.inference.belief_propagation import BeliefPropagation
    from intarsia.inference.brute_force import BruteForce
    from intarsia.inference.gibbs import Gibbs
    from intarsia.inference.icm import ICM
    from intarsia.inference.junction_tree import JunctionTree
    from intarsia.inference.mean_field import MeanField
    from intarsia.inference.tree import Tree
    from intarsia.inference.tree_reweighted import TreeReweighted

_WHERE = {
    "intarsia.graph": (
        "FactorGraph", "FactorKind", "GraphBatch", "GraphBuilder", "batch_graphs", "chain_graph", "complete_graph",
        "from_edges", "from_networkx", "grid_graph", "star_graph", "tree_graph",
    ),
    "intarsia.inference": (
        "InferenceMethod", "InferenceResult", "Status", "infer", "method_class", "method_names",
    ),
    "intarsia.graph.spanning_trees": ("appearance_probabilities", "is_valid_appearance"),
    "intarsia.graph.uai": (
        "read_uai", "read_uai_evidence", "read_uai_solution", "write_uai", "write_uai_evidence", "write_uai_solution",
    ),
    "intarsia.inference.belief_propagation": ("BeliefPropagation",),
    "intarsia.inference.brute_force": ("BruteForce",),
    "intarsia.inference.gibbs": ("Gibbs",),
    "intarsia.inference.icm": ("ICM",),
    "intarsia.inference.junction_tree": ("JunctionTree",),
    "intarsia.inference.mean_field": ("MeanField",),
    "intarsia.inference.tree": ("Tree",),
    "intarsia.inference.tree_reweighted": ("TreeReweighted",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [*sorted(_MODULE_OF), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'intarsia' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
