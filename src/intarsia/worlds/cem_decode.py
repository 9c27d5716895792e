"""CEM-Decode: decoding by the moves of a proposer that learns during the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.partition import EQUAL_SCORE
from intarsia.inference import Status
from intarsia.worlds.decoder import Decoder, require_world
from intarsia.worlds.jump_proposer import PROPOSERS, JumpProposer, drawn_moves
from intarsia.worlds.search import Search
from intarsia.worlds.world import World

_ACCEPT_ALL = 1e300  # temperature at which every valid proposal is accepted


class CEMDecode(Decoder):
    """Decoder that applies the best move sampled by an adaptive proposer while it increases the score (CEM-Decode).

    Algorithm 3 of Rohanimanesh2009: each step fits the proposer to the current state by the cross-entropy method and
    applies the best sampled move. The algorithm of the paper stops at the first state that no sampled move improves,
    a local optimum (`n_kicks=0`). Here the search goes on from the best state, changed by a few random moves, and the
    best state of all is returned.

    Parameters
    ----------
    proposer : JumpProposer, optional
        By default `AdaptiveSplitMerge` for clusterings, and `AdaptiveMoves` for other worlds.
    max_iter : int
        Maximum number of steps between two kicks.
    patience : int, optional
        A state counts as a local optimum after this many consecutive steps without an improvement. By default 1 for the
        default proposers, which evaluate many moves in a step, and 10 for a proposer that is passed.
    tol : float
        Smallest improvement of the score that is accepted.
    n_proposals : float
        Number of drawn moves per site (record, variable) after which no further kick is made.
    n_kicks : int, optional
        Maximum number of kicks; None for no limit, 0 for the algorithm of the paper.
    kick_size : int
        Number of random proposals that a kick accepts, whatever their score.

    References
    ----------
    Rohanimanesh2009, Algorithm 3.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, decode, pair_features
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], "cem_decode").labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "cem_decode"
    summary: ClassVar[str] = "documents: few but well-chosen moves of an adaptive proposer"

    _parts: ClassVar[Parts] = {"proposer": PROPOSERS}

    def __init__(
        self,
        *,
        proposer: JumpProposer | None = None,
        max_iter: int = 1000,
        patience: int | None = None,
        tol: float = EQUAL_SCORE,
        n_proposals: float = 500.0,
        n_kicks: int | None = None,
        kick_size: int = 3,
    ) -> None:
        self.proposer = proposer
        self.max_iter = max_iter
        self.patience = patience
        self.tol = tol
        self.n_proposals = n_proposals
        self.n_kicks = n_kicks
        self.kick_size = kick_size

    def check_settings(self) -> None:
        """Raise if a setting is out of range."""
        check_number(self.max_iter, "CEMDecode: max_iter", low=0, integer=True)
        if self.patience is not None:
            check_number(self.patience, "CEMDecode: patience", low=1, integer=True)
        check_number(self.tol, "CEMDecode: tol", low=0.0, high=np.inf, open_high=True)
        check_number(self.n_proposals, "CEMDecode: n_proposals", low=0.0, high=np.inf, open_high=True)
        check_number(self.kick_size, "CEMDecode: kick_size", low=1, integer=True)
        if self.n_kicks is not None:
            check_number(self.n_kicks, "CEMDecode: n_kicks", low=0, integer=True)

    def jumps(
        self, world: World, weights: FloatArray | None, rng: np.random.Generator, *, by: str = "score"
    ) -> Iterator[tuple[Any | None, bool]]:
        """Yield for each step the proposed move and whether it was applied, which it is if it increases the value.

        Parameters
        ----------
        world : World
            Changed in place.
        weights : float array or None
            Weights of the score; sequential allocation of splits uses them too.
        rng : Generator
            Random number generator.
        by : {"score", "performance"}
            Value to increase: the score, or the performance against the truth.
        """
        with errors_in("CEMDecode.jumps"):
            require_world(world)
        self.check_settings()
        for move, _, improves in self._climb(world, weights, rng, by):
            yield move, improves

    def run(self, search: Search) -> Status:
        """Apply moves until none improves the score, kick the best state, and repeat."""
        self.check_settings()
        world = search.world
        limit = float(self.n_proposals) * world.n_sites
        n_kicks, n_drawn, n_drawn_at_kick = 0, 0, -1
        search.store_best()
        while True:
            for _, gain, improves in self._climb(world, search.weights, search.rng, "score"):
                previous, n_drawn = n_drawn, drawn_moves(world)
                search.count(max(1, n_drawn - previous), int(improves), gain if improves else 0.0)
            allowed = self.n_kicks is None or n_kicks < int(self.n_kicks)
            # Proposers that do not count their draws, or draw nothing, get no kicks: the search would never end.
            if not allowed or n_drawn >= limit or n_drawn == n_drawn_at_kick or n_drawn == 0:
                return Status.CONVERGED if n_kicks == 0 else Status.MAX_ITER
            n_kicks, n_drawn_at_kick = n_kicks + 1, n_drawn
            search.restore_best()
            with world.proposing(None):
                search.step(int(self.kick_size), _ACCEPT_ALL)

    def _climb(
        self, world: World, weights: FloatArray | None, rng: np.random.Generator, by: str
    ) -> Iterator[tuple[Any | None, float, bool]]:
        """Yield the proposed move of each step, its value, and whether it was applied."""
        proposer = world.jump_proposer() if self.proposer is None else self.proposer
        patience = (1 if self.proposer is None else 10) if self.patience is None else int(self.patience)
        score = None
        if by != "performance":
            score = np.zeros(world.n_weights) if weights is None else weights
        n_without_improvement = 0
        for _ in range(int(self.max_iter)):
            move, value = proposer.propose(world, rng, score, weights)
            improves = move is not None and value > float(self.tol)
            if improves:
                world.apply(move)
            n_without_improvement = 0 if improves else n_without_improvement + 1
            yield move, value, improves
            if n_without_improvement >= patience:
                return
