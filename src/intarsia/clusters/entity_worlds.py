"""Worlds of an `EntityClusterer`: one of all records to learn in, one of each batch to search in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._validation import FloatArray, IntArray
from intarsia.clusters.batches import Batch
from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.metric import MetricFunction, PartitionMetric
from intarsia.clusters.pair_features import pair_features
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.world import ClusterWorld

MATCH, PAIR = "match", "pair"
# Proposals of one call, so that Ctrl-C is heeded.
_CHUNK = 10_000
# Proposals between two samples, for each record, and those before the first.
_BETWEEN, _BEFORE = 5, 50


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """Weights, the model whose features they weigh, and the names of the pair features it reads."""

    weights: FloatArray
    model: ClusterModel
    names: tuple[str, ...]


def world_names(names: tuple[str, ...], features: str) -> tuple[str, ...]:
    """Pair features of a world: log odds, those of the comparisons if all are wanted, and a constant.

    Examples
    --------
    >>> world_names(("name exact",), "all")
    ('match', 'name exact', 'pair')
    """
    return (MATCH, *(names if features == "all" else ()), PAIR)


def cluster_model(given: ClusterModel | None, features: str) -> ClusterModel:
    """The model, or the one that serves for most records.

    Examples
    --------
    >>> cluster_model(None, "match").table(("match", "pair")).names[-1]
    'size >= 1'
    """
    if given is not None:
        return given
    within = [MATCH, PAIR] if features == "match" else "all"
    return ClusterModel(within=within, mean=[MATCH], minimum=[MATCH], maximum=[MATCH], sizes=(1,))


def make_world(
    found: RecordPairs,
    values: FloatArray,
    names: tuple[str, ...],
    model: ClusterModel,
    truth: IntArray,
    metric: str | PartitionMetric | MetricFunction,
) -> ClusterWorld:
    """The world in which weights are learned."""
    features = pair_features(found.n_records, found.pairs, values, names)
    return ClusterWorld(features, model, truth=truth, metric=metric, proposer=_proposer(None))


def decode_batch(
    batch: Batch, values: FloatArray, trained: TrainedWeights, seed: np.random.SeedSequence, n_proposals: float
) -> IntArray:
    """Clusters of the records of a batch: merged while the score grows, then improved by a climb.

    Each cluster bears the number, within the batch, of its first record.
    """
    world = _decoded(batch, values, trained, np.random.default_rng(seed), n_proposals)
    _, first, code = np.unique(world.labels, return_index=True, return_inverse=True)
    return np.asarray(first[code], dtype=np.int64)


def sample_batch(
    batch: Batch,
    values: FloatArray,
    trained: TrainedWeights,
    seed: np.random.SeedSequence,
    n_proposals: float,
    n_samples: int,
) -> FloatArray:
    """Share of sampled clusterings in which each pair of a batch is together."""
    rng = np.random.default_rng(seed)
    world = _decoded(batch, values, trained, rng, n_proposals)
    together = np.zeros(len(batch.pairs))
    if len(batch.pairs):
        _search(world, trained.weights, _BEFORE * world.n_sites, rng, 1.0)
        for _ in range(n_samples):
            _search(world, trained.weights, _BETWEEN * world.n_sites, rng, 1.0)
            labels = world.labels
            together += labels[batch.pairs[:, 0]] == labels[batch.pairs[:, 1]]
    return together / n_samples


def _decoded(
    batch: Batch, values: FloatArray, trained: TrainedWeights, rng: np.random.Generator, n_proposals: float
) -> ClusterWorld:
    features = pair_features(len(batch.records), batch.pairs, values, trained.names)
    # Only listed pairs are proposed, so that components which share a batch stay apart.
    world = ClusterWorld(features, trained.model, constraints=batch.constraints, proposer=_proposer(1.0))
    if len(batch.pairs):
        world.agglomerate(trained.weights)
        _search(world, trained.weights, int(np.ceil(n_proposals * world.n_sites)), rng, 0.0)
    return world


def _search(
    world: ClusterWorld, weights: FloatArray, n_steps: int, rng: np.random.Generator, temperature: float
) -> None:
    for start in range(0, n_steps, _CHUNK):
        world.search(weights, min(_CHUNK, n_steps - start), rng, temperature)


def _proposer(along_pairs: float | None) -> SplitMerge:
    settings: dict[str, Any] = {"random": 0.2, "sequential": 1.0, "move_one": 1.0}
    return SplitMerge(**settings, along_pairs=along_pairs)
