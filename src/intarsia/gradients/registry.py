"""Names of the gradient rules. Joining the registry is joining the contract tests."""

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
