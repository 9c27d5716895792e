"""Decoders that search the best clustering under learned weights: hill climbing, annealing, agglomeration."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.registry import Parts, Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_number
from intarsia._kernels.partition import ACCEPTED, PROPOSED
from intarsia.clusters.proposers import PROPOSERS, SplitMerge
from intarsia.clusters.world import STRETCH, UNDIVIDED, ClusterWorld
from intarsia.exceptions import InvalidInputError

CHUNK = 10_000  # proposals per call of a kernel, so that Ctrl-C and time limits take effect


@dataclass(frozen=True, eq=False)
class Clustering(ShownResult):
    """Clustering found by a decoder, with its score.

    Attributes
    ----------
    labels : int array (n_records,)
        Cluster of each record, numbered by first occurrence.
    score : float
        Score of the clustering under the weights.
    n_proposals, n_accepted : int
        Numbers of proposed and of accepted moves, over all chains.
    seconds : float
        Wall time.
    scores : float array
        Score of the best clustering of each chain.

    Examples
    --------
    Joining the first pair adds 2 x 3 to the score; joining the second pair would add -1 x 3:

    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> clustering = decode(world, [3.0], "agglomeration")
    >>> clustering.labels.tolist(), clustering.score, clustering.n_accepted
    ([0, 0, 1], 6.0, 1)
    """

    labels: IntArray
    score: float
    n_proposals: int
    n_accepted: int
    seconds: float
    scores: FloatArray


class Decoder(Settings):
    """Abstract base of decoders: settings objects (scikit-learn conventions) that search for the best clustering.

    Examples
    --------
    A decoder that joins all records, whatever the weights:

    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> class Together(Decoder):
    ...     def run(self, world, weights, rng):
    ...         world.reset([0] * world.n_sites)
    ...         return 1, 1
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> clustering = decode(world, [1.0], Together())
    >>> clustering.labels.tolist(), clustering.score
    ([0, 0, 0], 1.0)
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to use the decoder, in one line."""

    @abstractmethod
    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Leave the world at the best clustering; return the numbers of proposed and accepted moves."""


class HillClimbing(Decoder):
    """Hill climbing: apply random proposals that increase the score until none does.

    With `agglomerate=True` greedy merges come first, which reach a good clustering in far fewer moves than random
    proposals. The proposals (sequential splits, moves of single records, merges) then correct the errors of merging.

    Parameters
    ----------
    n_proposals : float
        Maximum number of proposals per record.
    patience : float
        Stop after this many consecutive proposals per record without an accepted one.
    agglomerate : bool
        Whether to start with greedy merges.
    proposer : SplitMerge, optional
        By default 20% random splits and merges, 40% sequential ones and 40% moves of single records.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> clustering = decode(world, [1.0], HillClimbing())
    >>> clustering.labels.tolist(), clustering.score
    ([0, 0, 1], 2.0)
    """

    name: ClassVar[str] = "hill_climbing"
    summary: ClassVar[str] = "the default: greedy merges, then splits and moves that increase the score"

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
        """Climb from the current clustering; return the numbers of proposed and accepted moves."""
        check_number(self.n_proposals, "HillClimbing: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.patience, "HillClimbing: patience", low=0.0, high=np.inf, open_low=True)
        n_merges = world.agglomerate(weights) if self.agglomerate else 0
        proposer = _default_proposer() if self.proposer is None else self.proposer
        n_proposed, n_accepted = climb(world, weights, rng, proposer, float(self.n_proposals), float(self.patience))
        return n_proposed, n_merges + n_accepted


class MetropolisHastings(Decoder):
    r"""Simulated annealing by Metropolis-Hastings with :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`.

    Proposals have exact forward and backward probabilities, so that at a constant temperature of 1 the chain samples
    from the model (`sample_coreference` uses this). With a falling temperature it leaves local optima in which hill
    climbing gets stuck. The clustering is inspected `n_checks` times at equal intervals; the best one is improved by
    hill climbing and returned.

    Parameters
    ----------
    n_proposals : float
        Number of proposals per record.
    hot, cold : float
        Temperature at the start and at the end; it falls by a constant factor per proposal.
    n_checks : int
        How often the current clustering is compared with the best so far.
    proposer : SplitMerge, optional
        As in `HillClimbing`.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], MetropolisHastings()).labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "metropolis_hastings"
    summary: ClassVar[str] = "if hill climbing gets stuck in local optima: simulated annealing"

    _parts: ClassVar[Parts] = {"proposer": PROPOSERS}

    def __init__(
        self,
        *,
        n_proposals: float = 500.0,
        hot: float = 2.0,
        cold: float = 0.05,
        n_checks: int = 20,
        proposer: SplitMerge | None = None,
    ) -> None:
        self.n_proposals = n_proposals
        self.hot = hot
        self.cold = cold
        self.n_checks = n_checks
        self.proposer = proposer

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Anneal, then climb from the best clustering; return the numbers of proposed and accepted moves."""
        check_number(self.n_proposals, "MetropolisHastings: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.hot, "MetropolisHastings: hot", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_number(self.cold, "MetropolisHastings: cold", low=0.0, high=float(self.hot), open_low=True)
        check_number(self.n_checks, "MetropolisHastings: n_checks", low=1, integer=True)
        proposer = _default_proposer() if self.proposer is None else self.proposer
        total = int(np.ceil(float(self.n_proposals) * world.n_sites))
        cooling = (float(self.cold) / float(self.hot)) ** (1.0 / max(1, total))
        best, best_score = world.labels, world.score(weights)
        n_done = n_accepted = 0
        with world.proposing(proposer):
            while n_done < total:
                n = min(CHUNK, total - n_done, -(-total // int(self.n_checks)))
                n_accepted += int(
                    world.search(weights, n, rng, float(self.hot) * cooling**n_done, cooling)[1][ACCEPTED]
                )
                n_done += n
                score = world.score(weights)
                if score > best_score:
                    best, best_score = world.labels, score
        world.reset(best)
        n_climbing, n_accepted_climbing = climb(world, weights, rng, proposer, 100.0, 10.0)
        return n_done + n_climbing, n_accepted + n_accepted_climbing


class Agglomeration(Decoder):
    """Greedy agglomeration: repeatedly merge the two clusters whose union increases the score most.

    It is the fastest decoder, and the baseline. Only clusters connected by a candidate pair are considered. Merges are
    never reverted.

    Parameters
    ----------
    min_gain : float
        Smallest increase of the score for which a merge is made.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], "agglomeration").labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "agglomeration"
    summary: ClassVar[str] = "the fastest: greedy merges only"

    def __init__(self, *, min_gain: float = 0.0) -> None:
        self.min_gain = min_gain

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Merge greedily; return the number of merges as both proposed and accepted moves."""
        check_number(self.min_gain, "Agglomeration: min_gain", low=0.0, high=np.inf, open_high=True)
        n_merges = world.agglomerate(weights, float(self.min_gain))
        return n_merges, n_merges


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
    """Search the best clustering of a world under fixed weights; the world is left at this clustering.

    Parameters
    ----------
    world : ClusterWorld
        Records and features; each chain starts at the world's initial clustering.
    weights : float array (n_weights,)
        Weights of the features.
    decoder : str or Decoder
        Name or settings object: "hill_climbing", "metropolis_hastings", "agglomeration", "cem_decode".
    n_chains : int
        Number of searches with different random numbers; the best result is returned.
    random_state : int or Generator
        Seed.
    **settings
        Further settings of the decoder.

    Raises
    ------
    InvalidInputError
        If `world` is not a `ClusterWorld`: a user-defined world has no clustering to return.

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
    search, checked_weights = DECODERS.resolve(decoder, settings), world.check_weights(weights)
    start_time, rng = time.perf_counter(), as_generator(random_state)
    best, scores, n_proposed, n_accepted = world.labels, [], 0, 0
    for _ in range(int(n_chains)):
        world.reset()
        counts = search.run(world, checked_weights, rng)
        n_proposed, n_accepted = n_proposed + counts[0], n_accepted + counts[1]
        world.refresh()
        scores.append(world.score(checked_weights))
        if scores[-1] >= max(scores):
            best = world.labels
    if n_chains > 1:
        world.reset(best)
    return Clustering(best, max(scores), n_proposed, n_accepted, time.perf_counter() - start_time, np.array(scores))


def climb(
    world: ClusterWorld,
    weights: FloatArray,
    rng: np.random.Generator,
    proposer: SplitMerge,
    n_proposals: float,
    patience: float,
) -> tuple[int, int]:
    """Accept proposals that increase the score until none did for a while; both limits are per record."""
    if world.n_sites < 2:  # there is nothing to propose
        return 0, 0
    total, max_idle = (int(np.ceil(min(limit * world.n_sites, 1e15))) for limit in (n_proposals, patience))
    # Each call of `search` draws from one stretch of the pairs: with few proposals, shorter calls reach all stretches.
    n_pairs = len(world.pairs.pairs)
    chunk = CHUNK if n_pairs <= UNDIVIDED else min(CHUNK, max(1, STRETCH * total // n_pairs))
    n_proposed = n_accepted = n_idle = 0
    with world.proposing(proposer):
        while n_proposed < total and n_idle < max_idle:
            counters = world.search(weights, min(chunk, total - n_proposed, max_idle - n_idle), rng, 0.0)[1]
            n_proposed += int(counters[PROPOSED])
            n_accepted += int(counters[ACCEPTED])
            n_idle = 0 if counters[ACCEPTED] else n_idle + int(counters[PROPOSED])
    return n_proposed, n_accepted


def _default_proposer() -> SplitMerge:
    """Return the default proposer of the decoders."""
    return SplitMerge(random=1.0, sequential=2.0, move_one=2.0)


def check_cluster_world(world: object) -> None:
    """Raise if a world is not a ClusterWorld; the error shows the loop to use instead.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import pair_features
    >>> check_cluster_world(ClusterWorld(pair_features(2, [[0, 1]], [1.0])))
    """
    if isinstance(world, ClusterWorld):
        return
    attributes = ("labels", "reset", "score", "search", "agglomerate", "proposing")
    missing = [name for name in attributes if not hasattr(type(world), name)]
    hint = f", which has no {missing[0]!r}" if missing else ""
    raise InvalidInputError(
        f"expected a ClusterWorld, got a {type(world).__name__}{hint}. To search a user-defined world, call "
        f"world.propose(rng, weights) and apply the moves whose world.score_change(move, weights) is above 0."
    )
