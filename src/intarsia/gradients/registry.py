"""Registry of the gradient rules; contract tests cover its members."""

from __future__ import annotations

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
