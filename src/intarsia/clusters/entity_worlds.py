"""Cluster worlds of an `EntityClusterer`, and sampled probabilities that two records corefer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array, triu

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_number
from intarsia.clusters.cluster_features.cluster_feature import ClusterFeature
from intarsia.clusters.cluster_features.feature_world import make_feature_world
from intarsia.clusters.cluster_model import ClusterModel, pair_features
from intarsia.clusters.components import Batch
from intarsia.clusters.decoding import DECODERS, check_cluster_world
from intarsia.clusters.partition import MetricFunction, PartitionMetric
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.world import ClusterWorld
from intarsia.exceptions import IntarsiaError, InvalidInputError
from intarsia.worlds.decoder import Decoder, decode
from intarsia.worlds.hill_climbing import HillClimbing
from intarsia.worlds.sampling import sampled_states
from intarsia.worlds.search import Search


@errors_from("sample_coreference")
def sample_coreference(
    world: ClusterWorld,
    weights: ArrayLike,
    *,
    n_samples: int = 200,
    thinning: float = 5.0,
    burn_in: float = 50.0,
    temperature: float = 1.0,
    start: str | Decoder | None = "agglomeration",
    proposer: SplitMerge | None = None,
    random_state: int | np.random.Generator = 0,
) -> csr_array:
    r"""Estimate by sampling the posterior probability that two records are in one cluster (coreference).

    Clusterings are sampled by Metropolis-Hastings from :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`; the
    probability of a pair is the fraction of the samples in which both records are in one cluster. The error falls
    with the square root of the number of *independent* samples; consecutive samples are correlated, more so with
    little thinning.

    Parameters
    ----------
    world : ClusterWorld
        Records and features; its clustering is the last sample afterwards.
    weights : float array
        Weights of the features. SampleRank learns weights that rank clusterings but does not fix their scale: choose
        `temperature` by calibration.
    n_samples : int
        Number of samples.
    thinning, burn_in : float
        Proposals per record between samples, on average, and before the first sample.
    temperature : float
        Divisor of the score.
    start : str, Decoder or None
        Decoder that finds the first clustering of the chain; None begins at the start of the world.
    proposer : SplitMerge, optional
        By default 20% random splits and merges, 40% sequential ones and 40% moves of single records.
    random_state : int or Generator
        Seed.

    Returns
    -------
    csr_array (n_records, n_records)
        Probabilities above the diagonal; pairs that are in one cluster in no sample are not stored.

    Examples
    --------
    Two records whose union has score 0 are together in half of the samples.

    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [0.0]), ClusterModel(absent=False))
    >>> bool(abs(sample_coreference(world, [1.0], n_samples=1000)[0, 1] - 0.5) < 0.1)
    True
    """
    check_cluster_world(world)
    check_number(n_samples, "n_samples", low=1, integer=True)
    for name, value in (("thinning", thinning), ("burn_in", burn_in)):
        check_number(value, name, low=0.0, high=np.inf, open_high=True)
    check_number(temperature, "temperature", low=0.0, high=np.inf, open_low=True, open_high=True)
    theta, rng, n = world.check_weights(weights), as_generator(random_state), world.n_sites
    world.reset()
    if start is not None:
        search = Search(world, theta, rng)
        DECODERS.resolve(start).run(search)
        search.restore_best()
    n_together = csr_array((n, n))
    limits = int(n_samples), float(thinning), float(burn_in), float(temperature)
    with world.proposing(proposer):
        for _ in sampled_states(Search(world, theta, rng), *limits):
            member = csr_array(coo_array((np.ones(n), (np.arange(n), world.labels))))
            n_together = n_together + triu(member @ member.T, k=1, format="csr")
    return csr_array(n_together / float(n_samples))


MATCH, PAIR = "match", "pair"


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """Learned weights, the model of their features, the names of its pair features, and the decoder.

    `features` selects the pair features; `feature_names` are the names of the features of a clustering.
    """

    weights: FloatArray
    model: ClusterModel
    names: tuple[str, ...]
    decoder: Decoder
    features: str
    feature_names: tuple[str, ...]
    cluster_features: Sequence[ClusterFeature] = ()
    columns: Mapping[str, list[Any]] = field(default_factory=dict)


def world_names(names: tuple[str, ...], features: str) -> tuple[str, ...]:
    """Return the names of the pair features of a world: log odds, those of the comparisons if all are used, constant.

    Examples
    --------
    >>> world_names(("name exact",), "all")
    ('match', 'name exact', 'pair')
    """
    return (MATCH, *(names if features == "all" else ()), PAIR)


def world_values(record_pairs: RecordPairs, log_odds: FloatArray, features: str) -> FloatArray:
    """Return the pair features of a world: log odds, those of the comparisons if used, and the constant 1."""
    comparison_values = record_pairs.values if features == "all" else record_pairs.values[:, :0]
    return np.column_stack([log_odds, comparison_values, np.ones(len(log_odds))])


def cluster_model(model: ClusterModel | None, features: str) -> ClusterModel:
    """Return the model of the settings, or the default one.

    Examples
    --------
    >>> cluster_model(None, "match").table(("match", "pair")).names[-1]
    'size >= 1'
    """
    if model is not None:
        return model
    within = [MATCH, PAIR] if features == "match" else "all"
    return ClusterModel(within=within, mean=[MATCH], minimum=[MATCH], maximum=[MATCH], sizes=(1,))


def guarded_metric(
    metric: str | PartitionMetric | MetricFunction,
) -> str | PartitionMetric | MetricFunction:
    """Return the metric; an exception in a user's function is raised as InvalidInputError."""
    if isinstance(metric, (str, PartitionMetric)):
        return metric

    def guarded(truth: IntArray, labels: IntArray) -> float:
        try:
            return float(metric(truth, labels))
        except IntarsiaError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"metric raised {type(error).__name__}: {error}. It is called with the true "
                f"and the current cluster of each record, and must return a number."
            ) from error

    return guarded if callable(metric) else metric


def decode_batch(batch: Batch, values: FloatArray, trained: TrainedWeights, rng: np.random.Generator) -> IntArray:
    """Return the cluster of each record of a batch, as the position of the cluster's first record in the batch."""
    labels = batch.constraints.atom
    if len(batch.pairs):
        world = _world_of(batch, values, trained)
        labels = decode(world, trained.weights, trained.decoder, random_state=rng).state
    return np.unique(labels, return_index=True)[1].astype(np.int64)[labels]


def sample_batch(
    batch: Batch,
    values: FloatArray,
    trained: TrainedWeights,
    rng: np.random.Generator,
    n_samples: int,
    temperature: float,
) -> FloatArray:
    """Return the fraction of sampled clusterings in which both records of each pair of a batch are in one cluster."""
    if len(batch.pairs) == 0:
        return np.empty(0)
    probabilities = sample_coreference(
        _world_of(batch, values, trained),
        trained.weights,
        n_samples=n_samples,
        temperature=temperature,
        start=trained.decoder,
        proposer=proposer(1.0),
        random_state=rng,
    )
    return np.asarray(probabilities[batch.pairs[:, 0], batch.pairs[:, 1]], dtype=np.float64).ravel()


def _world_of(batch: Batch, values: FloatArray, trained: TrainedWeights) -> ClusterWorld:
    """Build the world of the records of a batch, with their constraints."""
    features = pair_features(len(batch.records), batch.pairs, values, trained.names)
    columns = {name: [values[int(record)] for record in batch.records] for name, values in trained.columns.items()}
    constraints = batch.constraints
    return make_feature_world(features, trained.model, trained.cluster_features, columns, constraints=constraints)


def default_decoder() -> Decoder:
    """Return the default hill climbing, which proposes only candidate pairs: components of a batch stay separate."""
    return HillClimbing(n_proposals=20.0, patience=5.0, proposer=proposer(1.0))


def proposer(along_pairs: float | None) -> SplitMerge:
    """Return the default proposer: mostly sequential splits and moves of single records."""
    return SplitMerge(random=0.2, sequential=1.0, move_one=1.0, along_pairs=along_pairs)
