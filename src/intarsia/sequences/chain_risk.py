"""The regularised negative log-likelihood of labelled sequences, and its gradient in the weights."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import Parcels, run_by_workers, run_in_threads, workers_are_apart
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.learning.minimum import LARGEST_WEIGHT, Part, SummedObjective, largest
from intarsia.models.chain_scores import ChainWeights
from intarsia.sequences.chain_data import ChainExamples, ChainScores, cut_in_chunks

# Each group of chunks has a gradient of its own, whatever the number of workers.
MOST_GROUPS = 8
# Features for each weight that are worth a group, lest the sum of gradients take longer than they do.
GROUP_WORTH = 3


class ChainRisk(SummedObjective):
    r"""The regularised negative log-likelihood of sequences: called with weights, it gives value and gradient.

    .. math:: R(w) = \frac1N \sum_s a_s \bigl(\log Z_s(w) - \log Z_s(w; A_s)\bigr) + \frac r2 \lVert w \rVert^2

    with :math:`A_s` the labels that are known or allowed, :math:`Z_s(w; A_s)` the partition function over them alone,
    and N the weighted number of labelled positions.

    Parameters
    ----------
    examples : ChainExamples
        Labelled sequences.
    ridge : float
        r, relative to the risk per position.
    n_jobs : int, optional
        Threads, or workers of `joblib.parallel_config`; the result does not depend on it.
    chunks : list of (int, int), optional
        Ranges of sequences that are worked at a time; by default as their lengths suggest.

    Examples
    --------
    A single position with labels 0 and 1: at weights of 0 both have probability 1 / 2.

    >>> from intarsia.sequences.chain_data import ChainTruth, make_data
    >>> from intarsia.sequences.tag_schemes import find_constraints
    >>> from intarsia.models.chain_scores import ChainLayout
    >>> data = make_data(np.ones((1, 1)), np.array([0, 1]), None)
    >>> free = find_constraints(np.arange(2), None, None)
    >>> examples = ChainExamples(data, ChainTruth(np.array([1]), None, np.ones(1)), ChainLayout(1, 2, ends=False), free)
    >>> value, gradient = ChainRisk(examples)(np.zeros(6))
    >>> round(value, 4), gradient[:2]
    (0.6931, array([ 0.5, -0.5]))
    """

    def __init__(
        self,
        examples: ChainExamples,
        ridge: float = 0.0,
        n_jobs: int | None = None,
        chunks: list[tuple[int, int]] | None = None,
    ) -> None:
        self.examples = examples
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.mass = examples.mass
        self.n_weights = examples.layout.n_weights
        self._scores = ChainScores(examples.data, examples.layout, examples.constraints)
        self._row_weight = np.repeat(examples.truth.weight, examples.data.lengths)
        self._chunks = cut_in_chunks(examples.data.ptr) if chunks is None else chunks
        n_groups = min(MOST_GROUPS, max(2, examples.data.matrix.size // (GROUP_WORTH * self.n_weights)))
        groups = np.array_split(np.arange(len(self._chunks)), min(n_groups, max(1, len(self._chunks))))
        self._groups = [group.tolist() for group in groups]
        states, ptr = examples.truth.states, examples.data.ptr
        # Where every label of a chunk is known, its observed statistics do not depend on the weights.
        self._known = [bool((states[ptr[a] : ptr[b]] >= 0).all()) for a, b in self._chunks]
        self._observed = self._count()

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.examples)

    @property
    def convexity(self) -> float:
        """That of the ridge, where all labels are known and the likelihood is concave."""
        return self.ridge if all(self._known) else 0.0

    def subset(self, indices: ArrayLike) -> ChainRisk:
        """The risk of some of the sequences, over their own mass and with the same ridge."""
        return ChainRisk(self.examples.subset(indices), self.ridge, self.n_jobs)

    def part(self, indices: ArrayLike) -> Part:
        """The risk of some of the sequences; with sparse features, in the weights of features that they have.

        The work is then that of these sequences, however many weights there are.
        """
        examples = self.examples.subset(indices)
        if isinstance(examples.data.matrix, np.ndarray):
            return Part(ChainRisk(examples, self.ridge, self.n_jobs))
        rows: Any = sparse.csr_array(examples.data.matrix)
        columns, place = np.unique(rows.indices, return_inverse=True)
        matrix = sparse.csr_array((rows.data, place, rows.indptr), shape=(rows.shape[0], columns.size))
        layout, slots = examples.layout.of_features(columns.astype(np.int64))
        fewer = replace(examples, data=replace(examples.data, matrix=matrix), layout=layout)
        return Part(
            ChainRisk(fewer, 0.0, self.n_jobs), slots, 0.5 * self.ridge
        )  # `Part` takes the factor of the full square

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Risk and its gradient at these weights; infinite where they are beyond all reason."""
        if not largest(weights) < LARGEST_WEIGHT:
            return np.inf, np.zeros(self.n_weights)
        if workers_are_apart():
            parts = run_by_workers(self._parcels.calls(_sum, weights), self.n_jobs)
        else:
            table = self._table(weights)
            parts = run_in_threads([partial(self._group, weights, table, group) for group in self._groups], self.n_jobs)
        value, gradient = parts[0][0], parts[0][1].copy()  # what came from elsewhere may not be written to
        for part_value, part_gradient in parts[1:]:
            value += part_value
            gradient += part_gradient
        mass = self.mass or 1.0  # a batch may happen to have no labels
        value = (value - float(weights @ self._observed)) / mass + 0.5 * self.ridge * float(weights @ weights)
        gradient -= self._observed
        gradient /= mass
        gradient += self.ridge * weights
        return value, gradient

    @cached_property
    def _parcels(self) -> Parcels:
        """The groups as they travel to workers, where they stay while weights change."""
        return Parcels([_Group(self.examples, [self._chunks[i] for i in group]) for group in self._groups])

    def sum(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """What all sequences add to the value and to the gradient, besides the statistics that were observed."""
        return self._group(weights, self._table(weights), list(range(len(self._chunks))))

    def _table(self, weights: FloatArray) -> FloatArray:
        return self._scores.features.spread(self.examples.layout.unpack(weights).states)

    def _group(self, weights: FloatArray, table: FloatArray, group: list[int]) -> tuple[float, FloatArray]:
        """What some chunks add to the value and to the gradient."""
        layout, features = self.examples.layout, self._scores.features
        gradient, own_table, value = np.zeros(self.n_weights), features.zeros(), 0.0
        into = layout.unpack(gradient)  # views
        for i in group:
            first, last = self._chunks[i]
            a, b = int(self.examples.data.ptr[first]), int(self.examples.data.ptr[last])
            part_value, own = self._chunk(weights, table, i, into)
            value += part_value
            features.pull_back(own, gradient[: layout.n_states], a, b, own_table)
        features.collect(own_table, gradient[: layout.n_states])
        return value, gradient

    def _chunk(self, weights: FloatArray, table: FloatArray, i: int, into: ChainWeights) -> tuple[float, FloatArray]:
        """Value of a chunk and gradient in the scores of its positions; what else it says is added to `into`."""
        first, last = self._chunks[i]
        data, k = self.examples.data, self.examples.layout.n_labels
        a, b = int(data.ptr[first]), int(data.ptr[last])
        weight = self.examples.truth.weight[first:last]
        batch = self._scores.batch(weights, first, last, table=table)
        log_partition, own, transitions = self._marginals(batch, weight)
        if not self._known[i]:
            log_clamped, own_clamped, transitions_clamped = self._marginals(self._clamped(batch, i), weight)
            log_partition = log_partition - log_clamped
            own, transitions = own - own_clamped, transitions - transitions_clamped
        own *= self._row_weight[a:b, None]
        if batch.has_table_per_step and into.edges is not None:
            steps = np.repeat(weight, data.lengths[first:last] - 1)[:, None] * transitions.reshape(-1, k * k)
            into.edges[:] += (data.edges[a - first : b - last].T @ steps).reshape(-1, k, k)
            transitions = steps.sum(axis=0).reshape(k, k)
        into.transitions[:] += transitions
        if into.start is not None and into.end is not None:
            into.start[:] += own[data.ptr[first:last] - a].sum(axis=0)
            into.end[:] += own[data.ptr[first + 1 : last + 1] - a - 1].sum(axis=0)
        return float(weight @ log_partition), own

    def _marginals(self, batch: ChainBatch, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log Z, marginals, and transitions: summed with weights, or by step where tables differ by step."""
        if batch.has_table_per_step:
            found = chain_marginals(batch, transitions="steps")
        else:
            found = chain_marginals(batch, sequence_weight=weight)
        return found.log_partition, found.nodes, np.asarray(found.transitions)

    def _clamped(self, batch: ChainBatch, i: int) -> ChainBatch:
        first, last = self._chunks[i]
        a, b = self.examples.data.ptr[first], self.examples.data.ptr[last]
        truth, k = self.examples.truth, self.examples.layout.n_labels
        if truth.allowed is None:
            return batch.restricted(truth.states[a:b, None] == np.arange(k))
        return batch.restricted(truth.allowed[a:b])

    def _count(self) -> FloatArray:
        """Observed statistics of the chunks whose labels are all known, weighted."""
        data, truth, layout = self.examples.data, self.examples.truth, self.examples.layout
        k = layout.n_labels
        known = np.repeat(self._known, [data.ptr[b] - data.ptr[a] for a, b in self._chunks]).astype(bool)
        weight = np.where(known, self._row_weight, 0.0)
        shown = np.zeros((known.size, k))
        shown[np.flatnonzero(known), truth.states[known]] = weight[known]
        counts = np.zeros(layout.n_weights)
        into = layout.unpack(counts)  # views
        self._scores.features.pull_back(shown, counts[: layout.n_states], 0, known.size)
        if into.start is not None and into.end is not None:
            into.start[:] = shown[data.ptr[:-1]].sum(axis=0)
            into.end[:] = shown[data.ptr[1:] - 1].sum(axis=0)
        later = np.ones(known.size, dtype=bool)
        later[data.ptr[:-1]] = False
        steps = np.flatnonzero(later)
        own = known[steps]
        pair = truth.states[steps - 1] * k + truth.states[steps]
        amount = weight[steps]
        into.transitions[:] = np.bincount(pair[own], amount[own], k * k).reshape(k, k)
        if into.edges is not None and steps.size:
            flat = into.edges.reshape(-1, k * k)
            np.add.at(flat.T, pair[own], data.edges[own] * amount[own, None])
        return counts


class _Group:
    """Sequences of some chunks; only these travel, and a worker lays out their features itself."""

    def __init__(self, examples: ChainExamples, chunks: list[tuple[int, int]]) -> None:
        self.examples, self.chunks = examples, chunks

    def __reduce__(self) -> tuple[Any, ...]:
        first, last = (self.chunks[0][0], self.chunks[-1][1]) if self.chunks else (0, 0)
        own = self.examples.subset(np.arange(first, last))
        return _Group, (own, [(a - first, b - first) for a, b in self.chunks])

    @cached_property
    def risk(self) -> ChainRisk:
        return ChainRisk(self.examples, chunks=self.chunks)


def _sum(group: _Group, weights: FloatArray) -> tuple[float, FloatArray]:
    return group.risk.sum(weights)
