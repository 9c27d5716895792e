"""Learners that step along subgradients taken from two runs of inference, finished or not."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._progress import fit_progress
from intarsia._validation import FloatArray, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference.result import Status
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.entropy_surrogate import EntropySurrogate
from intarsia.softlogic.hinge_learner import HingeLearner, LearnedWeights, Score, learned_mask, start_weights
from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.paired_problem import PairedProblem
from intarsia.softlogic.projected_subgradient import ProjectedSubgradient, WeightSteps
from intarsia.softlogic.side_run import SideRun
from intarsia.softlogic.symmetry import warn_if_unmoved

_STILL = 10  # updates in a row that change no weight by more than tol


class SubgradientLearner(HingeLearner):
    """Base of the learners that minimise the paired objective along subgradients.

    Parameters
    ----------
    ridge : float
        Strength of the penalty on the squares of the weights.
    steps : ProjectedSubgradient, optional
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

    def __init__(
        self,
        *,
        ridge: float,
        steps: ProjectedSubgradient | None,
        inference: ConsensusADMM | None,
        evaluate: bool,
        time_limit: float | None,
        verbose: bool,
    ) -> None:
        self.ridge = ridge
        self.steps = steps
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
        where = type(self).__name__
        self.check_settings()
        problem = PairedProblem.of(model, labels, self._entropy())
        self._check_labels(problem.labels)
        weights, moves = start_weights(model, start, where), learned_mask(model, learned, where)
        if problem.latent.size:
            weights = self._shaken(weights, moves)
        method = self._default_inference() if self.inference is None else self.inference
        rule = ProjectedSubgradient() if self.steps is None else self.steps
        free, clamped = SideRun(problem, problem.free, method), SideRun(problem, problem.clamped, method)
        steps = rule.begin(weights, problem.counts, moves)
        record = _Record(weights)
        status = self._search(free, clamped, steps, rule, record, title or where)
        record.add(steps, free, clamped, last=True)
        found = steps.mean if rule.average else steps.weights
        history = record.history()
        if self.evaluate:
            history |= evaluate_history(problem, history["weights"], float(self.ridge), method, score)
        if steps.n_steps and status is not Status.INTERRUPTED:
            untouched = SideRun(problem, problem.clamped, method)
            untouched.solve(np.zeros(problem.n_weights))
            warn_if_unmoved(clamped.point, untouched.point, where)
            _warn_if_stopped(free, clamped, where)
        n_admm = free.n_iter + clamped.n_iter
        return LearnedWeights(found, status, steps.n_steps, n_admm, clamped.point.copy(), history)

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        where = type(self).__name__
        check_number(self.ridge, f"{where}: ridge", low=0.0, high=np.inf, open_high=True)
        if self.time_limit is not None:
            check_number(self.time_limit, f"{where}: time_limit", low=0.0)
        for name, kind in (("steps", ProjectedSubgradient), ("inference", ConsensusADMM)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                raise InvalidInputError(f"{where}: {name} must be {kind.__name__}, got {type(given).__name__}.")

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


def _warn_if_stopped(free: SideRun, clamped: SideRun, where: str) -> None:
    stopped, solved = free.n_stopped + clamped.n_stopped, free.n_solved + clamped.n_solved
    if stopped:
        warnings.warn(
            f"{where}: {stopped} of {solved} inferences stopped before convergence, so that their subgradients are not "
            f"exact. Raise inference's max_iter (now {free.method.max_iter}) or tol (now {free.method.tol:g}).",
            ConvergenceWarning,
            stacklevel=3,
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
    ridge: float,
    method: ConsensusADMM | None = None,
    score: Score | None = None,
) -> dict[str, FloatArray]:
    """The paired objective (Bach2015, Eq. 4), and a score, at each row of weights, with inference to convergence.

    Each row starts from the answer of the row before; the iterations are not counted as learning.

    Examples
    --------
    A rule that the label 1 keeps: the more it weighs, the lower the objective.

    >>> from intarsia.softlogic import EntropyPair, LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)     # max(0, 1 - y)^2
    >>> problem = PairedProblem.of(rule, [1.0], EntropyPair(weight=1.0))
    >>> evaluate_history(problem, np.array([[0.0], [2.0]]), ridge=0.0)["objective"].round(3).tolist()
    [0.5, 0.25]
    """
    method = ConsensusADMM() if method is None else method
    free, clamped = SideRun(problem, problem.free, method), SideRun(problem, problem.clamped, method)
    objective = np.zeros(len(weights))
    for k, row in enumerate(weights):
        free.solve(row)
        clamped.solve(row)
        objective[k] = problem.value(row, clamped.objective, free.objective, ridge)
    found = {"objective": objective}
    if score is not None:
        found["score"] = np.array([score(row) for row in weights])
    return found
