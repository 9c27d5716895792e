"""Registry of the inference methods by name; the contract tests and the table in the docs cover every entry."""

from __future__ import annotations

from intarsia._core.registry import Registry
from intarsia.inference.method import InferenceMethod

METHODS: Registry[InferenceMethod] = Registry(
    "method",
    "intarsia.inference",
    {
        "brute_force": "exact.brute_force:BruteForce",
        "tree": "exact.tree:Tree",
        "junction_tree": "exact.junction_tree:JunctionTree",
        "mean_field": "messages.mean_field:MeanField",
        "belief_propagation": "messages.belief_propagation:BeliefPropagation",
        "tree_reweighted": "messages.tree_reweighted:TreeReweighted",
        "gibbs": "sampling.gibbs:Gibbs",
        "icm": "sampling.icm:ICM",
        "lp_relaxation": "relaxation.lp_relaxation:LPRelaxation",
        "integer_program": "relaxation.integer_program:IntegerProgram",
        "graph_cut": "exact.graph_cut:GraphCut",
        "dual_decomposition": "relaxation.dual_decomposition:DualDecomposition",
        "bethe_rda": "projection.bethe_rda:BetheRDA",
        "bethe_mirror_descent": "projection.bethe_mirror_descent:BetheMirrorDescent",
        "bethe_accelerated": "projection.bethe_accelerated:BetheAccelerated",
        "bethe_dual": "projection.bethe_dual:BetheDual",
    },
    InferenceMethod,  # type: ignore[type-abstract]
)


def method_names() -> list[str]:
    """Return the names of all inference methods, in the order of the table in the docs.

    Examples
    --------
    >>> method_names()[:2]
    ['brute_force', 'tree']
    """
    return METHODS.names


def method_class(name: str) -> type[InferenceMethod]:
    """Return the class of an inference method by its name; the error for an unknown name suggests the nearest one.

    Examples
    --------
    >>> method_class("brute_force").log_partition_is
    'exact'
    """
    return METHODS.get(name)
