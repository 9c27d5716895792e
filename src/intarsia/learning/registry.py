"""Names of the optimisers, the learners (of graphs, of chains and of energies) and the schedules."""

from __future__ import annotations

from typing import Any

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


def optimizer_names() -> list[str]:
    """Names of all optimisers.

    Examples
    --------
    >>> optimizer_names()
    ['lbfgs', 'sgd', 'adam']
    """
    return OPTIMIZERS.names


def optimizer_class(name: str) -> type[Optimizer]:
    """Class of a name.

    Examples
    --------
    >>> optimizer_class("lbfgs").takes_batches
    False
    """
    return OPTIMIZERS.get(name)


def resolve_optimizer(optimizer: str | Optimizer, settings: dict[str, Any] | None = None) -> Optimizer:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_optimizer("lbfgs", {"max_iter": 50}).max_iter
    50
    """
    return OPTIMIZERS.resolve(optimizer, settings)


def learner_names() -> list[str]:
    """Names of all learners.

    Examples
    --------
    >>> learner_names()
    ['risk_minimizer', 'structured_perceptron', 'structured_svm', 'sample_rank']
    """
    return LEARNERS.names


def learner_class(name: str) -> type[Learner]:
    """Class of a name.

    Examples
    --------
    >>> learner_class("structured_svm").learns_from
    'best labelling'
    """
    return LEARNERS.get(name)


def resolve_learner(learner: str | Learner, settings: dict[str, Any] | None = None) -> Learner:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_learner("risk_minimizer", {"l2": 0.1}).l2
    0.1
    """
    return LEARNERS.resolve(learner, settings)
