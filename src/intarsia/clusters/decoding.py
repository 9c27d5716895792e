"""The best clustering under given weights: climbing, annealing, agglomeration."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.registry import Parts, Registry
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_number
from intarsia._kernels.partition import ACCEPTED, PROPOSED
from intarsia.clusters.proposers import PROPOSERS, SplitMerge
from intarsia.clusters.world import ClusterWorld, check_cluster_world

CHUNK = 10_000  # proposals at a time, so that Ctrl-C and time limits are kept


@dataclass(frozen=True, eq=False)
class Clustering(ShownResult):
    """A clustering that a decoder found.

    Attributes
    ----------
    labels : int array (n_records,)
        Cluster of each record, numbered by first occurrence.
    score : float
        Its score under the weights.
    n_proposals, n_accepted : int
        Moves that were tried and made, over all chains.
    seconds : float
        Time taken.
    scores : float array
        Score of the best clustering of each chain.

    Examples
    --------
    Of the two pairs one is alike, by 2 x 3, and the other is not, by 1 x 3:

    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> found = decode(world, [3.0], "agglomeration")
    >>> found.labels.tolist(), found.score, found.n_accepted
    ([0, 0, 1], 6.0, 1)
    """

    labels: IntArray
    score: float
    n_proposals: int
    n_accepted: int
    seconds: float
    scores: FloatArray


class Decoder(BaseEstimator):  # type: ignore[misc]
    """Base of the decoders: settings objects (scikit-learn conventions) that search a world for the best clustering.

    Examples
    --------
    One that puts everything together, whatever the weights:

    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> class Together(Decoder):
    ...     def run(self, world, weights, rng):
    ...         world.reset([0] * world.n_sites)
    ...         return 1, 1
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> found = decode(world, [1.0], Together())
    >>> found.labels.tolist(), found.score
    ([0, 0, 0], 1.0)
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""

    @abstractmethod
    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Leave the world at the best clustering found; return how many moves were tried and made."""


class HillClimbing(Decoder):
    """Random proposals, of which those are taken that raise the score, until none does any more.

    Begins with `agglomerate`, if asked for, which reaches a good clustering in far fewer moves than proposals would.
    The proposals (sequential splits, single records, merges) then mend what merging alone got wrong.

    Parameters
    ----------
    n_proposals : float
        Most proposals for each record.
    patience : float
        Ends after so many proposals for each record without one taken.
    agglomerate : bool
        Whether greedy merges come first.
    proposer : SplitMerge, optional
        By default a fifth even splits, two fifths sequential ones and two fifths single records.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> found = decode(world, [1.0], HillClimbing())
    >>> found.labels.tolist(), found.score
    ([0, 0, 1], 2.0)
    """

    name: ClassVar[str] = "hill_climbing"
    summary: ClassVar[str] = "the default: merges first, then splits and moves that raise the score"

    _parts: ClassVar[Parts] = {"proposer": PROPOSERS}

    def __init__(
        self,
        *,
        n_proposals: float = 200.0,
        patience: float = 20.0,
        agglomerate: bool = True,
        proposer: SplitMerge | None = None,
    ) -> None:
        self.n_proposals = n_proposals
        self.patience = patience
        self.agglomerate = agglomerate
        self.proposer = proposer

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Climb."""
        check_number(self.n_proposals, "HillClimbing: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.patience, "HillClimbing: patience", low=0.0, high=np.inf, open_low=True)
        accepted = world.agglomerate(weights) if self.agglomerate else 0
        proposer = _default_proposer() if self.proposer is None else self.proposer
        tried, made = climb(world, weights, rng, proposer, float(self.n_proposals), float(self.patience))
        return tried, accepted + made


class MetropolisHastings(Decoder):
    r"""A Markov chain with :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`, cooled from one temperature to another.

    Proposals have exact forward and backward probabilities, so that at a constant temperature of 1 the chain visits
    clusterings as often as the model says (`sample_coreference` uses this). Annealed, it leaves local optima that a
    climb is caught in. The result is the best clustering seen at the end of each of `n_looks` stretches, after a climb.

    Parameters
    ----------
    n_proposals : float
        Proposals for each record.
    hot, cold : float
        Temperature at the beginning and at the end; it falls by the same factor with each proposal.
    n_looks : int
        How often the present clustering is compared with the best so far.
    proposer : SplitMerge, optional
        As for `HillClimbing`.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], MetropolisHastings()).labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "metropolis_hastings"
    summary: ClassVar[str] = "where climbing is caught in local optima: simulated annealing"

    _parts: ClassVar[Parts] = {"proposer": PROPOSERS}

    def __init__(
        self,
        *,
        n_proposals: float = 500.0,
        hot: float = 2.0,
        cold: float = 0.05,
        n_looks: int = 20,
        proposer: SplitMerge | None = None,
    ) -> None:
        self.n_proposals = n_proposals
        self.hot = hot
        self.cold = cold
        self.n_looks = n_looks
        self.proposer = proposer

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Anneal, then climb from the best clustering seen."""
        check_number(self.n_proposals, "MetropolisHastings: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.hot, "MetropolisHastings: hot", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_number(self.cold, "MetropolisHastings: cold", low=0.0, high=float(self.hot), open_low=True)
        check_number(self.n_looks, "MetropolisHastings: n_looks", low=1, integer=True)
        proposer = _default_proposer() if self.proposer is None else self.proposer
        total = int(np.ceil(float(self.n_proposals) * world.n_sites))
        cooling = (float(self.cold) / float(self.hot)) ** (1.0 / max(1, total))
        best, best_score = world.labels, world.score(weights)
        done = made = 0
        with world.proposing(proposer):
            while done < total:
                n = min(CHUNK, total - done, -(-total // int(self.n_looks)))
                made += int(world.search(weights, n, rng, float(self.hot) * cooling**done, cooling)[1][ACCEPTED])
                done += n
                score = world.score(weights)
                if score > best_score:
                    best, best_score = world.labels, score
        world.reset(best)
        tried, more = climb(world, weights, rng, proposer, 100.0, 10.0)
        return done + tried, made + more


class Agglomeration(Decoder):
    """Greedy merges: the two clusters whose union gains most, while it gains; the baseline, and the quickest.

    Only clusters joined by a listed pair are considered. Merges are never taken back.

    Parameters
    ----------
    least_gain : float
        What a merge must gain.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], "agglomeration").labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "agglomeration"
    summary: ClassVar[str] = "the quickest: greedy merges only"

    def __init__(self, *, least_gain: float = 0.0) -> None:
        self.least_gain = least_gain

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Merge."""
        check_number(self.least_gain, "Agglomeration: least_gain", low=0.0, high=np.inf, open_high=True)
        merges = world.agglomerate(weights, float(self.least_gain))
        return merges, merges


DECODERS: Registry[Decoder] = Registry(
    "decoder",
    "intarsia.clusters",
    {
        "hill_climbing": "decoding:HillClimbing",
        "metropolis_hastings": "decoding:MetropolisHastings",
        "agglomeration": "decoding:Agglomeration",
        "cem_decode": "CEMDecode",
    },
    Decoder,  # type: ignore[type-abstract]
)


@errors_from("decode")
def decode(
    world: ClusterWorld,
    weights: ArrayLike,
    decoder: str | Decoder = "hill_climbing",
    *,
    n_chains: int = 1,
    random_state: int | np.random.Generator = 0,
    **settings: Any,
) -> Clustering:
    """Best clustering of a world under given weights, which is also where the world is left.

    Parameters
    ----------
    world : ClusterWorld
        Records and features; each chain begins at its start.
    weights : float array (n_weights,)
        Weights of the features.
    decoder : str or Decoder
        Name or settings object: "hill_climbing", "metropolis_hastings", "agglomeration", "cem_decode".
    n_chains : int
        How often the search is run, with other random numbers; the best is kept.
    random_state : int or Generator
        Seed.
    **settings
        Further settings of the decoder.

    Raises
    ------
    InvalidInputError
        `world` is not a `ClusterWorld`: a world of your own has no clustering that could be returned.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(4, [[0, 1], [2, 3], [1, 2]], [1.0, 1.0, -3.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], n_chains=2).labels.tolist()
    [0, 0, 1, 1]
    """
    check_cluster_world(world)
    check_number(n_chains, "n_chains", low=1, integer=True)
    chosen, theta = DECODERS.resolve(decoder, settings), world.check_weights(weights)
    begun, rng = time.perf_counter(), as_generator(random_state)
    best, scores, tried, made = world.labels, [], 0, 0
    for _ in range(int(n_chains)):
        world.reset()
        counts = chosen.run(world, theta, rng)
        tried, made = tried + counts[0], made + counts[1]
        world.refresh()
        scores.append(world.score(theta))
        if scores[-1] >= max(scores):
            best = world.labels
    if n_chains > 1:
        world.reset(best)
    return Clustering(best, max(scores), tried, made, time.perf_counter() - begun, np.array(scores))


def climb(
    world: ClusterWorld,
    weights: FloatArray,
    rng: np.random.Generator,
    proposer: SplitMerge,
    n_proposals: float,
    patience: float,
) -> tuple[int, int]:
    """Take proposals that raise the score until none did for a while; both limits are for each record."""
    if world.n_sites < 2:  # nothing is ever proposed
        return 0, 0
    total, most_idle = (int(np.ceil(min(each * world.n_sites, 1e15))) for each in (n_proposals, patience))
    # fewer for each stretch of the pairs where there are not enough for all, so that all have their share
    at_once = min(CHUNK, max(1, CHUNK * total // max(1, len(world.pairs.pairs))))
    tried = made = idle = 0
    with world.proposing(proposer):
        while tried < total and idle < most_idle:
            counters = world.search(weights, min(at_once, total - tried, most_idle - idle), rng, 0.0)[1]
            tried += int(counters[PROPOSED])
            made += int(counters[ACCEPTED])
            idle = 0 if counters[ACCEPTED] else idle + int(counters[PROPOSED])
    return tried, made


def _default_proposer() -> SplitMerge:
    return SplitMerge(random=1.0, sequential=2.0, move_one=2.0)
