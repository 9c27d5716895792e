"""Results and methods of decoding that are special to clusterings: labels, and greedy agglomeration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from intarsia._core.registry import Registry
from intarsia._core.validation import IntArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.worlds.decoder import Decoder, Decoding
from intarsia.worlds.search import Search


@dataclass(frozen=True, eq=False)
class Clustering(Decoding):
    """Clustering found by a decoder, with its score; `labels` is its state.

    The other attributes are those of `Decoding`: score, numbers of proposals, seconds, best score of each chain.

    Examples
    --------
    Joining the first pair adds 2 x 3 to the score; joining the second pair would add -1 x 3:

    >>> from intarsia.clusters import ClusterModel, ClusterWorld, decode, pair_features
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> clustering = decode(world, [3.0], "agglomeration")
    >>> clustering.labels.tolist(), clustering.score, clustering.n_accepted
    ([0, 0, 1], 6.0, 1)
    """

    @property
    def labels(self) -> IntArray:
        """Cluster of each record, numbered by first occurrence."""
        labels: IntArray = self.state
        return labels


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
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, decode, pair_features
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], "agglomeration").labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "agglomeration"
    summary: ClassVar[str] = "the fastest: greedy merges only"

    def __init__(self, *, min_gain: float = 0.0) -> None:
        self.min_gain = min_gain

    def run(self, search: Search) -> Status:
        """Merge greedily; merges count as both proposed and accepted moves."""
        check_number(self.min_gain, "Agglomeration: min_gain", low=0.0, high=np.inf, open_high=True)
        n_merges = search.world.agglomerate(search.weights, float(self.min_gain))
        search.count(n_merges, n_merges)
        return Status.CONVERGED


# Methods of `decode` for clusterings.
DECODERS: Registry[Decoder] = Registry(
    "decoder",
    "intarsia",
    {
        "hill_climbing": "worlds.hill_climbing:HillClimbing",
        "metropolis_hastings": "worlds.metropolis_hastings:MetropolisHastings",
        "agglomeration": "clusters.decoding:Agglomeration",
        "cem_decode": "worlds.cem_decode:CEMDecode",
        "annealing": "worlds.metropolis_hastings:MetropolisHastings",
        "cem": "worlds.cem_decode:CEMDecode",
    },
    Decoder,  # type: ignore[type-abstract]
)


def check_cluster_world(world: object) -> None:
    """Raise if a world is not a ClusterWorld.

    Examples
    --------
    >>> from intarsia.clusters import ClusterWorld, pair_features
    >>> check_cluster_world(ClusterWorld(pair_features(2, [[0, 1]], [1.0])))
    """
    from intarsia.clusters.world import ClusterWorld  # here, because world.py imports this module

    if not isinstance(world, ClusterWorld):
        raise InvalidInputError(
            f"expected a ClusterWorld, got a {type(world).__name__}. For a world of your own, use "
            f"intarsia.worlds.decode and intarsia.worlds.sample_world."
        )
