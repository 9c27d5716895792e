"""Training of an `EntityClusterer` with labels, and the choice among ways to decide clusters, on held-out entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, as_generator
from intarsia._core.worker_threads import run_by_workers
from intarsia.clusters.cluster_features.cluster_feature import ClusterFeature
from intarsia.clusters.cluster_features.feature_world import make_feature_world
from intarsia.clusters.cluster_model import ClusterModel, pair_features
from intarsia.clusters.components import Links, split_into_batches
from intarsia.clusters.constraints import link_constraints
from intarsia.clusters.decoding import Agglomeration
from intarsia.clusters.entity_worlds import (
    MATCH,
    TrainedWeights,
    decode_batch,
    proposer,
    world_names,
    world_values,
)
from intarsia.clusters.linkage.resolved import resolve_records
from intarsia.clusters.matcher import PairMatcher, fit_matcher
from intarsia.clusters.partition import MetricFunction, PartitionMetric
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.world import ClusterWorld
from intarsia.learning.sample_rank import SampleRank
from intarsia.worlds.decoder import Decoder

# Ways to decide clusters; the first is kept unless another is better on held-out entities.
RANKING, RESOLVE, AGGLOMERATION = DECISIONS = ("ranking", "resolve", "agglomeration")
# Shifts of the log odds that are tried with `resolve`: pairs of log odds below 0 can be right if they are the best of
# their records, as where each record has at most one match.
_SHIFTS = (0.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
# With fewer entities of several records, ways are compared on the training data.
_MIN_ENTITIES = 20
# Another way has to be better than the learned ranking by more than this.
_PREFERENCE = 0.01


@dataclass(frozen=True, eq=False)
class Training:
    """Settings of training with labels.

    Attributes
    ----------
    model : ClusterModel
        Features of a clustering.
    features : str
        Pair features of the model, "match" or "all".
    metric : str, PartitionMetric or function
        Performance metric.
    learner : SampleRank
        Learner of the weights.
    l2 : float
        Regularization of the logistic regression.
    decoder : Decoder
        Search under the learned weights.
    cluster_features : list of ClusterFeature
        Further features of clusters.
    """

    model: ClusterModel
    features: str
    metric: str | PartitionMetric | MetricFunction
    learner: SampleRank
    l2: float
    decoder: Decoder
    cluster_features: Sequence[ClusterFeature] = ()


@dataclass(frozen=True, eq=False)
class Decision:
    """How clusters are decided: by which way, with which shift of the log odds, and the performance of every way."""

    way: str
    shift: float
    performance: dict[str, float]


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Logistic regression of pairs, weights of the features of a clustering, and the result of the learner."""

    matcher: PairMatcher
    names: tuple[str, ...]
    weights: FloatArray
    result: Any


def start_weights(names: tuple[str, ...]) -> FloatArray:
    """Return the initial weights: 1 for the log odds of pairs, -1 for pairs that are not candidates.

    Examples
    --------
    >>> start_weights(("within match", "absent", "size >= 1"))
    array([ 1., -1.,  0.])
    """
    start = np.zeros(len(names))
    for name, value in ((f"within {MATCH}", 1.0), ("absent", -1.0)):
        if name in names:
            start[names.index(name)] = value
    return start


def train(record_pairs: RecordPairs, truth: IntArray, source: IntArray | None, training: Training) -> TrainedModel:
    """Fit the logistic regression of pairs, then learn the weights of the clustering by SampleRank."""
    matcher = fit_matcher(record_pairs.values, record_pairs.pairs, truth, training.l2)
    values = world_values(record_pairs, matcher.log_odds(record_pairs.values), training.features)
    columns = world_names(record_pairs.names, training.features)
    constraints = None if source is None else link_constraints(record_pairs.n_records, source=source)
    world = make_feature_world(
        pair_features(record_pairs.n_records, record_pairs.pairs, values, columns),
        training.model,
        training.cluster_features,
        record_pairs.columns,
        truth=truth,
        metric=training.metric,
        proposer=proposer(None),
        constraints=constraints,
    )
    names = world.feature_names
    result = training.learner.fit_worlds([world], start_weights(names), title="EntityClusterer")
    return TrainedModel(matcher, names, result.point, result)


def decide(
    record_pairs: RecordPairs,
    log_odds: FloatArray,
    links: Links,
    decision: Decision,
    trained: TrainedWeights,
    rng: np.random.Generator,
    n_jobs: int | None,
    time_limit: float | None = None,
) -> IntArray:
    """Return the cluster of each record, decided by one of the ways."""
    if decision.way == RESOLVE:
        return resolve_records(record_pairs, log_odds + decision.shift, links, time_limit).labels
    if decision.way == AGGLOMERATION:
        trained = replace(trained, weights=start_weights(trained.feature_names), decoder=Agglomeration())
    return decode_records(record_pairs, log_odds, links, trained, rng, n_jobs)


def decode_records(
    record_pairs: RecordPairs,
    log_odds: FloatArray,
    links: Links,
    trained: TrainedWeights,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> IntArray:
    """Return the cluster of each record under trained weights, searched batch by batch."""
    values = world_values(record_pairs, log_odds, trained.features)
    batches = split_into_batches(record_pairs, links, log_odds)
    streams = rng.spawn(len(batches))
    calls = [
        partial(decode_batch, batch, values[batch.rows], trained, stream)
        for batch, stream in zip(batches, streams, strict=True)
    ]
    labels = np.empty(record_pairs.n_records, dtype=np.int64)
    for batch, clusters in zip(batches, run_by_workers(calls, n_jobs), strict=True):
        labels[batch.records] = batch.records[clusters]  # numbers that are unique over all batches
    return labels


def choose_decision(
    record_pairs: RecordPairs, truth: IntArray, source: IntArray | None, training: Training, model: TrainedModel
) -> Decision:
    """Compare the ways to decide clusters on held-out entities, if there are many, and return the best.

    Entities are split into two halves; each half is clustered by a model that was trained on the other half. The
    learned ranking is kept unless another way is clearly better. With sources, as of two tables, pairwise F1
    decides instead of B-cubed F1: most records have no match, so that B-cubed is high if every record is alone.
    """
    metric = "pairwise_f1" if source is not None and training.metric == "b_cubed_f1" else training.metric
    labelled = truth[truth >= 0]
    n_entities = int((np.bincount(labelled) > 1).sum()) if labelled.size else 0
    folds: list[tuple[TrainedModel, IntArray]] = [(model, np.arange(record_pairs.n_records))]
    if n_entities >= _MIN_ENTITIES:
        half_of_entity = np.random.default_rng(0).permutation(int(truth.max()) + 1) % 2
        half = np.where(truth >= 0, half_of_entity[truth], -1)
        folds = []
        for k in (0, 1):
            training_rows, held_out = np.flatnonzero(half == 1 - k), np.flatnonzero(half == k)
            fold_model = train(
                take_records(record_pairs, training_rows), truth[training_rows], _take(source, training_rows), training
            )
            folds.append((fold_model, held_out))
    ways = [Decision(RANKING, 0.0, {}), *(Decision(RESOLVE, shift, {}) for shift in _SHIFTS)]
    ways.append(Decision(AGGLOMERATION, 0.0, {}))
    performance = np.zeros(len(ways))
    none = np.empty((0, 2), dtype=np.int64)
    for fold_model, rows in folds:
        subset, links = take_records(record_pairs, rows), Links(none, none, _take(source, rows))
        log_odds = fold_model.matcher.log_odds(subset.values)
        trained = TrainedWeights(
            fold_model.weights,
            training.model,
            world_names(subset.names, training.features),
            training.decoder,
            training.features,
            fold_model.names,
            training.cluster_features,
            subset.columns,
        )
        for k, way in enumerate(ways):
            labels = decide(subset, log_odds, links, way, trained, as_generator(0), None, 0.0)  # without proofs
            performance[k] += _performance(metric, truth[rows], labels) / len(folds)
    performance[0] += _PREFERENCE
    best = int(np.argmax(performance))
    performance[0] -= _PREFERENCE
    by_way = {
        name: float(max(value for way, value in zip(ways, performance, strict=True) if way.way == name))
        for name in DECISIONS
    }
    return Decision(ways[best].way, ways[best].shift, by_way)


def take_records(record_pairs: RecordPairs, records: IntArray) -> RecordPairs:
    """Return some of the records, in ascending order, with the pairs among them; each record has one row.

    Examples
    --------
    >>> four = RecordPairs(list("abcd"), np.arange(4), np.array([[0, 2], [1, 3]]), np.ones((2, 1)), ("f",))
    >>> some = take_records(four, np.array([1, 3]))
    >>> some.ids, some.pairs.tolist()
    (['b', 'd'], [[0, 1]])
    """
    position = np.full(record_pairs.n_records, -1, dtype=np.int64)
    position[records] = np.arange(len(records))
    pairs = position[record_pairs.pairs]
    inside = (pairs >= 0).all(axis=1)
    return RecordPairs(
        [record_pairs.name(int(record)) for record in records],
        np.arange(len(records)),
        pairs[inside],
        record_pairs.values[inside],
        record_pairs.names,
        {name: [values[int(record)] for record in records] for name, values in record_pairs.columns.items()},
    )


def _take(source: IntArray | None, rows: IntArray) -> IntArray | None:
    """Return the sources of some records, or None."""
    return None if source is None else source[rows]


def _performance(metric: str | PartitionMetric | MetricFunction, truth: IntArray, labels: IntArray) -> float:
    """Return the metric of a clustering."""
    pairs = pair_features(len(truth), np.empty((0, 2), dtype=np.int64), np.empty((0, 1)))
    return ClusterWorld(pairs, truth=truth, metric=metric, start=labels).performance()
