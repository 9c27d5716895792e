"""CEM-Decode: decoding by the moves of a proposer that learns during the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.partition import EQUAL_SCORE
from intarsia.clusters.adaptive import AdaptiveSplitMerge
from intarsia.clusters.decoding import Decoder, check_cluster_world
from intarsia.clusters.partition import Move
from intarsia.clusters.proposers import PROPOSERS, JumpProposer
from intarsia.clusters.world import ClusterWorld


class CEMDecode(Decoder):
    """Decoder that applies the best move sampled by an adaptive proposer while it increases the score (CEM-Decode).

    Algorithm 3 of Rohanimanesh2009: each step fits the proposer to the current clustering by the cross-entropy method
    (or, between fits every `learn_every` steps, only samples) and applies the best sampled move; the result is the last
    clustering. The algorithm of the paper is `learn_every=1`, `patience=1`.

    Parameters
    ----------
    proposer : JumpProposer, optional
        `AdaptiveSplitMerge` by default.
    max_iter : int
        Maximum number of steps.
    patience : int
        Stop after this many consecutive steps without an improvement.
    tol : float
        Smallest improvement of the score that is accepted.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> from intarsia.clusters.decoding import decode
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
        patience: int = 10,
        tol: float = EQUAL_SCORE,
    ) -> None:
        self.proposer = proposer
        self.max_iter = max_iter
        self.patience = patience
        self.tol = tol

    def jumps(
        self, world: ClusterWorld, weights: FloatArray | None, rng: np.random.Generator, *, by: str = "score"
    ) -> Iterator[tuple[Move | None, bool]]:
        """Yield for each step the proposed move and whether it was applied, which it is if it increases the value.

        Parameters
        ----------
        world : ClusterWorld
            Changed in place.
        weights : float array or None
            Weights of the score; sequential allocation of splits uses them too.
        rng : Generator
            Random number generator.
        by : {"score", "performance"}
            Value to increase: the score, or the performance against the truth.
        """
        with errors_in("CEMDecode.jumps"):
            check_cluster_world(world)
        proposer: JumpProposer = AdaptiveSplitMerge() if self.proposer is None else self.proposer
        check_number(self.max_iter, "CEMDecode: max_iter", low=0, integer=True)
        check_number(self.patience, "CEMDecode: patience", low=1, integer=True)
        check_number(self.tol, "CEMDecode: tol", low=0.0, high=np.inf, open_high=True)

        score = None
        if by != "performance":
            score = np.zeros(world.n_weights) if weights is None else weights
        n_without_improvement = 0
        for _ in range(int(self.max_iter)):
            move, value = proposer.propose(world, rng, score, weights)
            improves = value > float(self.tol)
            if move is not None and improves:
                world.apply(move)
            n_without_improvement = 0 if improves else n_without_improvement + 1
            yield move, improves
            if n_without_improvement >= int(self.patience):
                return

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Apply moves until none improves the score; return the numbers of proposed and applied moves."""
        world.memory.clear()
        n_proposed = n_applied = 0
        for _, improves in self.jumps(world, weights, rng):
            n_proposed += 1
            n_applied += improves
        return n_proposed, n_applied
