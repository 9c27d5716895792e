"""Names of the gradient rules. Joining the registry is joining the contract tests."""

from __future__ import annotations

from typing import Any

from intarsia._core.registry import Registry
from intarsia.gradients.rule import GradientRule

GRADIENTS: Registry[GradientRule] = Registry(
    "gradient",
    "intarsia.gradients",
    {
        "truncated": "TruncatedGradient",
        "back_propagation": "BackPropagation",
        "perturbation": "PerturbationGradient",
        "implicit": "ImplicitGradient",
    },
    GradientRule,  # type: ignore[type-abstract]
)


def gradient_names() -> list[str]:
    """Names of all gradient rules, in the order of the docs' table.

    Examples
    --------
    >>> gradient_names()
    ['truncated', 'back_propagation', 'perturbation', 'implicit']
    """
    return GRADIENTS.names


def gradient_class(name: str) -> type[GradientRule]:
    """Class of a gradient rule by its name; an unknown name raises with the nearest one.

    Examples
    --------
    >>> gradient_class("implicit").differentiates
    ('belief_propagation', 'tree_reweighted')
    """
    return GRADIENTS.get(name)


def resolve_gradient(rule: str | GradientRule, settings: dict[str, Any] | None = None) -> GradientRule:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_gradient("truncated", {"n_iter": 5}).n_iter
    5
    """
    return GRADIENTS.resolve(rule, settings)
