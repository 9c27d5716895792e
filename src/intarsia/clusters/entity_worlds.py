"""Worlds of an `EntityClusterer`, and the probability that two records belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array, triu

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_number
from intarsia.clusters.cluster_model import ClusterModel, pair_features
from intarsia.clusters.components import Batch
from intarsia.clusters.decoding import CHUNK, DECODERS, Decoder, HillClimbing, decode
from intarsia.clusters.partition import MetricFunction, PartitionMetric
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.world import ClusterWorld, check_cluster_world


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
    r"""Posterior probability that two records are in one cluster, for all pairs that ever were, by sampling.

    Clusterings are drawn by Metropolis-Hastings from :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`; the
    probability of a pair is the share of samples in which it is together. The error falls with the root of the number
    of *independent* samples: consecutive ones are alike, more so with little thinning.

    Parameters
    ----------
    world : ClusterWorld
        Records and features; left at the last sample.
    weights : float array
        Weights of the features. Weights of SampleRank rank clusterings but have no scale of their own: choose
        `temperature` by calibration.
    n_samples : int
        Samples kept.
    thinning, burn_in : float
        Proposals for each record between samples, on average, and before the first.
    temperature : float
        Divides the score.
    start : str, Decoder or None
        How the chain finds its first clustering; None begins at the world's start.
    proposer : SplitMerge, optional
        By default a fifth even splits, two fifths sequential ones and two fifths single records.
    random_state : int or Generator
        Seed.

    Returns
    -------
    csr_array (n_records, n_records)
        Probabilities above the diagonal; pairs that were never together are not stored.

    Examples
    --------
    Two records whose union scores 0: together half of the time.

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
        DECODERS.resolve(start).run(world, theta, rng)
    chosen = SplitMerge(random=1.0, sequential=2.0, move_one=2.0) if proposer is None else proposer
    total = csr_array((n, n))
    with world.proposing(chosen):
        for k in range(int(n_samples)):
            left = int(np.ceil(float(burn_in) * n)) if k == 0 else 0
            # a random number of proposals: where all are taken, as between two records, even numbers lead back
            left += 1 + int(rng.integers(0, 2 * int(np.ceil(float(thinning) * n)) + 1))
            while left > 0:
                world.search(theta, min(left, CHUNK), rng, float(temperature))
                left -= CHUNK
            labels = world.labels
            member = csr_array(coo_array((np.ones(n), (np.arange(n), labels))))
            total = total + triu(member @ member.T, k=1, format="csr")
    return csr_array(total / float(n_samples))


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


def decode_batch(batch: Batch, values: FloatArray, trained: TrainedWeights, rng: np.random.Generator) -> IntArray:
    """Clusters of the records of a batch; each bears the number, within the batch, of its first record."""
    labels = batch.constraints.atom
    if len(batch.pairs):
        world = _world_of(batch, values, trained)
        labels = decode(world, trained.weights, trained.decoder, random_state=rng).labels
    return np.unique(labels, return_index=True)[1].astype(np.int64)[labels]


def sample_batch(
    batch: Batch,
    values: FloatArray,
    trained: TrainedWeights,
    rng: np.random.Generator,
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
        random_state=rng,
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
