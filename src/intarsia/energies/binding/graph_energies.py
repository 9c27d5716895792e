"""Energies of graphs of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.energies.binding.batch_energies import bind_members, check_strengths, find_fixed, list_energies
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph

Names = Sequence[Any]
"""Labels of a graph: one list for all variables, or one list for each variable."""


class GraphEnergies:
    """Sum of energies for graphs of any shape.

    Parameters
    ----------
    energies : Energy or sequence of Energy
        Energies of every graph.
    sizes : sequence of int
        Number of weights psi of each energy.
    psi : (n_psi,) float array
        Weights psi from the settings of the energies.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> from intarsia.graph import from_edges
    >>> pair, three = from_edges(2, [(0, 1)]), from_edges(2, [(0, 1), (1, 2)])
    >>> few = MeasuredEnergy(Count("b"), Hinge(1.0), psi=2.0)
    >>> not_third = MeasuredEnergy(Count("b", variables=[2]), Hinge(0.0))
    >>> energies = GraphEnergies.known([few, not_third], [(pair, ["a", "b"]), (three, ["a", "b"])])
    >>> energies.psi
    array([2., 1.])
    >>> energies.bound(three, ["a", "b"]).value(three.statistics([1, 1, 1]))      # 2 (3 - 1) + 1
    5.0
    >>> energies.bound(pair, ["a", "b"]).value(pair.statistics([1, 1]))           # there is no third variable
    2.0
    """

    def __init__(self, energies: Energy | Sequence[Energy], sizes: Sequence[int], psi: FloatArray) -> None:
        self.members = list_energies(energies)
        self.sizes = [int(size) for size in sizes]
        self.fixed = find_fixed(self.members, self.sizes)
        self.psi = check_strengths(psi, "add a hard constraint to the graph, as a factor")

    @classmethod
    def known(cls, energies: Energy | Sequence[Energy], graphs: Sequence[tuple[FactorGraph, Names]]) -> GraphEnergies:
        """Return energies of which each is valid on at least one of these graphs, or raise."""
        members = list_energies(energies)
        bound = [_first_bound(i, member, graphs) for i, member in enumerate(members)]
        return cls(members, [member.psi.size for member in bound], np.concatenate([member.psi for member in bound]))

    @property
    def n_psi(self) -> int:
        """Number of weights psi."""
        return self.psi.size

    def bound(self, graph: FactorGraph, names: Names) -> BoundEnergy:
        """Return the energy of one graph; a member that is invalid on this graph contributes 0."""
        return bind_members(self.members, self.sizes, graph, names)


def _first_bound(i: int, member: Energy, graphs: Sequence[tuple[FactorGraph, Names]]) -> BoundEnergy:
    reason = "there is no graph. Pass at least one."
    for graph, names in graphs:
        try:
            return member.bind(graph, names)
        except InvalidInputError as error:
            reason = str(error)
    raise InvalidInputError(f"energies[{i}] must be valid on at least one of the graphs: {reason}")
