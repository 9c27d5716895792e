"""SampleRank: weights learned from the ranking of neighbouring states, one proposal at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, as_generator, check_choice, check_number
from intarsia._kernels import partition as kernels
from intarsia.exceptions import InvalidInputError
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner
from intarsia.learning.minimum import Minimum
from intarsia.learning.ranking_world import GraphWorld, RankingState, RankingWorld

_RULES = {"perceptron": kernels.PERCEPTRON, "mira": kernels.MIRA, "adagrad": kernels.ADAGRAD}
_WALKS = {"model": kernels.BY_MODEL, "truth": kernels.BY_TRUTH, "always": kernels.ALWAYS}
_COUNTS = ("proposals", "possible", "accepted", "ranked", "errors", "updates")
_LARGEST_CHUNK = 10_000  # proposals between two looks at the clock, and at Ctrl-C


class SampleRank(Learner):
    r"""After each proposal that is ranked wrongly, a step towards the better of the two neighbouring states.

    From a state Y a neighbour Y' is proposed. Of the two, :math:`Y^+` has the higher performance F (accuracy, F1
    against the truth); where :math:`\Theta \cdot (\phi(Y^+) - \phi(Y^-)) \le 0`, or is below `margin`,
    :math:`\Theta` moves along :math:`\phi(Y^+) - \phi(Y^-)`. No inference is needed, only changes of features: choose
    it where marginals and best states are out of reach, as for partitions of records
    (`intarsia.clusters.ClusterWorld`), or for loopy graphs. If some weights rank all pairs of states met with margin
    :math:`\delta`, the perceptron makes at most :math:`R^2 / \delta^2` errors, R being the longest difference (Theorem
    1), whatever the proposer. An error is a compared pair that is ranked wrongly, which is what the proof bounds; the
    paper's Definition 5 also counts worse states that were never compared.

    As `learner=` of an estimator it learns from graphs, with the share of right labels as F; `fit_worlds` takes any
    `RankingWorld`.

    Parameters
    ----------
    update : {"mira", "perceptron", "adagrad"}
        The step: the shortest that reaches the margin, at most `step_size` times the difference; `step_size`
        times the difference; or with a step size of its own for each weight, falling with the steps it made.
    step_size : float
        Length of steps.
    margin : float, optional
        Difference of scores below which a step is made: by default 0 for the perceptron and 1 otherwise.
    average : bool
        Whether the result is the mean of the weights over all proposals.
    walk : {"model", "truth", "always"}
        When the neighbour becomes the state: where the score under the present weights grows, so that learning sees
        what decoding will see; where F grows; or at every proposal, as Algorithm 1 is written.
    temperature : float
        Of the walk by the model: above 0 as in Metropolis' algorithm. Margins are about 1, so at a temperature of 1 the
        walk strays through states that no decoder meets, and little is learned; 0.1 is plenty.
    n_proposals : float
        Proposals in a pass, for each record or variable.
    max_iter : int
        Most passes. Each begins at the world's start.
    block : int
        Largest number of neighbouring variables of a graph that are proposed at once.
    random_state : int, Generator or None
        Seed.
    verbose : bool
        Show progress on stderr, only on a terminal.

    Notes
    -----
    Algorithm 1 updates where the difference is below 0 and so would never leave 0: here at 0 as well, which leaves the
    proof as it is. Pairs of equal F say nothing and are skipped. A row of the history is a pass: "risk" is 1 - F at its
    end, meaned over the worlds, with "errors" (ranked wrongly), "updates", "ranked", "accepted", "proposals" of the
    pass. The search ends after a pass without an update (CONVERGED), or after `max_iter`.

    References
    ----------
    Rohanimanesh2009, Algorithm 1 and Theorem 1; Wick2011.

    Examples
    --------
    Records 0 and 1 are one entity, 2 is another; of the pair features the first tells.

    >>> from intarsia.clusters import ClusterModel, ClusterWorld, dense_pair_features
    >>> features = np.zeros((3, 3, 2))
    >>> features[0, 1] = features[1, 0] = [2.0, -1.0]
    >>> features[0, 2] = features[2, 0] = features[1, 2] = features[2, 1] = [-2.0, -1.0]
    >>> world = ClusterWorld(dense_pair_features(features), ClusterModel(absent=False), truth=[0, 0, 1])
    >>> found = SampleRank(update="perceptron", average=False, walk="truth").fit_worlds([world])
    >>> found.status.name, bool(found.point[0] > 0), bool(0 < found.history["updates"].sum() <= 5)
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
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        here = type(self).__name__
        check_choice(self.update, _RULES, f"{here}: update")
        check_choice(self.walk, _WALKS, f"{here}: walk")
        check_number(self.step_size, f"{here}: step_size", low=0.0, high=np.inf, open_low=True, open_high=True)
        if self.margin is not None:
            check_number(self.margin, f"{here}: margin", low=0.0, high=np.inf, open_high=True)
        check_number(self.temperature, f"{here}: temperature", low=0.0, high=np.inf, open_high=True)
        check_number(self.n_proposals, f"{here}: n_proposals", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_number(self.max_iter, f"{here}: max_iter", low=0, integer=True)
        check_number(self.block, f"{here}: block", low=1, integer=True)
        with errors_in(here):
            as_generator(self.random_state)

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise where settings and examples do not fit; the inference is not used while learning."""
        self.check_settings()
        if not any(one.mass > 0.0 for one in examples):
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
        """Weights that rank neighbouring labellings of the examples."""
        self.check_examples(examples, inference)
        worlds = [GraphWorld(one, int(self.block)) for one in examples if one.mass > 0.0]
        return self.fit_worlds(worlds, start, title=title)

    def fit_worlds(
        self, worlds: Sequence[RankingWorld], start: FloatArray | None = None, *, title: str = ""
    ) -> Minimum:
        """Weights that rank neighbouring states of the worlds, which share them.

        Parameters
        ----------
        worlds : sequence of RankingWorld
            Such as `ClusterWorld`, with the truth. They are left in the state where their walk ended.
        start : float array, optional
            Weights to begin with; 0 by default.
        title : str
            Shown with the progress.
        """
        self.check_settings()
        state = self._begin(worlds, start)
        first, rng, begun = state.weights.copy(), as_generator(self.random_state), time.perf_counter()
        rows: list[dict[str, float]] = []
        status = Status.MAX_ITER
        with fit_progress(title or "SampleRank", bool(self.verbose)) as report:
            try:
                while len(rows) < int(self.max_iter):
                    before = state.counters.copy()
                    for i in rng.permutation(len(worlds)):
                        self._visit(worlds[int(i)], state, rng)
                    risk = 1.0 - float(np.mean([world.performance() for world in worlds]))
                    counts = zip(_COUNTS, (state.counters - before).astype(float), strict=True)
                    seconds, tried = time.perf_counter() - begun, float(state.counters[kernels.PROPOSED])
                    rows.append({"risk": risk, "gradient_norm": np.nan, "seconds": seconds, "evaluations": tried})
                    rows[-1].update(counts)
                    if report is not None:
                        report(len(rows), risk, np.nan, len(rows) / int(self.max_iter))
                    if rows[-1]["updates"] == 0.0:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not rows:
                    raise
                status = Status.INTERRUPTED
        columns = ("risk", "gradient_norm", "seconds", "evaluations", *_COUNTS)
        history = {name: np.array([row[name] for row in rows]) for name in columns}
        # A pass without an update shows that these weights rank what was met; their mean may not.
        point = state.weights if status is Status.CONVERGED else self._result(state)
        risk = rows[-1]["risk"] if rows else np.nan
        return Minimum(point, risk, np.nan, status, len(rows), start=first, history=history)

    def _begin(self, worlds: Sequence[RankingWorld], start: FloatArray | None) -> RankingState:
        if not worlds:
            raise InvalidInputError("SampleRank: no worlds. Give at least one.")
        wrong = next((i for i, world in enumerate(worlds) if not isinstance(world, RankingWorld)), None)
        if wrong is not None:
            raise InvalidInputError(
                f"SampleRank: world {wrong} is a {type(worlds[wrong]).__name__}, expected a RankingWorld. Derive your "
                f"world from intarsia.learning.RankingWorld."
            )
        n_weights = worlds[0].n_weights
        odd = next((i for i, world in enumerate(worlds) if world.n_weights != n_weights), None)
        if odd is not None:
            raise InvalidInputError(
                f"SampleRank: world {odd} has {worlds[odd].n_weights} features, but world 0 has {n_weights}. Give all "
                f"worlds the same features."
            )
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

    def _visit(self, world: RankingWorld, state: RankingState, rng: np.random.Generator) -> None:
        """One walk through a world, from its start."""
        world.restart(rng)
        left = int(np.ceil(float(self.n_proposals) * world.n_sites))
        while left > 0:
            world.walk(state, min(left, _LARGEST_CHUNK), rng)
            left -= _LARGEST_CHUNK

    def _result(self, state: RankingState) -> FloatArray:
        """The weights, or their mean: a step made before k of n proposals counts (n - k) / n."""
        tried = int(state.counters[kernels.PROPOSED])
        if not self.average or tried == 0:
            return state.weights
        return np.asarray(state.weights - state.learned[1] / tried)
