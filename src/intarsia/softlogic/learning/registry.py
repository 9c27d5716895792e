"""Names of the learners of weights."""

from __future__ import annotations

from typing import Any

from intarsia._core.registry import Registry
from intarsia.softlogic.learning.learner import HingeLearner

HINGE_LEARNERS: Registry[HingeLearner] = Registry(
    "learner",
    "intarsia.softlogic.learning",
    {
        "paired_dual": "PairedDual",
        "primal_subgradient": "latent:PrimalSubgradient",
        "em": "latent:PointEM",
        "latent_svm": "latent:LatentSVM",
        "pseudo_likelihood": "HingePseudoLikelihood",
        "perceptron": "subgradient:HingePerceptron",
    },
    HingeLearner,  # type: ignore[type-abstract]
)


def hinge_learner_names() -> list[str]:
    """Names of all learners of hinge-loss models.

    Examples
    --------
    >>> hinge_learner_names()[:2]
    ['paired_dual', 'primal_subgradient']
    """
    return HINGE_LEARNERS.names


def hinge_learner_class(name: str) -> type[HingeLearner]:
    """Class of a name.

    Examples
    --------
    >>> hinge_learner_class("perceptron").takes_latent
    False
    """
    return HINGE_LEARNERS.get(name)


def resolve_hinge_learner(learner: str | HingeLearner, settings: dict[str, Any] | None = None) -> HingeLearner:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_hinge_learner("paired_dual", {"n_inner_iter": 10}).n_inner_iter
    10
    """
    return HINGE_LEARNERS.resolve(learner, settings)
