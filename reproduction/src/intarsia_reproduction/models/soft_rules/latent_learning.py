"""Comparison of learners with latent variables by their number of ADMM iterations (Bach2015, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import (
    ConsensusADMM,
    EntropySurrogate,
    HingeLossMRF,
    PairedDual,
    PairedProblem,
    PointEM,
    PrimalSubgradient,
    ProjectedSubgradient,
    evaluate_history,
)
from intarsia.softlogic.learning.learner import spread_rows
from intarsia.softlogic.learning.side_run import SideRun
from intarsia_reproduction.experiment import Finding, Task, load_findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = {
    "primal": "primal subgradient",
    "em": "EM",
    "paired_1": "paired-dual, N = 1",
    "paired_10": "paired-dual, N = 10",
    "naive": "naive interleaving, N = 1",
}
BASELINES = ("primal", "em")
# Iterations as a fraction of those of the faster of EM and primal subgradient to the same objective, and differences
# from its score there. Saved results are read by these names.
_FRACTION = "fraction of iterations, worst fold"
_GAIN, _GAIN_LATER = "gain in score there", "gain in score at a fifth"
_WORST_GAIN = "gain in score there, worst fold"


@dataclass(frozen=True, eq=False)
class Fold:
    """Training model and labels of a fold, and the score of its result.

    Attributes
    ----------
    model : HingeLossMRF
        Training model with the initial weights.
    labels : float array
        Labels; NaN for latent variables.
    score : function
        Function from weights to a score on test data; higher is better.
    validation : function, optional
        The score on data that neither learning nor `score` uses. All methods are also scored where it is highest.
    trainable : bool array (n_groups,), optional
        Which weights to learn, by default all.
    interval : function, optional
        Function from weights to a 95 % interval of the score over test examples, for experiments with a single fold.
    """

    model: HingeLossMRF
    labels: FloatArray
    score: Callable[[FloatArray], float]
    validation: Callable[[FloatArray], float] | None = None
    trainable: NDArray[np.bool_] | None = None
    interval: Callable[[FloatArray], tuple[float, float]] | None = None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Settings that all methods of an experiment share.

    Attributes
    ----------
    folds : function
        Function from the number of a fold to the fold.
    n_folds : int
        Number of folds.
    surrogate : EntropySurrogate
        Surrogate of the entropy.
    l2, step_size : float
        Regularization of the objective, and learning rate of the weights.
    adagrad : bool
        Whether AdaGrad rescales the steps.
    budget : int
        Number of ADMM iterations of both problems together, after which no update starts.
    warm_up : int
        Setting K of paired-dual learning.
    n_points : int
        Number of points of each curve, about evenly spaced in the logarithm of the iterations.
    score_name : str
        Name of the score.
    record_every : dict of int
        Number of updates between stored rows, by method; 1 by default.
    has_validation : bool
        Whether folds have a validation score.
    """

    folds: Callable[[int], Fold]
    n_folds: int
    surrogate: EntropySurrogate
    l2: float
    step_size: float
    budget: int
    score_name: str
    adagrad: bool = False
    warm_up: int = 0
    n_points: int = 30
    record_every: dict[str, int] = field(default_factory=dict)
    has_validation: bool = False

    @property
    def stopped_name(self) -> str:
        """Name of the score at the iteration with the highest validation score."""
        return f"{self.score_name}, stopped by held-out score"

    def learner(self, key: str) -> Any:
        """Return the learner of a method."""
        optimizer = ProjectedSubgradient(
            step_size=self.step_size,
            adagrad=self.adagrad,
            max_iter=10**9,
            max_admm_iter=self.budget,
            tol=0.0,
            record_every=self.record_every.get(key, 1),
        )
        shared: dict[str, Any] = {"surrogate": self.surrogate, "l2": self.l2, "optimizer": optimizer}
        if key == "primal":
            return PrimalSubgradient(**shared)
        if key == "em":
            return PointEM(**shared)
        n_inner_iter, gradient_at = (10 if key == "paired_10" else 1), ("consensus" if key == "naive" else "copies")
        return PairedDual(n_inner_iter=n_inner_iter, gradient_at=gradient_at, warm_up=self.warm_up, **shared)


class Predictor:
    """MAP inference in a model with some observed variables, for one vector of weights after another.

    Parameters
    ----------
    model : HingeLossMRF
        Model of training and test data together, or of test data only.
    observed : float array (n_variables,)
        Values of observed variables; NaN for the others.
    surrogate : EntropySurrogate
        Surrogate of the entropy, as in learning.
    """

    def __init__(self, model: HingeLossMRF, observed: FloatArray, surrogate: EntropySurrogate) -> None:
        self._problem = PairedProblem.of(model, observed, surrogate)
        # Scores rank nearly equal values, so that a looser tolerance would change them in the third decimal.
        self._run = SideRun(self._problem, self._problem.clamped, ConsensusADMM(tol=1e-6))

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the values of all variables, including the observed ones."""
        self._run.solve(weights)
        return self._problem.complete(self._run.point)


def area_under_precision(truth: NDArray[np.bool_], score: FloatArray) -> float:
    """Return the area under the precision-recall curve (average precision).

    Examples
    --------
    >>> area_under_precision(np.array([True, False]), np.array([0.9, 0.1]))
    1.0
    """
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(truth, score))


def method_tasks(comparison: Comparison, across_folds: bool = True) -> list[Task]:
    """Return a task for each method, and tasks that compare paired-dual learning with the baselines.

    With `across_folds` a task compares all methods at equal stopping rules.
    """
    names = ["objective", comparison.score_name, *([comparison.stopped_name] if comparison.has_validation else [])]
    tasks = [
        Task(key, label, dict.fromkeys(names), "value", partial(run_method, comparison, key), significant=4)
        for key, label in METHODS.items()
    ]
    figures = (_FRACTION, _GAIN, _WORST_GAIN, _GAIN_LATER)
    for key in ("paired_1", "paired_10", "naive"):
        run = partial(compare, comparison, key)
        label = f"{METHODS[key]}, both to 1.01 of the lowest objective of EM and primal"
        tasks.append(Task(f"bar-{key}", label, dict.fromkeys(figures), "ratio", run))
    if across_folds and comparison.has_validation:
        names = [*METHODS.values(), *(f"{label} minus EM" for key, label in METHODS.items() if key != "em")]
        label = f"{comparison.score_name}, all methods stopped by the held-out score"
        run = partial(compare_stopped, comparison)
        tasks.append(Task("stopped", label, dict.fromkeys(names), "value", run, significant=4, separate=True))
    return tasks


def run_method(comparison: Comparison, key: str, checkpoint: Path) -> Finding:
    """Learn on every fold, and return curves of objective and score and their final means over the folds."""
    curves, updates, stopped = [], [], []
    intervals: dict[str, tuple[float, float]] = {}
    for k in range(comparison.n_folds):
        fold = comparison.folds(k)
        learner = comparison.learner(key)
        fit = learner.fit(fold.model, fold.labels, trainable=fold.trainable)
        problem = PairedProblem.of(fold.model, fold.labels, comparison.surrogate)
        history = fit.history
        rows = spread_rows(history["admm_iterations"], comparison.n_points)
        weights = history["weights"][rows]
        evaluated = evaluate_history(problem, weights, comparison.l2, ConsensusADMM(), fold.score)
        curves.append(np.stack([history["admm_iterations"][rows], evaluated["objective"], evaluated["score"]]))
        updates.append(fit.n_iter)
        ends = {comparison.score_name: len(rows) - 1}
        if fold.validation is not None:
            best = int(np.argmax([fold.validation(row) for row in weights]))
            stopped.append([int(curves[-1][0, best]), float(curves[-1][2, best])])
            ends[comparison.stopped_name] = best
        if fold.interval is not None:
            intervals |= {name: fold.interval(weights[row]) for name, row in ends.items()}
    arrays: dict[str, NDArray[Any]] = {f"fold_{k}": curve for k, curve in enumerate(curves)}
    scores = {comparison.score_name: [float(curve[2, -1]) for curve in curves]}
    settings = {
        "surrogate": repr(comparison.surrogate),
        "l2": comparison.l2,
        "step_size": comparison.step_size,
        "adagrad": comparison.adagrad,
        "budget": comparison.budget,
        "warm_up": comparison.warm_up,
        "updates": updates,
    }
    if stopped:
        scores[comparison.stopped_name] = [score for _, score in stopped]
        settings["iterations and score where stopped"] = stopped
    settings["scores"] = scores[comparison.score_name]
    values = {"objective": float(np.mean([curve[1, -1] for curve in curves]))}
    for name, by_fold in scores.items():
        values |= with_interval(name, by_fold, intervals.get(name))
    return Finding(values, comparison.n_folds, arrays, settings)


def with_interval(name: str, by_fold: Sequence[float], interval: tuple[float, float] | None = None) -> dict[str, float]:
    """Return the mean of a figure over folds, with its 95 % interval as "NAME, low" and "NAME, high".

    The interval is that of Student's t over three or more folds. Training data of folds overlap, so that it is
    approximate. An `interval` that was computed otherwise replaces it.

    Examples
    --------
    >>> figures = with_interval("AuPR", [0.5, 0.6, 0.7])
    >>> [round(figures[name], 3) for name in ("AuPR", "AuPR, low", "AuPR, high")]
    [0.6, 0.352, 0.848]
    """
    from scipy.stats import t

    mean, n = float(np.mean(by_fold)), len(by_fold)
    if interval is None and n >= 3 and np.isfinite(mean):
        margin = float(t.ppf(0.975, n - 1) * np.std(by_fold, ddof=1) / np.sqrt(n))
        interval = mean - margin, mean + margin
    return {name: mean} | ({} if interval is None else {f"{name}, low": interval[0], f"{name}, high": interval[1]})


def _stored_methods(comparison: Comparison, methods: Sequence[str], checkpoint: Path) -> dict[str, Finding]:
    """Return the stored results of some methods; raise if one is missing."""
    tasks = [task for task in method_tasks(comparison) if task.key in methods]
    findings = load_findings(tasks, checkpoint.parent)
    missing = [METHODS[name] for name in methods if name not in findings]
    if missing:
        raise InvalidInputError(
            f"This row compares methods and needs the results of {', '.join(missing)}. Run these first, or run all "
            "tasks."
        )
    return findings


def compare_stopped(comparison: Comparison, checkpoint: Path) -> Finding:
    """Compute the mean scores of all methods where the held-out score is highest, and differences from EM."""
    findings = _stored_methods(comparison, tuple(METHODS), checkpoint)
    scores = {
        key: np.array([score for _, score in findings[key].settings["iterations and score where stopped"]])
        for key in METHODS
    }
    values: dict[str, float] = {}
    for key, label in METHODS.items():
        values |= with_interval(label, scores[key].tolist())
        if key != "em":
            values |= with_interval(f"{label} minus EM", (scores[key] - scores["em"]).tolist())
    return Finding(values, len(scores["em"]))


def compare(comparison: Comparison, key: str, checkpoint: Path) -> Finding:
    """Compute how fast a method and the faster baseline reached 1.01 of the baselines' lowest objective."""
    methods = (*BASELINES, key)
    findings = _stored_methods(comparison, methods, checkpoint)
    fractions, gains, later_gains = [], [], []
    for k in range(comparison.n_folds):
        curves = {name: findings[name].arrays[f"fold_{k}"] for name in methods}
        fraction, gain, later_gain = compare_curves(curves[key], [curves[name] for name in BASELINES])
        fractions.append(fraction)
        gains.append(gain)
        later_gains.append(later_gain)
    values = {
        _FRACTION: max(fractions),
        **with_interval(_GAIN, gains),
        _WORST_GAIN: min(gains),
        **with_interval(_GAIN_LATER, later_gains),
    }
    updates = {name: findings[name].settings["updates"] for name in methods}
    return Finding(
        values,
        comparison.n_folds,
        {},
        {"shares": fractions, "score_gains": gains, "score_gains_later": later_gains, "updates": updates},
    )


def compare_curves(curve: FloatArray, baselines: Sequence[FloatArray]) -> tuple[float, float, float]:
    """Return the fraction of the baselines' iterations after which a curve reaches their objective, and its gains.

    Curves have rows of iterations, objectives and scores. Both sides have the same target: 1.01 of the lowest objective
    of the baselines. The curve is compared with the baseline that reaches this target first. Gains are differences from
    the score of that baseline at the target: where the curve reaches the target, and after a fifth of the iterations of
    the baseline (or where the curve reaches the target, if later). All values are infinite if the curve does not reach
    the target.

    Examples
    --------
    >>> theirs = np.array([[0, 100, 200], [2.0, 1.005, 1.0], [0.5, 0.6, 0.7]])
    >>> ours = np.array([[0, 2, 4, 6], [2.0, 1.5, 1.005, 0.9], [0.5, 0.6, 0.7, 0.7]])
    >>> fraction, gain, later_gain = compare_curves(ours, [theirs])
    >>> fraction, round(gain, 6), round(later_gain, 6)
    (0.04, 0.1, 0.1)
    """
    target = 1.01 * min(float(baseline[1].min()) for baseline in baselines)
    arrivals = [baseline[:, np.argmax(baseline[1] <= target)] for baseline in baselines if baseline[1].min() <= target]
    n_iter, _, score = min(arrivals, key=lambda point: float(point[0]))
    enough = curve[1] <= target
    if not enough.any():
        return float("inf"), float("-inf"), float("-inf")
    first = int(np.argmax(enough))
    after_fifth = max(first, int(np.flatnonzero(curve[0] <= 0.2 * n_iter)[-1]))
    gain, later_gain = (float(curve[2, row] - score) for row in (first, after_fifth))
    return float(curve[0, first] / n_iter), gain, later_gain


def draw_curves(findings: dict[str, Finding], name: str, title: str, score_name: str) -> dict[str, Figure]:
    """Plot objective and score of all folds over ADMM iterations as points, and their means (Bach2015, Figure 1)."""
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    curves = {
        key: [curve for fold, curve in sorted(findings[key].arrays.items()) if fold.startswith("fold_")]
        for key in METHODS
        if key in findings and "fold_0" in findings[key].arrays
    }
    if not curves:
        return {}
    figures: dict[str, Figure] = {}
    for row, quantity in ((1, "objective"), (2, score_name)):
        panels = []
        for key, folds in curves.items():
            iterations = np.concatenate([curve[0, 1:] for curve in folds])
            values = np.concatenate([curve[row, 1:] for curve in folds])
            grid = np.geomspace(max(curve[0, 1] for curve in folds), min(curve[0, -1] for curve in folds), 40)
            mean = np.mean([np.interp(np.log(grid), np.log(curve[0, 1:]), curve[row, 1:]) for curve in folds], axis=0)
            lines = [Line("all folds", iterations, values, dashes="", marker="."), Line("mean", grid, mean)]
            panels.append(LinePanel(METHODS[key], lines))
        figures[f"{name}-{quantity.lower().replace(' ', '-')}"] = plot_lines(
            panels,
            x_label="ADMM iterations of learning, both problems",
            y_label=quantity,
            title=f"{title}: {quantity}",
            log_x=True,
            n_columns=len(panels),
        )
    return figures
