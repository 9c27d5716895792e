"""Binary denoising (Domke2013, section 8.2): Table 1 and Figure 4."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.crf import GridCRF
from intarsia.gradients.back_propagation import BackPropagation
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, Incremental, RiskMinimizer
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.baselines import boost_pixels, neighbourhood, smooth_and_threshold
from intarsia_reproduction.models.image_fits import (
    CLOSED_FORM,
    LOSSES,
    NEEDS_START,
    Pictures,
    fit_independent,
    fit_pictures,
    penalty,
    plot_beliefs,
    saved_weights,
    with_marginals,
)
from intarsia_reproduction.models.picture_intervals import interval_task, predict_errors
from intarsia_reproduction.models.pseudo_likelihood_study import STUDIES, join_pictures, study_pseudo_likelihood

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Training and test errors of Table 1 at the three noise levels.
_PAPER: dict[str, tuple[float, ...]] = {
    "surrogate": (0.149, 0.143, 0.103, 0.097, 0.031, 0.030),
    "univariate_logistic": (0.133, 0.126, 0.102, 0.096, 0.031, 0.030),
    "clique_logistic": (0.132, 0.126, 0.102, 0.096, 0.031, 0.030),
    "univariate_quadratic": (0.132, 0.126, 0.102, 0.096, 0.031, 0.030),
    "smooth_5": (0.136, 0.129, 0.105, 0.099, 0.032, 0.030),
    "smooth_15": (0.132, 0.126, 0.102, 0.096, 0.031, 0.030),
    "smooth_50": (0.132, 0.125, 0.102, 0.096, 0.030, 0.030),
    "pseudo_likelihood": (0.207, 0.204, 0.117, 0.112, 0.032, 0.030),
    "piecewise": (0.466, 0.481, 0.466, 0.481, 0.063, 0.058),
    "independent": (0.421, 0.424, 0.367, 0.368, 0.129, 0.129),
}
_NOISES = (1.25, 1.5, 5.0)
_TOL = 1e-4  # of inference, as in the paper
_RIDGE = 1e-6  # the paper states none; a small one makes flat directions of the twelve weights well conditioned
_PLOT_INDEX = 1
_BOOSTED = 200_000  # training pixels of gradient boosting
_BASELINES = {
    "smoothing": "baseline: smoothed input and threshold",
    "patches": "baseline: gradient boosting, 5 x 5 neighbours",
    "boosting": "baseline: gradient boosting, 5 x 5 neighbours and Gaussian means",
}
_WIDTHS = (1.0, 2.0, 4.0, 8.0)  # of the Gaussian means, fixed before a look at any result
_STUDY_TEST = 20  # test images of the study of pseudo-likelihood
_STUDY_LABELS = {
    "iterations": "stopped after",
    "ridge": "regularized by",
    "decoding": "decoded by",
    "draws": "other draws of 32 training pictures",
}


def denoising(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with error rates of all losses at three noise levels, by back-propagation at convergence.

    The quick version has eight training and eight test images, cropped to 48x64 pixels, at the highest noise only.

    Examples
    --------
    >>> len([task for task in denoising(quick=True).tasks if task.required])
    10
    """

    @cache
    def pictures(noise: float) -> tuple[Pictures, Pictures]:
        return _load(noise, quick, data)

    noises = _NOISES[:1] if quick else _NOISES
    rows = [("independent", "independent")] + [(key, label) for key, label, _ in LOSSES]
    tasks = []
    for noise in noises:
        for key, label in rows:
            column = 2 * _NOISES.index(noise)
            paper = dict(zip(("train error", "test error"), _PAPER[key][column : column + 2], strict=True))
            run = partial(_run, key, noise, quick, pictures)
            tasks.append(Task(_key(key, noise), f"n = {noise:g}, {label}", paper, "error rate", run))
        for key, label in _BASELINES.items():
            run = partial(_run_baseline, key, noise, quick, pictures)
            errors = {"train error": None, "test error": None}
            label = f"n = {noise:g}, {label}"
            tasks.append(Task(_key(key, noise), label, errors, "error rate", run, required=not quick))
    interval_rows = {task.key: [task.key] for task in tasks}
    for study, names in STUDIES.items():
        run = partial(_run_study, study, quick, pictures)
        label = f"n = 1.25, pseudo-likelihood, {_STUDY_LABELS[study]}"
        tasks.append(
            Task(
                f"study-{study}", label, dict.fromkeys(names), "test error rate", run, required=not quick, separate=True
            )
        )
    tasks.append(
        interval_task(
            interval_rows,
            partial(_predict, pictures),
            required=not quick,
            bases=("boosting", "smoothing"),
            base_row=lambda row, base: f"{row.partition('-')[0]}-{base}",
        )
    )
    return Experiment(
        "denoising",
        "Binary denoising: error rates (Domke2013, Table 1)",
        tasks,
        lambda findings: _figures(findings, noises, pictures),
        "132 binary pictures made from the Berkeley segmentation set, 32 to train and 100 to test on (our choice)",
        question="Which loss restores most pixels if inference is approximate in training and in prediction?",
    )


def _key(loss: str, noise: float) -> str:
    return f"n{noise:g}-{loss}".replace(".", "_")


def _load(noise: float, quick: bool, data: Path | None) -> tuple[Pictures, Pictures]:
    from intarsia.datasets import noisy_inputs
    from intarsia_reproduction.datasets import load_denoising

    images = load_denoising(data=data)
    sets = []
    for seed, indices in enumerate((images.train, images.test)):
        clean = [images.binary[i] for i in indices]
        if quick:
            clean = [picture[:48, :64] for picture in clean[:8]]
        inputs = noisy_inputs(clean, noise, random_state=seed)
        features = [np.stack([np.ones_like(noisy), noisy], axis=-1) for noisy in inputs]
        sets.append(Pictures(features, [np.asarray(picture, dtype=np.int64) for picture in clean]))
    return sets[0], sets[1]


def _run(key: str, noise: float, quick: bool, pictures: Any, checkpoint: Path) -> Finding:
    train, test = pictures(noise)
    settings: dict[str, Any] = {"noise": noise, "ridge": _RIDGE}
    if key == "independent":
        return fit_independent(
            train,
            test,
            n_classes=2,
            ridge=_RIDGE,
            optimizer=LBFGS(tol=1e-5, max_iter=48),
            checkpoint=checkpoint,
            plot_index=_PLOT_INDEX,
            settings=settings,
        )
    earlier_rows = ["surrogate", "independent"] if key in NEEDS_START else ["independent"]
    start = saved_weights(checkpoint.parent, *(_key(name, noise) for name in earlier_rows))
    n_start, max_iter = (4, 20) if quick else (8, 8) if key in NEEDS_START else (4, 32)
    learner = RiskMinimizer(
        loss=next(loss for name, _, loss in LOSSES if name == key),
        gradient="auto" if key in CLOSED_FORM else BackPropagation(tol=_TOL),
        optimizer=LBFGS(tol=1e-3),  # gradients of inference to 1e-4 are not more accurate
        schedule=Incremental(n_start=n_start, max_iter=max_iter),
        l2=penalty(_RIDGE, train.labels),
        checkpoint=checkpoint,
    )
    crf = GridCRF(inference=TreeReweighted(tol=_TOL, max_iter=1000), learner=learner)
    settings |= {"tol": _TOL, "incremental": [n_start, max_iter]}
    return fit_pictures(crf, train, test, plot_index=_PLOT_INDEX, start=start, settings=settings)


def _run_baseline(key: str, noise: float, quick: bool, pictures: Any, _: Path) -> Finding:
    train, test = pictures(noise)
    if key == "smoothing":
        return smooth_and_threshold(train, test)
    n_pixels, max_iter = (2_000, 10) if quick else (_BOOSTED, 100)
    # The noise of the training and of the test images has the seeds 0 and 1.
    expand = partial(neighbourhood, widths=_WIDTHS if key == "boosting" else ())
    return boost_pixels(train, test, n_pixels=n_pixels, max_iter=max_iter, expand=expand, random_state=2)


def _predict(pictures: Any, key: str, weights: FloatArray) -> IntArray:
    """Return the errors of each test image with the stored weights of a row."""
    noise = next(noise for noise in _NOISES if key.startswith(_key("", noise)))
    gradient = TruncatedGradient(n_iter=0) if key == _key("independent", noise) else BackPropagation(tol=_TOL)
    learner = RiskMinimizer(loss="univariate_logistic", gradient=gradient)
    crf = GridCRF(inference=TreeReweighted(tol=_TOL, max_iter=1000), learner=learner, classes=np.arange(2))
    return predict_errors(crf, weights, pictures(noise)[1])


def _run_study(study: str, quick: bool, pictures: Any, _: Path) -> Finding:
    """Fit by pseudo-likelihood at the highest noise, with training images drawn from all but the first test images."""
    train, test = pictures(_NOISES[0])
    n_test = 4 if quick else _STUDY_TEST
    others = join_pictures(train, test.take(range(n_test, len(test.labels))))
    return study_pseudo_likelihood(study, others, test.take(range(n_test)), n_train=len(train.labels))


def _figures(findings: dict[str, Finding], noises: tuple[float, ...], pictures: Any) -> dict[str, Figure]:
    """Plot the marginals of one test image: a figure for each noise level."""
    figures = {}
    names = {key: label for key, label, _ in LOSSES} | {"independent": "independent"}
    for noise in noises:
        drawable = with_marginals({key: findings[_key(key, noise)] for key in names if _key(key, noise) in findings})
        if not drawable:
            continue
        _, test = pictures(noise)
        panels: list[tuple[str, Any]] = [
            ("truth", test.labels[_PLOT_INDEX]),
            (f"input, n = {noise:g}", test.features[_PLOT_INDEX][..., 1]),
        ]
        for key, finding in drawable.items():
            error = finding.values["test error"]
            panels.append((f"{names[key]}\ntest error {error:.3f}", finding.arrays["marginals"][..., 1].astype(float)))
        title = f"Probability of white in one test picture, noise level n = {noise:g}"
        figures[f"denoising-n{noise:g}".replace(".", "_")] = plot_beliefs(panels, title=title)
    return figures
