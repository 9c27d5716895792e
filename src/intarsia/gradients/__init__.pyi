"""How a loss flows back to theta: one file per rule, one result type, one registry."""

from .registry import gradient_class as gradient_class
from .registry import gradient_names as gradient_names
from .registry import resolve_gradient as resolve_gradient
from .rule import GradientResult as GradientResult
from .rule import GradientRule as GradientRule
from .truncated import truncated_log_partition as truncated_log_partition
