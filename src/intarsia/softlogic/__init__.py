"""Soft logic: rules, their grounding, hinge-loss Markov random fields, inference and learning."""

from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.admm_state import AdmmState
from intarsia.softlogic.atoms import AtomTable
from intarsia.softlogic.grounding import Grounding, RuleReport, ground
from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.hinge_result import HingeResult
from intarsia.softlogic.linear_rows import LinearRows
from intarsia.softlogic.program import Predicate, Program
from intarsia.softlogic.psl_files import read_psl
from intarsia.softlogic.rules import read_rule, read_rules

__all__ = [
    "AdmmState",
    "AtomTable",
    "ConsensusADMM",
    "Grounding",
    "HingeLossMRF",
    "HingeResult",
    "LinearRows",
    "Predicate",
    "Program",
    "RuleReport",
    "ground",
    "read_psl",
    "read_rule",
    "read_rules",
]
