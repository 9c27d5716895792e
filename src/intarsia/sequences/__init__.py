"""Labelling of sequences: `ChainCRF`, its learners, tag schemes, and readers of CoNLL and CRFsuite files."""

from intarsia.sequences.chain_crf import ChainCRF
from intarsia.sequences.chain_learner import CHAIN_LEARNERS, ChainLearner
from intarsia.sequences.conll import read_conll, write_conll
from intarsia.sequences.crfsuite import CrfsuiteSequence, read_crfsuite, write_crfsuite
from intarsia.sequences.maximum_likelihood import MaximumLikelihood
from intarsia.sequences.online_learners import AROW, AveragedPerceptron, PassiveAggressive
from intarsia.sequences.regularization_path import L2Path, choose_l2

__all__ = [
    "AROW",
    "CHAIN_LEARNERS",
    "AveragedPerceptron",
    "ChainCRF",
    "ChainLearner",
    "CrfsuiteSequence",
    "L2Path",
    "MaximumLikelihood",
    "PassiveAggressive",
    "choose_l2",
    "read_conll",
    "read_crfsuite",
    "write_conll",
    "write_crfsuite",
]  # fmt: skip
