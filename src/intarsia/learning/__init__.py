"""Learners, optimisers and estimators."""

from intarsia.learning.adam import Adam
from intarsia.learning.arow import AROW
from intarsia.learning.averaged_perceptron import AveragedPerceptron
from intarsia.learning.chain_crf import ChainCRF
from intarsia.learning.chain_learner import ChainLearner
from intarsia.learning.double_loop import DoubleLoop
from intarsia.learning.doubly_stochastic import DoublyStochastic
from intarsia.learning.energy_learner import EnergyLearner
from intarsia.learning.example import Example, example
from intarsia.learning.graph_crf import GraphCRF
from intarsia.learning.graph_data import Factors, GraphInstance
from intarsia.learning.grid_crf import GridCRF
from intarsia.learning.incremental import Incremental
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.learner import Learner
from intarsia.learning.maximum_likelihood import MaximumLikelihood
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.owl_qn import OWLQN
from intarsia.learning.passive_aggressive import PassiveAggressive
from intarsia.learning.ranking_world import RankingWorld
from intarsia.learning.registry import (
    chain_learner_names,
    energy_learner_names,
    learner_names,
    optimizer_names,
    resolve_chain_learner,
    resolve_energy_learner,
    resolve_learner,
    resolve_optimizer,
)
from intarsia.learning.risk import Risk
from intarsia.learning.risk_minimizer import RiskMinimizer
from intarsia.learning.sample_rank import SampleRank
from intarsia.learning.sgd import SGD
from intarsia.learning.structured_perceptron import StructuredPerceptron
from intarsia.learning.structured_svm import StructuredSVM

__all__ = [
    "AROW",
    "LBFGS",
    "OWLQN",
    "SGD",
    "Adam",
    "AveragedPerceptron",
    "ChainCRF",
    "ChainLearner",
    "DoubleLoop",
    "DoublyStochastic",
    "EnergyLearner",
    "Example",
    "Factors",
    "GraphCRF",
    "GraphInstance",
    "GridCRF",
    "Incremental",
    "Learner",
    "MaximumLikelihood",
    "Minimum",
    "Optimizer",
    "PassiveAggressive",
    "RankingWorld",
    "Risk",
    "RiskMinimizer",
    "SampleRank",
    "StructuredPerceptron",
    "StructuredSVM",
    "chain_learner_names",
    "energy_learner_names",
    "example",
    "learner_names",
    "optimizer_names",
    "resolve_chain_learner",
    "resolve_energy_learner",
    "resolve_learner",
    "resolve_optimizer",
]
