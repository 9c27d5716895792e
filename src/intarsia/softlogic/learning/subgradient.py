"""Weight learners with subgradients from two inference problems, and the structured perceptron."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.progress import fit_progress
from intarsia._core.registry import Parts
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import ConvergenceWarning
from intarsia.softlogic.admm.consensus import HINGE_INFERENCE, ConsensusADMM
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights, Score
from intarsia.softlogic.learning.paired_problem import PairedProblem
from intarsia.softlogic.learning.projected_subgradient import WEIGHT_OPTIMIZERS, ProjectedSubgradient, WeightSteps
from intarsia.softlogic.learning.side_run import SideRun
from intarsia.softlogic.learning.surrogates import SURROGATES

_MIN_CHANGE = 1e-2  # smaller differences of latent variables count as none


def break_symmetry(
    weights: FloatArray, trainable: NDArray[np.bool_], spread: float, rng: np.random.Generator
) -> FloatArray:
    r"""Return initial weights, each changed at random by up to the fraction `spread` of itself (of 1 if it is 0).

    Inference is convex: if the weights treat two latent variables equally, so do the solution and the subgradients.
    Only different weights can separate them. Rules that mention the latent states have a weight for each state; if all
    states share a weight, nothing can separate them.

    Examples
    --------
    >>> weights = break_symmetry(np.ones(2), np.array([True, False]), 0.1, np.random.default_rng(0))
    >>> bool(0.9 <= weights[0] <= 1.1), float(weights[1])
    (True, 1.0)
    """
    change = spread * rng.uniform(-1.0, 1.0, weights.size)
    scale = np.where(weights > 0.0, weights, 1.0)
    return np.asarray(np.maximum(np.where(trainable, weights + scale * change, weights), 0.0))


def warn_if_unmoved(latent: FloatArray, untouched: FloatArray) -> None:
    """Warn if latent variables have no effect: none has changed, or all have the same value.

    Parameters
    ----------
    latent : float array (n_latent,)
        Values of the latent variables with the learned weights.
    untouched : float array (n_latent,)
        Values of the latent variables without any rule.

    Warns
    -----
    ConvergenceWarning
        The latent variables have no effect; the message lists settings to change.

    Examples
    --------
    >>> warn_if_unmoved(np.array([0.9, 0.1]), np.array([0.5, 0.5]))      # both changed: no warning
    """
    if latent.size == 0:
        return
    largest_change = float(np.abs(latent - untouched).max())
    if largest_change < _MIN_CHANGE:
        warn_caller(
            f"none of the {latent.size} latent variables changed by more than {_MIN_CHANGE:g} from its value without "
            f"rules (largest change {largest_change:.1e}), so they have no effect. Start with larger weights, "
            f"decrease the weight of the surrogate, or write rules that connect them to observed atoms.",
            ConvergenceWarning,
        )
    elif latent.size > 1 and float(np.ptp(latent)) < _MIN_CHANGE:
        warn_caller(
            f"all {latent.size} latent variables have the same value ({latent[0]:.3g}), so they have no effect. Raise "
            f"symmetry_breaking, try another random_state, or write a rule with its own weight per latent state.",
            ConvergenceWarning,
        )


_PATIENCE = 10  # consecutive updates that change no weight by more than tol


class SubgradientLearner(HingeLearner):
    """Base class of learners that minimize the paired objective with subgradients.

    Parameters
    ----------
    l2 : float
        Regularization: precision of a Gaussian prior on the weights; `l2 / 2 |w|^2` is added to the objective.
    optimizer : str or ProjectedSubgradient
        Optimizer of the weights, with learning rate and stopping rule.
    inference : str, ConsensusADMM or None
        Solver of both inference problems during learning. None, the default, means the solver that suits the learner:
        `ConsensusADMM()`, and for `PairedDual` `ConsensusADMM(over_relaxation=1.0)`. Nested settings such as
        `inference__tol`, for example in a grid search, need an object instead of None.
    evaluate : bool
        Whether to add the objective at the recorded weights to the history, computed after learning with inference to
        convergence.
    time_limit : float, optional
        Time limit in seconds, after which no update begins.
    verbose : bool
        Whether to show progress on stderr, if it is a terminal.
    """

    _parts: ClassVar[Parts] = {"optimizer": WEIGHT_OPTIMIZERS, "inference": HINGE_INFERENCE, "surrogate": SURROGATES}

    def __init__(
        self,
        *,
        l2: float,
        optimizer: str | ProjectedSubgradient,
        inference: str | ConsensusADMM | None,
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
        """Return the subgradient at these weights; None during the warm-up of inference."""

    def _default_inference(self) -> ConsensusADMM:
        """Return the solver for `inference=None`."""
        return ConsensusADMM()

    def _inference(self) -> ConsensusADMM:
        """Return the solver of both inference problems."""
        method: ConsensusADMM = self._default_inference() if self.inference is None else self._part("inference")
        return method

    def _perturbed(self, weights: FloatArray, trainable: NDArray[np.bool_]) -> FloatArray:
        """Return the initial weights for problems with latent variables; unchanged by default."""
        return weights

    def _learn(
        self,
        model: HingeLossMRF,
        problem: PairedProblem,
        weights: FloatArray,
        trainable: NDArray[np.bool_],
        title: str,
    ) -> LearnedWeights:
        if problem.latent.size:
            weights = self._perturbed(weights, trainable)
        method = self._inference()
        optimizer = self._part("optimizer")
        free, clamped = SideRun(problem, problem.free, method), SideRun(problem, problem.clamped, method)
        steps = optimizer.begin(weights, problem.counts, trainable)
        record = _Record(weights)
        status = self._search(free, clamped, steps, optimizer, record, title)
        record.add(steps, free, clamped, last=True)
        final_weights = steps.mean if optimizer.average else steps.weights
        history = record.history()
        if self.evaluate:
            history |= evaluate_history(problem, history["weights"], float(self.l2), method)
        if steps.n_steps and status is not Status.INTERRUPTED:
            untouched = SideRun(problem, problem.clamped, method)
            untouched.solve(np.zeros(problem.n_weights))
            with errors_in(type(self).__name__):
                warn_if_unmoved(clamped.point, untouched.point)
                _warn_if_stopped(free, clamped)
        n_admm_iter = free.n_iter + clamped.n_iter
        return LearnedWeights(final_weights, status, steps.n_steps, n_admm_iter, clamped.point.copy(), history)

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        class_name = type(self).__name__
        check_number(self.l2, f"{class_name}: l2", low=0.0, high=np.inf, open_high=True)
        if self.time_limit is not None:
            check_number(self.time_limit, f"{class_name}: time_limit", low=0.0)
        with errors_in(class_name):
            self._part("optimizer").check_settings()
            self._inference()

    def _search(
        self,
        free: SideRun,
        clamped: SideRun,
        steps: WeightSteps,
        optimizer: ProjectedSubgradient,
        record: _Record,
        title: str,
    ) -> Status:
        """Update the weights until convergence or a limit; return the status."""
        budget = np.inf if optimizer.max_admm_iter is None else int(optimizer.max_admm_iter)
        deadline = np.inf if self.time_limit is None else record.start + float(self.time_limit)
        turn, n_unchanged = 0, 0
        with fit_progress(title, bool(self.verbose)) as report:
            try:
                while steps.n_steps < int(optimizer.max_iter):
                    if time.perf_counter() > deadline:
                        return Status.TIME_LIMIT
                    if free.n_iter + clamped.n_iter >= budget:
                        return Status.MAX_ITER
                    gradient = self._gradient(free, clamped, steps.weights, turn)
                    turn += 1
                    if gradient is None:
                        continue
                    steps.move(gradient)
                    if steps.n_steps % int(optimizer.record_every) == 0:
                        record.add(steps, free, clamped)
                    if report is not None:
                        largest = float(np.abs(gradient).max(initial=0.0))
                        report(steps.n_steps, float("nan"), largest, steps.n_steps / int(optimizer.max_iter))
                    n_unchanged = n_unchanged + 1 if steps.last_change <= optimizer.tol else 0
                    if n_unchanged >= _PATIENCE:
                        return Status.CONVERGED
            except KeyboardInterrupt:
                return Status.INTERRUPTED
        return Status.MAX_ITER


def _warn_if_stopped(free: SideRun, clamped: SideRun) -> None:
    """Warn if inferences stopped before convergence."""
    stopped, solved = free.n_stopped + clamped.n_stopped, free.n_solved + clamped.n_solved
    if stopped:
        warn_caller(
            f"{stopped} of {solved} inferences stopped before convergence, so their subgradients are not exact. "
            f"Increase max_iter (now {free.method.max_iter}) or tol (now {free.method.tol:g}) of `inference`.",
            ConvergenceWarning,
        )


class _Record:
    """Recorder of the rows of the history."""

    def __init__(self, weights: FloatArray) -> None:
        self.start = time.perf_counter()
        self._rows: list[tuple[FloatArray, int, int, float]] = [(weights.copy(), 0, 0, 0.0)]

    def add(self, steps: WeightSteps, free: SideRun, clamped: SideRun, last: bool = False) -> None:
        """Add a row; the last update is not recorded twice."""
        if last and self._rows[-1][1] == steps.n_steps:
            return
        seconds = time.perf_counter() - self.start
        self._rows.append((steps.weights.copy(), steps.n_steps, free.n_iter + clamped.n_iter, seconds))

    def history(self) -> dict[str, NDArray[Any]]:
        """Return the rows as a dict of arrays."""
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
    """Compute the paired objective (Bach2015, Eq. 4) and a score at each row of weights, with converged inference.

    Use it to see whether learning has decreased the objective. Each row is warm-started from the previous one.

    Parameters
    ----------
    problem : PairedProblem
        The learning problem.
    weights : float array (n_rows, n_weights)
        Weights to evaluate, such as `LearnedWeights.history["weights"]`.
    l2 : float
        Regularization of the weights.
    method : ConsensusADMM, optional
        Solver of both inference problems.
    score : function, optional
        Function from weights to a score.

    Returns
    -------
    dict of float arrays
        "objective", and "score" if a function was passed.

    Examples
    --------
    The label 1 satisfies the rule, so a larger weight decreases the objective.

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
    history = {"objective": objective}
    if score is not None:
        history["score"] = np.array([score(row) for row in weights])
    return history


class HingePerceptron(SubgradientLearner):
    r"""Structured perceptron: :math:`w \leftarrow \max(0, w - \eta (\phi(\hat y) - \phi(y^*)) / n)`.

    Approximate maximum likelihood for fully labelled data, with the most probable state y* in place of the expectation;
    PSL uses it by default. Without a surrogate of the entropy, weights 0 minimize the objective, so the result depends
    on the number of steps and on averaging; `PairedDual` has an objective with a meaningful minimum. An update costs
    one inference.

    Parameters
    ----------
    inference : str, ConsensusADMM or None
        Solver of the inference problem. None, the default, means `ConsensusADMM()`. `SoftLogic(inference=...)` is used
        for predictions only, so pass the solver for learning here.
    l2, optimizer, evaluate, time_limit, verbose
        As for every `SubgradientLearner`; the default of `l2` is 0.

    References
    ----------
    Collins2002; Bach2017, section 6.1.

    Examples
    --------
    One rule pulls y to 1, the other to 0. The label 1 violates the second rule, which loses weight until it has no
    effect.

    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rules = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [-1.0, 1.0], [1.0, 0.0]), 1.0, 2)
    >>> optimizer = ProjectedSubgradient(step_size=1.0, adagrad=False, average=False)
    >>> result = HingePerceptron(optimizer=optimizer).fit(rules, [1.0])
    >>> bool(result.weights[0] > 1.0), float(result.weights[1])
    (True, 0.0)
    """

    name: ClassVar[str] = "perceptron"
    summary: ClassVar[str] = "fully labelled data: structured perceptron on the most probable state"
    takes_latent: ClassVar[bool] = False

    def __init__(
        self,
        *,
        l2: float = 0.0,
        optimizer: str | ProjectedSubgradient = "projected_subgradient",
        inference: str | ConsensusADMM | None = None,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            l2=l2, optimizer=optimizer, inference=inference, evaluate=evaluate, time_limit=time_limit, verbose=verbose
        )

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.l2))
