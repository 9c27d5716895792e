"""Energies as settings: global preferences on the marginals of any graph, their sums, and measured energies."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack

from intarsia._core.registry import Parts
from intarsia._core.settings import Settings, clone
from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.energies.binding.bound_energy import READS, BoundEnergy, Readings
from intarsia.energies.binding.label_index import LabelIndex, MarginalLayout
from intarsia.energies.binding.scalar_terms import Penalties, ScalarTerms, repeat_rows, stack_functions
from intarsia.energies.functions import Penalty
from intarsia.energies.measurements import Measurement
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import InvalidInputError


class Energy(Settings, ABC):
    """Base class of energies L(mu): global constraints and preferences that name labels or states.

    `energy.bind(graph, names)` returns the energy of one graph. Energies are added with `+`; a non-negative number
    times an energy multiplies its weight psi. To write a new energy, implement `bind_index`, which returns a
    `BoundEnergy`.
    """

    convex: ClassVar[bool] = True
    """Whether every energy of this class is convex."""

    psi: float | ArrayLike
    strength: float | None = None
    """Fixed weight psi; None if psi is learned."""
    title: str | None = None
    """Name of the energy in tables; None for its class and settings."""

    @property
    def weight(self) -> Any:
        """Weight psi at the start of learning, or the fixed weight."""
        return self.psi if self.strength is None else self.strength

    @property
    def display_name(self) -> str:
        """Title of the energy, or its class and settings."""
        return repr(self) if self.title is None else str(self.title)

    def display_names(self, n_psi: int) -> list[str]:
        """Return a name for each weight psi."""
        return [self.display_name] if n_psi == 1 else [f"{self.display_name} [{j}]" for j in range(n_psi)]

    def has_fixed_psi(self, n_psi: int) -> list[bool]:
        """Return whether each weight psi is fixed."""
        return [self.strength is not None] * n_psi

    @abstractmethod
    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the energy of the graph to which an index of labels belongs."""

    def bind(self, graph: MarginalLayout, names: Sequence[Any] | None = None) -> BoundEnergy:
        """Return the energy of one graph.

        Parameters
        ----------
        graph : FactorGraph
            Graph whose marginals are evaluated.
        names : sequence, optional
            Names of the states: one list for all variables, or one list per variable.
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
        if self.strength is not None:
            return scaled.set_params(strength=float(self.strength) * factor)
        psi = as_float_array(self.psi, "psi") * factor
        return scaled.set_params(psi=float(psi) if psi.ndim == 0 else psi)


def _members(energy: Energy) -> list[Energy]:
    return list(energy.energies) if isinstance(energy, EnergySum) else [energy]


class EnergySum(Energy):
    """Sum of energies; created by `+`.

    Parameters
    ----------
    energies : list of Energy
        At least one energy.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge, Squared
    >>> from intarsia.graph import chain_graph
    >>> total = MeasuredEnergy(Count(1), Hinge(1.0)) + 2.0 * MeasuredEnergy(Count(0), Squared())
    >>> graph = chain_graph(2, 2)
    >>> total.bind(graph).value(graph.statistics([1, 1]))      # 2 - 1, and 2 x 0
    1.0
    """

    _parts: ClassVar[Parts] = {"energies": ENERGY_PARTS}

    def __init__(self, energies: Sequence[Energy]) -> None:
        self.energies = energies

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the sum of the members on the graph of the index."""
        if not self.energies:
            raise InvalidInputError("EnergySum: the list of energies is empty. Pass at least one energy.")
        return join_energies([energy.bind_index(index) for energy in self.energies])

    def _scaled(self, factor: float) -> Energy:
        return EnergySum([energy * factor for energy in self.energies])


class MeasuredEnergy(Energy):
    r"""Weight psi times a convex function of a linear measurement: `psi f(a . mu)` (Vilnis2015 Eq. 4 and 5).

    Use it for global constraints such as "at most one zip code" or "as many first names as last names". It is convex,
    and smooth if the function is. A measurement with several rows (`StartsAfter`) applies the function to every row,
    with one weight.

    Parameters
    ----------
    measurement : Measurement
        Linear function of the marginals, such as `Count("verb")` or `SegmentStarts("title") - SegmentStarts("year")`.
    judgement : Penalty
        Penalty of its value, such as `Hinge(1.0)`.
    psi : float
        Weight psi at the start of learning, at least 0. An infinite psi makes a hinge or absolute value a hard
        constraint, for `bethe_dual`.
    strength : float, optional
        Fixed weight psi, which is not learned and replaces `psi`.
    title : str, optional
        Name of the energy in tables such as `strengths_`.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> verbs = MeasuredEnergy(Count("verb"), Hinge(1.0, side="below"), psi=2.0).bind(graph, ["noun", "verb"])
    >>> verbs.value(graph.statistics([0, 0, 0])), verbs.value(graph.statistics([0, 1, 1]))
    (2.0, 0.0)
    """

    _parts: ClassVar[Parts] = {"measurement": ENERGY_PARTS, "judgement": ENERGY_PARTS}

    def __init__(
        self,
        measurement: Measurement,
        judgement: Penalty,
        *,
        psi: float = 1.0,
        strength: float | None = None,
        title: str | None = None,
    ) -> None:
        self.measurement = measurement
        self.judgement = judgement
        self.psi = psi
        self.strength = strength
        self.title = title

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the scalar terms on the graph of the index."""
        entries = self.measurement.entries(index)
        row_functions = self.judgement.functions()
        psi = check_weight(self)
        if np.isinf(psi) and not isinstance(row_functions, Penalties):
            raise InvalidInputError(
                f"MeasuredEnergy: psi is infinite, but {type(self.judgement).__name__} cannot be a hard constraint. "
                f"Use a finite psi, or a penalty such as Hinge."
            )
        functions, row_of = repeat_rows(row_functions, entries.n_rows)
        matrix = entries.matrix(index.layout.n_theta)
        if row_functions.size > 1:
            matrix = matrix[row_of]
        return ScalarTerms(index.layout, matrix, functions, psi, np.zeros(row_of.size, np.int64), 1)


def check_weight(energy: Energy, high: float = np.inf) -> float:
    """Return the weight psi of an energy with one weight, or raise if it or the fixed weight is invalid."""
    class_name = type(energy).__name__
    check_number(energy.psi, f"{class_name}: psi", low=0.0, high=high)
    if energy.strength is not None:
        check_number(energy.strength, f"{class_name}: strength", low=0.0, high=high)
    return float(energy.weight)


class BoundSum(BoundEnergy):
    """Sum of energies on one graph; psi, preferences and readings are those of the members, one after the other.

    Examples
    --------
    >>> from intarsia.energies import Count, Hinge, Squared
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> energies = MeasuredEnergy(Count(1), Hinge(1.0)), MeasuredEnergy(Count(0), Squared(), psi=2.0)
    >>> total = BoundSum([energy.bind(graph) for energy in energies])
    >>> mu = graph.statistics([1, 1, 0])
    >>> total.psi.tolist(), total.parts(mu).tolist(), total.value(mu)                # 2 - 1; half of 1; 1 x 1 + 2 x 0.5
    ([1.0, 2.0], [1.0, 0.5], 2.0)
    """

    def __init__(self, members: Sequence[BoundEnergy]) -> None:
        self.members = tuple(members)
        self._psi_slices = _slices([member.psi.size for member in members])
        self._reading_slices = _slices([member.readings.size for member in members])
        psi_of_reading = [m.psi_of_reading + block.start for m, block in zip(members, self._psi_slices, strict=True)]
        super().__init__(
            members[0].layout,
            np.concatenate([member.psi for member in members]),
            readings=_JoinedReadings([member.readings for member in members], self._reading_slices),
            psi_of_reading=np.concatenate(psi_of_reading),
            n_psi=self._psi_slices[-1].stop,
            reads=max((member.reads for member in members), key=READS.index),
            floor=np.concatenate([member.unit_floor for member in members]),
        )

    def update_shape(self) -> None:
        """Pass psi to the members and recompute the attributes that depend on it."""
        super().update_shape()
        blocks = zip(self.members, self._psi_slices, strict=True)
        self.members = tuple(member.with_psi(self.psi[block]) for member, block in blocks)
        self.convex = all(member.convex for member in self.members)
        self.smooth = all(member.smooth for member in self.members)

    @property
    def terms(self) -> ScalarTerms | None:
        """All terms as one energy, if every member consists of scalar terms."""
        terms = [terms for member in self.members if (terms := member.terms) is not None]
        return join_terms(terms) if len(terms) == len(self.members) else None

    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values and slopes of the members, one after the other."""
        blocks = zip(self.members, self._reading_slices, strict=True)
        pairs = [member.evaluate(readings[:, block]) for member, block in blocks]
        return np.concatenate([values for values, _ in pairs], axis=1), np.concatenate([s for _, s in pairs], axis=1)

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum of the energies of the members, whose psi may be infinite, and their slopes."""
        blocks = zip(self.members, self._reading_slices, strict=True)
        pairs = [member.judge(readings[block]) for member, block in blocks]
        return float(sum(value for value, _ in pairs)), np.concatenate([slope for _, slope in pairs])

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of the energies of the members, and their slopes."""
        blocks = zip(self.members, self._psi_slices, self._reading_slices, strict=True)
        pairs = [member.judge_rows(readings[:, reading], psi[:, weight]) for member, weight, reading in blocks]
        return np.sum([value for value, _ in pairs], axis=0), np.concatenate([slope for _, slope in pairs], axis=1)

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the products of the members, one after the other."""
        blocks = zip(self.members, self._reading_slices, strict=True)
        return np.concatenate([member.hessian_product(readings[block], direction[block]) for member, block in blocks])

    def hessian_diagonal(self, readings: FloatArray) -> FloatArray | None:
        """Return the diagonals of the members, if all have one."""
        blocks = zip(self.members, self._reading_slices, strict=True)
        diagonals = [diagonal for m, b in blocks if (diagonal := m.hessian_diagonal(readings[..., b])) is not None]
        return np.concatenate(diagonals, axis=-1) if len(diagonals) == len(self.members) else None

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """Return the sums of the constants of the members."""
        blocks = zip(self.members, self._psi_slices, strict=True)
        return np.sum([member.lipschitz_rows(psi[:, block]) for member, block in blocks], axis=0)


class _JoinedReadings(Readings):
    """Readings of several energies, one after the other."""

    def __init__(self, members: Sequence[Readings], slices: Sequence[slice]) -> None:
        self.members = list(zip(members, slices, strict=True))
        self.size = slices[-1].stop
        self.counts_only = all(member.counts_only for member in members)

    def measure(self, mu: FloatArray) -> FloatArray:
        """Return the readings of all members."""
        return np.concatenate([member.measure(mu) for member, _ in self.members], axis=-1)

    def subtract(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Subtract the weighted readings of every member."""
        for member, block in self.members:
            member.subtract(weights[..., block], theta, out)
            theta = out

    def spread(self, weights: FloatArray, n: int) -> FloatArray:
        """Return the sum of the slopes in mu of all members."""
        return np.sum([member.spread(weights[block], n) for member, block in self.members], axis=0)

    def measure_counts(self, counts: FloatArray) -> FloatArray:
        """Return the readings of all members from numbers of labels."""
        return np.concatenate([member.measure_counts(counts) for member, _ in self.members], axis=1)

    def spread_counts(self, weights: FloatArray) -> FloatArray:
        """Return the sum of the scores that the members subtract at every variable."""
        return np.sum([member.spread_counts(weights[:, block]) for member, block in self.members], axis=0)


def _slices(sizes: Sequence[int]) -> list[slice]:
    """Return consecutive slices with these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def join_terms(members: Sequence[ScalarTerms]) -> ScalarTerms:
    """Combine several sets of scalar terms on the same graph out one."""
    starts = [block.start for block in _slices([member.psi.size for member in members])]
    return ScalarTerms(
        members[0].layout,
        csr_array(vstack([member.measurements for member in members], format="csr")),
        stack_functions([member.functions for member in members]),
        np.concatenate([member.psi for member in members]),
        np.concatenate([member.psi_of + start for member, start in zip(members, starts, strict=True)]),
        sum(member.psi.size for member in members),
    )


def join_energies(members: Sequence[BoundEnergy]) -> BoundEnergy:
    """Return the sum of bound energies; adjacent scalar terms become one matrix, so that a sum costs one product."""
    flat: list[BoundEnergy] = []
    for member in members:
        flat.extend(member.members if isinstance(member, BoundSum) else [member])
    merged_members: list[BoundEnergy] = []
    for is_terms, group in itertools.groupby(flat, lambda member: isinstance(member, ScalarTerms)):
        run = list(group)
        merged_members += [join_terms(run)] if is_terms and len(run) > 1 else run  # type: ignore[arg-type]
    return merged_members[0] if len(merged_members) == 1 else BoundSum(merged_members)
