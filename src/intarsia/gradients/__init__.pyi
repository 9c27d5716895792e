"""Gradient rules, which propagate a loss through inference back to theta."""

from .back_propagation import BackPropagation as BackPropagation
from .implicit import ImplicitGradient as ImplicitGradient
from .perturbation import PerturbationGradient as PerturbationGradient
from .registry import GRADIENTS as GRADIENTS
from .rule import GradientResult as GradientResult
from .rule import GradientRule as GradientRule
from .truncated import TruncatedGradient as TruncatedGradient
from .truncated import truncated_log_partition as truncated_log_partition
