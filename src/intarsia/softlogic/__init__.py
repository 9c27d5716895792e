"""Probabilistic soft logic: rules, grounding, hinge-loss Markov random fields, MAP inference and weight learning."""

from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.admm.state import AdmmState
from intarsia.softlogic.evaluation import evaluate, evaluator_names
from intarsia.softlogic.explain import Explanation, explain
from intarsia.softlogic.files.psl import read_psl
from intarsia.softlogic.grounding.atoms import AtomTable
from intarsia.softlogic.grounding.ground import Grounding, RuleReport, ground
from intarsia.softlogic.hinge.conditioning import ConditionedMRF, condition
from intarsia.softlogic.hinge.linear_rows import LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.hinge.result import HingeResult
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.language.rules import read_rule, read_rules
from intarsia.softlogic.learning.latent import LatentSVM, PointEM, PrimalSubgradient
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights
from intarsia.softlogic.learning.paired_dual import PairedDual
from intarsia.softlogic.learning.paired_problem import PairedProblem
from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.learning.pseudo_likelihood import HingePseudoLikelihood
from intarsia.softlogic.learning.registry import HINGE_LEARNERS
from intarsia.softlogic.learning.subgradient import HingePerceptron, evaluate_history
from intarsia.softlogic.learning.surrogates import (
    EntropyPair,
    EntropySurrogate,
    LabelLoss,
    QuadraticPrior,
    SurrogateByRole,
)
from intarsia.softlogic.program import Evaluation, Predicate, Program
from intarsia.softlogic.soft_logic import SoftLogic

__all__ = [
    "HINGE_LEARNERS",
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
    "read_psl",
    "read_rule",
    "read_rules",
]  # fmt: skip
