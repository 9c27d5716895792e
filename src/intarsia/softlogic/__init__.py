"""Soft logic: rules, their grounding, hinge-loss Markov random fields, inference and learning."""

from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.admm_state import AdmmState
from intarsia.softlogic.atoms import AtomTable
from intarsia.softlogic.conditioning import ConditionedMRF, condition
from intarsia.softlogic.em import PointEM
from intarsia.softlogic.entropy_surrogate import (
    EntropyPair,
    EntropySurrogate,
    LabelLoss,
    QuadraticPrior,
    SurrogateByRole,
)
from intarsia.softlogic.evaluation import evaluate, evaluator_names
from intarsia.softlogic.explain import Explanation, explain
from intarsia.softlogic.grounding import Grounding, RuleReport, ground
from intarsia.softlogic.hinge_learner import HingeLearner, LearnedWeights
from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.hinge_result import HingeResult
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.latent_svm import LatentSVM
from intarsia.softlogic.learners import hinge_learner_class, hinge_learner_names, resolve_hinge_learner
from intarsia.softlogic.linear_rows import LinearRows
from intarsia.softlogic.paired_dual import PairedDual
from intarsia.softlogic.paired_problem import PairedProblem
from intarsia.softlogic.perceptron import HingePerceptron
from intarsia.softlogic.primal_subgradient import PrimalSubgradient
from intarsia.softlogic.program import Evaluation, Predicate, Program
from intarsia.softlogic.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.pseudo_likelihood import HingePseudoLikelihood
from intarsia.softlogic.psl_files import read_psl
from intarsia.softlogic.rules import read_rule, read_rules
from intarsia.softlogic.soft_logic import SoftLogic
from intarsia.softlogic.subgradient_learner import evaluate_history

__all__ = [
    "AdmmState",
    "AtomTable",
    "ConditionedMRF",
    "ConsensusADMM",
    "EntropyPair",
    "EntropySurrogate",
    "Evaluation",
    "Explanation",
    "Grounding",
    "HingeLearner",
    "HingeLossMRF",
    "HingePerceptron",
    "HingePseudoLikelihood",
    "HingeResult",
    "InferredAtoms",
    "LabelLoss",
    "LatentSVM",
    "LearnedWeights",
    "LinearRows",
    "PairedDual",
    "PairedProblem",
    "PointEM",
    "Predicate",
    "PrimalSubgradient",
    "Program",
    "ProjectedSubgradient",
    "QuadraticPrior",
    "RuleReport",
    "SoftLogic",
    "SurrogateByRole",
    "condition",
    "evaluate",
    "evaluate_history",
    "evaluator_names",
    "explain",
    "ground",
    "hinge_learner_class",
    "hinge_learner_names",
    "read_psl",
    "read_rule",
    "read_rules",
    "resolve_hinge_learner",
]
