"""The weights rho of a graph's factors under a method that passes messages."""

from __future__ import annotations

import numpy as np

from intarsia._validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.graph.appearance_check import check_appearance
from intarsia.graph.spanning_trees import appearance_probabilities
from intarsia.inference.method import InferenceMethod
from intarsia.inference.tree_reweighted import TreeReweighted


def factor_weights(graph: FactorGraph, inference: InferenceMethod) -> FloatArray:
    """Give rho of every factor: 1 for belief propagation; given, or computed once for a graph, for tree-reweighted."""
    if not isinstance(inference, TreeReweighted):
        return np.ones(graph.n_factors)
    if inference.rho is None:
        known: FloatArray | None = graph.__dict__.get("_appearance")
        if known is None:
            known = graph.__dict__["_appearance"] = appearance_probabilities(graph)
        return known
    given = np.asarray(inference.rho, dtype=float)
    if given.ndim and given.shape != (graph.n_factors,):
        raise InvalidInputError(
            f"TreeReweighted: rho has shape {given.shape}, but the graph in learning form has {graph.n_factors} "
            f"factors. Give one value for each of these, or one for all."
        )
    return check_appearance(graph, np.broadcast_to(given, (graph.n_factors,)).copy())
