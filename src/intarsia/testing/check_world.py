"""Contract tests of worlds: undo, features, performance and proposals of a class agree with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, as_generator, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.worlds.decoder import require_world
from intarsia.worlds.state_key import state_key
from intarsia.worlds.world import World

_SIGMAS = 5.0  # standard deviations by which frequencies may differ from probabilities
_N_PAIRS = 6  # pairs of states whose proposals are counted
_N_RATIOS = 20  # proposals to one state whose ratios are averaged


@dataclass(frozen=True, eq=False)
class WorldReport(ShownResult):
    """Result of `check_world`: the checks that passed, and those that could not be made, with the reason.

    Examples
    --------
    >>> from intarsia.clusters import ClusterWorld, pair_features
    >>> report = check_world(ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [1.0, -1.0])))
    >>> report.passed[:3], list(report.skipped)
    (('state', 'propose', 'undo'), ['performance', 'probabilities'])
    """

    passed: tuple[str, ...]
    skipped: dict[str, str]


class _Fault(Exception):
    """A contract that the world breaks; `check_world` collects the messages."""


class _Skip(Exception):
    """Reason why a check cannot be made."""


@errors_from("check_world")
def check_world(
    world: World,
    weights: ArrayLike | None = None,
    *,
    n_moves: int = 50,
    n_draws: int = 2000,
    tol: float = 1e-8,
    random_state: int | np.random.Generator | None = 0,
) -> WorldReport:
    """Test that the methods of a world agree with each other; one line in the tests of your own class.

    ============= ==================================================================================================
    check         contract
    ============= ==================================================================================================
    state         `restore(snapshot())` restores the state, and later moves do not change a snapshot
    propose       `propose` returns moves, and leaves the state as it is
    undo          `undo` after `apply` restores the state and the features, also after several moves
    features      `feature_change` equals the features after the move minus those before
    performance   `performance_change` equals the performance after the move minus that before
    probabilities probabilities of `moves` are non-negative, sum to one, and are those of `propose`
    symmetry      `log_ratio` is the log-probability of the reverse move minus that of the move (0 means that they are
                  equally probable); compared with frequencies of drawn proposals
    restart       equal seeds give equal initial states
    ============= ==================================================================================================

    Parameters
    ----------
    world : World
        World to test; small ones are tested best, because the same proposals recur. Its state is changed.
    weights : float array, optional
        Weights that `propose` receives; random ones by default.
    n_moves : int
        Number of moves for the checks of undo, features and performance.
    n_draws : int
        Number of proposals drawn from each of a few states, for the checks of probabilities.
    tol : float
        Largest difference of features and performance, relative to their size.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    WorldReport
        Names of the checks that passed, and reasons for those that were skipped.

    Raises
    ------
    InvalidInputError
        If a check fails; the message names every failed check, the method to correct and the first difference.

    Examples
    --------
    A switch whose `undo` does nothing:

    >>> class Switch(World):
    ...     n_weights = n_sites = state = 1
    ...     propose = lambda self, rng, weights: "flip"
    ...     features = lambda self: [self.state]
    ...     undo = lambda self: None
    ...
    ...     def apply(self, move):
    ...         self.state = 1 - self.state
    >>> try:
    ...     check_world(Switch())
    ... except InvalidInputError as error:
    ...     print(error)
    check_world: Switch breaks its contract. undo: undo does not restore the state after the move 'flip'. Correct undo.
    """
    require_world(world)
    check_number(n_moves, "n_moves", low=1, integer=True)
    check_number(n_draws, "n_draws", low=10, integer=True)
    check_number(tol, "tol", low=0.0, high=np.inf, open_low=True)
    rng = as_generator(random_state)
    weight_array = rng.normal(size=world.n_weights) if weights is None else world.check_weights(weights)
    checker = _Checker(world, weight_array, int(n_moves), int(n_draws), float(tol), rng)
    checks: dict[str, Callable[[], None]] = {
        "state": checker.check_state,
        "propose": checker.check_propose,
        "undo": checker.check_undo,
        "features": checker.check_features,
        "performance": checker.check_performance,
        "probabilities": checker.check_probabilities,
        "symmetry": checker.check_symmetry,
        "restart": checker.check_restart,
    }
    passed, skipped, faults = [], {}, {}
    for name, check in checks.items():
        world.restart(rng)
        try:
            check()
        except _Fault as fault:
            faults[name] = str(fault)
            if name in ("state", "propose", "undo"):
                break  # the other checks rely on them
        except _Skip as reason:
            skipped[name] = str(reason)
        else:
            passed.append(name)
    if faults:
        remedy = " ".join(f"{name}: {message}" for name, message in faults.items())
        raise InvalidInputError(f"{type(world).__name__} breaks its contract. {remedy}")
    world.restart(rng)
    return WorldReport(tuple(passed), skipped)


@dataclass(eq=False)
class _Checker:
    """The checks, each of which raises a fault or a reason to skip it."""

    world: World
    weights: FloatArray
    n_moves: int
    n_draws: int
    tol: float
    rng: np.random.Generator

    def check_state(self) -> None:
        """Check that snapshots restore the state and are not changed by later moves."""
        world = self.world
        self.walk(self.n_moves)
        snapshot, key = world.snapshot(), self.key()
        self.walk(self.n_moves)
        if state_key(snapshot) != key:
            raise _Fault("apply changes a state that snapshot returned earlier. Let snapshot return a copy.")
        world.restore(snapshot)
        if self.key() != key:
            raise _Fault("restore(snapshot()) does not restore the state. Correct snapshot or restore.")

    def check_propose(self) -> None:
        """Check that proposing does not change the state, and that there are moves."""
        n_valid = 0
        for _ in range(self.n_moves):
            key = self.key()
            move = self.propose()
            if self.key() != key:
                raise _Fault("propose changes the state. Let it only return a move, and change the state in apply.")
            if move is None:
                continue
            n_valid += 1
            self.world.apply(move)
        if n_valid == 0:
            raise _Fault(f"propose returned None {self.n_moves} times from the initial state. Return a move.")

    def check_undo(self) -> None:
        """Check that undo reverts one move, and several moves in reverse order."""
        world, keys = self.world, []
        for _ in range(self.n_moves):
            move = self.propose()
            if move is None:
                continue
            key, features = self.key(), self.features()
            world.apply(move)
            world.undo()
            if self.key() != key:
                raise _Fault(f"undo does not restore the state after the move {move!r:.60}. Correct undo.")
            if features is not None and not self.is_equal(features, self.features()):
                raise _Fault(
                    f"undo restores the state but not the features after the move {move!r:.60}. Let undo also revert "
                    f"the stored values from which features are computed."
                )
            keys.append(key)
            world.apply(move)
        for key in reversed(keys):
            world.undo()
            if self.key() != key:
                raise _Fault("undo reverts only the last move, not several moves in reverse order. Keep a stack.")

    def check_features(self) -> None:
        """Check that feature_change equals the difference of recomputed features."""
        if not self.world.has_features:
            raise _Skip("the world does not define features, so that feature_change has nothing to agree with")
        self._check_change("feature_change", "features", self.world.feature_change, lambda: self.world.features())

    def check_performance(self) -> None:
        """Check that performance_change equals the difference of recomputed performance."""
        if not self.world.has_performance:
            raise _Skip("the world does not define performance")
        try:
            self.world.performance()
        except InvalidInputError as error:
            raise _Skip(str(error)) from error
        self._check_change("performance_change", "performance", self.world.performance_change, self.world.performance)

    def check_probabilities(self) -> None:
        """Check that the probabilities of the moves sum to one and are those of propose."""
        if type(self.world).moves is World.moves:
            raise _Skip("the world does not define moves")
        all_moves = self.world.moves(self.weights)
        probabilities = np.array([probability for _, probability in all_moves], dtype=np.float64)
        if not np.isfinite(probabilities).all() or (probabilities < 0.0).any():
            raise _Fault("moves has a probability that is negative or not finite. Return numbers in [0, 1].")
        if abs(probabilities.sum() - 1.0) > 1e-6:
            raise _Fault(
                f"the probabilities of moves sum to {probabilities.sum():.6g}, not to 1. Divide them by their sum; add "
                f"the pair (None, rest) if some proposals are not valid."
            )
        expected: dict[Hashable, float] = {}
        for move, probability in all_moves:
            key = self.key_after(move)
            expected[key] = expected.get(key, 0.0) + probability
        counts = self.count_proposals()
        for key in {**expected, **counts}:
            probability, frequency = expected.get(key, 0.0), counts.get(key, 0) / self.n_draws
            if abs(frequency - probability) > self.tolerance(probability):
                raise _Fault(
                    f"propose draws a state with frequency {frequency:.3g}, to which moves assigns the probability "
                    f"{probability:.3g}. Let propose draw from moves."
                )

    def check_symmetry(self) -> None:
        """Check the ratio of proposal probabilities against the frequencies of moves and of their reverse moves."""
        world, first, start = self.world, self.world.snapshot(), self.key()
        forward: Counter[Hashable] = Counter()
        moves: dict[Hashable, Any] = {}
        # A proposal may use further random numbers, such as an order, on which its ratio depends. The mean ratio of
        # the proposals that lead to one state is the ratio of probabilities.
        ratios: dict[Hashable, list[float]] = {}
        for _ in range(self.n_draws):
            move = self.propose()
            key = start if move is None else self.key_after(move)
            forward[key] += 1
            if move is not None and key != start:
                moves[key] = move
                if len(ratios.setdefault(key, [])) < _N_RATIOS:
                    ratios[key].append(float(np.exp(min(world.log_ratio(move), 700.0))))
        targets = [key for key, _ in forward.most_common() if key in moves][:_N_PAIRS]
        for key in targets:
            world.apply(moves[key])
            n_back = self.count_proposals().get(start, 0)
            world.restore(first)
            self._compare_ratio(forward[key] / self.n_draws, n_back / self.n_draws, np.array(ratios[key]))

    def check_restart(self) -> None:
        """Check that equal seeds give equal initial states."""
        keys = []
        for _ in range(2):
            self.world.restart(np.random.default_rng(0))
            keys.append(self.key())
            move = self.propose()
            if move is not None:
                self.world.apply(move)
        if keys[0] != keys[1]:
            raise _Fault("restart gives two initial states for equal seeds. Use rng as the only source of randomness.")

    # ---------------------------------------------------------------- helpers

    def walk(self, n_moves: int) -> None:
        """Apply proposed moves."""
        for _ in range(n_moves):
            move = self.propose()
            if move is not None:
                self.world.apply(move)

    def propose(self) -> Any | None:
        """Return a proposed move."""
        return self.world.propose(self.rng, self.weights)

    def key(self) -> Hashable:
        """Return the key of the current state."""
        return state_key(self.world.snapshot())

    def key_after(self, move: Any | None) -> Hashable:
        """Return the key of the state to which a move leads."""
        if move is None:
            return self.key()
        before = self.world.snapshot()
        self.world.apply(move)
        key = self.key()
        self.world.restore(before)  # not by undo, which has its own check
        return key

    def count_proposals(self) -> Counter[Hashable]:
        """Return how many proposals lead to each state."""
        return Counter(self.key_after(self.propose()) for _ in range(self.n_draws))

    def features(self) -> FloatArray | None:
        """Return the features of the current state, or None if the world does not define them."""
        return np.array(self.world.features(), dtype=np.float64) if self.world.has_features else None

    def is_equal(self, expected: Any, actual: Any) -> bool:
        """Return whether numbers are equal up to the tolerance."""
        first, second = np.asarray(expected, dtype=np.float64), np.asarray(actual, dtype=np.float64)
        scale = max(1.0, float(np.abs(first).max(initial=0.0)))
        return first.shape == second.shape and bool((np.abs(first - second) <= self.tol * scale).all())

    def tolerance(self, probability: float) -> float:
        """Return by how much a frequency may differ from a probability."""
        return float(_SIGMAS * np.sqrt(max(probability * (1.0 - probability), 1.0 / self.n_draws) / self.n_draws))

    def _check_change(
        self, change_name: str, name: str, change: Callable[[Any], Any], value: Callable[[], Any]
    ) -> None:
        """Check the change that a method returns against the values before and after each move."""
        for _ in range(self.n_moves):
            move = self.propose()
            if move is None:
                continue
            before = np.array(value(), dtype=np.float64)
            key = self.key()
            reported_change = np.array(change(move), dtype=np.float64)
            if self.key() != key:
                raise _Fault(f"{change_name} changes the state for the move {move!r:.60}. Leave the state as it is.")
            self.world.apply(move)
            after = np.array(value(), dtype=np.float64)
            scale = max(1.0, float(np.abs(before).max(initial=0.0)))
            if reported_change.shape != before.shape:
                raise _Fault(
                    f"{change_name} returned shape {reported_change.shape} for the move {move!r:.60}, but {name} has "
                    f"shape {before.shape}. Return one number for each."
                )
            wrong = np.flatnonzero(~(np.abs(after - before - reported_change) <= self.tol * scale).ravel())
            if wrong.size:
                k = int(wrong[0])
                place = f"[{k}]" if before.ndim else ""
                raise _Fault(
                    f"{change_name}{place} is {reported_change.ravel()[k]:.6g} for the move {move!r:.60}, but {name} "
                    f"changes by {(after - before).ravel()[k]:.6g}. Correct {change_name}, or remove it."
                )

    def _compare_ratio(self, forward: float, backward: float, ratios: FloatArray) -> None:
        """Raise if two frequencies contradict the ratio of probabilities that the world declares."""
        ratio = float(ratios.mean())
        error = _SIGMAS * float(ratios.std()) / np.sqrt(ratios.size)
        # backward = ratio * forward: compare with the standard deviation of the difference.
        difference = backward - ratio * forward
        allowed = self.tolerance(backward) + ratio * self.tolerance(forward) + error * forward
        if not abs(difference) <= allowed:
            says = "equally probable (log_ratio is 0)" if (ratios == 1.0).all() else f"in the ratio {ratio:.3g}"
            raise _Fault(
                f"a move is proposed with frequency {forward:.3g} and its reverse with {backward:.3g}, but the world "
                f"declares them {says}. Metropolis-Hastings would sample from another distribution. Define "
                f"log_ratio(move) as the log-probability of the reverse move minus that of the move."
            )
