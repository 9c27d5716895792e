"""Several energies on one graph as one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, vstack

from intarsia._core.validation import FloatArray, IntArray, frozen
from intarsia.energies.binding.bound_energy import READS, BoundEnergy, ScalarTerms
from intarsia.energies.binding.scalar_functions import stack_functions


class BoundSum(BoundEnergy):
    """Sum of energies on the same graph, their strengths one after the other.

    Examples
    --------
    >>> from intarsia.energies.measurements import Count
    >>> from intarsia.energies.functions import Hinge, Squared
    >>> from intarsia.energies.energy import MeasuredEnergy
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> wishes = MeasuredEnergy(Count(1), Hinge(1.0)), MeasuredEnergy(Count(0), Squared(), psi=2.0)
    >>> both = BoundSum([wish.bind(graph) for wish in wishes])
    >>> mu = graph.statistics([1, 1, 0])
    >>> both.psi.tolist(), both.parts(mu).tolist(), both.value(mu)                   # 2 - 1; half of 1; 1 x 1 + 2 x 0.5
    ([1.0, 2.0], [1.0, 0.5], 2.0)
    """

    def __init__(self, members: Sequence[BoundEnergy]) -> None:
        self.members = tuple(members)
        self.graph = self.members[0].graph
        self.reads = max((member.reads for member in self.members), key=READS.index)
        self.psi = frozen(np.concatenate([member.psi for member in self.members]))
        ends = np.cumsum([member.psi.size for member in self.members])
        self._slices = [slice(int(end) - m.psi.size, int(end)) for m, end in zip(self.members, ends, strict=True)]
        widths = [member.psi_of_reading.size for member in self.members]
        self._readings = [slice(int(end) - w, int(end)) for w, end in zip(widths, np.cumsum(widths), strict=True)]
        self._set_shape()

    def _set_shape(self) -> None:
        self.convex = all(member.convex for member in self.members)
        self.smooth = all(member.smooth for member in self.members)
        self.floor = float(sum(member.floor for member in self.members))

    @property
    def lipschitz(self) -> float | None:
        """Sum of the constants, if all are known."""
        total = 0.0
        for member in self.members:
            known = member.lipschitz
            if known is None:
                return None
            total += known
        return total

    def describe(self) -> None:
        """Hand the strengths on."""
        self.members = tuple(
            member.with_psi(self.psi[at]) for member, at in zip(self.members, self._slices, strict=True)
        )
        self._set_shape()

    def parts(self, mu: FloatArray) -> FloatArray:
        """Values of all preferences."""
        return np.concatenate([member.parts(mu) for member in self.members])

    def gradient(self, mu: FloatArray) -> FloatArray:
        """Sum of the slopes."""
        return np.sum([member.gradient(mu) for member in self.members], axis=0)

    def read(self, mu: FloatArray) -> FloatArray:
        """Readings of the members, one after the other."""
        return np.concatenate([member.read(mu) for member in self.members])

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """Sum of the values, and slopes one after the other."""
        found = [member.judge(readings[own]) for member, own in zip(self.members, self._readings, strict=True)]
        return float(sum(value for value, _ in found)), np.concatenate([slope for _, slope in found])

    def spread(self, slope: FloatArray, n: int) -> FloatArray:
        """Sum of what the members spread."""
        each = zip(self.members, self._readings, strict=True)
        return np.sum([member.spread(slope[own], n) for member, own in each], axis=0)

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """One after the other."""
        return np.concatenate([member.psi_gradient(mu, direction) for member in self.members])

    @property
    def psi_of_reading(self) -> IntArray:
        """Readings of the members, one after the other."""
        return np.concatenate([m.psi_of_reading + at.start for m, at in zip(self.members, self._slices, strict=True)])

    def read_rows(self, mu: FloatArray) -> FloatArray:
        """Readings of the members, one after the other."""
        return np.concatenate([member.read_rows(mu) for member in self.members], axis=1)

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of the values, and slopes one after the other."""
        found = [
            member.judge_rows(readings[:, own], psi[:, at])
            for member, at, own in zip(self.members, self._slices, self._readings, strict=True)
        ]
        return np.sum([value for value, _ in found], axis=0), np.concatenate([slope for _, slope in found], axis=1)

    def subtract_rows(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """Each member takes its own."""
        for member, own in zip(self.members, self._readings, strict=True):
            member.subtract_rows(weights[:, own], theta, into)
            theta = into

    @property
    def counts_labels(self) -> bool:
        """Whether all members only count."""
        return all(member.counts_labels for member in self.members)

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """Readings of the members, one after the other."""
        return np.concatenate([member.read_counts(counts) for member in self.members], axis=1)

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """Sum of what the members take."""
        each = zip(self.members, self._readings, strict=True)
        return np.sum([member.count_scores(weights[:, own]) for member, own in each], axis=0)

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """Sums, where all are known."""
        found = [member.lipschitz_rows(psi[:, at]) for member, at in zip(self.members, self._slices, strict=True)]
        return np.sum(found, axis=0)

    def floor_rows(self, psi: FloatArray) -> FloatArray:
        """Sums."""
        found = [member.floor_rows(psi[:, at]) for member, at in zip(self.members, self._slices, strict=True)]
        return np.sum(found, axis=0)

    @property
    def terms(self) -> ScalarTerms | None:
        """All terms in one, if every member has some."""
        found = [terms for member in self.members if (terms := member.terms) is not None]
        return join_terms(found) if len(found) == len(self.members) else None


def join_terms(members: Sequence[ScalarTerms]) -> ScalarTerms:
    """One set of terms from several on the same graph."""
    starts = np.concatenate([[0], np.cumsum([member.psi.size for member in members])])
    return ScalarTerms(
        members[0].graph,
        csr_array(vstack([member.measurements for member in members], format="csr")),
        stack_functions([member.functions for member in members]),
        np.concatenate([member.psi for member in members]),
        np.concatenate([member.psi_of + start for member, start in zip(members, starts, strict=False)]),
        int(starts[-1]),
    )


def join_energies(members: Sequence[BoundEnergy]) -> BoundEnergy:
    """Sum of bound energies; neighbours that are scalar terms become one matrix, so that a sum costs one product."""
    flat: list[BoundEnergy] = []
    for member in members:
        flat.extend(member.members if isinstance(member, BoundSum) else [member])
    merged: list[BoundEnergy] = []
    for is_terms, group in itertools.groupby(flat, lambda member: isinstance(member, ScalarTerms)):
        same = list(group)
        merged += [join_terms(same)] if is_terms and len(same) > 1 else same  # type: ignore[arg-type]
    return merged[0] if len(merged) == 1 else BoundSum(merged)
