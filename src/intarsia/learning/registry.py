"""Names of the optimisers, the learners (of graphs, of chains and of energies) and the schedules."""

from __future__ import annotations

from typing import Any

from intarsia._registry import Registry
from intarsia.learning.chain_learner import ChainLearner
from intarsia.learning.energy_learner import EnergyLearner
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
    {
        "risk_minimizer": "RiskMinimizer",
        "structured_perceptron": "StructuredPerceptron",
        "structured_svm": "StructuredSVM",
        "sample_rank": "SampleRank",
    },
    Learner,  # type: ignore[type-abstract]
)

CHAIN_LEARNERS: Registry[ChainLearner] = Registry(
    "learner",
    "intarsia.learning",
    {
        "maximum_likelihood": "MaximumLikelihood",
        "averaged_perceptron": "AveragedPerceptron",
        "passive_aggressive": "PassiveAggressive",
        "arow": "AROW",
    },
    ChainLearner,  # type: ignore[type-abstract]
)

ENERGY_LEARNERS: Registry[EnergyLearner] = Registry(
    "energy_learner",
    "intarsia.learning",
    {"doubly_stochastic": "DoublyStochastic", "double_loop": "DoubleLoop"},
    EnergyLearner,  # type: ignore[type-abstract]
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
    >>> resolve_learner("risk_minimizer", {"ridge": 0.1}).ridge
    0.1
    """
    return LEARNERS.resolve(learner, settings)


def chain_learner_names() -> list[str]:
    """Names of all learners of `ChainCRF`.

    Examples
    --------
    >>> chain_learner_names()
    ['maximum_likelihood', 'averaged_perceptron', 'passive_aggressive', 'arow']
    """
    return CHAIN_LEARNERS.names


def resolve_chain_learner(learner: str | ChainLearner, settings: dict[str, Any] | None = None) -> ChainLearner:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_chain_learner("maximum_likelihood", {"l1": 0.1}).l1
    0.1
    """
    return CHAIN_LEARNERS.resolve(learner, settings)


def energy_learner_names() -> list[str]:
    """Names of all learners of energies.

    Examples
    --------
    >>> energy_learner_names()
    ['doubly_stochastic', 'double_loop']
    """
    return ENERGY_LEARNERS.names


def resolve_energy_learner(learner: str | EnergyLearner, settings: dict[str, Any] | None = None) -> EnergyLearner:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_energy_learner("double_loop", {"steps": 2}).steps
    2
    """
    return ENERGY_LEARNERS.resolve(learner, settings)
