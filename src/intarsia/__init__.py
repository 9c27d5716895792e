"""Intarsia: structured prediction in which learning and inference are cut to fit each other.

Names are resolved at first use, so that `import intarsia` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intarsia._version import __version__

if TYPE_CHECKING:
    from intarsia._loading import load
    from intarsia.clusters import EntityClusterer, ThresholdClusterer
    from intarsia.collective import (
        CollectiveChain,
        CollectiveResult,
        Exact,
        Gaussian,
        Moves,
        Poisson,
        all_moves,
        infer_flows,
        make_moves,
        moves_within,
    )
    from intarsia.diagnostics import (
        algorithmically_separable,
        compatibility,
        diagnose,
        diagnose_examples,
        mistake_bound,
        pac_bayes_bound,
        separable,
    )
    from intarsia.gradients.back_propagation import BackPropagation
    from intarsia.gradients.implicit import ImplicitGradient
    from intarsia.gradients.perturbation import PerturbationGradient
    from intarsia.gradients.truncated import TruncatedGradient
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
    from intarsia.inference.bethe_accelerated import BetheAccelerated
    from intarsia.inference.bethe_dual import BetheDual
    from intarsia.inference.bethe_mirror_descent import BetheMirrorDescent
    from intarsia.inference.bethe_rda import BetheRDA
    from intarsia.inference.brute_force import BruteForce
    from intarsia.inference.dual_decomposition import DualDecomposition
    from intarsia.inference.gibbs import Gibbs
    from intarsia.inference.graph_cut import GraphCut
    from intarsia.inference.icm import ICM
    from intarsia.inference.integer_program import IntegerProgram
    from intarsia.inference.junction_tree import JunctionTree
    from intarsia.inference.lp_relaxation import LPRelaxation
    from intarsia.inference.mean_field import MeanField
    from intarsia.inference.tree import Tree
    from intarsia.inference.tree_reweighted import TreeReweighted
    from intarsia.learning import (
        AROW,
        LBFGS,
        SGD,
        Adam,
        AveragedPerceptron,
        ChainCRF,
        DoubleLoop,
        DoublyStochastic,
        Factors,
        GraphCRF,
        GraphInstance,
        GridCRF,
        Incremental,
        MaximumLikelihood,
        PassiveAggressive,
        RiskMinimizer,
        SampleRank,
        StructuredPerceptron,
        StructuredSVM,
    )
    from intarsia.losses.classification_error import SmoothedClassificationError
    from intarsia.losses.contrastive_divergence import ContrastiveDivergence
    from intarsia.losses.likelihood import Likelihood, SurrogateEM
    from intarsia.losses.logistic import CliqueLogistic, UnivariateLogistic
    from intarsia.losses.piecewise_likelihood import PiecewiseLikelihood
    from intarsia.losses.pseudo_likelihood import PatchPseudoLikelihood, PseudoLikelihood
    from intarsia.losses.quadratic import CliqueQuadratic, UnivariateQuadratic
    from intarsia.losses.saddle_point import SaddlePoint
    from intarsia.softlogic import ConsensusADMM, HingeLossMRF, LinearRows, Program, SoftLogic, ground, read_psl

_WHERE = {
    "intarsia.clusters": ("EntityClusterer", "ThresholdClusterer"),
    "intarsia._loading": ("load",),
    "intarsia.collective": (
        "CollectiveChain", "CollectiveResult", "Exact", "Gaussian", "Moves", "Poisson", "all_moves", "infer_flows",
        "make_moves", "moves_within",
    ),
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
    "intarsia.inference.bethe_accelerated": ("BetheAccelerated",),
    "intarsia.inference.bethe_dual": ("BetheDual",),
    "intarsia.inference.bethe_mirror_descent": ("BetheMirrorDescent",),
    "intarsia.inference.bethe_rda": ("BetheRDA",),
    "intarsia.inference.brute_force": ("BruteForce",),
    "intarsia.inference.dual_decomposition": ("DualDecomposition",),
    "intarsia.inference.gibbs": ("Gibbs",),
    "intarsia.inference.graph_cut": ("GraphCut",),
    "intarsia.inference.icm": ("ICM",),
    "intarsia.inference.integer_program": ("IntegerProgram",),
    "intarsia.inference.junction_tree": ("JunctionTree",),
    "intarsia.inference.lp_relaxation": ("LPRelaxation",),
    "intarsia.inference.mean_field": ("MeanField",),
    "intarsia.inference.tree": ("Tree",),
    "intarsia.inference.tree_reweighted": ("TreeReweighted",),
    "intarsia.diagnostics": (
        "algorithmically_separable", "compatibility", "diagnose", "diagnose_examples", "mistake_bound",
        "pac_bayes_bound", "separable",
    ),
    "intarsia.gradients.back_propagation": ("BackPropagation",),
    "intarsia.gradients.implicit": ("ImplicitGradient",),
    "intarsia.gradients.perturbation": ("PerturbationGradient",),
    "intarsia.gradients.truncated": ("TruncatedGradient",),
    "intarsia.losses.classification_error": ("SmoothedClassificationError",),
    "intarsia.losses.contrastive_divergence": ("ContrastiveDivergence",),
    "intarsia.losses.likelihood": ("Likelihood", "SurrogateEM"),
    "intarsia.losses.logistic": ("CliqueLogistic", "UnivariateLogistic"),
    "intarsia.losses.piecewise_likelihood": ("PiecewiseLikelihood",),
    "intarsia.losses.pseudo_likelihood": ("PatchPseudoLikelihood", "PseudoLikelihood"),
    "intarsia.losses.quadratic": ("CliqueQuadratic", "UnivariateQuadratic"),
    "intarsia.losses.saddle_point": ("SaddlePoint",),
    "intarsia.learning": (
        "AROW", "LBFGS", "SGD", "Adam", "AveragedPerceptron", "ChainCRF", "DoubleLoop", "DoublyStochastic",
        "Factors", "GraphCRF", "GraphInstance", "GridCRF", "Incremental", "MaximumLikelihood", "PassiveAggressive",
        "RiskMinimizer", "SampleRank", "StructuredPerceptron", "StructuredSVM",
    ),
    "intarsia.softlogic": (
        "ConsensusADMM", "HingeLossMRF", "LinearRows", "Program", "SoftLogic", "ground", "read_psl",
    ),
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
