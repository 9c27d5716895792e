"""Many preferences over a few measurements, bound at the cost of the measurements alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.binding.scalar_terms import ScalarFunctions, ScalarTerms, stack_functions
from intarsia.energies.energy import Energy, MeasuredEnergy
from intarsia.energies.measurements import Combination, Measurement
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import InvalidInputError


class MeasuredEnergies(Energy):
    """Sum of measured energies that share measurements, with one weight psi per member.

    It equals the sum of its members. Use it for hundreds of preferences on a few dozen counts, such as those of
    `segment_preferences`: the sum binds every member separately, but this class binds every measurement once, which
    saves time if sequences have many different lengths.

    Parameters
    ----------
    energies : sequence of MeasuredEnergy
        At least one member, with measurements of a single row (so not `StartsAfter`).
    psi : float array (n_energies,), optional
        Weights psi of the members; by default the psi of each member.

    Examples
    --------
    >>> from intarsia.energies.segments import at_most_one, implies
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 3)
    >>> total = MeasuredEnergies([at_most_one("x", width=0.0), implies("x", "y", width=0.0)], psi=[1.0, 10.0])
    >>> total.bind(graph, ["O", "B-x", "B-y"]).value(graph.statistics([1, 1, 0]))      # 1 (2 - 1) + 10 (2 - 0)
    21.0
    """

    _parts: ClassVar[Parts] = {"energies": ENERGY_PARTS}

    def __init__(self, energies: Sequence[MeasuredEnergy], *, psi: ArrayLike | None = None) -> None:
        self.energies = energies
        self.psi = psi  # type: ignore[assignment]

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the scalar terms on the graph of the index."""
        measurements, coefficients = shared_measurements(self.energies)
        rows = []
        for measurement in measurements:
            entries = measurement.entries(index)
            if entries.n_rows != 1:
                raise InvalidInputError(
                    f"MeasuredEnergies: {measurement} has {entries.n_rows} rows, expected 1. Add an energy with this "
                    f"measurement with +."
                )
            rows.append(entries.matrix(index.layout.n_theta))
        functions, member_of = self.functions()
        matrix = csr_array(coefficients[member_of] @ vstack(rows, format="csr"))
        return ScalarTerms(index.layout, matrix, functions, self.strengths(), member_of, len(self.energies))

    def functions(self) -> tuple[ScalarFunctions, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Return the scalar functions of all members, and the member of each function."""
        families = [member.judgement.functions() for member in self.energies]
        sizes = [family.size for family in families]
        return stack_functions(families), np.repeat(np.arange(len(families)), sizes)

    def strengths(self) -> FloatArray:
        """Return the weight psi of each member."""
        psi = [float(member.weight) for member in self.energies] if self.psi is None else self.psi
        values = np.atleast_1d(as_float_array(psi, "MeasuredEnergies: psi"))
        if values.shape != (len(self.energies),):
            raise InvalidInputError(
                f"MeasuredEnergies: psi has shape {values.shape}, but there are {len(self.energies)} members. Pass "
                f"one weight each."
            )
        return values

    def display_names(self, n_psi: int) -> list[str]:
        """Return the names of the members."""
        return [member.display_name for member in self.energies]

    def has_fixed_psi(self, n_psi: int) -> list[bool]:
        """Return whether the weight of each member is fixed; weights that are set here are learned."""
        return [self.psi is None and member.strength is not None for member in self.energies]

    def _scaled(self, factor: float) -> Energy:
        return MeasuredEnergies(self.energies, psi=factor * self.strengths())


def shared_measurements(members: Sequence[MeasuredEnergy]) -> tuple[list[Measurement], csr_array]:
    """Return the distinct measurements of several energies, and the coefficients (n_members, n) of each energy.

    Examples
    --------
    >>> from intarsia.energies.segments import at_most_one, implies
    >>> measurements, coefficients = shared_measurements([at_most_one("x"), implies("y", "x")])
    >>> measurements, coefficients.toarray().tolist()
    ([SegmentStarts(kind='x'), SegmentStarts(kind='y')], [[1.0, 0.0], [-1.0, 1.0]])
    """
    if not members:
        raise InvalidInputError("MeasuredEnergies: the list of members is empty. Pass at least one energy.")
    column_of: dict[Any, int] = {}
    measurements: list[Measurement] = []
    rows, columns, values = [], [], []
    for row, member in enumerate(members):
        total = member.measurement
        for coefficient, measurement in total.terms if isinstance(total, Combination) else [(1.0, total)]:
            key = _identity(measurement)
            if key not in column_of:
                column_of[key] = len(measurements)
                measurements.append(measurement)
            rows.append(row)
            columns.append(column_of[key])
            values.append(coefficient)
    return measurements, csr_array((values, (rows, columns)), shape=(len(members), len(measurements)))


def _identity(measurement: Measurement) -> Any:
    """Return a key that equal measurements share; a measurement with array settings has its own key."""
    settings = tuple(sorted(measurement.get_params(deep=False).items()))
    try:
        hash(settings)
    except TypeError:
        return id(measurement)
    return type(measurement), settings
