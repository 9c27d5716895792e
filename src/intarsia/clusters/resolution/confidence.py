"""Confidence in entities: posterior probabilities of records and pairs, exact or by Metropolis-Hastings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.clock import Clock
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_number
from intarsia._kernels.correlation_posterior import sample_clusterings, sum_over_clusterings
from intarsia.clusters.resolution.join_problem import JoinProblem, split_components
from intarsia.clusters.resolution.scored_pairs import result_table

if TYPE_CHECKING:
    from intarsia.clusters.resolution.resolve import Resolution

_EXACT_NODES = 10  # largest component whose clusterings are all added up
_SUPPORT = -5.0  # log odds; a pair below joins nobody by itself
_BATCHES = 20


@dataclass(frozen=True, eq=False)
class Confidence(ShownResult):
    """Posterior probabilities of a resolution; the result of `Resolution.confidence`.

    Attributes
    ----------
    records : table or dict
        The ids and entities of `Resolution.table`, "confidence" and "n_effective". The confidence of a record is the
        expected fraction of the other records of its entity that are indeed the same entity as it. For an entity of one
        record it is the probability that this record is alone.
    pairs : table or dict
        The ids in columns with the names of the input, "probability" (of being one entity) and "n_effective", one row
        per scored pair.
    n_samples : int
        Number of sampled clusterings of components with more than 10 records. Smaller components are computed exactly;
        their effective sample size "n_effective" is infinite.
    """

    records: Any = field(repr=False)
    pairs: Any = field(repr=False)
    n_samples: int
    probability: FloatArray = field(repr=False)


def compute_confidence(
    resolution: Resolution, n_samples: int, time_limit: float | None, random_state: int | np.random.Generator
) -> Confidence:
    """Compute the probabilities of a resolution; see `Resolution.confidence`."""
    check_number(n_samples, "n_samples", low=_BATCHES, integer=True)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0, high=np.inf)
    node_of, pairs = resolution.node_of, resolution.pairs
    components = split_components(resolution.problem, _SUPPORT)
    problem, n = components.problem, resolution.problem.n_nodes
    position = np.empty(n, dtype=np.int64)
    position[components.order] = np.arange(n)
    entity_of_node = np.empty(n, dtype=np.int64)
    entity_of_node[position[node_of]] = np.unique(resolution.labels, return_inverse=True)[1]
    posterior = _posterior(
        problem, components.node_ptr, entity_of_node, Clock(time_limit), int(n_samples), as_generator(random_state)
    )
    key = problem.ends[:, 0] * n + problem.ends[:, 1]
    order = np.argsort(key)
    ends = np.sort(position[node_of[pairs.pairs]], axis=1)
    pair_key = ends[:, 0] * n + ends[:, 1]
    place = np.minimum(np.searchsorted(key[order], pair_key), max(len(key) - 1, 0))
    probability, n_effective = np.zeros(len(pair_key)), np.full(len(pair_key), np.inf)
    if len(key):
        edge = order[place]
        inside = key[edge] == pair_key
        probability[inside] = posterior.edge[edge[inside]]
        n_effective[inside] = posterior.edge_effective[edge[inside]]
    probability[ends[:, 0] == ends[:, 1]] = 1.0
    node = position[node_of]
    records = {
        **pairs.record_table(),
        "entity": [pairs.entity_names[k] for k in resolution.labels],
        "confidence": posterior.node[node],
        "n_effective": posterior.node_effective[node],
    }
    rows = {
        **pairs.pair_table(pairs.pairs),
        "probability": probability,
        "n_effective": n_effective,
    }
    return Confidence(
        result_table(records, pairs.kind), result_table(rows, pairs.kind), posterior.n_samples, probability
    )


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Probability of each edge and confidence of each node, with effective sample sizes."""

    edge: FloatArray
    edge_effective: FloatArray
    node: FloatArray
    node_effective: FloatArray
    n_samples: int


def _posterior(
    problem: JoinProblem, node_ptr: IntArray, entity: IntArray, clock: Clock, n_samples: int, rng: np.random.Generator
) -> _Posterior:
    """Compute small components exactly and sample all large ones together, since their moves do not interact."""
    n, m = problem.n_nodes, len(problem.ends)
    support = problem.gains() > _SUPPORT
    sizes = np.diff(node_ptr)
    edge, node = np.zeros(m), np.ones(n)
    edge_effective, node_effective = np.full(m, np.inf), np.full(n, np.inf)
    small = np.flatnonzero(sizes <= _EXACT_NODES)
    sum_over_clusterings(small, node_ptr, entity, support, problem.graph(), edge, node)
    is_large = np.repeat(sizes > _EXACT_NODES, sizes)
    if not is_large.any():
        return _Posterior(edge, edge_effective, node, node_effective, 0)
    nodes, edges = np.flatnonzero(is_large), np.flatnonzero(is_large[problem.ends[:, 0]])
    large_problem = _restrict(problem, is_large, edges)
    labels = np.unique(entity[nodes], return_inverse=True)[1].astype(np.int64)
    edge_series, node_series = _Series(len(edges)), _Series(len(nodes))
    graph, large_entity = large_problem.graph(), labels.copy()
    batch = n_samples // _BATCHES
    for k in range(_BATCHES + 2):  # the first two batches are burn-in
        sums = np.zeros(len(edges)), np.zeros(len(nodes)), np.zeros(len(nodes))
        sample_clusterings(labels, large_entity, large_problem.ends, support[edges], graph, batch, rng, *sums)
        if k >= 2:
            edge_series.add(sums[0], sums[0], batch)
            node_series.add(sums[1], sums[2], batch)
        if clock.expired and edge_series.n_batches >= 2:
            break
    edge[edges], edge_effective[edges] = edge_series.mean, edge_series.n_effective(batch)
    node[nodes], node_effective[nodes] = node_series.mean, node_series.n_effective(batch)
    return _Posterior(edge, edge_effective, node, node_effective, edge_series.n_batches * batch)


class _Series:
    """Means of batches of samples, from which the effective sample size is estimated."""

    def __init__(self, n: int) -> None:
        self.n_batches = 0
        self.total, self.square, self.square_of_means = np.zeros(n), np.zeros(n), np.zeros(n)

    def add(self, total: FloatArray, square: FloatArray, n_samples: int) -> None:
        """Add a batch: sums of values and of their squares."""
        self.n_batches += 1
        self.total += total / n_samples
        self.square += square / n_samples
        self.square_of_means += (total / n_samples) ** 2

    @property
    def mean(self) -> FloatArray:
        """Mean of all samples."""
        return self.total / self.n_batches

    def n_effective(self, n_samples: int) -> FloatArray:
        """Effective sample size: variance of a sample divided by the variance of the mean, by batch means."""
        variance = self.square / self.n_batches - self.mean**2
        between = (self.square_of_means / self.n_batches - self.mean**2) / max(self.n_batches - 1, 1)
        n_total = float(n_samples * self.n_batches)
        ratio = np.divide(variance, between, out=np.full(len(variance), n_total), where=between > 1e-12)
        return np.clip(ratio, 1.0, n_total)


def _restrict(problem: JoinProblem, keep: NDArray[np.bool_], edges: IntArray) -> JoinProblem:
    """Return the problem of some nodes, numbered in their order, and of the edges between them."""
    number = np.cumsum(keep) - 1
    source_ptr, source = problem.source_ptr, problem.source
    if source.size:
        lengths = np.diff(source_ptr)
        source = source[np.repeat(keep, lengths)]
        source_ptr = np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int64)
    return replace(
        problem,
        ends=number[problem.ends[edges]],
        weight=problem.weight[edges],
        size=problem.size[keep],
        source_ptr=source_ptr,
        source=source,
    )
