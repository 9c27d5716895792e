"""Check whether a learner and an inference method work together: separability, bounds, theory, checks on your data."""

from intarsia.diagnostics.bound_minimizer import BoundMinimizer
from intarsia.diagnostics.check import Check, Diagnosis
from intarsia.diagnostics.compatibility import Pair, compatibility
from intarsia.diagnostics.diagnose import diagnose, diagnose_examples
from intarsia.diagnostics.margin_search import Certificate
from intarsia.diagnostics.mistake_bound import MistakeBound, mistake_bound
from intarsia.diagnostics.pac_bayes import PacBayesBound, pac_bayes_bound
from intarsia.diagnostics.ranking_bounds import ranking_bound, separable_ranking_bound
from intarsia.diagnostics.separability import Separability, algorithmically_separable, separable
from intarsia.diagnostics.weight_grid import WeightGrid, weight_grid_search

__all__ = [
    "BoundMinimizer", "Certificate", "Check", "Diagnosis", "MistakeBound", "PacBayesBound", "Pair", "Separability",
    "WeightGrid", "algorithmically_separable", "compatibility", "diagnose", "diagnose_examples", "mistake_bound",
    "pac_bayes_bound", "ranking_bound", "separable", "separable_ranking_bound", "weight_grid_search",
]  # fmt: skip
