"""Many preferences over a few measurements: bound at once, at the cost of the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.energies.binding.bound_energy import BoundEnergy, ScalarTerms
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.binding.scalar_functions import ScalarFunctions, stack_functions
from intarsia.energies.energy import Energy, MeasuredEnergy
from intarsia.energies.measurements import Combination, Measurement
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import InvalidInputError


class MeasuredEnergies(Energy):
    """Sum of measured energies that share measurements, with a strength each.

    The same energy as the sum of its members. Choose it for hundreds of preferences about a few dozen counts, as
    `segment_preferences` makes them: the sum binds every member by itself, this binds every measurement once, which
    matters where sequences have many lengths.

    Parameters
    ----------
    energies : sequence of MeasuredEnergy
        At least one; of measurements with a single row (so no `StartsAfter`).
    psi : float array (n_energies,), optional
        Their strengths; by default their own.

    Examples
    --------
    >>> from intarsia.energies.segments import at_most_one, implies
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 3)
    >>> both = MeasuredEnergies([at_most_one("x", width=0.0), implies("x", "y", width=0.0)], psi=[1.0, 10.0])
    >>> both.bind(graph, ["O", "B-x", "B-y"]).value(graph.statistics([1, 1, 0]))      # 1 (2 - 1) + 10 (2 - 0)
    21.0
    """

    _parts: ClassVar[Parts] = {"energies": ENERGY_PARTS}

    def __init__(self, energies: Sequence[MeasuredEnergy], *, psi: ArrayLike | None = None) -> None:
        self.energies = energies
        self.psi = psi  # type: ignore[assignment]

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """The terms on that graph."""
        measurements, coefficients = shared_measurements(self.energies)
        rows = []
        for measurement in measurements:
            entries = measurement.entries(index)
            if entries.n_rows != 1:
                raise InvalidInputError(
                    f"MeasuredEnergies: {measurement} has {entries.n_rows} rows, expected 1. Add such an energy to "
                    f"this one with +."
                )
            rows.append(entries.matrix(index.graph.n_theta))
        functions, of_member = self.functions()
        matrix = csr_array(coefficients[of_member] @ vstack(rows, format="csr"))
        return ScalarTerms(index.graph, matrix, functions, self.strengths(), of_member, len(self.energies))

    def functions(self) -> tuple[ScalarFunctions, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """The scalar functions of all members, and whose each is."""
        own = [member.judgement.functions() for member in self.energies]
        return stack_functions(own), np.repeat(np.arange(len(own)), [one.size for one in own])

    def strengths(self) -> FloatArray:
        """One for each member."""
        given = [float(member.psi) for member in self.energies] if self.psi is None else self.psi
        values = np.atleast_1d(as_float_array(given, "MeasuredEnergies: psi"))
        if values.shape != (len(self.energies),):
            raise InvalidInputError(
                f"MeasuredEnergies: psi has shape {values.shape}, but there are {len(self.energies)} members. Give one "
                f"strength each."
            )
        return values

    def _scaled(self, factor: float) -> Energy:
        return MeasuredEnergies(self.energies, psi=factor * self.strengths())


def shared_measurements(members: Sequence[MeasuredEnergy]) -> tuple[list[Measurement], csr_array]:
    """The different measurements of some energies, and with which coefficients (n_members, n) each adds them up.

    Examples
    --------
    >>> from intarsia.energies.segments import at_most_one, implies
    >>> measurements, coefficients = shared_measurements([at_most_one("x"), implies("y", "x")])
    >>> measurements, coefficients.toarray().tolist()
    ([SegmentStarts(kind='x'), SegmentStarts(kind='y')], [[1.0, 0.0], [-1.0, 1.0]])
    """
    if not members:
        raise InvalidInputError("MeasuredEnergies: the list of members is empty. Give at least one.")
    place: dict[Any, int] = {}
    found: list[Measurement] = []
    rows, columns, values = [], [], []
    for row, member in enumerate(members):
        whole = member.measurement
        for coefficient, part in whole.terms if isinstance(whole, Combination) else [(1.0, whole)]:
            key = _settings(part)
            if key not in place:
                place[key] = len(found)
                found.append(part)
            rows.append(row)
            columns.append(place[key])
            values.append(coefficient)
    return found, csr_array((values, (rows, columns)), shape=(len(members), len(found)))


def _settings(part: Measurement) -> Any:
    """The same for measurements of the same settings; of those with arrays, each is one of its own."""
    settings = tuple(sorted(part.get_params(deep=False).items()))
    try:
        hash(settings)
    except TypeError:
        return id(part)
    return type(part), settings
