"""Names of the optimisers, the learners and the schedules."""

from __future__ import annotations

from typing import Any

from intarsia._registry import Registry
from intarsia.learning.incremental import Incremental
from intarsia.learning.learner import Learner
from intarsia.learning.optimizer import Optimizer

OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer",
    "intarsia.learning",
    {"lbfgs": "LBFGS", "sgd": "SGD", "adam": "Adam"},
    Optimizer,  # type: ignore[type-abstract]
)

LEARNERS: Registry[Learner] = Registry(
    "learner",
    "intarsia.learning",
    {"risk_minimizer": "RiskMinimizer"},
    Learner,  # type: ignore[type-abstract]
)

SCHEDULES: Registry[Incremental] = Registry(
    "schedule", "intarsia.learning", {"incremental": "Incremental"}, Incremental
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
    ['risk_minimizer']
    """
    return LEARNERS.names


def resolve_learner(learner: str | Learner, settings: dict[str, Any] | None = None) -> Learner:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_learner("risk_minimizer", {"ridge": 0.1}).ridge
    0.1
    """
    return LEARNERS.resolve(learner, settings)
