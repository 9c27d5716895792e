"""How a loss flows back to theta: one file per rule, one result type, one registry."""

from .back_propagation import BackPropagation as BackPropagation
from .implicit import ImplicitGradient as ImplicitGradient
from .perturbation import PerturbationGradient as PerturbationGradient
from .registry import gradient_class as gradient_class
from .registry import gradient_names as gradient_names
from .registry import resolve_gradient as resolve_gradient
from .rule import GradientResult as GradientResult
from .rule import GradientRule as GradientRule
from .truncated import TruncatedGradient as TruncatedGradient
from .truncated import truncated_log_partition as truncated_log_partition
