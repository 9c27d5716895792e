"""Learners, optimisers and estimators."""

from intarsia.learning.grid_crf import GridCRF
from intarsia.learning.lbfgs import LBFGS, Minimum, Optimizer
from intarsia.learning.registry import optimizer_names, resolve_optimizer
from intarsia.learning.risk import Example, RiskMinimizer, example

__all__ = [
    "LBFGS",
    "Example",
    "GridCRF",
    "Minimum",
    "Optimizer",
    "RiskMinimizer",
    "example",
    "optimizer_names",
    "resolve_optimizer",
]
