"""Nearness to known outputs: words of a dictionary, counted or letter by letter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number, frozen, read_only
from intarsia._kernels.nearest_counts import find_nearest_counts
from intarsia.energies.binding.bound_energy import BoundEnergy, check_psi
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.binding.linear_maps import subtract_from_all
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


class DistanceToSet(Energy):
    r"""Strength times the distance in the 1-norm to the nearest of a set of known outputs; not convex.

    .. math:: L(\mu) = \psi \min_i \|u_i - U(\mu)\|_1

    With `positional=False`, U sums the variables' marginals: counts of labels (Vilnis2015 Eq. 21). With
    `positional=True` it is the marginals themselves (Eq. 22), and only outputs as long as the graph count; where there
    is none, the energy is 0. On marginals the latter distance is linear, `2 sum_v (1 - mu_v(y_v))`, so that every
    mirror step is a descent.
    The slope is that of the nearest output, the first of several.

    Parameters
    ----------
    outputs : sequence of sequences of labels
        What is known, such as the words of a dictionary.
    positional : bool
        Label by label, or only how many of each.
    psi : float
        Strength.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> near = DistanceToSet(["ab", "ac", "bca"], positional=True, psi=0.5).bind(graph, "abc")
    >>> near.value(graph.statistics([1, 2]))        # "bc" differs from "ac" in one letter
    1.0
    >>> counts = DistanceToSet(["ab", "ac"], positional=False).bind(graph, "abc")
    >>> counts.value(graph.statistics([1, 0]))      # "ba" has the letters of "ab"
    0.0
    """

    convex: ClassVar[bool] = False

    def __init__(self, outputs: Sequence[Sequence[Any]], *, positional: bool = True, psi: float = 1.0) -> None:
        self.outputs = outputs
        self.positional = positional
        self.psi = psi

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """The energy on that graph."""
        check_number(self.psi, "DistanceToSet: psi", low=0.0, high=1e200)
        check_choice(str(bool(self.positional)), ("True", "False"), "DistanceToSet: positional")
        if not len(self.outputs):
            raise InvalidInputError("DistanceToSet: the list of outputs is empty. Give at least one.")
        if self.positional:
            return _PositionalDistance(index.graph, self._labellings(index), float(self.psi))  # type: ignore[arg-type]
        return _CountDistance(index.graph, self._counts(index), float(self.psi))  # type: ignore[arg-type]

    def _labellings(self, index: LabelIndex) -> IntArray:
        """States of the outputs that are as long as the graph."""
        n = index.graph.n_variables
        fitting = [list(output) for output in self.outputs if len(output) == n]
        state_of: dict[Any, IntArray] = {}
        found = np.empty((len(fitting), n), np.int64)
        for i, output in enumerate(fitting):
            for v, label in enumerate(output):
                if label not in state_of:
                    state_of[label] = index.states(label)
                found[i, v] = state_of[label][v]
        return np.unique(found[(found >= 0).all(axis=1)], axis=0)

    def _counts(self, index: LabelIndex) -> FloatArray:
        """How often each state occurs in each output."""
        graph = index.graph
        if graph.n_variables and (graph.n_states != graph.n_states[0]).any():
            raise InvalidInputError(
                "DistanceToSet: counts of labels need variables with the same labels. Use positional=True."
            )
        k = int(graph.n_states[0]) if graph.n_variables else 0
        counts = np.zeros((len(self.outputs), k))
        state_of: dict[Any, int] = {}
        for i, output in enumerate(self.outputs if k else []):
            for label in output:
                if label not in state_of:
                    state_of[label] = int(index.states(label)[0])
                counts[i, state_of[label]] += 1.0
        return np.unique(counts, axis=0)


class _Distance(BoundEnergy):
    """What the two distances share: one strength, and the slope of the nearest output."""

    convex = False
    smooth = False
    floor = 0.0
    reads = "variables"

    def __init__(self, graph: FactorGraph, psi: float) -> None:
        self.graph = graph
        self.psi = check_psi(psi, 1)

    def describe(self) -> None:
        """Nothing depends on psi but its size."""

    def parts(self, mu: FloatArray) -> FloatArray:
        """Distance to the nearest output."""
        return self.judge_rows(self.read_rows(mu[None]), np.ones((1, 1)))[0]

    def gradient(self, mu: FloatArray) -> FloatArray:
        """Slope of L."""
        return self.spread(self.judge(self.read(mu))[1], mu.size)

    def read(self, mu: FloatArray) -> FloatArray:
        """What distances are made of."""
        return self.read_rows(mu[None])[0]

    def judge(self, readings: FloatArray) -> tuple[float, FloatArray]:
        """Distance to the nearest output, times psi."""
        values, slopes = self.judge_rows(readings[None], self.psi[None])
        return float(values[0]), self.psi[0] * slopes[0]

    def spread(self, slope: FloatArray, n: int) -> FloatArray:
        """By the rules for rows."""
        made = np.zeros((1, n))
        self.subtract_rows(-slope[None], made, made)
        return made[0]

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`<slope, direction>`."""
        slope = self.judge_rows(self.read_rows(mu[None]), self.psi[None])[1]
        return (slope * self.read_rows(direction[None])).sum(axis=1)

    def floor_rows(self, psi: FloatArray) -> FloatArray:
        """Nothing lies below 0."""
        return np.zeros(len(psi))

    @property
    @abstractmethod
    def psi_of_reading(self) -> IntArray:
        """One strength for all readings."""

    @abstractmethod
    def read_rows(self, mu: FloatArray) -> FloatArray:
        """What distances are made of."""

    @abstractmethod
    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distances to the nearest outputs."""

    @abstractmethod
    def subtract_rows(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """Scores less weighted readings."""


class _PositionalDistance(_Distance):
    """Distance to labellings of this graph, `min_i 2 sum_v (1 - mu_v(y_iv))` (Vilnis2015 Eq. 22)."""

    def __init__(self, graph: FactorGraph, labellings: IntArray, psi: float) -> None:
        super().__init__(graph, psi)
        self._at = graph.variable_ptr[:-1] + labellings

    @property
    def lipschitz(self) -> float | None:
        """A minimum of linear functions lies below its tangents."""
        return 0.0

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """The same."""
        return np.zeros(len(psi))

    @property
    def psi_of_reading(self) -> IntArray:
        """A reading for each labelling."""
        return np.zeros(len(self._at), dtype=np.int64)

    def read_rows(self, mu: FloatArray) -> FloatArray:
        """Expected number of labels in which the rows agree with each labelling."""
        return np.asarray(mu[:, self._at].sum(axis=2))

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Twice the disagreement with the nearest; its slope is -2 there."""
        slopes = np.zeros(readings.shape)
        if not len(self._at):
            return np.zeros(len(readings)), slopes
        nearest = readings.argmax(axis=1)[:, None]
        np.put_along_axis(slopes, nearest, -2.0, axis=1)
        agreement = np.take_along_axis(readings, nearest, axis=1)[:, 0]
        return 2.0 * psi[:, 0] * np.maximum(self.graph.n_variables - agreement, 0.0), slopes

    def subtract_rows(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """Only the labellings that were the nearest at some time have a weight."""
        if into is not theta:
            into[:] = theta
        row, labelling = np.nonzero(weights)
        np.subtract.at(into, (row[:, None], self._at[labelling]), weights[row, labelling][:, None])


class _CountDistance(_Distance):
    """Distance to vectors of counts, `min_i |U(mu) - u_i|_1` (Vilnis2015 Eq. 21)."""

    def __init__(self, graph: FactorGraph, counts: FloatArray, psi: float) -> None:
        super().__init__(graph, psi)
        # Those as long as the graph first: the 1-norm is at least the difference in length.
        excess = np.abs(counts.sum(axis=1) - graph.n_variables)
        order = np.argsort(excess, kind="stable")
        self._counts, self._excess = frozen(counts[order]), frozen(excess[order])

    @property
    def lipschitz(self) -> float | None:
        """None: there are kinks."""
        return None

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """None."""
        return np.full(len(psi), np.nan)

    @property
    def psi_of_reading(self) -> IntArray:
        """A reading for each label."""
        return np.zeros(self._counts.shape[1], dtype=np.int64)

    def read_rows(self, mu: FloatArray) -> FloatArray:
        """Expected counts U(mu)."""
        n, k = self.graph.n_variables, self._counts.shape[1]
        return np.asarray(mu[:, : n * k].reshape(len(mu), n, k).sum(axis=1))

    def judge_rows(self, readings: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slope is the signs of the differences from the nearest counts."""
        if not self.graph.n_variables:
            return np.zeros(len(readings)), np.zeros(readings.shape)
        nearest, distance = np.empty(len(readings), dtype=np.int64), np.empty(len(readings))
        find_nearest_counts(read_only(readings), self._counts, self._excess, nearest, distance)
        return psi[:, 0] * distance, np.sign(readings - self._counts[nearest])

    @property
    def counts_labels(self) -> bool:
        """It does nothing else, wherever there are labels."""
        return self.graph.n_variables > 0

    def read_counts(self, counts: FloatArray) -> FloatArray:
        """The counts themselves."""
        return counts

    def count_scores(self, weights: FloatArray) -> FloatArray:
        """The weights themselves."""
        return weights

    def subtract_rows(self, weights: FloatArray, theta: FloatArray, into: FloatArray) -> None:
        """The same from every variable."""
        split = self.graph.n_variables * self._counts.shape[1]
        if split < theta.shape[1] and into is not theta:
            into[:, split:] = theta[:, split:]
        subtract_from_all(weights, theta[:, :split], into[:, :split])
