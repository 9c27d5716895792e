"""Labelling of sequences: `ChainCRF`, its learners, tag schemes, and readers of CoNLL and CRFsuite files."""

from intarsia.sequences.chain_crf import ChainCRF
from intarsia.sequences.chain_learner import CHAIN_LEARNERS, ChainLearner
from intarsia.sequences.confidence.segments import Segment
from intarsia.sequences.conll import read_conll, write_conll
from intarsia.sequences.constraints import (
    Rule,
    count,
    each_side,
    exactly_once,
    fixed,
    in_order,
    needs,
    not_together,
    once,
    one_of,
    when,
)
from intarsia.sequences.crfsuite import CrfsuiteSequence, read_crfsuite, write_crfsuite
from intarsia.sequences.maximum_likelihood import MaximumLikelihood
from intarsia.sequences.online_learners import AROW, AveragedPerceptron, PassiveAggressive
from intarsia.sequences.parsing import (
    Fields,
    LabelledText,
    Parse,
    ParsedSpan,
    RecordParser,
    Token,
    TokenFeatures,
    read_labelled,
    tokenize,
    write_labelled,
)

__all__ = [
    "AROW",
    "CHAIN_LEARNERS",
    "AveragedPerceptron",
    "ChainCRF",
    "ChainLearner",
    "CrfsuiteSequence",
    "Fields",
    "LabelledText",
    "MaximumLikelihood",
    "Parse",
    "ParsedSpan",
    "PassiveAggressive",
    "RecordParser",
    "Rule",
    "Segment",
    "Token",
    "TokenFeatures",
    "count",
    "each_side",
    "exactly_once",
    "fixed",
    "in_order",
    "needs",
    "not_together",
    "once",
    "one_of",
    "read_conll",
    "read_crfsuite",
    "read_labelled",
    "tokenize",
    "when",
    "write_conll",
    "write_crfsuite",
    "write_labelled",
]  # fmt: skip
