"""Labelling of sequences: `ChainCRF`, its learners, tag schemes, and readers of CoNLL and CRFsuite files."""

from .chain_crf import ChainCRF as ChainCRF
from .chain_learner import CHAIN_LEARNERS as CHAIN_LEARNERS
from .chain_learner import ChainLearner as ChainLearner
from .conll import read_conll as read_conll
from .conll import write_conll as write_conll
from .constraints.constrain import ConstrainedLabels as ConstrainedLabels
from .constraints.constrain import constrain as constrain
from .constraints.rule import Rule as Rule
from .constraints.rules import count as count
from .constraints.rules import each_side as each_side
from .constraints.rules import exactly_once as exactly_once
from .constraints.rules import fixed as fixed
from .constraints.rules import in_order as in_order
from .constraints.rules import needs as needs
from .constraints.rules import not_together as not_together
from .constraints.rules import once as once
from .constraints.rules import one_of as one_of
from .constraints.rules import when as when
from .crfsuite import CrfsuiteSequence as CrfsuiteSequence
from .crfsuite import read_crfsuite as read_crfsuite
from .crfsuite import write_crfsuite as write_crfsuite
from .maximum_likelihood import MaximumLikelihood as MaximumLikelihood
from .online_learners import AROW as AROW
from .online_learners import AveragedPerceptron as AveragedPerceptron
from .online_learners import PassiveAggressive as PassiveAggressive
