"""Labelling of sequences: `ChainCRF`, its learners, tag schemes, serving, and readers of CoNLL and CRFsuite files."""

from .chain_crf import ChainCRF as ChainCRF
from .chain_learner import CHAIN_LEARNERS as CHAIN_LEARNERS
from .chain_learner import ChainLearner as ChainLearner
from .conll import read_conll as read_conll
from .conll import write_conll as write_conll
from .crfsuite import CrfsuiteSequence as CrfsuiteSequence
from .crfsuite import read_crfsuite as read_crfsuite
from .crfsuite import write_crfsuite as write_crfsuite
from .maximum_likelihood import MaximumLikelihood as MaximumLikelihood
from .online_learners import AROW as AROW
from .online_learners import AveragedPerceptron as AveragedPerceptron
from .online_learners import PassiveAggressive as PassiveAggressive
from .serving.crfsuite_model import write_crfsuite_model as write_crfsuite_model
from .serving.tagger import SequenceScores as SequenceScores
from .serving.tagger import Tagger as Tagger
from .serving.tagger import load_tagger as load_tagger
