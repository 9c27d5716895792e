"""Names of the losses. Joining the registry is joining the contract tests and the docs' table."""

from __future__ import annotations

from typing import Any

from intarsia._core.registry import Registry
from intarsia.losses.loss import Loss

LOSSES: Registry[Loss] = Registry(
    "loss",
    "intarsia.losses",
    {
        "univariate_logistic": "marginal_losses:UnivariateLogistic",
        "clique_logistic": "marginal_losses:CliqueLogistic",
        "univariate_quadratic": "marginal_losses:UnivariateQuadratic",
        "clique_quadratic": "marginal_losses:CliqueQuadratic",
        "smoothed_classification_error": "marginal_losses:SmoothedClassificationError",
        "likelihood": "likelihood:Likelihood",
        "surrogate_em": "likelihood:SurrogateEM",
        "pseudo_likelihood": "pseudo_likelihood:PseudoLikelihood",
        "patch_pseudo_likelihood": "pseudo_likelihood:PatchPseudoLikelihood",
        "piecewise_likelihood": "piecewise_likelihood:PiecewiseLikelihood",
        "contrastive_divergence": "contrastive_divergence:ContrastiveDivergence",
        "saddle_point": "saddle_point:SaddlePoint",
    },
    Loss,
)


def loss_names() -> list[str]:
    """Names of all losses, in the order of the docs' table.

    Examples
    --------
    >>> loss_names()[:2]
    ['univariate_logistic', 'clique_logistic']
    """
    return LOSSES.names


def loss_class(name: str) -> type[Loss]:
    """Class of a loss by its name; an unknown name raises with the nearest one.

    Examples
    --------
    >>> loss_class("clique_logistic").needs
    'marginals'
    """
    return LOSSES.get(name)


def resolve_loss(loss: str | Loss, settings: dict[str, Any] | None = None) -> Loss:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_loss("smoothed_classification_error", {"alpha": 20.0}).alpha
    20.0
    """
    return LOSSES.resolve(loss, settings)
