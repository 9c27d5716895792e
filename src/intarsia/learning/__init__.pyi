"""Optimizers and learners, which fit the weights of models to labelled examples."""

from .energy_learner import ENERGY_LEARNERS as ENERGY_LEARNERS
from .energy_learner import DoubleLoop as DoubleLoop
from .energy_learner import DoublyStochastic as DoublyStochastic
from .energy_learner import EnergyLearner as EnergyLearner
from .examples import Example as Example
from .examples import example as example
from .graph_world import GraphWorld as GraphWorld
from .lbfgs import LBFGS as LBFGS
from .learner import Learner as Learner
from .mini_batch import SGD as SGD
from .mini_batch import Adam as Adam
from .minimum import Minimum as Minimum
from .optimizer import Optimizer as Optimizer
from .proximal_lbfgs import ProximalLBFGS as ProximalLBFGS
from .registry import LEARNERS as LEARNERS
from .registry import OPTIMIZERS as OPTIMIZERS
from .risk import Risk as Risk
from .risk_minimizer import RiskMinimizer as RiskMinimizer
from .sample_rank import SampleRank as SampleRank
from .staged_fit import Incremental as Incremental
from .structured_perceptron import StructuredPerceptron as StructuredPerceptron
from .structured_svm import StructuredSVM as StructuredSVM
