"""Energies of graphs of any shapes: what is wanted of all of them, bound to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._validation import FloatArray
from intarsia.energies.bound_energy import BoundEnergy
from intarsia.energies.chain_energies import bind_members, check_strengths, list_energies
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph

Names = Sequence[Any]
"""Labels of a graph: a list for all variables, or a list for each."""


class GraphEnergies:
    """A sum of energies as graphs of any shape have it.

    Parameters
    ----------
    energies : Energy or sequence of Energy
        What is wanted of every graph.
    sizes : sequence of int
        Number of strengths of each.
    psi : (n_psi,) float array
        The energies' own strengths.

    Examples
    --------
    >>> from intarsia.energies import Count, Hinge, MeasuredEnergy
    >>> from intarsia.graph import from_edges
    >>> pair, three = from_edges(2, [(0, 1)]), from_edges(2, [(0, 1), (1, 2)])
    >>> few = MeasuredEnergy(Count("b"), Hinge(1.0), psi=2.0)
    >>> not_third = MeasuredEnergy(Count("b", variables=[2]), Hinge(0.0))
    >>> energies = GraphEnergies.known([few, not_third], [(pair, ["a", "b"]), (three, ["a", "b"])])
    >>> energies.psi
    array([2., 1.])
    >>> energies.bound(three, ["a", "b"]).value(three.statistics([1, 1, 1]))      # 2 (3 - 1) + 1
    5.0
    >>> energies.bound(pair, ["a", "b"]).value(pair.statistics([1, 1]))           # nothing is third
    2.0
    """

    def __init__(self, energies: Energy | Sequence[Energy], sizes: Sequence[int], psi: FloatArray) -> None:
        self.members = list_energies(energies)
        self.sizes = [int(size) for size in sizes]
        self.psi = check_strengths(psi, "a hard constraint belongs into the graph, as a factor")

    @classmethod
    def known(cls, energies: Energy | Sequence[Energy], graphs: Sequence[tuple[FactorGraph, Names]]) -> GraphEnergies:
        """Energies each of which makes sense on some of these graphs, or an error."""
        members = list_energies(energies)
        found = [_first_bound(i, member, graphs) for i, member in enumerate(members)]
        return cls(members, [one.psi.size for one in found], np.concatenate([one.psi for one in found]))

    @property
    def n_psi(self) -> int:
        """Number of strengths."""
        return self.psi.size

    def bound(self, graph: FactorGraph, names: Names) -> BoundEnergy:
        """The energy of one graph; a member that makes no sense there counts nothing."""
        return bind_members(self.members, self.sizes, graph, names)


def _first_bound(i: int, member: Energy, graphs: Sequence[tuple[FactorGraph, Names]]) -> BoundEnergy:
    reason = "there is no graph"
    for graph, names in graphs:
        try:
            return member.bind(graph, names)
        except InvalidInputError as error:
            reason = str(error)
    raise InvalidInputError(f"energies[{i}] makes no sense on any of the graphs: {reason}")
