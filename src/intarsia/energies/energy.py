"""Global preferences as settings: what is wanted of the marginals, on whatever graph comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from intarsia._core.registry import Parts
from intarsia._core.validation import as_float_array, check_number
from intarsia.energies.binding.bound_energy import BoundEnergy, ScalarTerms
from intarsia.energies.binding.bound_sum import join_energies
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.binding.scalar_functions import Penalties, repeat_rows
from intarsia.energies.functions import Judgement
from intarsia.energies.measurements import Measurement
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


class Energy(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the global preferences L(mu); settings that speak of labels by name or state.

    `energy.bind(graph, names)` gives the energy of one graph. Energies add with `+`; a non-negative number times an
    energy multiplies its strength.
    """

    convex: ClassVar[bool] = True
    """Whether every energy of this class is convex."""

    psi: float | ArrayLike

    @abstractmethod
    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """The energy on the graph of an index of labels."""

    def bind(self, graph: FactorGraph, names: Sequence[Any] | None = None) -> BoundEnergy:
        """The energy on one graph.

        Parameters
        ----------
        graph : FactorGraph
            Whose marginals are meant.
        names : sequence, optional
            Names of the states, one list for all variables or a list per variable.
        """
        return self.bind_index(LabelIndex(graph, names))

    def __add__(self, other: Any) -> EnergySum:
        if not isinstance(other, Energy):
            return NotImplemented
        return EnergySum([*_members(self), *_members(other)])

    def __mul__(self, factor: Any) -> Energy:
        if not isinstance(factor, (int, float, np.integer, np.floating)):
            return NotImplemented
        check_number(factor, "energy: the factor", low=0.0)
        return self._scaled(float(factor))

    __rmul__ = __mul__

    def _scaled(self, factor: float) -> Energy:
        scaled: Energy = clone(self)
        psi = as_float_array(self.psi, "psi") * factor
        return scaled.set_params(psi=float(psi) if psi.ndim == 0 else psi)


def _members(energy: Energy) -> list[Energy]:
    return list(energy.energies) if isinstance(energy, EnergySum) else [energy]


class EnergySum(Energy):
    """Sum of energies; made by `+`.

    Parameters
    ----------
    energies : list of Energy
        At least one.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge, Squared
    >>> from intarsia.graph import chain_graph
    >>> both = MeasuredEnergy(Count(1), Hinge(1.0)) + 2.0 * MeasuredEnergy(Count(0), Squared())
    >>> graph = chain_graph(2, 2)
    >>> both.bind(graph).value(graph.statistics([1, 1]))      # 2 - 1, and 2 x 0
    1.0
    """

    _parts: ClassVar[Parts] = {"energies": ENERGY_PARTS}

    def __init__(self, energies: Sequence[Energy]) -> None:
        self.energies = energies

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Sum of the members on that graph."""
        if not self.energies:
            raise InvalidInputError("EnergySum: the list of energies is empty. Give at least one.")
        return join_energies([energy.bind_index(index) for energy in self.energies])

    def _scaled(self, factor: float) -> Energy:
        return EnergySum([energy * factor for energy in self.energies])


class MeasuredEnergy(Energy):
    r"""Strength times a convex function of a linear measurement: `psi f(a . mu)` (Vilnis2015 Eq. 4 and 5).

    The workhorse: "at most one zip code", "as many first names as last names". Convex; smooth if the function is. A
    measurement with several rows (`StartsAfter`) is judged row by row, with one strength.

    Parameters
    ----------
    measurement : Measurement
        What is measured, such as `Count("verb")` or `SegmentStarts("title") - SegmentStarts("year")`.
    judgement : Judgement
        What is wanted of it, such as `Hinge(1.0)`.
    psi : float
        Strength, at least 0. Infinite makes a hinge or absolute value a hard constraint, for `bethe_dual`.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> some = MeasuredEnergy(Count("verb"), Hinge(1.0, side="below"), psi=2.0).bind(graph, ["noun", "verb"])
    >>> some.value(graph.statistics([0, 0, 0])), some.value(graph.statistics([0, 1, 1]))
    (2.0, 0.0)
    """

    _parts: ClassVar[Parts] = {"measurement": ENERGY_PARTS, "judgement": ENERGY_PARTS}

    def __init__(self, measurement: Measurement, judgement: Judgement, *, psi: float = 1.0) -> None:
        self.measurement = measurement
        self.judgement = judgement
        self.psi = psi

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """The terms on that graph."""
        entries = self.measurement.entries(index)
        single = self.judgement.functions()
        check_number(self.psi, "MeasuredEnergy: psi", low=0.0)
        if np.isinf(float(self.psi)) and not isinstance(single, Penalties):  # type: ignore[arg-type]
            raise InvalidInputError("MeasuredEnergy: psi is infinite, but only penalties can be hard constraints.")
        functions, row_of = repeat_rows(single, entries.n_rows)
        matrix = entries.matrix(index.graph.n_theta)
        if single.size > 1:
            matrix = matrix[row_of]
        return ScalarTerms(index.graph, matrix, functions, float(self.psi), np.zeros(row_of.size, np.int64), 1)  # type: ignore[arg-type]
