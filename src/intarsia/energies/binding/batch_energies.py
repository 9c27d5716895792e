"""Energies bound to many sequences or graphs at once, evaluated for all of one length together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.label_index import ChainShape, MarginalLayout
from intarsia.energies.binding.scalar_terms import Penalties, ScalarTerms
from intarsia.energies.energy import Energy, EnergySum, join_energies
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph

# Tilts stay far below the largest score there may be.
STRONGEST = 1e9


class ChainEnergies:
    """A sum of energies as sequences of any length have it.

    Parameters
    ----------
    energies : Energy or sequence of Energy
        What is wanted of every sequence.
    names : sequence
        Labels, in the order of the columns of a batch.
    length : int
        A length at which all of them make sense: that of the longest sequence known.

    Attributes
    ----------
    psi : (n_psi,) float array
        The energies' own strengths.
    reads_tables : bool
        Whether expected transitions are looked at, or labels only.
    convex, smooth : bool
        As `BoundEnergy` says, for any strengths.

    Raises
    ------
    InvalidInputError
        An energy names a label that is not there, is none, or is infinitely strong.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> energies = ChainEnergies([MeasuredEnergy(Count("b"), Hinge(1.0), psi=2.0)], ["a", "b"], 3)
    >>> both = energies.on(np.array([0, 2, 5]))                     # two sequences, all b
    >>> counts = both.read(np.tile([0.0, 1.0], (5, 1)), None)
    >>> counts, both.judge(counts, np.full((2, 1), 2.0))[0]         # 2 (2 - 1), 2 (3 - 1)
    (array([2., 3.]), array([2., 4.]))
    """

    def __init__(self, energies: Energy | Sequence[Energy], names: Sequence[Any], length: int) -> None:
        self.members = list_energies(energies)
        self.names, self.length = list(names), max(int(length), 2)
        self._bound: dict[int, BoundEnergy] = {}
        shape = ChainShape(self.length, len(self.names), has_table=True)
        each = [member.bind(shape, self.names) for member in self.members]
        self.sizes = [one.psi.size for one in each]
        joined = join_energies(each)
        self.reads_tables = joined.reads != "variables"
        self.psi = check_strengths(joined.psi, "for hard constraints of sequences use forbidden= and scheme=")
        usual = joined.with_psi(np.ones(self.psi.size))
        self.convex, self.smooth = usual.convex, usual.smooth

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.names)

    @property
    def n_psi(self) -> int:
        """Number of strengths."""
        return self.psi.size

    def bound(self, length: int) -> BoundEnergy:
        """The energy of sequences of one length; a member that cannot be of this length counts nothing there."""
        if length not in self._bound:
            self._bound[length] = bind_members(
                self.members, self.sizes, ChainShape(length, self.n_labels, self.reads_tables), self.names
            )
        return self._bound[length]

    def on(self, ptr: IntArray) -> BatchEnergy:
        """The energies of a batch of sequences, none shorter than the one before, that begin at `ptr`."""
        return BatchEnergy(self, ptr)


def list_energies(given: Any) -> list[Energy]:
    """Energies as a list of single ones, checked."""
    listed = [given] if isinstance(given, Energy) else given
    if not isinstance(listed, (list, tuple)) or not listed:
        raise InvalidInputError(
            "energies must be an energy such as at_most_one('title'), or a list of some, got "
            f"{'an empty list' if isinstance(listed, (list, tuple)) else type(given).__name__}."
        )
    found: list[Energy] = []
    for i, one in enumerate(listed):
        if not isinstance(one, Energy):
            raise InvalidInputError(
                f"energies[{i}] is a {type(one).__name__}, not an energy. Give such as at_most_one('title') or "
                f"MeasuredEnergy(Count('verb'), Hinge(1.0, side='below'))."
            )
        found += one.energies if isinstance(one, EnergySum) else [one]
    return found


def check_strengths(psi: FloatArray, remedy: str) -> FloatArray:
    """Return strengths that are not too large for tilts, or raise."""
    if not (psi <= STRONGEST).all():
        j = int(np.argmin(psi <= STRONGEST))
        raise InvalidInputError(f"energies: psi[{j}] is {psi[j]}. Give at most {STRONGEST:g}; {remedy}.")
    return psi


def bind_members(
    members: Sequence[Energy], sizes: Sequence[int], graph: MarginalLayout, names: Sequence[Any]
) -> BoundEnergy:
    """The sum of energies on one graph; a member that makes no sense there counts nothing.

    Such as a wish about the fifth word of four: inputs to come must not make a prediction fail. `sizes` are the numbers
    of strengths.
    """
    bound: list[BoundEnergy] = []
    for member, size in zip(members, sizes, strict=True):
        try:
            bound.append(member.bind(graph, names))
        except InvalidInputError:
            none = Penalties([], [], [], [])
            nothing, psi_of = csr_array((0, graph.n_theta)), np.zeros(0, dtype=np.int64)
            bound.append(ScalarTerms(graph, nothing, none, np.zeros(size), psi_of, size))
    return join_energies(bound)


class BatchEnergy:
    """Energies of the sequences of one batch, over vectors of readings: what they look at in mu (`read_rows`).

    Parameters
    ----------
    energies : ChainEnergies
        What is wanted.
    ptr : (n_sequences + 1,) int array
        Where the sequences begin; no sequence is shorter than the one before.

    Attributes
    ----------
    starts : (n_sequences + 1,) int array
        Where the readings of each sequence begin in a vector.
    counts_labels : bool
        Whether all readings tell how many positions have each label; then `read_counts` and `count_scores` work.

    Examples
    --------
    A sequence of one position and one of two; half the square of the number of b less 1:

    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> from intarsia.energies.functions import Squared
    >>> energies = ChainEnergies(MeasuredEnergy(Count("b"), Squared(1.0)), ["a", "b"], 2)
    >>> both = BatchEnergy(energies, np.array([0, 1, 3]))
    >>> readings = both.read_counts(np.array([[1.0, 0.0], [0.0, 2.0]]))              # an a; two b
    >>> values, slopes = both.judge(readings, psi=np.array([[1.0], [4.0]]))
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
        at = 0
        for a, b in pairwise(np.asarray(cuts).tolist()):
            energy = energies.bound(int(lengths[a]))
            width = energy.psi_of_reading.size
            widths[a:b] = width
            rows, part = slice(a, b), slice(at, at + width * (b - a))
            self._groups.append(_Group(energy, rows, slice(int(ptr[a]), int(ptr[b])), part, energy.psi_of_reading))
            at += width * (b - a)
        self.starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.counts_labels = all(group.energy.counts_labels for group in self._groups)
        self._judges = _joined(self._groups) if self.counts_labels else self._groups

    @property
    def size(self) -> int:
        """Length of a vector of readings."""
        return int(self.starts[-1])

    def read(self, nodes: FloatArray, tables: FloatArray | None) -> FloatArray:
        """Readings of marginals (n_positions, k) and, where tables are read, transitions (n_sequences, k * k)."""
        found = np.empty(self.size)
        for group in self._groups:
            found[group.part].reshape(group.n, -1)[:] = group.energy.read_rows(group.join(nodes, tables))
        return found

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """Readings of expected numbers of labels (n_sequences, k)."""
        found = np.empty(self.size)
        for group in self._judges:
            found[group.part].reshape(group.n, -1)[:] = group.energy.read_counts(counts[group.rows])
        return found

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """What the readings' vectors with these weights take from every position of a sequence, (n_sequences, k)."""
        found = np.empty((self.n_sequences, self.energies.n_labels))
        for group in self._judges:
            found[group.rows] = group.energy.count_scores(weights[group.part].reshape(group.n, -1))
        return found

    def judge(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energies (n_sequences,) with strengths (n_sequences, n_psi), and the vector of slopes without strengths."""
        values, slopes = np.empty(self.n_sequences), np.empty(self.size)
        for group in self._judges:
            rows = readings[group.part].reshape(group.n, -1)
            values[group.rows], own = group.energy.judge_rows(rows, psi[group.rows])
            slopes[group.part] = own.reshape(-1)
        return values, slopes

    def subtract(self, weights: FloatArray, scores: FloatArray, nodes: FloatArray, tables: FloatArray | None) -> None:
        """Write to `nodes` the scores of positions less the readings' vectors with these weights.

        `tables` are those of each sequence; what is taken from transitions is taken from them in place.
        """
        for group in self._groups:
            own = weights[group.part].reshape(group.n, -1)
            before, after = group.join(scores, tables), group.positions(nodes)
            if before.shape == after.shape:
                group.energy.subtract_rows(own, before, after)
                continue
            both = np.empty(before.shape)
            group.energy.subtract_rows(own, before, both)
            after[:], tables[group.rows] = both[:, : after.shape[1]], both[:, after.shape[1] :]  # type: ignore[index]

    def strengths(self, psi: FloatArray) -> FloatArray:
        """The strength of each reading."""
        parts = [psi[group.rows][:, group.psi_of].reshape(-1) for group in self._judges]
        return np.concatenate([np.empty(0), *parts])

    def by_psi(self, vector: FloatArray) -> FloatArray:
        """Sums (n_sequences, n_psi) of a vector over the readings of each strength."""
        found = np.zeros((self.n_sequences, self.energies.n_psi))
        for group in self._groups:
            rows = vector[group.part].reshape(group.n, -1)
            key = self.energies.n_psi * np.arange(group.n)[:, None] + group.psi_of
            sums = np.bincount(key.reshape(-1), rows.reshape(-1), group.n * self.energies.n_psi)
            found[group.rows] = sums.reshape(group.n, -1)
        return found

    def lipschitz(self, psi: FloatArray) -> FloatArray:
        """Constants (n_sequences,) of smoothness relative to the negative entropy; NaN where none is known."""
        return self._each(psi, lambda energy, own: energy.lipschitz_rows(own))

    def floor(self, psi: FloatArray) -> FloatArray:
        """Lower bounds (n_sequences,) on the energies."""
        return self._each(psi, lambda energy, own: energy.floor_rows(own))

    def _each(self, psi: FloatArray, ask: Callable[[BoundEnergy, FloatArray], FloatArray]) -> FloatArray:
        found = np.empty(self.n_sequences)
        for group in self._groups:
            found[group.rows] = ask(group.energy, psi[group.rows])
        return found


class _Group(NamedTuple):
    """Sequences of one length: their energy, numbers, positions, and part of a vector of readings.

    Where labels are counted only, several lengths may make a group.
    """

    energy: BoundEnergy
    rows: slice
    where: slice
    part: slice
    psi_of: IntArray

    @property
    def n(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def positions(self, nodes: FloatArray) -> FloatArray:
        """What stands at the positions of each sequence, a row each; a view."""
        return nodes[self.where].reshape(self.n, -1)

    def join(self, nodes: FloatArray, tables: FloatArray | None) -> FloatArray:
        """Rows as the energy's graph lays them out: a view where only labels are read, or there is no step."""
        own = self.positions(nodes)
        if tables is None or self.energy.layout.n_theta == own.shape[1]:
            return own
        return np.concatenate([own, tables[self.rows]], axis=1)


def _joined(groups: list[_Group]) -> list[_Group]:
    """The same with neighbours in one whose energies are the same functions of counts: fewer, larger arrays."""
    made: list[_Group] = []
    for group in groups:
        if made and made[-1].energy.counts_like(group.energy):
            last = made.pop()
            rows, where = slice(last.rows.start, group.rows.stop), slice(last.where.start, group.where.stop)
            group = _Group(last.energy, rows, where, slice(last.part.start, group.part.stop), last.psi_of)
        made.append(group)
    return made


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
