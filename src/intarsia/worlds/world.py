"""World: a current state, random moves to neighbouring states, and how features and performance change."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, IntArray, as_float_array
from intarsia._kernels.partition import ACCEPTED, EQUAL_SCORE, PROPOSED, VALID
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.worlds.decoder import DECODERS, Decoding
from intarsia.worlds.ranking import RankingState, rank_neighbours
from intarsia.worlds.state_key import state_key

if TYPE_CHECKING:
    from intarsia.worlds.jump_proposer import JumpProposer


class World(ABC):
    r"""A state of your own type, with moves to neighbouring states whose score :math:`\Theta \cdot \phi(Y)` is linear.

    Derive from it for states that no estimator covers: permutations, matchings, alignments, segmentations, or several
    of these together. The class then works with `SampleRank` (learning of the weights), `decode` (search for the best
    state), `sample_world` (Metropolis-Hastings with marginals) and `intarsia.testing.check_world` (tests of
    your class). A move is any object that `propose` returns.

    Set the attributes `n_weights`, `n_sites` and `state`, and define these methods:

    ======================================  ============================================================================
    `propose(rng, weights)`                 a random move, or None; instead, `moves(weights)` lists them
    `features()`, or `feature_change(move)`  features of the state, or their change by a move; both is best
    `apply(move)`, `undo()`                 apply a move to the state, and revert the last one
    `performance()`                         optional: quality F of the state against the truth, for learning
    `performance_change(move)`              optional: change of F, if this is faster than computing F twice
    `log_ratio(move)`                       optional: if a move and its reverse are not equally probable
    `restart(rng)`                          optional: go to the initial state, if it is not the first state
    ======================================  ============================================================================

    Attributes
    ----------
    n_weights : int
        Length of the feature vector.
    n_sites : int
        Size of the world, such as its number of variables. Numbers of proposals are multiples of it.
    state : object
        Current state. `snapshot` returns a deep copy of it, and `restore` sets it. If your class also stores values
        derived from the state, make `state` a property whose setter recomputes them, or override `restore`.

    References
    ----------
    Rohanimanesh2009; McCallum2009.

    Examples
    --------
    Order three jobs so that short jobs come first. A move swaps two neighbours; the feature is the total waiting time.

    >>> class Jobs(World):
    ...     n_weights = 1
    ...
    ...     def __init__(self, durations):
    ...         self.durations, self.n_sites = np.array(durations), len(durations)
    ...         self.state, self.applied = list(range(len(durations))), []
    ...
    ...     def propose(self, rng, weights):
    ...         return int(rng.integers(self.n_sites - 1))
    ...
    ...     def features(self):
    ...         return np.array([np.cumsum(self.durations[self.state])[:-1].sum()])
    ...
    ...     def apply(self, move):
    ...         self.state[move], self.state[move + 1] = self.state[move + 1], self.state[move]
    ...         self.applied.append(move)
    ...
    ...     def undo(self):
    ...         self.apply(self.applied.pop())
    ...         self.applied.pop()
    >>> from intarsia.worlds import decode
    >>> result = decode(Jobs([5.0, 1.0, 3.0]), [-1.0])
    >>> result.state, result.score
    ([1, 2, 0], -5.0)
    """

    n_weights: int
    n_sites: int
    state: Any
    compiled: ClassVar[bool] = False
    """Whether `search` runs in compiled loops, which finish before Ctrl-C takes effect, so that the state is valid."""
    decoders: ClassVar[Registry[Any]] = DECODERS
    """Methods of `decode` for this kind of world, by name."""
    result_type: ClassVar[type[Decoding]] = Decoding
    """Class of the results of `decode`."""

    # ---------------------------------------------------------------- written by users

    @abstractmethod
    def apply(self, move: Any) -> None:
        """Apply the move to the state."""

    @abstractmethod
    def undo(self) -> None:
        """Undo the last move."""

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Any | None:
        """Return a random move from the current state, or None if the draw is not valid; the state does not change.

        By default the move is drawn from `moves`.
        """
        all_moves = self.moves(weights)
        if not all_moves:
            return None
        probabilities = np.array([probability for _, probability in all_moves], dtype=np.float64)
        total = probabilities.sum()
        if not (probabilities >= 0.0).all() or not np.isclose(total, 1.0, rtol=0.0, atol=1e-6):
            raise InvalidInputError(
                f"{type(self).__name__}.moves: the probabilities of the {len(all_moves)} moves sum to {total:.6g}, "
                f"expected numbers of at least 0 that sum to 1. Divide them by their sum."
            )
        return all_moves[int(rng.choice(len(all_moves), p=probabilities / total))][0]

    def moves(self, weights: FloatArray) -> Sequence[tuple[Any, float]]:
        """Return all moves from the current state with their probabilities; optional, for small neighbourhoods."""
        raise NotSupportedError(
            f"{type(self).__name__} defines neither propose nor moves. Define propose(rng, weights), which returns a "
            f"random move, or moves(weights), which returns a list of (move, probability)."
        )

    def features(self) -> FloatArray:
        """Return the feature vector of the current state."""
        raise NotSupportedError(
            f"{type(self).__name__} does not define features. Define features(), which returns {self.n_weights} "
            f"numbers for the current state."
        )

    def feature_change(self, move: Any) -> FloatArray:
        """Return the features after the move minus those before; by default from `features`, at twice the cost."""
        before = np.array(self.features(), dtype=np.float64)
        self.apply(move)
        after = np.array(self.features(), dtype=np.float64)
        self.undo()
        return after - before

    def performance(self) -> float:
        """Return the performance F of the current state, such as its accuracy; 1 is perfect. Needed for learning."""
        raise NotSupportedError(
            f"{type(self).__name__} does not define performance. Define performance(), which compares the current "
            f"state with the truth; SampleRank needs it."
        )

    def performance_change(self, move: Any) -> float:
        """Return F after the move minus F before; by default from `performance`, at twice the cost."""
        before = self.performance()
        self.apply(move)
        after = self.performance()
        self.undo()
        return after - before

    def log_ratio(self, move: Any) -> float:
        """Return log q(Y | Y') - log q(Y' | Y), the log-probability of the reverse move minus that of the move.

        It is 0 if a move and its reverse are equally probable, which is assumed by default. A world with `moves` gets
        the exact ratio: the moves of both states are listed for every proposal of Metropolis-Hastings. Override it if
        this is slow.
        """
        if type(self).moves is World.moves:
            return 0.0
        weights = np.zeros(self.n_weights)
        before = self.snapshot()
        self.apply(move)
        after = self.snapshot()
        log_backward = self._log_probability_to(before, weights)
        self.undo()
        return log_backward - self._log_probability_to(after, weights)

    def restart(self, rng: np.random.Generator) -> None:
        """Go to the initial state: by default the state of the world when it was first restarted."""
        if "_initial_state" not in self.__dict__:
            self._initial_state = self.snapshot()
        self.restore(self._initial_state)

    def describe_move(self, move: Any) -> FloatArray:
        """Return numbers that describe a move, from which an adaptive proposer learns; by default `feature_change`."""
        return self.feature_change(move)

    def snapshot(self) -> Any:
        """Return a copy of the current state."""
        return copy.deepcopy(self.state)

    def restore(self, state: Any) -> None:
        """Go to a state that `snapshot` returned; the state is copied."""
        self.state = copy.deepcopy(state)

    # ---------------------------------------------------------------- derived

    @property
    def has_features(self) -> bool:
        """Whether the class defines `features`."""
        return type(self).features is not World.features

    @property
    def has_performance(self) -> bool:
        """Whether the class defines `performance`."""
        return type(self).performance is not World.performance

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, for error messages; by default their numbers."""
        return tuple(f"feature {k}" for k in range(self.n_weights))

    @property
    def memory(self) -> dict[Any, Any]:
        """Values that adaptive proposers store between proposals; cleared at each start."""
        memory: dict[Any, Any] = self.__dict__.setdefault("_memory", {})
        return memory

    def score(self, weights: ArrayLike) -> float:
        """Return the score of the current state."""
        weight_array, features = self.check_weights(weights), np.asarray(self.features(), dtype=np.float64)
        if features.shape != weight_array.shape or not np.isfinite(features).all():
            raise InvalidInputError(
                f"{type(self).__name__}.features returned an array of shape {features.shape}, expected "
                f"{self.n_weights} finite numbers (n_weights). Correct features, or n_weights."
            )
        return float(weight_array @ features)

    def score_change(self, move: Any, weights: FloatArray) -> float:
        """Return the score after the move minus the score before."""
        change = self.feature_change(move)
        if np.shape(change) != np.shape(weights):
            raise InvalidInputError(
                f"{type(self).__name__}.feature_change returned shape {np.shape(change)} for the move {move!r:.80}, "
                f"expected ({self.n_weights},) (n_weights). Return one number per feature."
            )
        gain = float(weights @ change)
        if np.isnan(gain):
            raise InvalidInputError(
                f"{type(self).__name__}.feature_change returned NaN or infinite values for the move {move!r:.80}. "
                f"Return finite numbers, and let propose return None for moves that are not allowed."
            )
        return gain

    def check_weights(self, weights: ArrayLike) -> FloatArray:
        """Return the weights as an array; raise if the shape is wrong or a weight is not finite."""
        name = type(self).__name__
        weight_array = as_float_array(weights, f"{name}: weights")
        if weight_array.shape != (self.n_weights,) or not np.isfinite(weight_array).all():
            raise InvalidInputError(
                f"{name}: weights has shape {weight_array.shape}, expected {self.n_weights} finite numbers, one "
                f"for each of {', '.join(self.feature_names[:4])}, ... Pass that many."
            )
        return weight_array

    # ---------------------------------------------------------------- overridden by worlds with compiled loops

    def chunk_size(self, n_proposals: int) -> int:
        """Return the number of proposals of one call of `search`; time limits are checked between two calls."""
        return 100

    def walk(self, state: RankingState, n_steps: int, rng: np.random.Generator) -> None:
        """Run Algorithm 1 of Rohanimanesh2009 for `n_steps` proposals: compare, update weights, accept or reject."""
        rank_neighbours(self, state, n_steps, rng)

    def search(
        self, weights: FloatArray, n_steps: int, rng: np.random.Generator, temperature: float, cooling: float = 1.0
    ) -> tuple[float, IntArray]:
        """Search under fixed weights by hill climbing (temperature 0) or Metropolis-Hastings.

        Returns the change of the score, and counters. The temperature is multiplied by `cooling` before each proposal.
        """
        counters, total = np.zeros(6, dtype=np.int64), 0.0
        for _ in range(n_steps):
            counters[PROPOSED] += 1
            temperature *= cooling
            move = self.propose(rng, weights)
            if move is None:
                continue
            counters[VALID] += 1
            gain = self.score_change(move, weights)
            if temperature > 0.0:
                accept = np.log(rng.random()) < gain / temperature + self.log_ratio(move)
            else:
                accept = gain > EQUAL_SCORE
            if accept:
                counters[ACCEPTED] += 1
                total += gain
                self.apply(move)
        return total, counters

    def refresh(self) -> None:
        """Recompute stored values that many updates may have made inaccurate; nothing by default."""
        return

    def agglomerate(self, weights: FloatArray, min_gain: float = 0.0) -> int:
        """Make greedy moves before a search, if the world has them; return how many."""
        return 0

    @contextmanager
    def proposing(self, proposer: Any | None) -> Iterator[None]:
        """Use another proposer inside a `with` block; only worlds of clusterings have several."""
        if proposer is not None:
            raise NotSupportedError(
                f"{type(self).__name__} has only its own proposals. Leave out proposer=, or change its propose method."
            )
        yield

    def jump_proposer(self) -> JumpProposer:
        """Return the proposer of CEM-Decode if none is passed."""
        from intarsia.worlds.adaptive_moves import AdaptiveMoves

        return AdaptiveMoves()

    def _log_probability_to(self, target: Any, weights: FloatArray) -> float:
        """Return the log-probability that the next proposal leads to a state, from `moves`."""
        key, total = state_key(target), 0.0
        for move, probability in self.moves(weights):
            self.apply(move)
            if state_key(self.snapshot()) == key:
                total += probability
            self.undo()
        return float(np.log(total)) if total > 0.0 else -np.inf
