"""Settings of energies that can be learned besides psi: limits of penalties, coefficients, parameters of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.energies.binding.bound_energy import BoundEnergy, EnergyAdjoint
from intarsia.energies.binding.label_index import ChainShape, LabelIndex, MarginalLayout
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError

GROUPS = ("limits", "measurements", "parameters")
"""Groups of settings: limits and targets of penalties, coefficients of measurements, parameters of functions."""


def check_groups(groups: Any, name: str) -> tuple[str, ...]:
    """Return the groups of settings to learn, or raise if one is unknown."""
    listing = (groups,) if isinstance(groups, str) else tuple(groups)
    for group in listing:
        if group not in GROUPS:
            raise InvalidInputError(f"{name} must be among {', '.join(map(repr, GROUPS))}, got {group!r}. Use these.")
    return listing


class EnergyParameters:
    """Vector of the settings of several energies that are learned besides psi.

    Parameters
    ----------
    members : sequence of Energy
        Energies; those with fixed weight psi (`strength`) also learn their other settings.
    groups : str or sequence of str
        Groups to learn, of `GROUPS`.

    Attributes
    ----------
    start : float array
        Values of the settings.

    Examples
    --------
    >>> from intarsia.energies import Count, Hinge, MeasuredEnergy, Squared
    >>> members = [MeasuredEnergy(Count("a") - Count("b"), Hinge(1.0)), MeasuredEnergy(Count("b"), Squared(3.0))]
    >>> parameters = EnergyParameters(members, ("limits", "measurements"))
    >>> parameters.start
    array([ 1.,  1., -1.,  3.])
    >>> parameters.members_with([0.5, 1.0, -2.0, 3.0])[0].judgement
    Hinge(limit=0.5)
    """

    def __init__(self, members: Sequence[Energy], groups: str | Sequence[str]) -> None:
        self.members = list(members)
        self._slots: list[tuple[int, str, slice]] = []
        self._sizes_by_length: dict[tuple[int, int], list[dict[str, int]]] = {}
        values: list[FloatArray] = []
        n = 0
        for i, member in enumerate(self.members):
            for group in check_groups(groups, "EnergyParameters: groups"):
                setting = member.learnable(group)
                if setting.size:
                    self._slots.append((i, group, slice(n, n + setting.size)))
                    values.append(setting)
                    n += setting.size
        self.start: FloatArray = np.concatenate(values) if values else np.empty(0)

    def members_with(self, values: Any) -> list[Energy]:
        """Return the energies with these values of their settings."""
        vector, members = np.asarray(values, dtype=np.float64), list(self.members)
        for i, group, block in self._slots:
            members[i] = members[i].with_learned(group, vector[block])
        return members

    def pull(
        self, members: Sequence[Energy], graph: MarginalLayout, names: Any, gradients: dict[str, FloatArray]
    ) -> FloatArray:
        """Return the gradient in the settings from the gradients in the parameters of the sum of the energies.

        `members` are the energies with their present values, whose sum on this graph has these gradients.
        """
        index, result = LabelIndex(graph, names), np.zeros(self.start.size)
        sizes = self._sizes_on(members, graph, index)
        for i, group, block in self._slots:
            start = sum(size.get(group, 0) for size in sizes[:i])
            values = gradients[group][start : start + sizes[i].get(group, 0)]
            if values.size:
                result[block] = members[i].learnable_gradient(group, index, values)
        return result

    def _sizes_on(self, members: Sequence[Energy], graph: MarginalLayout, index: LabelIndex) -> list[dict[str, int]]:
        """Return the sizes of the groups of every energy on a graph; those on sequences of one length are stored."""
        if not isinstance(graph, ChainShape):
            return [_sizes(member, index) for member in members]
        key = graph.n_variables, graph.n_theta
        if key not in self._sizes_by_length:
            self._sizes_by_length[key] = [_sizes(member, index) for member in members]
        return self._sizes_by_length[key]


def _sizes(member: Energy, index: LabelIndex) -> dict[str, int]:
    """Return the number of entries of each group of parameters of an energy on a graph; none if it is invalid there."""
    try:
        bound = member.bind_index(index)
    except InvalidInputError:
        return {}
    return {name: values.size for name, values in zero_gradients(bound, index.layout.n_theta).items()}


def zero_gradients(energy: BoundEnergy, n: int) -> dict[str, FloatArray]:
    """Return gradients of 0 for all parameters of a bound energy, given the length n of theta."""
    no_readings = np.zeros(energy.readings.size)
    gradients = energy.parameter_gradient(EnergyAdjoint(np.zeros(n), np.zeros(n), no_readings, no_readings))
    return {name: np.zeros(values.shape) for name, values in gradients.items()}
