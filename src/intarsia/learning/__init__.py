"""Learners, optimisers and estimators."""

from intarsia.learning.adam import Adam
from intarsia.learning.example import Example, example
from intarsia.learning.graph_crf import GraphCRF
from intarsia.learning.graph_data import Factors, GraphInstance
from intarsia.learning.grid_crf import GridCRF
from intarsia.learning.incremental import Incremental
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.learner import Learner
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import learner_names, optimizer_names, resolve_learner, resolve_optimizer
from intarsia.learning.risk import Risk
from intarsia.learning.risk_minimizer import RiskMinimizer
from intarsia.learning.sgd import SGD

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "Example",
    "Factors",
    "GraphCRF",
    "GraphInstance",
    "GridCRF",
    "Incremental",
    "Learner",
    "Minimum",
    "Optimizer",
    "Risk",
    "RiskMinimizer",
    "example",
    "learner_names",
    "optimizer_names",
    "resolve_learner",
    "resolve_optimizer",
]
