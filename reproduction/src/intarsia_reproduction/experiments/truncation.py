"""Risk over time of truncated fitting and of fitting at convergence (Domke2013, section 8.4, Fig. 7)."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.crf import GridCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients import GradientRule
from intarsia.gradients.back_propagation import BackPropagation
from intarsia.gradients.perturbation import PerturbationGradient
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.models import edge_features, pixel_features
from intarsia_reproduction.datasets import load_backgrounds
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.image_fits import Pictures, penalty
from intarsia_reproduction.models.intervals import bootstrap_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

SWEEPS = (2, 5, 10, 20)
THRESHOLDS = (1e-1, 1e-2, 1e-4)
# Perturbation divides an error of the marginals by a step of about 1e-5, so it needs tighter thresholds unless the
# errors of both runs cancel.
PERTURBATION_THRESHOLDS = (1e-1, 1e-2, 1e-4, 1e-6)
REACHED = "risk reached"
CONVERGED = "risk at convergence"
TEST, TEST_LOW, TEST_HIGH = "test error", "test error, low", "test error, high"
SECONDS = "processor s"
INDEPENDENT = "independent"
FIGURES = (REACHED, CONVERGED, TEST, TEST_LOW, TEST_HIGH, SECONDS)


@dataclass(frozen=True)
class Settings:
    """Size of the experiment.

    Attributes
    ----------
    n_images : int
        Number of training photographs; the paper has 100.
    n_test : int
        Number of test photographs; the paper shows the training risk alone.
    max_iter : int
        Maximum number of iterations of L-BFGS.
    crop : int
        Largest height and width, cut from the middle.
    ridge : float
        Regularization relative to the risk per pixel, as in the paper's other experiment with these photographs.
    seed : int
        Seed of the choice of photographs.
    """

    n_images: int = 12
    n_test: int = 48
    max_iter: int = 150
    crop: int = 32
    ridge: float = 1e-3
    seed: int = 0


FULL = Settings()
QUICK = Settings(n_images=4, n_test=4, max_iter=60)


def truncation(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the risk over time of fitting through a few sweeps or to a threshold.

    The univariate logistic loss of tree-reweighted marginals is minimized on photographs of the Stanford backgrounds;
    all fits start from the same independent model. The paper shows curves without numbers: with loose thresholds
    perturbation and back-propagation stop at high risks, truncated fitting does not, and more sweeps are slower and
    reach a lower risk.

    "risk reached" is the minimized objective, with the inference of the fit and the regularization. "risk at
    convergence" is the loss of the same weights after inference has converged, which is comparable between rows. The
    test error is that of further photographs, by the inference of the fit, with a 95 % interval by bootstrap over these
    photographs. Times are for one core (wall-clock time multiplied by the fraction in which the process ran), so that
    other work on the machine does not distort the curves. The independent model, a logistic regression of single
    pixels, is the start of all fits and the baseline. We use fewer photographs than the paper's 100, see the settings.

    Examples
    --------
    >>> [task.key for task in truncation(quick=True).tasks][:4]
    ['truncated_2', 'truncated_5', 'truncated_10', 'truncated_20']
    """
    settings = QUICK if quick else FULL

    @cache  # shared by all tasks, and computed only if a task is run
    def prepare() -> tuple[Pictures, Pictures, FloatArray]:
        pictures = _load(settings, data)
        return pictures, _load(settings, data, test=True), independent_weights(pictures, settings)

    tasks = [
        Task(
            key=key,
            label=label,
            paper=dict.fromkeys(FIGURES),
            unit="nats per pixel, error rate, processor seconds",
            run=partial(_task, label, rule, prepare, settings),
        )
        for key, label, rule in [
            *gradient_rules(),
            (INDEPENDENT, "independent pixels (start of all fits)", TruncatedGradient(n_iter=1)),
        ]
    ]
    title = "Truncated fitting, back-propagation and perturbation (Domke 2013, Fig. 7)"
    source = f"Stanford backgrounds at 20 %, {settings.n_images} photographs"
    return Experiment(
        "truncation",
        title,
        tasks,
        _figures,
        source,
        question="After how many sweeps, or at which threshold, can inference stop during learning?",
    )


def gradient_rules() -> list[tuple[str, str, GradientRule]]:
    """Return the key, label and gradient rule of every curve."""
    return [
        *((f"truncated_{n}", f"truncated, {n} sweeps", TruncatedGradient(n_iter=n)) for n in SWEEPS),
        *((f"back_propagation_{t:.0e}", f"back-propagation, {t:.0e}", BackPropagation(tol=t)) for t in THRESHOLDS),
        *(
            (f"perturbation_{t:.0e}", f"perturbation, {t:.0e}", PerturbationGradient(tol=t))
            for t in PERTURBATION_THRESHOLDS
        ),
    ]


def _load(settings: Settings, data: Path | None, test: bool = False) -> Pictures:
    images = load_backgrounds(data)
    order = np.random.default_rng(settings.seed).permutation(len(images.rgb))
    stop = settings.n_images + settings.n_test
    indices = order[settings.n_images : stop] if test else order[: settings.n_images]
    windows = [_middle(images.regions[i].shape, settings.crop) for i in indices]
    rgb = [images.rgb[i][window] for i, window in zip(indices, windows, strict=True)]
    return Pictures(
        [pixel_features(photo) for photo in rgb],
        [images.regions[i][window].astype(np.int64) for i, window in zip(indices, windows, strict=True)],
        [edge_features(photo, sobel=False) for photo in rgb],
    )


def _middle(shape: tuple[int, ...], crop: int) -> tuple[slice, slice]:
    row, column = (max(side - crop, 0) // 2 for side in shape)
    return slice(row, row + crop), slice(column, column + crop)


def _task(
    label: str,
    rule: GradientRule,
    prepare: Callable[[], tuple[Pictures, Pictures, FloatArray]],
    settings: Settings,
    checkpoint: Path,
) -> Finding:
    # No checkpoint: it would distort the times, and a fit takes at most some minutes.
    if label.startswith(INDEPENDENT):
        settings = replace(settings, max_iter=0)
    return fit_with(label, rule, *prepare(), settings)


def independent_weights(pictures: Pictures, settings: Settings) -> FloatArray:
    """Fit the initial weights of all fits: a model of independent pixels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # initial weights need not be exact
        return _fit(TruncatedGradient(n_iter=1), pictures, settings, 0).weights_


def fit_with(
    label: str, rule: GradientRule, pictures: Pictures, test: Pictures, start: FloatArray, settings: Settings
) -> Finding:
    """Fit with this gradient rule; return the risk over time and the figures of a row."""
    with warnings.catch_warnings():
        # Loose thresholds and a fixed number of iterations are settings of the experiment.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _fit(rule, pictures.take([0]), settings, 1, start)  # compile the kernels before measuring time
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        crf = _fit(rule, pictures, settings, settings.max_iter, start)
        busy_fraction = min((time.process_time() - cpu_start) / (time.perf_counter() - wall_start), 1.0)
        test_errors = _test_errors(crf, test)
        converged, error = _evaluate_at_convergence(crf, pictures)
    seconds = busy_fraction * np.asarray(crf.history_["seconds"])
    low, high = bootstrap_mean(test_errors)
    values = {
        REACHED: float(crf.risk_), CONVERGED: converged, TEST: float(test_errors.mean()), TEST_LOW: low,
        TEST_HIGH: high, SECONDS: float(seconds[-1]),
    }  # fmt: skip
    history = {name: np.asarray(crf.history_[name]) for name in ("risk", "evaluations")}
    details = {
        "label": label, "status": crf.status_.name, "iterations": int(crf.n_iter_), "train error": error,
    }  # fmt: skip
    if crf.status_ is not Status.CONVERGED and settings.max_iter:
        details["note"] = f"{crf.status_.name}, {crf.n_iter_} iterations"
    arrays = history | {"seconds": seconds, "test_errors": test_errors}
    return Finding(values, len(pictures.labels), arrays, asdict(settings) | details)


def _fit(
    rule: GradientRule, pictures: Pictures, settings: Settings, max_iter: int, start: FloatArray | None = None
) -> GridCRF:
    learner = RiskMinimizer(
        loss="univariate_logistic",
        gradient=rule,
        optimizer=LBFGS(max_iter=max_iter, tol=1e-5),
        l2=penalty(settings.ridge, pictures.labels),
    )
    crf = GridCRF(inference=TreeReweighted(), learner=learner, classes=np.arange(8))
    crf.fit(pictures.features, pictures.labels, edge_features=pictures.edges, start=start)
    if crf.status_ is Status.INTERRUPTED:  # an incomplete fit is neither a curve nor a start for other fits
        raise KeyboardInterrupt
    return crf


def _test_errors(crf: GridCRF, test: Pictures) -> FloatArray:
    """Return the error rate of each photograph, by the inference of the fit."""
    marginals = crf.predict_marginals(test.features, edge_features=test.edges)
    return np.array(
        [np.mean(mu.argmax(axis=2)[y >= 0] != y[y >= 0]) for mu, y in zip(marginals, test.labels, strict=True)]
    )


def _evaluate_at_convergence(crf: GridCRF, pictures: Pictures) -> tuple[float, float]:
    """Return the mean negative log marginal of the true labels and the error rate, with converged inference."""
    crf.set_params(inference=TreeReweighted(tol=1e-6), learner=RiskMinimizer(gradient=BackPropagation()))
    logs: list[Any] = []
    wrong: list[Any] = []
    for marginals, labels in zip(
        crf.predict_marginals(pictures.features, edge_features=pictures.edges), pictures.labels, strict=True
    ):
        mask = labels >= 0
        logs.append(-np.log(np.maximum(marginals[mask, labels[mask]], 1e-300)))
        wrong.append(marginals[mask].argmax(axis=1) != labels[mask])
    return float(np.concatenate(logs).mean()), float(np.concatenate(wrong).mean())


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    groups = {"truncated": "truncated, sweeps", "back_propagation": "back-propagation, threshold",
              "perturbation": "perturbation, threshold"}  # fmt: skip
    # One hue for each rule; darker for more sweeps and tighter thresholds.
    shades = {
        "truncated": ("#9ecae1", "#6baed6", "#2171b5", "#08306b"),
        "back_propagation": ("#fdae6b", "#f16913", "#a63603"),
        "perturbation": ("#a1d99b", "#74c476", "#238b45", "#00441b"),
    }
    panels = []
    for group, title in groups.items():
        lines = []
        keys = [key for key, _, _ in gradient_rules() if key.startswith(group)]
        for key, shade in zip(keys, shades[group], strict=True):
            if key in findings:
                risk, seconds = findings[key].arrays["risk"], findings[key].arrays["seconds"]
                lines.append(Line(findings[key].settings["label"], seconds, np.minimum.accumulate(risk), colour=shade))
        if lines:
            panels.append(LinePanel(title, lines))
    if not panels:
        return {}
    figure = plot_lines(
        panels,
        x_label="seconds of one core",
        y_label="training risk",
        title="Fitting through inference: risk against time",
    )
    return {"truncation": figure}
