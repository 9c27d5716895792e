"""SampleRank: learns weights by ranking pairs of neighbouring states, one proposal at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, as_generator, check_choice, check_number
from intarsia._kernels import partition as kernels
from intarsia.exceptions import InvalidInputError
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.examples import Example
from intarsia.learning.graph_world import GraphWorld
from intarsia.learning.learner import Learner
from intarsia.learning.minimum import Minimum
from intarsia.worlds.decoder import require_world
from intarsia.worlds.ranking import RankingState
from intarsia.worlds.world import World

_RULES = {"perceptron": kernels.PERCEPTRON, "mira": kernels.MIRA, "adagrad": kernels.ADAGRAD}
_WALKS = {"model": kernels.BY_MODEL, "truth": kernels.BY_TRUTH, "always": kernels.ALWAYS}
_UNLIMITED = 10**15  # proposals, for the size of chunks
_COUNTS = ("proposals", "possible", "accepted", "ranked", "errors", "updates")


class SampleRank(Learner):
    r"""SampleRank: after each pair of neighbouring states that is ranked wrongly, a step towards the better one.

    From a state Y a neighbour Y' is proposed. Of the two, :math:`Y^+` has the higher performance F (accuracy, F1
    against the truth); if :math:`\Theta \cdot (\phi(Y^+) - \phi(Y^-)) \le 0`, or is below `margin`, :math:`\Theta`
    moves along :math:`\phi(Y^+) - \phi(Y^-)`. No inference is needed, only changes of features: choose it when
    marginals and best states cannot be computed, as in entity resolution, where states are partitions of records
    (`intarsia.clusters.ClusterWorld`), or for loopy graphs. If some weights rank all compared pairs of states with
    margin :math:`\delta`, the perceptron makes at most :math:`R^2 / \delta^2` errors, where R is the norm of the
    longest difference (Theorem 1), whatever the proposer. An error is a compared pair that is ranked wrongly, which is
    the quantity that the proof bounds; the paper's Definition 5 also counts worse states that were never compared.

    As `learner=` of an estimator it learns from graphs, with the fraction of right labels as F; `rank` and `fit_worlds`
    accept any `intarsia.worlds.World`, also one that you write yourself.

    Parameters
    ----------
    update : {"mira", "perceptron", "adagrad"}
        Update rule: the shortest step that reaches the margin, at most `step_size` times the difference; `step_size`
        times the difference; or AdaGrad, with a learning rate per weight that falls with the steps it has made.
    step_size : float
        Learning rate.
    margin : float, optional
        Difference of scores below which a step is made: by default 0 for the perceptron and 1 otherwise.
    average : bool
        Whether the result is the mean of the weights over all proposals.
    walk : {"model", "truth", "always"}
        When the neighbour is accepted as the next state: if its score under the current weights is higher, so that
        learning sees the states that decoding will see; if F is higher; or always, as in the printed Algorithm 1.
    temperature : float
        Temperature of the walk by the model; above 0 as in the Metropolis algorithm. Margins are about 1, so that at a
        temperature of 1 the walk visits states that no decoder reaches, and little is learned; 0.1 is enough.
    n_proposals : float
        Proposals in a pass, per record or variable.
    max_iter : int
        Maximum number of passes. Each starts from the initial state of the world.
    block : int
        Maximum number of neighbouring variables of a graph that a proposal changes.
    random_state : int, Generator or None
        Seed of the random proposals.
    time_limit : float, optional
        Seconds after which learning stops, with the weights so far.
    verbose : bool
        Whether to show progress on stderr, only on a terminal.

    Notes
    -----
    Algorithm 1 updates if the difference is below 0 and so would never leave weights of 0; here an update is also made
    at 0, for which the proof still holds. Pairs of equal F carry no information and are skipped. A row of the history
    is a pass: "risk" is 1 - F at its end, averaged over the worlds, with "errors" (pairs ranked wrongly), "updates",
    "ranked", "accepted" and "proposals" of the pass. The search ends after a pass without an update (CONVERGED), or
    after `max_iter`.

    References
    ----------
    Rohanimanesh2009, Algorithm 1 and Theorem 1; Wick2011.

    Examples
    --------
    Records 0 and 1 are one entity, 2 is another; the first pair feature separates them.

    >>> from intarsia.clusters import ClusterModel, ClusterWorld, dense_pair_features
    >>> features = np.zeros((3, 3, 2))
    >>> features[0, 1] = features[1, 0] = [2.0, -1.0]
    >>> features[0, 2] = features[2, 0] = features[1, 2] = features[2, 1] = [-2.0, -1.0]
    >>> world = ClusterWorld(dense_pair_features(features), ClusterModel(absent=False), truth=[0, 0, 1])
    >>> result = SampleRank(update="perceptron", average=False, walk="truth").fit_worlds([world])
    >>> result.status.name, bool(result.point[0] > 0), bool(0 < result.history["updates"].sum() <= 5)
    ('CONVERGED', True, True)
    """

    name: ClassVar[str] = "sample_rank"
    summary: ClassVar[str] = "ranking of neighbouring labellings: no inference while learning, for any graph"
    learns_from: ClassVar[str] = "best labelling"
    asks_inference: ClassVar[bool] = False
    starts_independent: ClassVar[bool] = False

    def __init__(
        self,
        *,
        update: str = "mira",
        step_size: float = 1.0,
        margin: float | None = None,
        average: bool = True,
        walk: str = "model",
        temperature: float = 0.0,
        n_proposals: float = 100.0,
        max_iter: int = 10,
        block: int = 1,
        random_state: int | np.random.Generator | None = 0,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.update = update
        self.step_size = step_size
        self.margin = margin
        self.average = average
        self.walk = walk
        self.temperature = temperature
        self.n_proposals = n_proposals
        self.max_iter = max_iter
        self.block = block
        self.random_state = random_state
        self.time_limit = time_limit
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        name = type(self).__name__
        check_choice(self.update, _RULES, f"{name}: update")
        check_choice(self.walk, _WALKS, f"{name}: walk")
        check_number(self.step_size, f"{name}: step_size", low=0.0, high=np.inf, open_low=True, open_high=True)
        if self.margin is not None:
            check_number(self.margin, f"{name}: margin", low=0.0, high=np.inf, open_high=True)
        check_number(self.temperature, f"{name}: temperature", low=0.0, high=np.inf, open_high=True)
        check_number(self.n_proposals, f"{name}: n_proposals", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_number(self.max_iter, f"{name}: max_iter", low=0, integer=True)
        check_number(self.block, f"{name}: block", low=1, integer=True)
        if self.time_limit is not None:
            check_number(self.time_limit, f"{name}: time_limit", low=0.0, high=np.inf)
        with errors_in(name):
            as_generator(self.random_state)

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise if settings and examples do not match; the inference is not used while learning."""
        self.check_settings()
        if not any(example.mass > 0.0 for example in examples):
            raise InvalidInputError("SampleRank: no example has a label and a weight above 0. Label some variables.")

    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Learn weights that rank neighbouring labellings of the examples."""
        self.check_examples(examples, inference)
        worlds = [GraphWorld(example, int(self.block)) for example in examples if example.mass > 0.0]
        return self.fit_worlds(worlds, start, title=title)

    def rank(self, worlds: World | Sequence[World], start: FloatArray | None = None) -> FloatArray:
        """Learn from one world or several worlds with known truth, and return the weights.

        Parameters
        ----------
        worlds : World or sequence of World
            Worlds that define `performance`.
        start : float array, optional
            Weights to start from; 0 by default.

        Returns
        -------
        float array (n_weights,)
            Learned weights, for `intarsia.worlds.decode`. `fit_worlds` also returns the history.

        Examples
        --------
        >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
        >>> world = ClusterWorld(pair_features(2, [[0, 1]], [0.5]), ClusterModel(absent=False), truth=[0, 0])
        >>> SampleRank(step_size=100.0, average=False).rank(world).tolist()  # 0.5 times 2 reaches the margin of 1
        [2.0]
        """
        return self.fit_worlds([worlds] if isinstance(worlds, World) else worlds, start).point

    def fit_worlds(self, worlds: Sequence[World], start: FloatArray | None = None, *, title: str = "") -> Minimum:
        """Learn weights that rank neighbouring states of the worlds, with the same weights for all.

        Parameters
        ----------
        worlds : sequence of World
            Worlds with known truth, such as `ClusterWorld`. They stay in the state in which their walk ended.
        start : float array, optional
            Weights to start from; 0 by default.
        title : str
            Title of the progress line.
        """
        self.check_settings()
        worlds = self._check_worlds(worlds)
        state = self._begin(worlds[0].n_weights, start)
        start_weights, rng, start_time = state.weights.copy(), as_generator(self.random_state), time.perf_counter()
        deadline = np.inf if self.time_limit is None else start_time + float(self.time_limit)
        rows: list[dict[str, float]] = []
        status = Status.MAX_ITER
        with fit_progress(title or "SampleRank", bool(self.verbose)) as report:
            try:
                while len(rows) < int(self.max_iter):
                    old_counters = state.counters.copy()
                    for i in rng.permutation(len(worlds)):
                        self._visit(worlds[int(i)], state, rng, deadline)
                    risk = 1.0 - float(np.mean([world.performance() for world in worlds]))
                    counts = zip(_COUNTS, (state.counters - old_counters).astype(float), strict=True)
                    seconds, n_proposed = time.perf_counter() - start_time, float(state.counters[kernels.PROPOSED])
                    rows.append({"risk": risk, "gradient_norm": np.nan, "seconds": seconds, "evaluations": n_proposed})
                    rows[-1].update(counts)
                    if report is not None:
                        report(len(rows), risk, np.nan, len(rows) / int(self.max_iter))
                    if time.perf_counter() > deadline:
                        status = Status.TIME_LIMIT
                        break
                    if rows[-1]["updates"] == 0.0:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not rows:
                    raise
                status = Status.INTERRUPTED
        columns = ("risk", "gradient_norm", "seconds", "evaluations", *_COUNTS)
        history = {name: np.array([row[name] for row in rows]) for name in columns}
        # After a pass without an update these weights rank all pairs rightly; their mean may not.
        point = state.weights if status is Status.CONVERGED else self._result(state)
        risk = rows[-1]["risk"] if rows else np.nan
        return Minimum(point, risk, np.nan, status, len(rows), start=start_weights, history=history)

    @staticmethod
    def _check_worlds(worlds: Sequence[World]) -> list[World]:
        """Return the worlds as a list; raise if one of them cannot be used for learning."""
        world_list = list(worlds) if isinstance(worlds, Iterable) else [worlds]
        if not world_list:
            raise InvalidInputError("SampleRank: no worlds. Pass at least one World.")
        for i, world in enumerate(world_list):
            with errors_in(f"SampleRank: world {i}"):
                require_world(world)
                if not world.has_performance:
                    raise InvalidInputError(
                        f"{type(world).__name__} does not define performance. Define performance(), which compares the "
                        f"current state with the truth."
                    )
            if world.n_weights != world_list[0].n_weights:
                raise InvalidInputError(
                    f"SampleRank: world {i} has {world.n_weights} features, but world 0 has {world_list[0].n_weights}. "
                    f"Pass worlds with the same features."
                )
        return world_list

    def _begin(self, n_weights: int, start: FloatArray | None) -> RankingState:
        """Return the initial state of learning."""
        weights = self._start_weights(start, n_weights)
        margin = (0.0 if self.update == "perceptron" else 1.0) if self.margin is None else float(self.margin)
        return RankingState(
            weights,
            np.zeros((2, n_weights)),
            np.zeros(len(_COUNTS), dtype=np.int64),
            _RULES[self.update],
            _WALKS[self.walk],
            float(self.step_size),
            margin,
            float(self.temperature),
        )

    def _visit(self, world: World, state: RankingState, rng: np.random.Generator, deadline: float) -> None:
        """Walk through a world once, from its initial state."""
        world.restart(rng)
        n_remaining = int(np.ceil(float(self.n_proposals) * world.n_sites))
        chunk = world.chunk_size(_UNLIMITED)
        while n_remaining > 0 and time.perf_counter() <= deadline:
            world.walk(state, min(n_remaining, chunk), rng)
            n_remaining -= chunk

    def _result(self, state: RankingState) -> FloatArray:
        """Return the weights, or their mean: a step made before k of n proposals counts (n - k) / n."""
        n_proposed = int(state.counters[kernels.PROPOSED])
        if not self.average or n_proposed == 0:
            return state.weights
        return np.asarray(state.weights - state.update_sums[1] / n_proposed)
