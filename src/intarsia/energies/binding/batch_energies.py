"""Energies of many sequences or graphs, evaluated together for all sequences of equal length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.label_index import ChainShape, MarginalLayout
from intarsia.energies.binding.scalar_terms import Penalties, ScalarTerms
from intarsia.energies.energy import Energy, EnergySum, join_energies
from intarsia.exceptions import InvalidInputError

# Largest psi, so that the scores it subtracts stay far below the largest valid score.
STRONGEST = 1e9

# Held while a length is compared with those used before: fitted models share their energies between threads.
_lock = RLock()


class ChainEnergies:
    """Sum of energies for sequences of any length.

    Parameters
    ----------
    energies : Energy or sequence of Energy
        Energies of every sequence.
    names : sequence
        Labels, in the order of the columns of a batch.
    length : int
        Length at which all energies are valid: that of the longest sequence.

    Attributes
    ----------
    psi : (n_psi,) float array
        Weights psi from the settings of the energies.
    fixed : (n_psi,) bool array
        Whether each weight psi is fixed by `strength=`.
    reads_tables : bool
        Whether the energies depend on expected transitions, not only on labels.
    convex, smooth : bool
        Properties of the sum for any positive psi, as in `BoundEnergy`.

    Raises
    ------
    InvalidInputError
        If an energy names an unknown label, is not an `Energy`, or has an infinite psi.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> energies = ChainEnergies([MeasuredEnergy(Count("b"), Hinge(1.0), psi=2.0)], ["a", "b"], 3)
    >>> batch = energies.on(np.array([0, 2, 5]))                     # two sequences, all labels are b
    >>> counts = batch.read(np.tile([0.0, 1.0], (5, 1)), None)
    >>> counts, batch.judge(counts, np.full((2, 1), 2.0))[0]         # 2 (2 - 1), 2 (3 - 1)
    (array([2., 3.]), array([2., 4.]))
    """

    def __init__(self, energies: Energy | Sequence[Energy], names: Sequence[Any], length: int) -> None:
        self.members = list_energies(energies)
        self.names, self.length = list(names), max(int(length), 2)
        self._bound_by_length: dict[int, BoundEnergy] = {}
        self._representative: dict[int, int] = {}
        self._count_forms: dict[int, tuple[FloatArray, ScalarTerms] | None] = {}
        shape = ChainShape(self.length, len(self.names), has_table=True)
        bound = [member.bind(shape, self.names) for member in self.members]
        self.sizes = [member.psi.size for member in bound]
        self.fixed = find_fixed(self.members, self.sizes)
        total = join_energies(bound)
        self.reads_tables = total.reads != "variables"
        self.psi = check_strengths(total.psi, "for hard constraints on sequences, use forbidden= and scheme=")
        positive = total.with_psi(np.ones(self.psi.size))
        self.convex, self.smooth = positive.convex, positive.smooth

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.names)

    @property
    def titles(self) -> list[str]:
        """Name of each weight psi."""
        pairs = zip(self.members, self.sizes, strict=True)
        return [title for member, size in pairs for title in member.display_names(size)]

    def reduced(self, active: NDArray[np.bool_]) -> tuple[ChainEnergies, NDArray[np.bool_]]:
        """Return the energies that have an active weight psi, and a mask of their weights among all."""
        ends = np.cumsum(self.sizes)
        blocks = [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        has_active = [bool(active[block].any()) for block in blocks]
        members = [member for member, has in zip(self.members, has_active, strict=True) if has]
        return ChainEnergies(members, self.names, self.length), np.repeat(has_active, self.sizes)

    @property
    def n_psi(self) -> int:
        """Number of weights psi."""
        return self.psi.size

    def bound(self, length: int) -> BoundEnergy:
        """Return the energy of sequences of one length; a member that is invalid at this length contributes 0."""
        if length not in self._bound_by_length:
            shape = ChainShape(length, self.n_labels, self.reads_tables)
            self._bound_by_length[length] = bind_members(self.members, self.sizes, shape, self.names)
        return self._bound_by_length[length]

    def representative(self, length: int) -> int:
        """Return the first length used before at which the energies are the same function of counts."""
        with _lock:
            if length not in self._representative:
                energy, others = self.bound(length), sorted(set(self._representative.values()))
                equal = (other for other in others if self.bound(other).counts_like(energy))
                self._representative[length] = next(equal, length)
        return self._representative[length]

    def count_form(self, lengths: IntArray) -> tuple[FloatArray, ScalarTerms] | None:
        """Return the energies as penalties of numbers of labels and transitions, if they are that at all lengths.

        The result has the coefficients (n_readings, k + k * k) of the readings, and the penalties.
        """
        shortest = 2 if self.reads_tables else 1  # a single position has no transition
        with _lock:
            for length in {max(int(length), shortest) for length in np.unique(lengths)}:
                if length not in self._count_forms:
                    self._count_forms[length] = self._count_form(length)
        forms = [self._count_forms[max(int(length), shortest)] for length in np.unique(lengths)]
        first = forms[0] if forms else None
        if first is None or any(form is None or form[0] is not first[0] for form in forms):
            return None
        return first

    def _count_form(self, length: int) -> tuple[FloatArray, ScalarTerms] | None:
        energy = self.bound(length)
        if not isinstance(energy, ScalarTerms) or not isinstance(energy.functions, Penalties):
            return None
        k = self.n_labels
        coefficients = energy.readings.count_coefficients(k + k * k)  # type: ignore[attr-defined]
        if coefficients is None:
            return None
        for form in self._count_forms.values():  # equal coefficients are one object, so that they are compared once
            if form is not None and form[1].functions.same(energy.functions):
                is_equal = np.array_equal(form[0], coefficients) and np.array_equal(form[1].psi_of, energy.psi_of)
                if is_equal:
                    return form
        return coefficients, energy

    def on(self, ptr: IntArray) -> BatchEnergy:
        """Return the energies of a batch of sequences that start at `ptr`, sorted by length."""
        return BatchEnergy(self, ptr)


def find_fixed(members: Sequence[Energy], sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Return whether each weight psi is fixed by the settings of its energy."""
    flags = [member.has_fixed_psi(size) for member, size in zip(members, sizes, strict=True)]
    return np.array([flag for row in flags for flag in row], dtype=bool)


def has_energies(energies: Any) -> bool:
    """Return whether the setting of an estimator has an energy; None and an empty list have none."""
    return energies is not None and not (isinstance(energies, (list, tuple)) and not energies)


def list_energies(energies: Any) -> list[Energy]:
    """Return energies as a list without sums, or raise."""
    listing = [energies] if isinstance(energies, Energy) else energies
    if not isinstance(listing, (list, tuple)) or not listing:
        raise InvalidInputError(
            "energies must be an energy such as at_most_one('title'), or a list of energies, got "
            f"{'an empty list' if isinstance(listing, (list, tuple)) else type(energies).__name__}."
        )
    members: list[Energy] = []
    for i, energy in enumerate(listing):
        if not isinstance(energy, Energy):
            raise InvalidInputError(
                f"energies[{i}] is a {type(energy).__name__}, not an energy. Pass an energy such as "
                f"at_most_one('title') or MeasuredEnergy(Count('verb'), Hinge(1.0, side='below'))."
            )
        members += energy.energies if isinstance(energy, EnergySum) else [energy]
    return members


def check_strengths(psi: FloatArray, remedy: str) -> FloatArray:
    """Return psi, or raise if a weight is too large for the scores."""
    if not (psi <= STRONGEST).all():
        j = int(np.argmin(psi <= STRONGEST))
        raise InvalidInputError(f"energies: psi[{j}] is {psi[j]}. Set psi to at most {STRONGEST:g}; {remedy}.")
    return psi


def bind_members(
    members: Sequence[Energy], sizes: Sequence[int], graph: MarginalLayout, names: Sequence[Any]
) -> BoundEnergy:
    """Return the sum of energies on one graph; a member that is invalid on this graph contributes 0.

    An example is a preference on the fifth word of a sequence of four: new inputs must not make a prediction fail.
    `sizes` are the numbers of weights psi of the members.
    """
    bound: list[BoundEnergy] = []
    for member, size in zip(members, sizes, strict=True):
        try:
            bound.append(member.bind(graph, names))
        except InvalidInputError:
            no_functions = Penalties([], [], [], [])
            no_rows, psi_of = csr_array((0, graph.n_theta)), np.zeros(0, dtype=np.int64)
            bound.append(ScalarTerms(graph, no_rows, no_functions, np.zeros(size), psi_of, size))
    return join_energies(bound)


class BatchEnergy:
    """Energies of the sequences of one batch as functions of a vector of readings (`BoundEnergy.read_rows`).

    Parameters
    ----------
    energies : ChainEnergies
        Energies of every sequence.
    ptr : (n_sequences + 1,) int array
        First position of each sequence; the sequences are sorted by length, shortest first.

    Attributes
    ----------
    starts : (n_sequences + 1,) int array
        First reading of each sequence in a vector of readings.
    counts_labels : bool
        Whether all readings depend only on the number of positions with each label; `read_counts` and `count_scores`
        then work.

    Examples
    --------
    A sequence of one position and one of two; half the square of the number of b minus 1:

    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> from intarsia.energies.functions import Squared
    >>> energies = ChainEnergies(MeasuredEnergy(Count("b"), Squared(1.0)), ["a", "b"], 2)
    >>> batch = BatchEnergy(energies, np.array([0, 1, 3]))
    >>> readings = batch.read_counts(np.array([[1.0, 0.0], [0.0, 2.0]]))              # an a; two b
    >>> values, slopes = batch.judge(readings, psi=np.array([[1.0], [4.0]]))
    >>> readings.tolist(), values.tolist(), slopes.tolist()
    ([0.0, 2.0], [0.5, 2.0], [-1.0, 1.0])
    """

    def __init__(self, energies: ChainEnergies, ptr: IntArray) -> None:
        self.energies = energies
        self.n_sequences = ptr.size - 1
        lengths = np.diff(ptr)
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(lengths)) + 1, [lengths.size]]) if lengths.size else [0]
        self._groups: list[_Group] = []
        widths = np.zeros(self.n_sequences, dtype=np.int64)
        start = 0
        for a, b in pairwise(np.asarray(cuts).tolist()):
            energy = energies.bound(int(lengths[a]))
            width = energy.psi_of_reading.size
            widths[a:b] = width
            positions, block = slice(int(ptr[a]), int(ptr[b])), slice(start, start + width * (b - a))
            self._groups.append(_Group(energy, slice(a, b), positions, block, energy.psi_of_reading))
            start += width * (b - a)
        self.starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.counts_labels = all(group.energy.counts_labels for group in self._groups)
        self._evaluation_groups = _merge_groups(energies, self._groups, lengths) if self.counts_labels else self._groups

    @property
    def size(self) -> int:
        """Length of a vector of readings."""
        return int(self.starts[-1])

    def read(self, nodes: FloatArray, tables: FloatArray | None) -> FloatArray:
        """Return the readings of marginals (n_positions, k) and of expected transitions (n_sequences, k * k)."""
        readings = np.empty(self.size)
        for group in self._groups:
            group.rows_of(readings)[:] = group.energy.read_rows(group.join(nodes, tables))
        return readings

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """Return the readings of expected numbers of labels (n_sequences, k)."""
        readings = np.empty(self.size)
        for group in self._evaluation_groups:
            group.rows_of(readings)[:] = group.energy.read_counts(counts[group.sequences])
        return readings

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """Return the scores (n_sequences, k) that weighted readings subtract at every position of a sequence."""
        scores = np.empty((self.n_sequences, self.energies.n_labels))
        for group in self._evaluation_groups:
            scores[group.sequences] = group.energy.count_scores(group.rows_of(weights))
        return scores

    def judge(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the energies (n_sequences,) with psi (n_sequences, n_psi), and the vector of slopes without psi."""
        values, slopes = np.empty(self.n_sequences), np.empty(self.size)
        for group in self._evaluation_groups:
            rows, sequences = group.rows_of(readings), group.sequences
            values[sequences], row_slopes = group.energy.judge_rows(rows, psi[sequences])
            slopes[group.block] = row_slopes.reshape(-1)
        return values, slopes

    def values(self, readings: FloatArray) -> FloatArray:
        """Return the energies (n_sequences, n_psi) without psi."""
        values = np.zeros((self.n_sequences, self.energies.n_psi))
        for group in self._evaluation_groups:
            values[group.sequences] = group.energy.evaluate(group.rows_of(readings))[0]
        return values

    def subtract(self, weights: FloatArray, scores: FloatArray, nodes: FloatArray, tables: FloatArray | None) -> None:
        """Write to `nodes` the scores of positions minus the weighted readings.

        `tables` are the transitions of each sequence, which are changed in place.
        """
        for group in self._groups:
            rows = group.rows_of(weights)
            source, target = group.join(scores, tables), group.positions_of(nodes)
            if source.shape == target.shape:
                group.energy.subtract_rows(rows, source, target)
                continue
            result, n = np.empty(source.shape), target.shape[1]
            group.energy.subtract_rows(rows, source, result)
            target[:], tables[group.sequences] = result[:, :n], result[:, n:]  # type: ignore[index]

    def strengths(self, psi: FloatArray) -> FloatArray:
        """Return the weight psi of each reading."""
        blocks = [psi[group.sequences][:, group.psi_of].reshape(-1) for group in self._evaluation_groups]
        return np.concatenate([np.empty(0), *blocks])

    def by_psi(self, vector: FloatArray) -> FloatArray:
        """Return the sums (n_sequences, n_psi) of a vector over the readings of each weight psi."""
        totals, n_psi = np.zeros((self.n_sequences, self.energies.n_psi)), self.energies.n_psi
        for group in self._groups:
            key = n_psi * np.arange(group.n)[:, None] + group.psi_of
            sums = np.bincount(key.reshape(-1), vector[group.block], group.n * n_psi)
            totals[group.sequences] = sums.reshape(group.n, -1)
        return totals

    def lipschitz(self, psi: FloatArray) -> FloatArray:
        """Return constants (n_sequences,) of smoothness relative to the negative entropy; NaN if unknown."""
        return self._by_sequence(psi, lambda energy, rows: energy.lipschitz_rows(rows))

    def floor(self, psi: FloatArray) -> FloatArray:
        """Return lower bounds (n_sequences,) of the energies."""
        return self._by_sequence(psi, lambda energy, rows: energy.floor_rows(rows))

    def _by_sequence(self, psi: FloatArray, function: Callable[[BoundEnergy, FloatArray], FloatArray]) -> FloatArray:
        values = np.empty(self.n_sequences)
        for group in self._groups:
            values[group.sequences] = function(group.energy, psi[group.sequences])
        return values


class _Group(NamedTuple):
    """Sequences of equal length: their energy, indices, positions, and block of a vector of readings.

    If the energies depend only on counts of labels, a group may have several lengths.
    """

    energy: BoundEnergy
    sequences: slice
    positions: slice
    block: slice
    psi_of: IntArray

    @property
    def n(self) -> int:
        return int(self.sequences.stop - self.sequences.start)

    def rows_of(self, vector: FloatArray) -> FloatArray:
        """Return a view of the block of this group with one row per sequence."""
        return vector[self.block].reshape(self.n, -1)

    def positions_of(self, nodes: FloatArray) -> FloatArray:
        """Return a view of the values at the positions with one row per sequence."""
        return nodes[self.positions].reshape(self.n, -1)

    def join(self, nodes: FloatArray, tables: FloatArray | None) -> FloatArray:
        """Return rows in the layout of the energy; a view if only labels are read, or there is no transition."""
        rows = self.positions_of(nodes)
        if tables is None or self.energy.layout.n_theta == rows.shape[1]:
            return rows
        return np.concatenate([rows, tables[self.sequences]], axis=1)


def _merge_groups(energies: ChainEnergies, groups: list[_Group], lengths: IntArray) -> list[_Group]:
    """Merge adjacent groups whose energies are the same function of counts, for fewer and larger arrays."""
    result: list[_Group] = []
    last_key = -1
    for group in groups:
        key = energies.representative(int(lengths[group.sequences.start]))
        if result and key == last_key:
            last = result.pop()
            sequences = slice(last.sequences.start, group.sequences.stop)
            positions, block = (
                slice(last.positions.start, group.positions.stop),
                slice(last.block.start, group.block.stop),
            )
            group = _Group(last.energy, sequences, positions, block, last.psi_of)
        result.append(group)
        last_key = key
    return result
