"""How the next clustering is proposed: splits and merges of random pairs, single records, and user-defined jumps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.partition import Proposer
from intarsia.clusters.cluster_model import FeatureTable, PairFeatures
from intarsia.clusters.partition import Move
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.world import ClusterWorld


class SplitMerge(BaseEstimator):  # type: ignore[misc]
    r"""Draw two records: together, their cluster is split between them; apart, their clusters are merged.

    How the other records of a split cluster are divided is drawn too: each by an even coin (`random`), or one after
    another in random order, to the side with which its pairs score higher with probability :math:`\sigma(s_1 - s_2)`
    (`sequential`; good splits are found far sooner). `move_one` takes the first record alone: to the other's cluster,
    or out of the one they share. The pair is drawn from a distribution that does not depend on the clustering, and
    seeds and order cancel between a proposal and the way back, so that Metropolis-Hastings is exact with each. Cost of
    a proposal: the pairs between what moves and the clusters it leaves and joins.

    Parameters
    ----------
    random, sequential, move_one : float
        How often each kind is proposed; only their ratios matter.
    along_pairs : float, optional
        Share of the proposals whose two records are a listed pair, the rest being any two records. By default 0 where
        no pair is absent and 0.95 elsewhere: two of 100,000 records drawn at random have nothing in common. With 1
        some clusterings may be out of reach.
    temperature : float
        Of sequential allocation: above 1 it is more even.

    Notes
    -----
    Sequential allocation reads the weights of sums over pairs (`within`, `between`, `absent`), not those of aggregates.

    References
    ----------
    Rohanimanesh2009, Section 4; Jain2004; Dahl2005.

    Examples
    --------
    >>> SplitMerge(random=1, move_one=1).shares().tolist()
    [0.5, 0.0, 0.5]
    """

    def __init__(
        self,
        *,
        random: float = 1.0,
        sequential: float = 0.0,
        move_one: float = 0.0,
        along_pairs: float | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.random = random
        self.sequential = sequential
        self.move_one = move_one
        self.along_pairs = along_pairs
        self.temperature = temperature

    def shares(self) -> FloatArray:
        """How often each kind is proposed: random, sequential, move-one."""
        given = []
        for name in ("random", "sequential", "move_one"):
            check_number(getattr(self, name), f"SplitMerge: {name}", low=0.0, high=np.inf, open_high=True)
            given.append(float(getattr(self, name)))
        if sum(given) == 0.0:
            raise InvalidInputError("SplitMerge: all shares are 0, so nothing is proposed. Set random, for one, to 1.")
        return np.array(given) / sum(given)

    def arrays(self, pairs: PairFeatures, table: FeatureTable, weights: FloatArray) -> Proposer:
        """What the kernels read, under these weights."""
        check_number(self.temperature, "SplitMerge: temperature", low=0.0, high=np.inf, open_low=True)
        shares = self.shares()
        along = self.along_pairs
        if along is None:
            along = 0.0 if pairs.complete else 0.95
        check_number(along, "SplitMerge: along_pairs", low=0.0, high=1.0)
        along = float(along) if pairs.pairs.size else 0.0
        affinity, absent = np.zeros(1), 0.0
        if shares[1] > 0.0:
            by_feature, absent = table.pair_weights(weights, pairs.n_features)
            affinity = pairs.values @ by_feature / float(self.temperature)
        numbers = np.array([*np.cumsum(shares), along, absent / float(self.temperature), 0.0, float(len(pairs.pairs))])
        return Proposer(numbers, affinity)


class JumpProposer(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of proposers that look at a world in Python and name one move at a time.

    Derive from it to propose in a way of your own, give it to `ClusterWorld(proposer=...)` for learning by SampleRank
    and to `CEMDecode(proposer=...)` for decoding. `SplitMerge` is none of these: its proposals are drawn inside
    compiled loops, which is what makes it fast.

    Examples
    --------
    One that merges the first two clusters, which here are the records 0 and 1.

    >>> from intarsia.clusters.cem_decode import CEMDecode
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> from intarsia.clusters.decoding import decode
    >>> class FirstTwo(JumpProposer):
    ...     def propose(self, world, rng, score=None, model=None):
    ...         if len(world.partition.clusters) < 2:
    ...             return None, -np.inf
    ...         first, second = (int(world.partition.members(c)[0]) for c in world.partition.clusters[:2])
    ...         move = world.merge(first, second)
    ...         return move, world.performance_change(move) if score is None else world.score_change(move, score)
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], CEMDecode(proposer=FirstTwo())).labels.tolist()
    [0, 0, 1]
    """

    @abstractmethod
    def propose(
        self,
        world: ClusterWorld,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[Move | None, float]:
        """A move that keeps the constraints, and what it would bring; None and -inf if nothing is proposed.

        Parameters
        ----------
        world : ClusterWorld
            With its present clustering; not to be changed. `world.memory` keeps what the next call needs.
        rng : Generator
            The only source of chance.
        score : float array, optional
            Weights by which moves are valued. Where there are none, the value is the change of performance.
        model : float array, optional
            Present weights, for proposers that are guided by them.
        """


PROPOSERS: Registry[Any] = Registry(
    "proposer",
    "intarsia.clusters",
    {"split_merge": "proposers:SplitMerge", "adaptive_split_merge": "adaptive:AdaptiveSplitMerge"},
    object,
)
