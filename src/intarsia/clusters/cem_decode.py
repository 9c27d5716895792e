"""Decoding by jumps of a proposer that learns where to jump (CEM-Decode)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.partition import EQUAL_SCORE
from intarsia.clusters.adaptive import AdaptiveSplitMerge
from intarsia.clusters.decoding import Decoder
from intarsia.clusters.partition import Move
from intarsia.clusters.proposers import PROPOSERS, JumpProposer
from intarsia.clusters.world import ClusterWorld, check_cluster_world


class CEMDecode(Decoder):
    """Jump to the best of the moves that a learning proposer draws, as long as it raises the score.

    Algorithm 3 of Rohanimanesh2009: each step learns the proposer at the present clustering by the cross-entropy method
    (or, between `learn_every` steps, only draws) and goes to the step's best sample; the result is the last clustering.
    With `learn_every=1`, `patience=1` it is the algorithm as written.

    Parameters
    ----------
    proposer : JumpProposer, optional
        `AdaptiveSplitMerge` by default, whose parameters are kept until it learns again.
    max_iter : int
        Most steps.
    patience : int
        Steps in turn without a gain after which it ends.
    tol : float
        What a jump must gain.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> from intarsia.clusters.world import ClusterWorld, check_cluster_world
    >>> from intarsia.clusters.decoding import decode
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], "cem_decode").labels.tolist()
    [0, 0, 1]
    """

    name: ClassVar[str] = "cem_decode"
    summary: ClassVar[str] = "documents: few but well-chosen jumps of a proposer that learns"

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
        """Step after step: the move that was proposed, and whether it was made, which is when it raises the value.

        Parameters
        ----------
        world : ClusterWorld
            Changed in place.
        weights : float array or None
            Weights of the score; they also allocate sequential splits.
        rng : Generator
            Random numbers.
        by : {"score", "performance"}
            What is to be raised: the score, or the performance against the truth.
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
        idle = 0
        for _ in range(int(self.max_iter)):
            move, value = proposer.propose(world, rng, score, weights)
            gains = value > float(self.tol)
            if move is not None and gains:
                world.apply(move)
            idle = 0 if gains else idle + 1
            yield move, gains
            if idle >= int(self.patience):
                return

    def run(self, world: ClusterWorld, weights: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Jump until nothing gains."""
        world.memory.clear()
        tried = made = 0
        for _, gains in self.jumps(world, weights, rng):
            tried += 1
            made += gains
        return tried, made
