"""Registries of the optimizers, of the learners of graphs, and of the training schedules."""

from __future__ import annotations

from intarsia._core.registry import Registry
from intarsia.learning.learner import Learner
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.staged_fit import Incremental

OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer",
    "intarsia.learning",
    {"lbfgs": "LBFGS", "sgd": "mini_batch:SGD", "adam": "mini_batch:Adam"},
    Optimizer,  # type: ignore[type-abstract]
)

LEARNERS: Registry[Learner] = Registry(
    "learner",
    "intarsia.learning",
    {
        "risk_minimizer": "RiskMinimizer",
        "structured_perceptron": "StructuredPerceptron",
        "structured_svm": "StructuredSVM",
        "sample_rank": "SampleRank",
    },
    Learner,  # type: ignore[type-abstract]
)

SCHEDULES: Registry[Incremental] = Registry(
    "schedule", "intarsia.learning", {"incremental": "staged_fit:Incremental"}, Incremental
)
