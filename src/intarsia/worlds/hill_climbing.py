"""Hill climbing: apply random proposals that increase the score until none does."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import check_number
from intarsia.inference import Status
from intarsia.worlds.decoder import Decoder
from intarsia.worlds.jump_proposer import PROPOSERS
from intarsia.worlds.search import Search


class HillClimbing(Decoder):
    """Hill climbing: apply random proposals that increase the score until none does.

    It ends in a state that no likely proposal improves, which need not be the best one; `n_chains=` of `decode` and
    `MetropolisHastings` help. With `agglomerate=True` a clustering begins with greedy merges, which reach a good
    clustering in far fewer moves than random proposals; the proposals then correct the errors of merging.

    Parameters
    ----------
    n_proposals : float
        Maximum number of proposals per site (record, variable).
    patience : float
        Stop after this many consecutive proposals per site without an accepted one.
    agglomerate : bool
        Whether to start with greedy merges, if the world is a clustering. Other worlds ignore it.
    proposer : SplitMerge, optional
        Proposer of a clustering: by default 20% random splits and merges, 40% sequential ones and 40% moves of single
        records. Other worlds have their own proposals.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, decode, pair_features
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
        proposer: Any | None = None,
    ) -> None:
        self.n_proposals = n_proposals
        self.patience = patience
        self.agglomerate = agglomerate
        self.proposer = proposer

    def run(self, search: Search) -> Status:
        """Climb from the current state."""
        check_number(self.n_proposals, "HillClimbing: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.patience, "HillClimbing: patience", low=0.0, high=np.inf, open_low=True)
        if self.agglomerate:
            n_merges = search.world.agglomerate(search.weights)
            if n_merges:
                search.count(0, n_merges)
        return climb(search, self.proposer, float(self.n_proposals), float(self.patience))


def climb(search: Search, proposer: Any | None, n_proposals: float, patience: float) -> Status:
    """Accept proposals that increase the score until none did for a while; both limits are per site.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [2.0]), ClusterModel(absent=False))
    >>> climb(Search(world, np.array([1.0]), np.random.default_rng(0)), None, 100.0, 10.0).name
    'CONVERGED'
    """
    n_sites = search.world.n_sites
    total, max_idle = (int(np.ceil(min(limit * n_sites, 1e15))) for limit in (n_proposals, patience))
    chunk = search.world.chunk_size(total)
    n_proposed = n_idle = 0
    with search.world.proposing(proposer):
        while n_proposed < total and n_idle < max_idle:
            n_steps = min(chunk, total - n_proposed, max_idle - n_idle)
            n_accepted = search.step(n_steps)
            n_proposed += n_steps
            n_idle = 0 if n_accepted else n_idle + n_steps
    return Status.CONVERGED if n_idle >= max_idle else Status.MAX_ITER
