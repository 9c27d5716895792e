"""Learners that follow subgradients from two runs of inference, and the perceptron for fully labelled models."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.progress import fit_progress
from intarsia._core.registry import Parts
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.softlogic.admm.consensus import HINGE_INFERENCE, ConsensusADMM
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights, Score, learned_mask, start_weights
from intarsia.softlogic.learning.paired_problem import PairedProblem
from intarsia.softlogic.learning.projected_subgradient import WEIGHT_OPTIMIZERS, ProjectedSubgradient, WeightSteps
from intarsia.softlogic.learning.side_run import SideRun
from intarsia.softlogic.learning.surrogates import SURROGATES, EntropySurrogate

_MOVED = 1e-2


def break_symmetry(
    weights: FloatArray, learned: NDArray[np.bool_], spread: float, rng: np.random.Generator
) -> FloatArray:
    r"""Weights to begin at, each changed at random by up to the share `spread` of itself (or of 1, where it is 0).

    Inference is convex: where the weights treat two latent variables alike, so does its answer, and so do the
    subgradients; only weights that differ tell them apart. Rules that name the latent states have a weight for
    each; where all states share one weight, nothing can.

    Examples
    --------
    >>> moved = break_symmetry(np.ones(2), np.array([True, False]), 0.1, np.random.default_rng(0))
    >>> bool(0.9 <= moved[0] <= 1.1), float(moved[1])
    (True, 1.0)
    """
    change = spread * rng.uniform(-1.0, 1.0, weights.size)
    scale = np.where(weights > 0.0, weights, 1.0)
    return np.asarray(np.maximum(np.where(learned, weights + scale * change, weights), 0.0))


def warn_if_unmoved(latent: FloatArray, untouched: FloatArray) -> None:
    """Warn where latent variables explain nothing: none has moved, or all have the same value.

    Parameters
    ----------
    latent : float array (n_latent,)
        Their values under the learned weights.
    untouched : float array (n_latent,)
        Their values without any rule.

    Warns
    -----
    ConvergenceWarning
        With what to change.

    Examples
    --------
    >>> warn_if_unmoved(np.array([0.9, 0.1]), np.array([0.5, 0.5]))      # they moved: nothing to say
    """
    if latent.size == 0:
        return
    farthest = float(np.abs(latent - untouched).max())
    if farthest < _MOVED:
        warn_caller(
            f"none of the {latent.size} latent variables moved by more than {_MOVED:g} from where they are "
            f"without rules (largest move {farthest:.1e}), so that they explain nothing. Begin with larger weights, "
            f"lower the surrogate's weight, or write rules that tie them to observed atoms.",
            ConvergenceWarning,
        )
    elif latent.size > 1 and float(np.ptp(latent)) < _MOVED:
        warn_caller(
            f"all {latent.size} latent variables have the same value ({latent[0]:.3g}), so that they tell "
            f"nothing apart. Raise symmetry_breaking, try another random_state, or give each latent state a rule with "
            f"a weight of its own.",
            ConvergenceWarning,
        )


_STILL = 10  # updates in a row that change no weight by more than tol


class SubgradientLearner(HingeLearner):
    """Base of the learners that minimise the paired objective along subgradients.

    Parameters
    ----------
    l2 : float
        Precision of a Gaussian prior on the weights: `l2 / 2 |w|^2` is added to the objective of the model.
    optimizer : ProjectedSubgradient, optional
        How the weights move and when to stop.
    inference : ConsensusADMM, optional
        Settings of inference.
    evaluate : bool
        Whether the history gets the objective (and the score) at the weights kept, computed after learning by
        inference to convergence.
    time_limit : float, optional
        Seconds after which no update begins.
    verbose : bool
        Show progress on stderr, only on a terminal.
    """

    _parts: ClassVar[Parts] = {"optimizer": WEIGHT_OPTIMIZERS, "inference": HINGE_INFERENCE, "surrogate": SURROGATES}

    def __init__(
        self,
        *,
        l2: float,
        optimizer: ProjectedSubgradient | None,
        inference: ConsensusADMM | None,
        evaluate: bool,
        time_limit: float | None,
        verbose: bool,
    ) -> None:
        self.l2 = l2
        self.optimizer = optimizer
        self.inference = inference
        self.evaluate = evaluate
        self.time_limit = time_limit
        self.verbose = verbose

    @abstractmethod
    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        """The subgradient at these weights; None while inference only warms up."""

    def _default_inference(self) -> ConsensusADMM:
        return ConsensusADMM()

    def _entropy(self) -> EntropySurrogate | None:
        """What stands for the entropy; nothing by default."""
        return None

    def _shaken(self, weights: FloatArray, learned: NDArray[np.bool_]) -> FloatArray:
        """Where to begin when there are latent variables; as given by default."""
        return weights

    def fit(
        self,
        model: HingeLossMRF,
        labels: ArrayLike,
        *,
        start: ArrayLike | None = None,
        learned: ArrayLike | None = None,
        score: Score | None = None,
        title: str = "",
    ) -> LearnedWeights:
        """Learn a weight for each group; see the base class."""
        here = type(self).__name__
        self.check_settings()
        problem = PairedProblem.of(model, labels, self._entropy())
        self._check_labels(problem.labels)
        with errors_in(here):
            weights, moves = start_weights(model, start), learned_mask(model, learned)
        if problem.latent.size:
            weights = self._shaken(weights, moves)
        method = self._default_inference() if self.inference is None else self.inference
        rule = ProjectedSubgradient() if self.optimizer is None else self.optimizer
        free, clamped = SideRun(problem, problem.free, method), SideRun(problem, problem.clamped, method)
        steps = rule.begin(weights, problem.counts, moves)
        record = _Record(weights)
        status = self._search(free, clamped, steps, rule, record, title or here)
        record.add(steps, free, clamped, last=True)
        found = steps.mean if rule.average else steps.weights
        history = record.history()
        if self.evaluate:
            history |= evaluate_history(problem, history["weights"], float(self.l2), method, score)
        if steps.n_steps and status is not Status.INTERRUPTED:
            untouched = SideRun(problem, problem.clamped, method)
            untouched.solve(np.zeros(problem.n_weights))
            with errors_in(here):
                warn_if_unmoved(clamped.point, untouched.point)
                _warn_if_stopped(free, clamped)
        n_admm_iter = free.n_iter + clamped.n_iter
        return LearnedWeights(found, status, steps.n_steps, n_admm_iter, clamped.point.copy(), history)

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        here = type(self).__name__
        check_number(self.l2, f"{here}: l2", low=0.0, high=np.inf, open_high=True)
        if self.time_limit is not None:
            check_number(self.time_limit, f"{here}: time_limit", low=0.0)
        for name, kind in (("optimizer", ProjectedSubgradient), ("inference", ConsensusADMM)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                raise InvalidInputError(f"{here}: {name} must be {kind.__name__}, got {type(given).__name__}.")

    def _search(
        self,
        free: SideRun,
        clamped: SideRun,
        steps: WeightSteps,
        rule: ProjectedSubgradient,
        record: _Record,
        title: str,
    ) -> Status:
        budget = np.inf if rule.max_admm_iter is None else int(rule.max_admm_iter)
        deadline = np.inf if self.time_limit is None else record.begun + float(self.time_limit)
        turn, still = 0, 0
        with fit_progress(title, bool(self.verbose)) as report:
            try:
                while steps.n_steps < int(rule.max_iter):
                    if time.perf_counter() > deadline:
                        return Status.TIME_LIMIT
                    if free.n_iter + clamped.n_iter >= budget:
                        return Status.MAX_ITER
                    gradient = self._gradient(free, clamped, steps.weights, turn)
                    turn += 1
                    if gradient is None:
                        continue
                    steps.move(gradient)
                    if steps.n_steps % int(rule.record_every) == 0:
                        record.add(steps, free, clamped)
                    if report is not None:
                        largest = float(np.abs(gradient).max(initial=0.0))
                        report(steps.n_steps, float("nan"), largest, steps.n_steps / int(rule.max_iter))
                    still = still + 1 if steps.last_change <= rule.tol else 0
                    if still >= _STILL:
                        return Status.CONVERGED
            except KeyboardInterrupt:
                return Status.INTERRUPTED
        return Status.MAX_ITER


def _warn_if_stopped(free: SideRun, clamped: SideRun) -> None:
    stopped, solved = free.n_stopped + clamped.n_stopped, free.n_solved + clamped.n_solved
    if stopped:
        warn_caller(
            f"{stopped} of {solved} inferences stopped before convergence, so that their subgradients are not "
            f"exact. Raise inference's max_iter (now {free.method.max_iter}) or tol (now {free.method.tol:g}).",
            ConvergenceWarning,
        )


class _Record:
    """Rows of the history."""

    def __init__(self, weights: FloatArray) -> None:
        self.begun = time.perf_counter()
        self._rows: list[tuple[FloatArray, int, int, float]] = [(weights.copy(), 0, 0, 0.0)]

    def add(self, steps: WeightSteps, free: SideRun, clamped: SideRun, last: bool = False) -> None:
        if last and self._rows[-1][1] == steps.n_steps:
            return
        seconds = time.perf_counter() - self.begun
        self._rows.append((steps.weights.copy(), steps.n_steps, free.n_iter + clamped.n_iter, seconds))

    def history(self) -> dict[str, NDArray[Any]]:
        weights, updates, iterations, seconds = zip(*self._rows, strict=True)
        return {
            "weights": np.stack(weights),
            "updates": np.array(updates),
            "admm_iterations": np.array(iterations),
            "seconds": np.array(seconds),
        }


def evaluate_history(
    problem: PairedProblem,
    weights: FloatArray,
    l2: float,
    method: ConsensusADMM | None = None,
    score: Score | None = None,
) -> dict[str, FloatArray]:
    """The paired objective (Bach2015, Eq. 4), and a score, at each row of weights, with inference to convergence.

    Each row starts from the answer of the row before; the iterations are not counted as learning.

    Examples
    --------
    A rule that the label 1 keeps: the more it weighs, the lower the objective.

    >>> from intarsia.softlogic.learning.surrogates import EntropyPair
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)     # max(0, 1 - y)^2
    >>> problem = PairedProblem.of(rule, [1.0], EntropyPair(weight=1.0))
    >>> evaluate_history(problem, np.array([[0.0], [2.0]]), l2=0.0)["objective"].round(3).tolist()
    [0.5, 0.25]
    """
    method = ConsensusADMM() if method is None else method
    free, clamped = SideRun(problem, problem.free, method), SideRun(problem, problem.clamped, method)
    objective = np.zeros(len(weights))
    for k, row in enumerate(weights):
        free.solve(row)
        clamped.solve(row)
        objective[k] = problem.value(row, clamped.objective, free.objective, l2)
    found = {"objective": objective}
    if score is not None:
        found["score"] = np.array([score(row) for row in weights])
    return found


class HingePerceptron(SubgradientLearner):
    r"""Steps :math:`w \leftarrow \max(0, w - \eta (\phi(\hat y) - \phi(y^*)) / n)` from the most probable state y*.

    Maximum likelihood with the most probable state in place of the expectation, as PSL learns by default. Without a
    surrogate of the entropy the objective is lowest at weights 0, so that the number of steps and the mean of the
    weights matter; `PairedDual` has an objective worth reaching. An update costs one inference.

    Parameters
    ----------
    l2, optimizer, inference, evaluate, time_limit, verbose
        As for every `SubgradientLearner`; 0 by default for `l2`.

    References
    ----------
    Collins2002; Bach2017, section 6.1.

    Examples
    --------
    Two rules quarrel about y, one towards 1 and one towards 0; the label 1 breaks the second, which loses weight
    until it no longer matters.

    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rules = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [-1.0, 1.0], [1.0, 0.0]), 1.0, 2)
    >>> optimizer = ProjectedSubgradient(step_size=1.0, adagrad=False, average=False)
    >>> found = HingePerceptron(optimizer=optimizer).fit(rules, [1.0])
    >>> bool(found.weights[0] > 1.0), float(found.weights[1])
    (True, 0.0)
    """

    name: ClassVar[str] = "perceptron"
    summary: ClassVar[str] = "fully labelled data: steps from the most probable state to the labels"
    takes_latent: ClassVar[bool] = False

    def __init__(
        self,
        *,
        l2: float = 0.0,
        optimizer: ProjectedSubgradient | None = None,
        inference: ConsensusADMM | None = None,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            l2=l2, optimizer=optimizer, inference=inference, evaluate=evaluate, time_limit=time_limit, verbose=verbose
        )

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.l2))
