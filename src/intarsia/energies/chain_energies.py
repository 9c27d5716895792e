"""Energies of many sequences at once: bound once for every length, worked out for all sequences of that length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from intarsia._validation import FloatArray, IntArray
from intarsia.energies.bound_energy import BoundEnergy, ScalarTerms, join_energies
from intarsia.energies.energy import Energy, EnergySum
from intarsia.energies.scalar_functions import Penalties
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph, chain_graph, from_edges

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
    >>> from intarsia.energies import Count, Hinge, MeasuredEnergy
    >>> energies = ChainEnergies([MeasuredEnergy(Count("b"), Hinge(1.0), psi=2.0)], ["a", "b"], 3)
    >>> both = energies.on(np.array([0, 2, 5]))                     # two sequences, all b
    >>> both.evaluate(np.tile([0.0, 1.0], 5), np.full((2, 1), 2.0))[0]      # 2 (2 - 1), 2 (3 - 1)
    array([2., 4.])
    """

    def __init__(self, energies: Energy | Sequence[Energy], names: Sequence[Any], length: int) -> None:
        self.members = list_energies(energies)
        self.names, self.length = list(names), max(int(length), 2)
        self._bound: dict[int, BoundEnergy] = {}
        graph = chain_graph(self.length, len(self.names), shared=True)
        each = [member.bind(graph, self.names) for member in self.members]
        self.sizes = [one.psi.size for one in each]
        joined = join_energies(each)
        self.reads_tables = joined.reads != "variables"
        self.psi = joined.psi
        if not (self.psi <= STRONGEST).all():
            j = int(np.argmin(self.psi <= STRONGEST))
            raise InvalidInputError(
                f"energies: psi[{j}] is {self.psi[j]}. Give at most {STRONGEST:g}; for hard constraints of sequences "
                f"use forbidden= and scheme=."
            )
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
            graph = self._graph(length)
            self._bound[length] = join_energies([self._bind(i, graph) for i in range(len(self.members))])
        return self._bound[length]

    def _bind(self, i: int, graph: FactorGraph) -> BoundEnergy:
        try:
            return self.members[i].bind(graph, self.names)
        except InvalidInputError:
            # Such as a wish about the fifth word of four. Sequences to come must not make a tagger fail.
            nothing, size = csr_array((0, graph.n_theta)), self.sizes[i]
            none = Penalties([], [], [], [])
            return ScalarTerms(graph, nothing, none, np.zeros(size), np.zeros(0, dtype=np.int64), size)

    def _graph(self, length: int) -> FactorGraph:
        if self.reads_tables:
            return chain_graph(length, self.n_labels, shared=True)
        return from_edges(self.n_labels, [], n_variables=length)

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


class BatchEnergy:
    """Energies of the sequences of one batch, over flat vectors.

    A vector holds what mu has of labels, (n_positions, n_labels), and, where energies read them, the expected
    transitions of each sequence, (n_sequences, n_labels, n_labels), one after the other.

    Parameters
    ----------
    energies : ChainEnergies
        What is wanted.
    ptr : (n_sequences + 1,) int array
        Where the sequences begin; no sequence is shorter than the one before.
    """

    def __init__(self, energies: ChainEnergies, ptr: IntArray) -> None:
        k = energies.n_labels
        self.energies = energies
        self.n_sequences, self.split = ptr.size - 1, int(ptr[-1]) * k
        self.n_pairs = k * k if energies.reads_tables else 0
        self.size = self.split + self.n_sequences * self.n_pairs
        lengths = np.diff(ptr)
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(lengths)) + 1, [lengths.size]]) if lengths.size else [0]
        self._groups = [
            (energies.bound(int(lengths[a])), int(a), int(b), int(ptr[a]) * k, int(ptr[b]) * k)
            for a, b in pairwise(cuts)
        ]

    def evaluate(self, mu: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energies (n_sequences,) and the vector of their slopes, with strengths (n_sequences, n_psi)."""
        values, slopes = np.empty(self.n_sequences), np.empty(self.size)
        tables = slopes[self.split :].reshape(self.n_sequences, self.n_pairs)
        for energy, a, b, low, high in self._groups:
            rows = self._rows(mu, energy, a, b, low, high)
            values[a:b], found = energy.evaluate_rows(rows, psi[a:b])
            own = (high - low) // (b - a)
            slopes[low:high].reshape(b - a, own)[:] = found[:, :own]
            tables[a:b] = found[:, own:] if found.shape[1] > own else 0.0
        return values, slopes

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`<grad l_j(mu), direction>` (n_sequences, n_psi) of all preferences; see `BoundEnergy.psi_gradient`."""
        found = np.empty((self.n_sequences, self.energies.n_psi))
        for energy, a, b, low, high in self._groups:
            rows = self._rows(mu, energy, a, b, low, high)
            found[a:b] = energy.psi_gradient_rows(rows, self._rows(direction, energy, a, b, low, high))
        return found

    def lipschitz(self, psi: FloatArray) -> FloatArray:
        """Constants (n_sequences,) of smoothness relative to the negative entropy; NaN where none is known."""
        return self._each(psi, lambda energy, own: energy.lipschitz_rows(own))

    def floor(self, psi: FloatArray) -> FloatArray:
        """Lower bounds (n_sequences,) on the energies."""
        return self._each(psi, lambda energy, own: energy.floor_rows(own))

    def _each(self, psi: FloatArray, ask: Callable[[BoundEnergy, FloatArray], FloatArray]) -> FloatArray:
        found = np.empty(self.n_sequences)
        for energy, a, b, _, _ in self._groups:
            found[a:b] = ask(energy, psi[a:b])
        return found

    def _rows(self, vector: FloatArray, energy: BoundEnergy, a: int, b: int, low: int, high: int) -> FloatArray:
        """The vector's part of some sequences of one length, a row each, as their graph lays it out."""
        own = vector[low:high].reshape(b - a, -1)
        if energy.graph.n_theta == own.shape[1]:  # only labels are read, or there is no step
            return own
        tables = vector[self.split :].reshape(self.n_sequences, self.n_pairs)
        return np.concatenate([own, tables[a:b]], axis=1)
