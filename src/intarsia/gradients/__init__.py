"""How a loss flows back to theta: one file per rule, one result type, one registry."""

from intarsia.gradients.registry import gradient_class, gradient_names, resolve_gradient
from intarsia.gradients.rule import GradientResult, GradientRule
from intarsia.gradients.truncated_log_partition import truncated_log_partition

__all__ = [
    "GradientResult",
    "GradientRule",
    "gradient_class",
    "gradient_names",
    "resolve_gradient",
    "truncated_log_partition",
]
