"""Metropolis-Hastings with a falling temperature (simulated annealing), which leaves local optima."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import check_number
from intarsia.inference import Status
from intarsia.worlds.decoder import Decoder
from intarsia.worlds.hill_climbing import climb
from intarsia.worlds.jump_proposer import PROPOSERS
from intarsia.worlds.search import Search


class MetropolisHastings(Decoder):
    r"""Simulated annealing by Metropolis-Hastings with :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`.

    A proposal is accepted with probability :math:`\min(1, \exp(\Delta / T) q(Y | Y') / q(Y' | Y))`, where `log_ratio`
    of the world gives the ratio of proposal probabilities. At a constant temperature of 1 (`hot=1, cold=1`) the chain
    samples from the model; `sample_world` computes marginals in this way. With a falling temperature it leaves local
    optima in which hill climbing gets stuck. The state is inspected at least `n_checks` times at equal intervals; the
    best one is improved by hill climbing and returned.

    Parameters
    ----------
    n_proposals : float
        Number of proposals per site (record, variable).
    hot, cold : float
        Temperature at the start and at the end; it falls by a constant factor per proposal.
    n_checks : int
        How often the current state is compared with the best so far, at least.
    proposer : SplitMerge, optional
        As in `HillClimbing`.

    References
    ----------
    Metropolis1953; Hastings1970; Kirkpatrick1983.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, decode, pair_features
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
        proposer: Any | None = None,
    ) -> None:
        self.n_proposals = n_proposals
        self.hot = hot
        self.cold = cold
        self.n_checks = n_checks
        self.proposer = proposer

    def run(self, search: Search) -> Status:
        """Anneal, then climb from the best state."""
        check_number(self.n_proposals, "MetropolisHastings: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.hot, "MetropolisHastings: hot", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_number(self.cold, "MetropolisHastings: cold", low=0.0, high=float(self.hot), open_low=True)
        check_number(self.n_checks, "MetropolisHastings: n_checks", low=1, integer=True)
        total = int(np.ceil(float(self.n_proposals) * search.world.n_sites))
        cooling = (float(self.cold) / float(self.hot)) ** (1.0 / max(1, total))
        chunk = min(search.world.chunk_size(total), -(-total // int(self.n_checks)))
        n_done = 0
        with search.world.proposing(self.proposer):
            while n_done < total:
                n_steps = min(chunk, total - n_done)
                search.step(n_steps, float(self.hot) * cooling**n_done, cooling)
                n_done += n_steps
        search.restore_best()
        climb(search, self.proposer, 100.0, 10.0)
        return Status.MAX_ITER
