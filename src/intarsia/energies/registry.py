"""Registries of energies, measurements and penalties, for saved models, and of the classes of weights psi."""

from __future__ import annotations

from typing import Any

from intarsia._core.registry import Registry
from intarsia.energies.psi import Psi

_CLASSES = {
    "energy_sum": "energy:EnergySum",
    "measured_energies": "measured_energies:MeasuredEnergies",
    "measured_energy": "energy:MeasuredEnergy",
    "distance_to_set": "distance_to_set:DistanceToSet",
    "cross_clique_energy": "cross_clique:CrossCliqueEnergy",
    "poisson_counts": "poisson_counts:PoissonCounts",
    "combination": "measurements:Combination",
    "count": "measurements:Count",
    "transitions": "measurements:Transitions",
    "segment_starts": "measurements:SegmentStarts",
    "starts_after": "measurements:StartsAfter",
    "sparse_vector": "measurements:SparseVector",
    "hinge": "functions:Hinge",
    "smoothed_hinge": "functions:SmoothedHinge",
    "squared": "functions:Squared",
    "absolute": "functions:Absolute",
    "huber": "functions:Huber",
    "soft_interval": "functions:SoftInterval",
    "poisson": "functions:Poisson",
}

ENERGY_PARTS: Registry[Any] = Registry("energy", "intarsia.energies", _CLASSES, object)

PSIS: Registry[Psi] = Registry(
    "psi",
    "intarsia.energies",
    {"constant": "psi:ConstantPsi", "linear": "psi:LinearPsi", "mean_map": "psi:MeanMapPsi"},
    Psi,  # type: ignore[type-abstract]
)
