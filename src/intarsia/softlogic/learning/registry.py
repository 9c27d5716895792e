"""Registry of weight learners for hinge-loss Markov random fields."""

from __future__ import annotations

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
