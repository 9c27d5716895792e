"""What a proposer of one's own must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._validation import FloatArray
from intarsia.clusters.partition import Move

if TYPE_CHECKING:
    from intarsia.clusters.world import ClusterWorld


class JumpProposer(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of proposers that look at a world in Python and name one move at a time.

    Derive from it to propose in a way of your own, give it to `ClusterWorld(proposer=...)` for learning by SampleRank
    and to `CEMDecode(proposer=...)` for decoding. `SplitMerge` is none of these: its proposals are drawn inside
    compiled loops, which is what makes it fast.

    Examples
    --------
    One that merges the first two clusters, which here are the records 0 and 1.

    >>> from intarsia.clusters import CEMDecode, ClusterModel, ClusterWorld, decode, pair_features
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
