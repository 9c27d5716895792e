"""Stanford backgrounds (Domke2013, section 8.4): Table 3 and Figure 6."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia.crf import GridCRF
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.losses.likelihood import SurrogateEM
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.baselines import boost_pixels
from intarsia_reproduction.models.image_fits import (
    Pictures,
    block_labels,
    block_means,
    block_tasks,
    choose_features,
    error_of_blocks,
    fit_independent,
    fit_or_diverge,
    fit_pictures,
    penalty,
    plot_beliefs,
    saved_weights,
    with_marginals,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEEPS = (5, 10, 20)
_LOSSES: dict[str, tuple[str, Any]] = {
    "surrogate_em": ("surrogate EM", SurrogateEM(free=None, clamped=None)),
    "univariate_logistic": ("univariate logistic", "univariate_logistic"),
    "clique_logistic": ("clique logistic", "clique_logistic"),
    "pseudo_likelihood": ("pseudo-likelihood", "pseudo_likelihood"),
    "piecewise": ("piecewise likelihood", "piecewise_likelihood"),
}
# Training and test errors of Table 3 for 5, 10 and 20 sweeps; the last three rows have no sweeps.
_PAPER: dict[str, tuple[float, ...]] = {
    "surrogate_em": (0.876, 0.877, 0.239, 0.249, 0.238, 0.248),
    "univariate_logistic": (0.210, 0.228, 0.202, 0.224, 0.201, 0.223),
    "clique_logistic": (0.206, 0.226, 0.198, 0.223, 0.195, 0.221),
}
_PAPER_OTHERS: dict[str, tuple[float, float]] = {
    "independent": (0.293, 0.299),
    "pseudo_likelihood": (0.516, 0.519),
    "piecewise": (0.335, 0.341),
}
_RIDGE = 1e-3
_WEAK_RIDGE = 1e-4  # of the last three rows
_TOL = 1e-3  # of the optimizer, in all rows: no entry of the gradient of the risk per pixel is larger
_MAX_ITER = 300
_FOLDS = (0,)  # the paper averages over five folds
_SCALE = 4  # the model labels blocks of 4 x 4 pixels, in all rows: a sixteenth of the work
_CELL, _SINUSOIDS = 8.0, 1.0  # cell size and scale of the features, chosen by the row "features"
_SETTINGS = {"block": _SCALE, "cell": _CELL, "sinusoids": _SINUSOIDS, "tol": _TOL, "max_iter": _MAX_ITER}
_BOOSTED = 60_000  # training blocks of gradient boosting, half of all
_PLOT_INDEX = 0
_NAMES = ("sky", "tree", "road", "grass", "water", "building", "mountain", "foreground")


def backgrounds(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with error rates on eight classes, some pixels unlabelled.

    Features are computed at 20 % of the size of the photographs and averaged over the blocks of pixels that the model
    labels; its marginals are interpolated, and errors are counted at 20 % of the size. The quick version has 12
    training and 12 test images, cropped to 24x32, with 5 sweeps.

    Examples
    --------
    >>> [task.key for task in backgrounds(quick=True).tasks if task.required]    # doctest: +NORMALIZE_WHITESPACE
    ['independent', 'pseudo_likelihood', 'piecewise', 'trw-5-surrogate_em', 'trw-5-univariate_logistic',
     'trw-5-clique_logistic']
    """

    @cache
    def pictures(fold: int = 0) -> tuple[Pictures, Pictures, Any]:
        return _load(quick, data, fold)

    tasks = []
    for fold in _FOLDS:
        prefix, label_prefix = ("", "") if fold == 0 else (f"fold{fold}-", f"fold {fold}, ")
        load = partial(pictures, fold)
        for key, pair in _PAPER_OTHERS.items():
            paper = dict(zip(("train error", "test error"), pair, strict=True))
            label = label_prefix + (_LOSSES[key][0] if key in _LOSSES else "independent (logistic regression)")
            tasks.append(Task(prefix + key, label, paper, "error rate", partial(_run_other, key, fold, quick, load)))
        for key, errors in _PAPER.items():
            for column, sweeps in enumerate(_SWEEPS):
                paper = dict(zip(("train error", "test error"), errors[2 * column : 2 * column + 2], strict=True))
                label = f"{label_prefix}TRW, {sweeps} sweeps, {_LOSSES[key][0]}"
                run = partial(_run, key, sweeps, fold, quick, load)
                required = sweeps == 5 or not quick
                tasks.append(Task(f"{prefix}trw-{sweeps}-{key}", label, paper, "error rate", run, required=required))
    no_figures = {"train error": None, "test error": None}
    label = "baseline: gradient boosting of single pixels"
    run = partial(_boost, quick, pictures)
    tasks.append(Task("boosting", label, no_figures, "error rate", run, required=not quick))
    tasks += block_tasks(partial(_enlarge, pictures), partial(_choose_features, quick, data), required=not quick)
    return Experiment(
        "backgrounds",
        "Stanford backgrounds: error rates (Domke2013, Table 3)",
        tasks,
        lambda findings: _figures(findings, pictures),
        "715 pictures (Stanford backgrounds) at 20 % of their size, model on 4 x 4 blocks; one of five folds",
        question="Regions of photographs, some pixels unlabelled: which loss fits best through how many sweeps?",
    )


def _load(quick: bool, data: Path | None, fold: int) -> tuple[Pictures, Pictures, Any]:
    from intarsia_reproduction.datasets import load_backgrounds

    scenes = load_backgrounds(data=data)
    train, test = scenes.split(fold)
    if quick:
        train, test = train[:12], test[:12]
    sets = [_pictures(scenes, indices, quick, _CELL, _SINUSOIDS) for indices in (train, test)]
    return sets[0], sets[1], scenes.rgb[int(test[_PLOT_INDEX])][_window(quick)]


def _window(quick: bool) -> tuple[slice, slice]:
    return (slice(24), slice(32)) if quick else (slice(None), slice(None))


def _pictures(scenes: Any, indices: Any, quick: bool, cell: float, sinusoids: float) -> Pictures:
    """Average features over the blocks that the model labels; a block has the most frequent label of its pixels."""
    from intarsia.models import edge_features, pixel_features

    scale, window = 1 if quick else _SCALE, _window(quick)
    truth = [np.asarray(scenes.regions[i], dtype=np.int64)[window] for i in indices]
    return Pictures(
        [
            block_means(pixel_features(scenes.rgb[i], cell=cell, scale=sinusoids)[window], scale).astype(np.float32)
            for i in indices
        ],
        [block_labels(labels, scale, len(_NAMES)) for labels in truth],
        [edge_features(block_means(scenes.rgb[i][window] / 255.0, scale), sobel=False) for i in indices],
        truth,
    )


def _choose_features(quick: bool, data: Path | None, _: Path) -> Finding:
    from intarsia_reproduction.datasets import load_backgrounds

    scenes = load_backgrounds(data=data)
    train = scenes.split(0)[0]
    sample = np.random.default_rng(0).permutation(train)[: 8 if quick else 80]
    return choose_features(
        lambda cell, sinusoids: _pictures(scenes, sample, quick, cell, sinusoids),
        n_folds=2,
        n_classes=len(_NAMES),
        sweeps=5,
        ridge=_RIDGE,
        optimizer=LBFGS(tol=_TOL, max_iter=5 if quick else _MAX_ITER),
    )


def _run(key: str, sweeps: int, fold: int, quick: bool, pictures: Any, checkpoint: Path) -> Finding:
    train, test, _ = pictures()
    prefix = "" if fold == 0 else f"fold{fold}-"
    # Weights fitted for fewer sweeps are a good start, except for EM, which may have diverged there.
    earlier = [] if key == "surrogate_em" else [f"{prefix}trw-{sweeps // 2}-{key}"]
    learner = RiskMinimizer(
        loss=_LOSSES[key][1],
        gradient=TruncatedGradient(n_iter=sweeps),
        optimizer=_optimizer(quick),
        l2=penalty(_RIDGE, train.labels),
        checkpoint=checkpoint,
    )
    crf = GridCRF(inference=TreeReweighted(), learner=learner, classes=np.arange(len(_NAMES)))
    start = saved_weights(checkpoint.parent, *earlier, f"{prefix}independent")
    settings = {"sweeps": sweeps, "ridge": _RIDGE, "fold": fold} | _SETTINGS
    fit = fit_or_diverge if key == "surrogate_em" else fit_pictures
    return fit(crf, train, test, plot_index=_PLOT_INDEX, start=start, settings=settings)


def _run_other(key: str, fold: int, quick: bool, pictures: Any, checkpoint: Path) -> Finding:
    train, test, _ = pictures()
    prefix = "" if fold == 0 else f"fold{fold}-"
    settings: dict[str, Any] = {"ridge": _WEAK_RIDGE, "fold": fold} | _SETTINGS
    if key == "independent":
        return fit_independent(
            train,
            test,
            n_classes=len(_NAMES),
            ridge=_WEAK_RIDGE,
            optimizer=_optimizer(quick),
            checkpoint=checkpoint,
            plot_index=_PLOT_INDEX,
            settings=settings,
        )
    learner = RiskMinimizer(
        loss=_LOSSES[key][1],
        optimizer=_optimizer(quick),
        l2=penalty(_WEAK_RIDGE, train.labels),
        checkpoint=checkpoint,
    )
    method = TreeReweighted(tol=1e-5, max_iter=1000)
    crf = GridCRF(inference=method, learner=learner, classes=np.arange(len(_NAMES)))
    start = saved_weights(checkpoint.parent, f"{prefix}independent")
    return fit_pictures(crf, train, test, plot_index=_PLOT_INDEX, start=start, settings=settings)


def _optimizer(quick: bool) -> LBFGS:
    return LBFGS(tol=_TOL, max_iter=20 if quick else _MAX_ITER)


def _enlarge(pictures: Any, _: Path) -> Finding:
    train, test, _picture = pictures()
    return error_of_blocks(train, test, len(_NAMES))


def _boost(quick: bool, pictures: Any, _: Path) -> Finding:
    train, test, _picture = pictures()
    return boost_pixels(train, test, n_pixels=_BOOSTED // 20 if quick else _BOOSTED, max_iter=60)


def _figures(findings: dict[str, Finding], pictures: Any) -> dict[str, Figure]:
    """Plot the labels of one test image, paler where they are less certain."""
    findings = {key: finding for key, finding in with_marginals(findings).items() if not key.startswith("fold")}
    if not findings:
        return {}
    _, test, rgb = pictures()
    truth = test.counted[_PLOT_INDEX]
    one_hot = np.eye(len(_NAMES))[np.maximum(truth, 0)] * (truth >= 0)[..., None]
    panels: list[tuple[str, Any]] = [("picture", rgb), ("truth", _coloured(one_hot))]
    for key, finding in findings.items():
        error = finding.values["test error"]
        loss = key.rpartition("-")[2]
        label = _LOSSES[loss][0] if loss in _LOSSES else loss
        label += f", {key.split('-')[1]} sweeps" if key.startswith("trw") else ""
        panels.append((f"{label}\ntest error {error:.3f}", _coloured(finding.arrays["marginals"].astype(float))))
    return {"backgrounds": plot_beliefs(panels, title=f"Classes in one test picture: {', '.join(_NAMES)}")}


def _coloured(marginals: Any) -> Any:
    """Return the mean colour of the classes under the marginals; white for unlabelled pixels."""
    from matplotlib import colormaps

    colours = np.asarray(colormaps["tab10"].colors)[: len(_NAMES)]  # type: ignore[attr-defined]
    return np.clip(marginals @ colours + (1.0 - marginals.sum(axis=-1, keepdims=True)), 0.0, 1.0)
