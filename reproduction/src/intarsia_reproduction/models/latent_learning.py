"""The comparison of Bach2015, section 4: learners of latent variables against the number of ADMM iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
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
# Iterations over those that the best of EM and primal took, and the score less theirs.
_SHARE, _GAIN, _GAIN_LATER = "share of iterations, worst fold", "gain in score there", "gain in score at a fifth"
_WORST_GAIN = "gain in score there, worst fold"


@dataclass(frozen=True, eq=False)
class Fold:
    """What is learned from, and how the result is judged.

    Attributes
    ----------
    model : HingeLossMRF
        The training model; its weights are where learning starts.
    labels : float array
        Labels, NaN at latent variables.
    score : function
        From weights to the figure on held-out data; higher is better.
    """

    model: HingeLossMRF
    labels: FloatArray
    score: Callable[[FloatArray], float]


@dataclass(frozen=True, eq=False)
class Comparison:
    """What all methods of one experiment share.

    Attributes
    ----------
    folds : function
        From a fold's number to it; called when it is needed.
    n_folds : int
        How many.
    surrogate : EntropySurrogate
        What stands for the entropy.
    l2, step_size : float
        Of the objective, and of the weights' steps.
    adagrad : bool
        Whether the steps are rescaled by AdaGrad.
    budget : int
        ADMM iterations, of both problems together, after which no update begins.
    warm_up : int
        K of paired-dual learning.
    n_points : int
        Rows of each curve at which the objective and the score are computed, about evenly in the logarithm.
    score_name : str
        What the score is.
    record_every : dict of int
        Updates between rows kept, by method; 1 where none is given.
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

    def learner(self, key: str) -> Any:
        """The settings object of a method."""
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
        n_inner_iter, place = (10 if key == "paired_10" else 1), ("consensus" if key == "naive" else "copies")
        return PairedDual(n_inner_iter=n_inner_iter, gradient_at=place, warm_up=self.warm_up, **shared)


class Predictor:
    """The most probable values of a model in which some variables are known, for one vector of weights after another.

    Parameters
    ----------
    model : HingeLossMRF
        Training and test data together, or test data alone.
    known : float array (n_variables,)
        NaN where unknown.
    surrogate : EntropySurrogate
        Stands in the model as it did while learning.
    """

    def __init__(self, model: HingeLossMRF, known: FloatArray, surrogate: EntropySurrogate) -> None:
        self._problem = PairedProblem.of(model, known, surrogate)
        self._run = SideRun(self._problem, self._problem.clamped, ConsensusADMM())

    def __call__(self, weights: FloatArray) -> FloatArray:
        """All variables; the known ones as they are."""
        self._run.solve(weights)
        return self._problem.complete(self._run.point)


def area_under_precision(truth: NDArray[np.bool_], score: FloatArray) -> float:
    """Area under the curve of precision against recall, as its average over the positives.

    Examples
    --------
    >>> area_under_precision(np.array([True, False]), np.array([0.9, 0.1]))
    1.0
    """
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(truth, score))


def method_tasks(comparison: Comparison) -> list[Task]:
    """A task for each method, and one that compares them once they are done."""
    names = ("objective", comparison.score_name)
    tasks = [
        Task(key, label, dict.fromkeys(names), "value", partial(run_method, comparison, key), significant=4)
        for key, label in METHODS.items()
    ]
    figures = (_SHARE, _GAIN, _WORST_GAIN, _GAIN_LATER)
    for key in ("paired_1", "paired_10", "naive"):
        run = partial(compare, comparison, key)
        label = f"{METHODS[key]}, to 1.01 of the best of EM and primal"
        tasks.append(Task(f"bar-{key}", label, dict.fromkeys(figures), "ratio", run))
    return tasks


def run_method(comparison: Comparison, key: str, checkpoint: Path) -> Finding:
    """Learn on every fold; the objective and the score along the way, and their means over the folds at the end."""
    curves, updates = [], []
    for k in range(comparison.n_folds):
        fold = comparison.folds(k)
        learner = comparison.learner(key)
        found = learner.fit(fold.model, fold.labels)
        problem = PairedProblem.of(fold.model, fold.labels, comparison.surrogate)
        history = found.history
        rows = spread_rows(history["admm_iterations"], comparison.n_points)
        told = evaluate_history(problem, history["weights"][rows], comparison.l2, ConsensusADMM(), fold.score)
        curves.append(np.stack([history["admm_iterations"][rows], told["objective"], told["score"]]))
        updates.append(found.n_iter)
    arrays: dict[str, NDArray[Any]] = {f"fold_{k}": curve for k, curve in enumerate(curves)}
    values = {
        "objective": float(np.mean([curve[1, -1] for curve in curves])),
        comparison.score_name: float(np.mean([curve[2, -1] for curve in curves])),
    }
    settings = {
        "surrogate": repr(comparison.surrogate),
        "l2": comparison.l2,
        "step_size": comparison.step_size,
        "adagrad": comparison.adagrad,
        "budget": comparison.budget,
        "warm_up": comparison.warm_up,
        "updates": updates,
    }
    return Finding(values, comparison.n_folds, arrays, settings)


def spread_rows(iterations: IntArray, n_points: int) -> IntArray:
    """Rows of a history about evenly spread in the logarithm of the iterations, the first and the last among them.

    Examples
    --------
    >>> spread_rows(np.array([0, 2, 4, 6, 8, 10, 12, 14, 16]), 4)
    array([0, 1, 3, 8])
    """
    last = len(iterations) - 1
    if last < n_points:
        return np.arange(last + 1)
    wanted = np.geomspace(max(1, iterations[1]), iterations[last], n_points - 1)
    return np.unique(np.concatenate([[0], np.searchsorted(iterations, wanted * (1.0 - 1e-12)), [last]]).clip(0, last))


def compare(comparison: Comparison, key: str, checkpoint: Path) -> Finding:
    """How soon a method reached 1.01 of the lowest objective of EM and primal subgradient, and its score there."""
    wanted = (*BASELINES, key)
    tasks = [task for task in method_tasks(comparison) if task.key in wanted]
    found = load_findings(tasks, checkpoint.parent)
    missing = [METHODS[name] for name in wanted if name not in found]
    if missing:
        raise InvalidInputError(
            f"This row compares {METHODS[key]} with the others and needs {', '.join(missing)} first. Run them, or all."
        )
    shares, gains, later = [], [], []
    for k in range(comparison.n_folds):
        curves = {name: found[name].arrays[f"fold_{k}"] for name in wanted}
        share, gain, at_a_fifth = reached(curves[key], [curves[name] for name in BASELINES])
        shares.append(share)
        gains.append(gain)
        later.append(at_a_fifth)
    values = {
        _SHARE: max(shares),
        _GAIN: float(np.mean(gains)),
        _WORST_GAIN: min(gains),
        _GAIN_LATER: float(np.mean(later)),
    }
    updates = {name: found[name].settings["updates"] for name in wanted}
    return Finding(
        values,
        comparison.n_folds,
        {},
        {"shares": shares, "score_gains": gains, "score_gains_later": later, "updates": updates},
    )


def reached(curve: FloatArray, baselines: Sequence[FloatArray]) -> tuple[float, float, float]:
    """Share of the baselines' iterations at which a curve is at 1.01 of their lowest objective, and its score's gains.

    Curves have rows of iterations, objectives and scores. Gains are over the baselines' score at their lowest
    objective: where the curve first got there, and after a fifth of their iterations (if it needed more, where it got
    there). Infinite where it never does.

    Examples
    --------
    >>> theirs = np.array([[0, 100, 200], [2.0, 1.5, 1.0], [0.5, 0.6, 0.7]])
    >>> ours = np.array([[0, 2, 4, 6], [2.0, 1.5, 1.005, 0.9], [0.5, 0.6, 0.7, 0.7]])
    >>> reached(ours, [theirs])
    (0.02, 0.0, 0.0)
    """
    best = min(baselines, key=lambda one: float(one[1].min()))
    at = int(np.argmin(best[1]))
    enough = curve[1] <= 1.01 * best[1, at]
    if not enough.any():
        return float("inf"), float("-inf"), float("-inf")
    first = int(np.argmax(enough))
    judged = max(first, int(np.flatnonzero(curve[0] <= 0.2 * best[0, at])[-1]))
    there, later = (float(curve[2, row] - best[2, at]) for row in (first, judged))
    return float(curve[0, first] / best[0, at]), there, later


def draw_curves(found: dict[str, Finding], name: str, title: str, score_name: str) -> dict[str, Figure]:
    """Objective and score of the first fold against ADMM iterations (Bach2015, Figure 1)."""
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    done = {key: found[key].arrays["fold_0"] for key in METHODS if key in found and "fold_0" in found[key].arrays}
    if not done:
        return {}
    made: dict[str, Figure] = {}
    for row, what in ((1, "objective"), (2, score_name)):
        lines = [Line(METHODS[key], curve[0, 1:], curve[row, 1:], marker=".") for key, curve in done.items()]
        made[f"{name}-{what.lower().replace(' ', '-')}"] = plot_lines(
            [LinePanel("first fold", lines)],
            x_label="ADMM iterations of learning, both problems",
            y_label=what,
            title=f"{title}: {what}",
            log_x=True,
        )
    return made
