"""Labelling of sequences: `ChainCRF`, its learners, tag schemes, and readers of CoNLL and CRFsuite files."""

from intarsia.sequences.chain_crf import ChainCRF
from intarsia.sequences.chain_learner import ChainLearner, chain_learner_names, resolve_chain_learner
from intarsia.sequences.conll import read_conll, write_conll
from intarsia.sequences.crfsuite import CrfsuiteSequence, read_crfsuite, write_crfsuite
from intarsia.sequences.maximum_likelihood import MaximumLikelihood
from intarsia.sequences.online_learners import AROW, AveragedPerceptron, PassiveAggressive

__all__ = [
    "AROW", "AveragedPerceptron", "ChainCRF", "ChainLearner", "CrfsuiteSequence", "MaximumLikelihood",
    "PassiveAggressive", "chain_learner_names", "read_conll", "read_crfsuite", "resolve_chain_learner", "write_conll",
    "write_crfsuite",
]  # fmt: skip
