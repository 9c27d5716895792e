"""Proposers that compare several moves in Python and return the best one, for SampleRank and CEM-Decode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray

if TYPE_CHECKING:
    from intarsia.worlds.world import World

_N_DRAWS = "number of drawn moves"


class JumpProposer(Settings, ABC):
    """Abstract base of user-defined proposers, which inspect a world in Python and return one move at a time.

    Pass a subclass to `CEMDecode(proposer=...)` for decoding, and to `ClusterWorld(proposer=...)` for learning by
    SampleRank. `SplitMerge` is not a subclass: its proposals are sampled inside compiled loops, which makes it fast.

    Examples
    --------
    A proposer that merges the first two clusters, which here are the records 0 and 1.

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
        world: Any,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[Any | None, float]:
        """Return a move that is allowed, and its value; None and -inf if nothing is proposed.

        Parameters
        ----------
        world : World
            World with its current state, which must not be changed. Store state between calls in `world.memory`.
        rng : Generator
            The only source of random numbers.
        score : float array, optional
            Weights of the score, whose change is the value of a move; without them, the value is the change of
            performance.
        model : float array, optional
            Current weights, for proposers that use them.
        """


def count_draws(world: World, n: int) -> None:
    """Add to the number of moves that proposers have drawn in a world since its last start."""
    world.memory[_N_DRAWS] = drawn_moves(world) + n


def drawn_moves(world: World) -> int:
    """Return the number of moves that proposers have drawn in a world since its last start."""
    return int(world.memory.get(_N_DRAWS, 0))


# Proposers by name, for the settings of decoders and for model files; clusterings bring theirs.
PROPOSERS: Registry[Any] = Registry(
    "proposer",
    "intarsia",
    {
        "split_merge": "clusters.proposers:SplitMerge",
        "adaptive_split_merge": "clusters.adaptive:AdaptiveSplitMerge",
        "adaptive_moves": "worlds.adaptive_moves:AdaptiveMoves",
    },
    object,
)
