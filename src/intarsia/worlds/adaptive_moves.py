"""Adaptive proposer for any world: the cross-entropy method learns which drawn moves are worth evaluating."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.worlds.cem_optimize import cem_rounds, check_cem_settings
from intarsia.worlds.jump_proposer import JumpProposer, count_draws
from intarsia.worlds.log_linear_choice import fit_choice, log_probabilities

if TYPE_CHECKING:
    from intarsia.worlds.world import World


class AdaptiveMoves(JumpProposer):
    r"""Adaptive proposer of the moves of any world, learned by the cross-entropy method (Rohanimanesh2009, Section 4).

    Each round draws `n_candidates` moves with `propose` of the world and samples `n_samples` of them with probability
    proportional to :math:`\exp(\lambda \cdot \psi)`, where :math:`\psi` is the description of a move
    (`World.describe_move`, by default the change of features). Only sampled moves are evaluated. The best of them are
    the elite, to which :math:`\lambda` is fitted (Algorithm 2). It pays if a move is much cheaper to describe than to
    evaluate; otherwise hill climbing and annealing find better states in equal time.

    Parameters
    ----------
    n_candidates : int
        Number of moves drawn in a round.
    n_samples : int
        Number of these moves that are evaluated.
    elite_fraction, smoothing, max_iter, tol : float
        As in `cem_optimize`: fraction of evaluated moves that is kept, step of the parameters, number of rounds, and
        change of the parameters at which the rounds end.
    l2 : float
        Regularization of the parameters.

    References
    ----------
    Rohanimanesh2009, Section 4; DeBoer2005.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> move, value = AdaptiveMoves().propose(world, np.random.default_rng(0), np.array([1.0]))
    >>> value
    2.0
    """

    def __init__(
        self,
        *,
        n_candidates: int = 40,
        n_samples: int = 20,
        elite_fraction: float = 0.1,
        smoothing: float = 0.7,
        max_iter: int = 5,
        tol: float = 1e-3,
        l2: float = 0.01,
    ) -> None:
        self.n_candidates = n_candidates
        self.n_samples = n_samples
        self.elite_fraction = elite_fraction
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol
        self.l2 = l2

    def check_settings(self) -> None:
        """Raise if a setting is out of range."""
        name = "AdaptiveMoves: "
        check_cem_settings(name, self.n_samples, self.elite_fraction, self.smoothing, self.max_iter, self.tol)
        check_number(self.n_candidates, f"{name}n_candidates", low=1, integer=True)
        check_number(self.l2, f"{name}l2", low=0.0, high=np.inf, open_low=True, open_high=True)

    def propose(
        self,
        world: World,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[Any | None, float]:
        """Return the best of the evaluated moves, and its value."""
        self.check_settings()
        weights = next((array for array in (model, score) if array is not None), np.zeros(world.n_weights))
        candidates = self._candidates(world, rng, weights)
        if not candidates:
            return None, -np.inf
        features, sampled = self._describe(world, candidates), np.zeros(0, dtype=np.int64)

        def draw(parameters: FloatArray) -> tuple[FloatArray, Any]:
            nonlocal candidates, features, sampled
            if sampled.size:
                candidates = self._candidates(world, rng, weights) or candidates
                features = self._describe(world, candidates)
            probabilities = np.exp(log_probabilities(features, parameters))
            sampled = rng.choice(len(candidates), size=int(self.n_samples), p=probabilities / probabilities.sum())
            value_of = {int(k): self._value(world, candidates[int(k)], score) for k in np.unique(sampled)}
            values = np.array([value_of[int(k)] for k in sampled])
            return values, candidates[int(sampled[int(np.argmax(values))])]

        def fit(parameters: FloatArray, elites: IntArray) -> FloatArray:
            counts = np.bincount(sampled[elites], minlength=len(candidates)) / elites.size
            return fit_choice(parameters, features, counts, float(self.l2))

        best, best_value = None, -np.inf
        settings = {"elite_fraction": float(self.elite_fraction), "smoothing": float(self.smoothing)}
        first = np.zeros(features.shape[1])
        for row in cem_rounds(first, draw, fit, max_iter=int(self.max_iter), tol=float(self.tol), **settings):
            if row.values.max() > best_value:
                best, best_value = row.best, float(row.values.max())
        return best, best_value

    def _candidates(self, world: World, rng: np.random.Generator, weights: FloatArray) -> list[Any]:
        """Draw moves from the proposals of the world, without those that are not valid."""
        count_draws(world, int(self.n_candidates))
        with world.proposing(None):
            moves = [world.propose(rng, weights) for _ in range(int(self.n_candidates))]
        return [move for move in moves if move is not None]

    @staticmethod
    def _describe(world: World, moves: list[Any]) -> FloatArray:
        """Return the descriptions of moves, one row for each."""
        rows = [np.asarray(world.describe_move(move), dtype=np.float64) for move in moves]
        if any(row.ndim != 1 or row.shape != rows[0].shape or not np.isfinite(row).all() for row in rows):
            raise InvalidInputError(
                f"{type(world).__name__}.describe_move must return finite vectors of one length. Correct it."
            )
        return np.stack(rows)

    @staticmethod
    def _value(world: World, move: Any, score: FloatArray | None) -> float:
        """Return the change of the score, or of the performance without weights."""
        return float(world.performance_change(move) if score is None else world.score_change(move, score))
