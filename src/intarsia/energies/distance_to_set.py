"""Distance to a set of known outputs, such as words of a dictionary, by label counts or label by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number, frozen, read_only
from intarsia._kernels.nearest_counts import find_nearest_counts
from intarsia.energies.binding.bound_energy import BoundEnergy, Readings
from intarsia.energies.binding.label_index import LabelIndex, MarginalLayout, subtract_from_all
from intarsia.energies.energy import Energy, check_weight
from intarsia.exceptions import InvalidInputError


class DistanceToSet(Energy):
    r"""Weight psi times the 1-norm distance to the nearest of a set of known outputs; not convex.

    .. math:: L(\mu) = \psi \min(\min_i \|u_i - U(\mu)\|_1, cap)

    With `positional=False`, U sums the marginals of all variables: counts of labels (Vilnis2015 Eq. 21). With
    `positional=True`, U is the marginals themselves (Eq. 22), and only outputs of the length of the graph are used; if
    there is none, the energy is 0. The positional distance of marginals is linear, `2 sum_v (1 - mu_v(y_v))`, so every
    mirror step lowers the objective. The slope is that of the nearest output, the first one in case of a tie.

    Inference under the energy finds a local minimum. `ChainCRF(decode="penalized_map")` finds the best labelling under
    the positional energy exactly, by one Viterbi pass for each output of the length of the sequence.

    Parameters
    ----------
    outputs : sequence of sequences of labels
        Known outputs, such as the words of a dictionary.
    positional : bool
        Compare label by label, or only the counts of labels.
    psi : float
        Weight psi at the start of learning.
    strength : float, optional
        Fixed weight psi, which is not learned and replaces `psi`.
    cap : float, optional
        Largest distance; None means no limit. The penalty is then at most `psi * cap`, and outputs that are farther
        from all members are not pulled towards any. Set it if outputs need not be in the set, such as words that are
        not in the dictionary. Each wrong label is a distance of 2.
    title : str, optional
        Name of the energy in tables such as `strengths_`.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> words = DistanceToSet(["ab", "ac", "bca"], positional=True, psi=0.5).bind(graph, "abc")
    >>> words.value(graph.statistics([1, 2]))        # "bc" differs from "ac" in one letter
    1.0
    >>> counts = DistanceToSet(["ab", "ac"], positional=False).bind(graph, "abc")
    >>> counts.value(graph.statistics([1, 0]))      # "ba" has the letters of "ab"
    0.0
    >>> known = DistanceToSet(["ab"], cap=3.0).bind(graph, "abc")
    >>> known.value(graph.statistics([1, 2]))       # two letters differ, a distance of 4
    3.0
    """

    convex: ClassVar[bool] = False

    def __init__(
        self,
        outputs: Sequence[Sequence[Any]],
        *,
        positional: bool = True,
        psi: float = 1.0,
        strength: float | None = None,
        cap: float | None = None,
        title: str | None = None,
    ) -> None:
        self.outputs = outputs
        self.positional = positional
        self.psi = psi
        self.strength = strength
        self.cap = cap
        self.title = title

    @property
    def display_name(self) -> str:
        """Title of the energy, or the number of outputs."""
        return f"DistanceToSet({len(self.outputs)} outputs)" if self.title is None else str(self.title)

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the energy on the graph of the index."""
        psi = check_weight(self, high=1e200)
        check_choice(str(bool(self.positional)), ("True", "False"), "DistanceToSet: positional")
        if not len(self.outputs):
            raise InvalidInputError("DistanceToSet: the list of outputs is empty. Pass at least one output.")
        if self.cap is not None:
            check_number(self.cap, "DistanceToSet: cap", low=0.0, open_low=True)
        cap = np.inf if self.cap is None else float(self.cap)
        if self.positional:
            return _PositionalDistance(index.layout, self.labellings(index), psi, cap)
        return _CountDistance(index.layout, self._counts(index), psi, cap)

    def labellings(self, index: LabelIndex) -> IntArray:
        """Return the states of the outputs that have the length of the graph."""
        n = index.layout.n_variables
        outputs = [list(output) for output in self.outputs if len(output) == n]
        state_of: dict[Any, IntArray] = {}
        states = np.empty((len(outputs), n), np.int64)
        for i, output in enumerate(outputs):
            for v, label in enumerate(output):
                if label not in state_of:
                    state_of[label] = index.states(label)
                states[i, v] = state_of[label][v]
        return np.unique(states[(states >= 0).all(axis=1)], axis=0)

    def _counts(self, index: LabelIndex) -> FloatArray:
        """Return how often each state occurs in each output."""
        layout = index.layout
        if layout.n_variables and (layout.n_states != layout.n_states[0]).any():
            raise InvalidInputError(
                "DistanceToSet: counts of labels need variables with equal labels. Use positional=True."
            )
        k = int(layout.n_states[0]) if layout.n_variables else 0
        counts = np.zeros((len(self.outputs), k))
        state_of: dict[Any, int] = {}
        for i, output in enumerate(self.outputs if k else []):
            for label in output:
                if label not in state_of:
                    state_of[label] = int(index.states(label)[0])
                counts[i, state_of[label]] += 1.0
        return np.unique(counts, axis=0)


class _PositionalDistance(BoundEnergy):
    """Distance to labellings of one graph, `min_i 2 sum_v (1 - mu_v(y_iv))` (Vilnis2015 Eq. 22).

    A minimum of linear functions lies below its tangents, so the constant of smoothness is 0.
    """

    def __init__(self, layout: MarginalLayout, labellings: IntArray, psi: float, cap: float) -> None:
        self._cap = cap
        readings = _Agreements(layout.variable_ptr[:-1] + labellings)
        super().__init__(layout, psi, readings=readings, reads="variables", convex=False, smooth=False, lipschitz=0.0)

    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return twice the expected disagreement with the nearest labelling; its slope is -2 at that labelling."""
        slopes = np.zeros(readings.shape)
        if not readings.shape[1]:
            return np.zeros((len(readings), 1)), slopes
        nearest = readings.argmax(axis=1)[:, None]
        np.put_along_axis(slopes, nearest, -2.0, axis=1)
        agreement = np.take_along_axis(readings, nearest, axis=1)
        return _limit(2.0 * np.maximum(self.layout.n_variables - agreement, 0.0), slopes, self._cap)

    def hessian_diagonal(self, readings: FloatArray) -> FloatArray:
        """Return zeros, as the distance is linear between its kinks."""
        return np.zeros(readings.shape)

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return zeros, as the distance is linear between its kinks."""
        return np.zeros(readings.size)


def _limit(distances: FloatArray, slopes: FloatArray, cap: float) -> tuple[FloatArray, FloatArray]:
    """Return distances of at most the cap, with slopes of 0 where they were above it."""
    return np.minimum(distances, cap), np.where(distances > cap, 0.0, slopes) if np.isfinite(cap) else slopes


class _Agreements(Readings):
    """Expected number of variables whose label agrees with each of several labellings.

    Faster than a sparse matrix, because only the labellings that were the nearest at some step have a weight.
    """

    def __init__(self, entries: IntArray) -> None:
        self.entries = entries
        self.size = len(entries)

    def measure(self, mu: FloatArray) -> FloatArray:
        """Return the expected agreements."""
        return np.asarray(mu[..., self.entries].sum(axis=-1))

    def subtract(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Subtract the weight of each labelling from the scores of its labels."""
        if out is not theta:
            out[...] = theta
        scores, by_row = np.atleast_2d(out), np.atleast_2d(weights)
        row, labelling = np.nonzero(by_row)
        np.subtract.at(scores, (row[:, None], self.entries[labelling]), by_row[row, labelling][:, None])


class _CountDistance(BoundEnergy):
    """Distance to vectors of counts, `min_i |U(mu) - u_i|_1` (Vilnis2015 Eq. 21)."""

    def __init__(self, layout: MarginalLayout, counts: FloatArray, psi: float, cap: float) -> None:
        self._cap = cap
        # Outputs of the length of the graph come first: the 1-norm is at least the difference in length.
        excess = np.abs(counts.sum(axis=1) - layout.n_variables)
        order = np.argsort(excess, kind="stable")
        self._counts, self._excess = frozen(counts[order]), frozen(excess[order])
        readings = _LabelCounts(layout.n_variables, counts.shape[1])
        super().__init__(layout, psi, readings=readings, reads="variables", convex=False, smooth=False)

    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return distances to the nearest counts; the slopes are the signs of the differences from them."""
        if not self.layout.n_variables:
            return np.zeros((len(readings), 1)), np.zeros(readings.shape)
        nearest, distance = np.empty(len(readings), dtype=np.int64), np.empty(len(readings))
        find_nearest_counts(read_only(readings), self._counts, self._excess, nearest, distance)
        return _limit(distance[:, None], np.sign(readings - self._counts[nearest]), self._cap)

    def hessian_diagonal(self, readings: FloatArray) -> FloatArray:
        """Return zeros, as the distance is linear between its kinks."""
        return np.zeros(readings.shape)

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return zeros, as the distance is linear between its kinks."""
        return np.zeros(readings.size)


class _LabelCounts(Readings):
    """Expected numbers of variables with each label."""

    def __init__(self, n_variables: int, n_labels: int) -> None:
        self.n_variables, self.size = n_variables, n_labels
        self.counts_only = n_variables > 0

    def measure(self, mu: FloatArray) -> FloatArray:
        """Return the sum of the marginals of all variables."""
        n, k = self.n_variables, self.size
        return np.asarray(mu[..., : n * k].reshape(*mu.shape[:-1], n, k).sum(axis=-2))

    def subtract(self, weights: FloatArray, theta: FloatArray, out: FloatArray) -> None:
        """Subtract the weights of the labels from the scores of every variable."""
        n_nodes = self.n_variables * self.size
        if n_nodes < theta.shape[-1] and out is not theta:
            out[..., n_nodes:] = theta[..., n_nodes:]
        subtract_from_all(weights, theta[..., :n_nodes], out[..., :n_nodes])

    def measure_counts(self, counts: FloatArray) -> FloatArray:
        """Return the counts."""
        return counts

    def spread_counts(self, weights: FloatArray) -> FloatArray:
        """Return the weights."""
        return weights
