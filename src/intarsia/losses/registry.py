"""Names of the losses. Joining the registry is joining the contract tests and the docs' table."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from intarsia._validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.losses.loss import Loss

# Name -> module and class; modules are imported at first use.
_LOSSES = {
    "univariate_logistic": ("logistic", "UnivariateLogistic"),
    "clique_logistic": ("logistic", "CliqueLogistic"),
    "univariate_quadratic": ("quadratic", "UnivariateQuadratic"),
    "clique_quadratic": ("quadratic", "CliqueQuadratic"),
    "smoothed_classification_error": ("classification_error", "SmoothedClassificationError"),
    "likelihood": ("likelihood", "Likelihood"),
    "surrogate_em": ("likelihood", "SurrogateEM"),
    "pseudo_likelihood": ("pseudo_likelihood", "PseudoLikelihood"),
    "patch_pseudo_likelihood": ("pseudo_likelihood", "PatchPseudoLikelihood"),
    "piecewise_likelihood": ("piecewise_likelihood", "PiecewiseLikelihood"),
    "contrastive_divergence": ("contrastive_divergence", "ContrastiveDivergence"),
    "saddle_point": ("saddle_point", "SaddlePoint"),
}


def loss_names() -> list[str]:
    """Names of all losses, in the order of the docs' table.

    Examples
    --------
    >>> loss_names()[:2]
    ['univariate_logistic', 'clique_logistic']
    """
    return list(_LOSSES)


def loss_class(name: str) -> type[Loss]:
    """Class of a loss by its name; an unknown name raises with the nearest one.

    Examples
    --------
    >>> loss_class("clique_logistic").needs
    'marginals'
    """
    check_choice(name, _LOSSES, "loss")
    module, class_name = _LOSSES[name]
    found: type[Loss] = getattr(import_module(f"intarsia.losses.{module}"), class_name)
    return found


def resolve_loss(loss: str | Loss, settings: dict[str, Any] | None = None) -> Loss:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_loss("smoothed_classification_error", {"alpha": 20.0}).alpha
    20.0
    """
    settings = settings or {}
    if isinstance(loss, str):
        found = loss_class(loss)
        for key in settings:
            check_choice(key, found._get_param_names(), f"{found.__name__}: setting")
        return found(**settings)
    if not isinstance(loss, Loss):
        raise InvalidInputError(
            f"loss must be a name ({', '.join(map(repr, _LOSSES))}) or a settings object, got {type(loss).__name__}."
        )
    if not settings:
        return loss
    from sklearn.base import clone

    changed: Loss = clone(loss)
    for key in settings:
        check_choice(key, changed.get_params(), f"{type(loss).__name__}: setting")
    changed.set_params(**settings)
    return changed
