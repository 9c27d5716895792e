"""Nearness to known outputs: words of a dictionary, counted or letter by letter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from intarsia._validation import FloatArray, IntArray, check_choice, check_number
from intarsia.energies.bound_energy import BoundEnergy, check_psi
from intarsia.energies.energy import Energy
from intarsia.energies.label_index import LabelIndex
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
        for i, output in enumerate(self.outputs):
            for label in output:
                if k:
                    counts[i, index.states(label)[0]] += 1.0
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

    @abstractmethod
    def nearest_rows(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distances (n,) of rows of marginals to their nearest outputs, and their slopes (n, n_theta)."""

    def parts(self, mu: FloatArray) -> FloatArray:
        """Distance to the nearest output."""
        return self.nearest_rows(mu[None])[0]

    def gradient(self, mu: FloatArray) -> FloatArray:
        """Slope of L."""
        return self.psi[0] * self.nearest_rows(mu[None])[1][0]

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`<slope, direction>`."""
        return self.psi_gradient_rows(mu[None], direction[None])[0]

    def floor_rows(self, psi: FloatArray) -> FloatArray:
        """Nothing lies below 0."""
        return np.zeros(len(psi))

    def evaluate_rows(self, mu: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """All rows at once."""
        distances, slopes = self.nearest_rows(mu)
        slopes *= psi
        return psi[:, 0] * distances, slopes

    def psi_gradient_rows(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`<slope, direction>` of each row."""
        return np.einsum("ij,ij->i", self.nearest_rows(mu)[1], direction)[:, None]


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

    def nearest_rows(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slope is -2 at the states of the nearest labelling."""
        slopes = np.zeros(mu.shape)
        if not len(self._at):
            return np.zeros(len(mu)), slopes
        agreement = mu[:, self._at].sum(axis=2)
        nearest = agreement.argmax(axis=1)
        np.put_along_axis(slopes, self._at[nearest], -2.0, axis=1)
        return 2.0 * np.maximum(self.graph.n_variables - agreement.max(axis=1), 0.0), slopes


class _CountDistance(_Distance):
    """Distance to vectors of counts, `min_i |U(mu) - u_i|_1` (Vilnis2015 Eq. 21)."""

    def __init__(self, graph: FactorGraph, counts: FloatArray, psi: float) -> None:
        super().__init__(graph, psi)
        self._counts = counts

    @property
    def lipschitz(self) -> float | None:
        """None: there are kinks."""
        return None

    def lipschitz_rows(self, psi: FloatArray) -> FloatArray:
        """None."""
        return np.full(len(psi), np.nan)

    def nearest_rows(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slope is the signs of the differences from the nearest counts, at every variable."""
        n, slopes = self.graph.n_variables, np.zeros(mu.shape)
        if not n:
            return np.zeros(len(mu)), slopes
        split = int(self.graph.variable_ptr[-1])
        expected = mu[:, :split].reshape(len(mu), n, -1).sum(axis=1)
        distances = cdist(expected, self._counts, "cityblock")
        signs = np.sign(expected - self._counts[distances.argmin(axis=1)])
        slopes[:, :split] = np.tile(signs, n)
        return distances.min(axis=1), slopes
