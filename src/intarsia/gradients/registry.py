"""Names of the gradient rules. Joining the registry is joining the contract tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from intarsia._validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.rule import GradientRule

# Name (also that of the module) -> class; modules are imported at first use.
_RULES = {
    "truncated": "TruncatedGradient",
    "back_propagation": "BackPropagation",
    "perturbation": "PerturbationGradient",
    "implicit": "ImplicitGradient",
}


def gradient_names() -> list[str]:
    """Names of all gradient rules, in the order of the docs' table.

    Examples
    --------
    >>> gradient_names()
    ['truncated', 'back_propagation', 'perturbation', 'implicit']
    """
    return list(_RULES)


def gradient_class(name: str) -> type[GradientRule]:
    """Class of a gradient rule by its name; an unknown name raises with the nearest one.

    Examples
    --------
    >>> gradient_class("implicit").differentiates
    ('belief_propagation', 'tree_reweighted')
    """
    check_choice(name, _RULES, "gradient")
    found: type[GradientRule] = getattr(import_module(f"intarsia.gradients.{name}"), _RULES[name])
    return found


def resolve_gradient(rule: str | GradientRule, settings: dict[str, Any] | None = None) -> GradientRule:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_gradient("truncated", {"n_iter": 5}).n_iter
    5
    """
    settings = settings or {}
    if isinstance(rule, str):
        found = gradient_class(rule)
        for key in settings:
            check_choice(key, found._get_param_names(), f"{found.__name__}: setting")
        return found(**settings)
    if not isinstance(rule, GradientRule):
        raise InvalidInputError(
            f"gradient must be a name ({', '.join(map(repr, _RULES))}) or a settings object, got {type(rule).__name__}."
        )
    if not settings:
        return rule
    from sklearn.base import clone

    changed: GradientRule = clone(rule)
    for key in settings:
        check_choice(key, changed.get_params(), f"{type(rule).__name__}: setting")
    changed.set_params(**settings)
    return changed
