"""Soft logic: rules, their grounding, hinge-loss Markov random fields, inference and learning."""

from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.admm_state import AdmmState
from intarsia.softlogic.atoms import AtomTable
from intarsia.softlogic.evaluation import evaluate, evaluator_names
from intarsia.softlogic.explain import Explanation, explain
from intarsia.softlogic.grounding import Grounding, RuleReport, ground
from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.hinge_result import HingeResult
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.linear_rows import LinearRows
from intarsia.softlogic.program import Evaluation, Predicate, Program
from intarsia.softlogic.psl_files import read_psl
from intarsia.softlogic.rules import read_rule, read_rules
from intarsia.softlogic.soft_logic import SoftLogic

__all__ = [
    "AdmmState",
    "AtomTable",
    "ConsensusADMM",
    "Evaluation",
    "Explanation",
    "Grounding",
    "HingeLossMRF",
    "HingeResult",
    "InferredAtoms",
    "LinearRows",
    "Predicate",
    "Program",
    "RuleReport",
    "SoftLogic",
    "evaluate",
    "evaluator_names",
    "explain",
    "ground",
    "read_psl",
    "read_rule",
    "read_rules",
]
