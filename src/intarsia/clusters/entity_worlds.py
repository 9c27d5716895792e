"""Worlds of an `EntityClusterer`: one of all records to learn in, one of each batch to search in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._validation import FloatArray, IntArray
from intarsia.clusters.batches import Batch
from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.coreference import sample_coreference
from intarsia.clusters.decoding import Decoder, HillClimbing, decode
from intarsia.clusters.metric import MetricFunction, PartitionMetric
from intarsia.clusters.pair_features import pair_features
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.world import ClusterWorld

MATCH, PAIR = "match", "pair"


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """Weights, the model whose features they weigh, the names of the pair features it reads, and how to search."""

    weights: FloatArray
    model: ClusterModel
    names: tuple[str, ...]
    decoder: Decoder


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
    return ClusterWorld(features, model, truth=truth, metric=metric, proposer=proposer(None))


def decode_batch(batch: Batch, values: FloatArray, trained: TrainedWeights, seed: np.random.SeedSequence) -> IntArray:
    """Clusters of the records of a batch; each bears the number, within the batch, of its first record."""
    labels = batch.constraints.atom
    if len(batch.pairs):
        world = _world_of(batch, values, trained)
        labels = decode(world, trained.weights, trained.decoder, random_state=np.random.default_rng(seed)).labels
    return np.unique(labels, return_index=True)[1].astype(np.int64)[labels]


def sample_batch(
    batch: Batch,
    values: FloatArray,
    trained: TrainedWeights,
    seed: np.random.SeedSequence,
    n_samples: int,
    temperature: float,
) -> FloatArray:
    """Share of sampled clusterings in which each pair of a batch is together."""
    if len(batch.pairs) == 0:
        return np.empty(0)
    found = sample_coreference(
        _world_of(batch, values, trained),
        trained.weights,
        n_samples=n_samples,
        temperature=temperature,
        start=trained.decoder,
        proposer=proposer(1.0),
        random_state=np.random.default_rng(seed),
    )
    return np.asarray(found[batch.pairs[:, 0], batch.pairs[:, 1]], dtype=np.float64).ravel()


def _world_of(batch: Batch, values: FloatArray, trained: TrainedWeights) -> ClusterWorld:
    features = pair_features(len(batch.records), batch.pairs, values, trained.names)
    return ClusterWorld(features, trained.model, constraints=batch.constraints)


def default_decoder() -> Decoder:
    """A climb; only listed pairs are proposed, so that components which share a batch stay apart."""
    return HillClimbing(n_proposals=20.0, patience=5.0, proposer=proposer(1.0))


def proposer(along_pairs: float | None) -> SplitMerge:
    """Mostly sequential splits and moves of one record: what is wrong after merging is seldom half a cluster."""
    return SplitMerge(random=0.2, sequential=1.0, move_one=1.0, along_pairs=along_pairs)
