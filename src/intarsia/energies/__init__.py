"""Global preferences L(mu): what is wanted of the marginals as a whole."""

from intarsia.energies.bound_energy import BoundEnergy, ScalarTerms
from intarsia.energies.bound_sum import BoundSum
from intarsia.energies.chain_energies import BatchEnergy, ChainEnergies
from intarsia.energies.cross_clique import CrossCliqueEnergy
from intarsia.energies.distance_to_set import DistanceToSet
from intarsia.energies.energy import Energy, EnergySum, MeasuredEnergy
from intarsia.energies.function_energy import FunctionEnergy
from intarsia.energies.functions import Absolute, Hinge, Huber, Judgement, Poisson, SmoothedHinge, SoftInterval, Squared
from intarsia.energies.label_index import LabelIndex, segment_kinds
from intarsia.energies.measured_energies import MeasuredEnergies
from intarsia.energies.measurements import Count, Measurement, SegmentStarts, SparseVector, StartsAfter, Transitions
from intarsia.energies.poisson_counts import PoissonCounts
from intarsia.energies.psi import ConstantPsi, LinearPsi, MeanMapPsi, Psi
from intarsia.energies.registry import resolve_psi
from intarsia.energies.scalar_functions import Penalties, PoissonDeviances, ScalarFunctions
from intarsia.energies.segments import (
    at_most_one,
    balanced,
    before,
    exactly_one,
    forbidden_together,
    implies,
    segment_preferences,
)

__all__ = [
    "Absolute",
    "BatchEnergy",
    "BoundEnergy",
    "BoundSum",
    "ChainEnergies",
    "ConstantPsi",
    "Count",
    "CrossCliqueEnergy",
    "DistanceToSet",
    "Energy",
    "EnergySum",
    "FunctionEnergy",
    "Hinge",
    "Huber",
    "Judgement",
    "LabelIndex",
    "LinearPsi",
    "MeanMapPsi",
    "MeasuredEnergies",
    "MeasuredEnergy",
    "Measurement",
    "Penalties",
    "Poisson",
    "PoissonCounts",
    "PoissonDeviances",
    "Psi",
    "ScalarFunctions",
    "ScalarTerms",
    "SegmentStarts",
    "SmoothedHinge",
    "SoftInterval",
    "SparseVector",
    "Squared",
    "StartsAfter",
    "Transitions",
    "at_most_one",
    "balanced",
    "before",
    "exactly_one",
    "forbidden_together",
    "implies",
    "resolve_psi",
    "segment_kinds",
    "segment_preferences",
]
