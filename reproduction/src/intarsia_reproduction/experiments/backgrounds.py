"""Stanford backgrounds (Domke2013, section 8.4): Table 3 and Figure 6."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._files.atomic_file import make_folder
from intarsia.crf import GridCRF
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.losses.likelihood import SurrogateEM
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings, run_tasks
from intarsia_reproduction.models.baselines import add_boosted_scores, boost_pixels
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
from intarsia_reproduction.models.intervals import bootstrap_error, pooled_error
from intarsia_reproduction.models.picture_intervals import interval_task
from intarsia_reproduction.result_pages import common_settings

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
_TIGHT_TOL = 1e-4  # of one row that shows the effect of the tolerance
_MAX_ITER = 300
_MEMORY = 100  # of L-BFGS: with 120 training pictures about 100 iterations instead of 184 with the default 10
_FOLDS = (0, 1, 2, 3, 4)
# A fit to the test pictures of fold 0, which are training pictures of the others: the fits of those start from it.
_FIRST_FIT = -1
_SCALE = 4  # the model labels blocks of 4 x 4 pixels in the rows of the table: a sixteenth of the work
_FINE = 2  # side of the blocks in rows on one fold that are closer to the paper
_N_FULL = 32  # training images of the rows without blocks, as many as in the first stage of the paper's schedule
_CELL, _SINUSOIDS = 8.0, 1.0  # cell size and scale of the features, chosen by the row "features"
_BOOSTED = 200_000  # limit on the training blocks of gradient boosting, more than there are
_BOOSTING_ITER = 200  # of the baseline, as on horses
_STACKED_ITER = 100  # of the scores that the random field gets
_PLOT_INDEX = 0
_NAMES = ("sky", "tree", "road", "grass", "water", "building", "mountain", "foreground")
_FIGURES = ("train error", "test error", "processor s")


@dataclass(frozen=True)
class _Fit:
    """One fit on one fold: the loss, its settings, and the key of its file without the fold."""

    key: str
    loss: str
    sweeps: int = 0
    scale: int = _SCALE
    tol: float = _TOL
    boosted: bool = False
    n_images: int | None = None  # training images; None for all


def backgrounds(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with error rates on eight classes, some pixels unlabelled.

    Features are computed at 20 % of the size of the photographs and averaged over the blocks of pixels that the model
    labels; its marginals are interpolated, and errors are counted at 20 % of the size. Each row fits a model to each of
    five folds; the results of single folds are stored in the folder "folds", so that a row can be resumed. The quick
    version has 12 training and 12 test images of one fold, cropped to 24x32, with 5 sweeps.

    Examples
    --------
    >>> [task.key for task in backgrounds(quick=True).tasks if task.required]    # doctest: +NORMALIZE_WHITESPACE
    ['independent', 'pseudo_likelihood', 'piecewise', 'trw-5-surrogate_em', 'trw-5-univariate_logistic',
     'trw-5-clique_logistic']
    """

    @lru_cache(maxsize=1)
    def pictures(fold: int = 0, scale: int = _SCALE) -> tuple[Pictures, Pictures, Any]:
        return _load(quick, data, fold, scale)

    tasks = [_row_task(fit, quick, pictures, label, paper, folds) for fit, label, paper, folds in _rows(quick)]
    no_figures = dict.fromkeys(_FIGURES)
    label = "baseline: gradient boosting of single blocks"
    run = partial(_over_folds, _fold_tasks("boosting", label, _folds(quick), partial(_boost, quick, pictures)))
    tasks.append(Task("boosting", label, no_figures, "error rate", run, required=not quick))
    tasks += block_tasks(partial(_enlarge, pictures), partial(_choose_features, quick, data), required=not quick)
    rows = {task.key: [task.key] for task in tasks if task.key != "blocks" and not task.separate}
    tasks += [interval_task(rows, required=not quick), _difference_task(quick)]
    return Experiment(
        "backgrounds",
        "Stanford backgrounds: error rates (Domke2013, Table 3)",
        tasks,
        lambda findings: _figures(findings, pictures),
        "715 pictures (Stanford backgrounds) at 20 % of their size, model on 4 x 4 blocks; five folds",
        question="Regions of photographs, some pixels unlabelled: which loss fits best through how many sweeps?",
    )


def _rows(quick: bool) -> list[tuple[_Fit, str, dict[str, float | None], Sequence[int]]]:
    """Return the fits of the table, with their labels, the figures of the paper, and the folds."""
    nothing = dict.fromkeys(_FIGURES)
    rows: list[tuple[_Fit, str, dict[str, float | None], Sequence[int]]] = []
    for key, pair in _PAPER_OTHERS.items():
        label = _LOSSES[key][0] if key in _LOSSES else "independent (logistic regression)"
        paper = nothing | dict(zip(_FIGURES, pair, strict=False))
        rows.append((_Fit(key, key), label, paper, _folds(quick)))
    for key, errors in _PAPER.items():
        for column, sweeps in enumerate(_SWEEPS):
            paper = nothing | dict(zip(_FIGURES, errors[2 * column : 2 * column + 2], strict=False))
            label = f"TRW, {sweeps} sweeps, {_LOSSES[key][0]}"
            rows.append((_Fit(f"trw-{sweeps}-{key}", key, sweeps), label, paper, _folds(quick)))
    loss, name = "univariate_logistic", "TRW, {} sweeps, univariate logistic"
    tight = _Fit(f"tight-trw-5-{loss}", loss, 5, tol=_TIGHT_TOL)
    rows.append((tight, f"fold 0, tolerance 1e-4: {name.format(5)}", nothing, (0,)))
    boosted = _Fit("boosted-trw-5", loss, 5, boosted=True)
    rows.append((boosted, f"ours: {name.format(5)}, on scores of gradient boosting", nothing, _folds(quick)))
    fine = _Fit(f"block{_FINE}-trw-5-{loss}", loss, 5, _FINE)
    rows.append((fine, f"fold 0, blocks of 2 x 2: {name.format(5)}", nothing, (0,)))
    for key, sweeps in ((loss, 5), ("surrogate_em", 5)):
        fit = _Fit(f"block1-trw-{sweeps}-{key}", key, sweeps, 1, n_images=_N_FULL)
        row = f"TRW, {sweeps} sweeps, {_LOSSES[key][0]}"
        rows.append((fit, f"fold 0, without blocks, {_N_FULL} training pictures: {row}", nothing, (0,)))
    return rows


def _folds(quick: bool) -> Sequence[int]:
    return (0,) if quick else _FOLDS


def _row_task(
    fit: _Fit, quick: bool, pictures: Any, label: str, paper: dict[str, float | None], folds: Sequence[int]
) -> Task:
    tasks = _fold_tasks(fit.key, label, _with_first_fit(fit, folds), partial(_run, fit, quick, pictures))
    required = not quick or fit.key in _PAPER_OTHERS or (fit.sweeps == 5 and fit.key.startswith("trw"))
    return Task(fit.key, label, paper, "error rate", partial(_over_folds, tasks), required=required)


def _fold_tasks(key: str, label: str, folds: Sequence[int], run: Callable[[int, Path], Finding]) -> list[Task]:
    """Return a task for each fold, with files of its own."""
    return [Task(f"{key}-fold{fold}", f"{label}, fold {fold}", {}, "error rate", partial(run, fold)) for fold in folds]


def _with_first_fit(fit: _Fit, folds: Sequence[int]) -> list[int]:
    """Return the folds of a row in the order of their fits, with the shared first fit of the two slowest losses."""
    is_slow = fit.sweeps == _SWEEPS[0] and fit.loss in ("univariate_logistic", "surrogate_em")
    return [folds[0], *([_FIRST_FIT] if is_slow and len(folds) > 1 else []), *folds[1:]]


def _over_folds(tasks: list[Task], checkpoint: Path) -> Finding:
    """Run the fits of all folds that are not stored yet, and pool the errors of their test images."""
    folder = make_folder(checkpoint.parent / "folds")
    all_fits = run_tasks(tasks, folder).values()
    findings = [finding for finding in all_fits if finding.settings.get("fold") != _FIRST_FIT]
    counts = np.concatenate([finding.arrays["picture_errors"] for finding in findings])
    values = {
        "train error": float(np.mean([finding.values["train error"] for finding in findings])),
        "test error": pooled_error(counts),
        "processor s": float(sum(finding.values["processor s"] for finding in all_fits)),
    }
    settings = common_settings([finding.settings for finding in findings])
    settings["test errors of folds"] = [finding.values["test error"] for finding in findings]
    settings["commits of folds"] = [finding.commit for finding in findings]
    if "iterations" in findings[0].settings:
        settings["iterations of folds"] = [finding.settings["iterations"] for finding in findings]
        settings["note"] = _note(findings)
    arrays = findings[0].arrays | {"picture_errors": counts.astype(np.int32)}
    return Finding(values, int(counts[:, 1].sum()), arrays, settings)


def _note(findings: Sequence[Finding]) -> str:
    """Return how many fits converged, and how many diverged; a fit that diverged may have stopped by any rule."""
    diverged = ["diverged" in finding.settings["note"] for finding in findings]
    n_diverged = sum(diverged)
    n_converged = sum(
        finding.settings["status"] == "CONVERGED" and not bad for finding, bad in zip(findings, diverged, strict=True)
    )
    return f"{n_converged} of {len(findings)} folds converged" + (f", {n_diverged} diverged" if n_diverged else "")


def _load(quick: bool, data: Path | None, fold: int, scale: int = _SCALE) -> tuple[Pictures, Pictures, Any]:
    from intarsia_reproduction.datasets import load_backgrounds

    scenes = load_backgrounds(data=data)
    train, test = scenes.split(fold)
    if quick:
        train, test = train[:12], test[:12]
    sets = [_pictures(scenes, indices, quick, _CELL, _SINUSOIDS, scale) for indices in (train, test)]
    return sets[0], sets[1], scenes.rgb[int(test[_PLOT_INDEX])][_window(quick)]


def _window(quick: bool) -> tuple[slice, slice]:
    return (slice(24), slice(32)) if quick else (slice(None), slice(None))


def _pictures(scenes: Any, indices: Any, quick: bool, cell: float, sinusoids: float, scale: int = _SCALE) -> Pictures:
    """Average features over the blocks that the model labels; a block has the most frequent label of its pixels."""
    from intarsia.models import edge_features, pixel_features

    scale, window = 1 if quick else scale, _window(quick)
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


def _run(fit: _Fit, quick: bool, pictures: Any, fold: int, checkpoint: Path) -> Finding:
    """Fit one model to one fold, and return it with its processor seconds, those of the features not included."""
    train, test, _ = pictures(max(0, fold), fit.scale)
    if fold == _FIRST_FIT:
        train = test
    if fit.n_images is not None:
        step = max(1, len(train.features) // fit.n_images)  # similar scenes may be neighbours
        train = train.take(range(0, len(train.features), step)[: fit.n_images])
    begin = time.process_time()
    if fit.boosted:
        train, test = add_boosted_scores(train, test, n_pixels=_BOOSTED, max_iter=20 if quick else _STACKED_ITER)
    max_iter = 20 if quick else _MAX_ITER if fit.n_images is None else _MAX_ITER // 3
    optimizer = LBFGS(tol=fit.tol, max_iter=max_iter, memory=_MEMORY)
    ridge = _RIDGE if fit.sweeps else _WEAK_RIDGE
    settings = {
        "fold": fold,
        "sweeps": fit.sweeps,
        "ridge": ridge,
        "block": 1 if quick else fit.scale,
        "cell": _CELL,
        "sinusoids": _SINUSOIDS,
        "tol": fit.tol,
        "max_iter": max_iter,
        "memory": _MEMORY,
    }
    independent = partial(
        fit_independent,
        train,
        test,
        n_classes=len(_NAMES),
        ridge=_WEAK_RIDGE,
        optimizer=optimizer,
        plot_index=_PLOT_INDEX,
    )
    if fit.loss == "independent":
        finding = independent(checkpoint=checkpoint, settings=settings)
    else:
        start = _start(fit, fold, checkpoint.parent) or ("independent", independent().arrays["weights"])
        learner = RiskMinimizer(
            loss=_LOSSES[fit.loss][1],
            optimizer=optimizer,
            l2=penalty(ridge, train.labels),
            checkpoint=checkpoint,
        )
        if fit.sweeps:
            learner.set_params(gradient=TruncatedGradient(n_iter=fit.sweeps))
        method = TreeReweighted() if fit.sweeps else TreeReweighted(tol=1e-5, max_iter=1000)
        crf = GridCRF(inference=method, learner=learner, classes=np.arange(len(_NAMES)))
        fit_images = fit_or_diverge if fit.loss == "surrogate_em" else fit_pictures
        finding = fit_images(crf, train, test, plot_index=_PLOT_INDEX, start=start, settings=settings)
    return _timed(finding, begin, keep_marginals=fold == 0 and fit.key.startswith(("trw", *_PAPER_OTHERS)))


def _timed(finding: Finding, begin: float, keep_marginals: bool = False) -> Finding:
    """Return the finding with its processor seconds, and with only those arrays that are used later."""
    names = ("weights", "picture_errors", "marginals") if keep_marginals else ("weights", "picture_errors")
    arrays = {name: array for name, array in finding.arrays.items() if name in names}
    return replace(finding, values=finding.values | {"processor s": time.process_time() - begin}, arrays=arrays)


def _start(fit: _Fit, fold: int, folder: Path) -> tuple[str, Any] | None:
    """Return the stored weights of a similar fit to the same fold; they are closer than those of independent blocks.

    A fit with more sweeps starts from one with fewer, unless that diverged, other losses start from the univariate
    logistic loss, models of small blocks from those of large blocks, and folds 1 to 4 from the shared first fit.
    """
    if fit.boosted or fit.n_images is not None:
        return None
    names = [f"{fit.key}-fold{_FIRST_FIT}"] if fold > 0 else []
    if fit.sweeps and (fit.loss, fit.sweeps) != ("surrogate_em", _SWEEPS[0]):  # in the paper this row diverges
        keys = (f"trw-{fit.sweeps // 2}-{fit.loss}", f"trw-{fit.sweeps}-univariate_logistic")
        names += [f"{key}-fold{fold}" for key in keys]
    findings = _load_folds(folder, names)
    usable = [name for name, finding in findings.items() if "diverged" not in finding.settings["note"]]
    return saved_weights(folder, *usable, f"independent-fold{fold}")


def _enlarge(pictures: Any, _: Path) -> Finding:
    train, test, _picture = pictures()
    return error_of_blocks(train, test, len(_NAMES))


def _boost(quick: bool, pictures: Any, fold: int, _: Path) -> Finding:
    train, test, _picture = pictures(fold, _SCALE)
    begin = time.process_time()
    return _timed(boost_pixels(train, test, n_pixels=_BOOSTED, max_iter=20 if quick else _BOOSTING_ITER), begin)


# Pairs of rows whose difference of test errors is printed: the first minus the second, on their common folds.
_PAIRS = (
    ("trw-5-univariate_logistic", "boosting"),
    ("boosted-trw-5", "boosting"),
    ("boosted-trw-5", "trw-5-univariate_logistic"),
    ("trw-10-univariate_logistic", "trw-5-univariate_logistic"),
    ("trw-20-univariate_logistic", "trw-5-univariate_logistic"),
    ("trw-5-clique_logistic", "trw-5-univariate_logistic"),
    ("trw-10-surrogate_em", "independent"),
    ("piecewise", "independent"),
    ("trw-5-univariate_logistic", "trw-5-surrogate_em"),
    ("trw-10-univariate_logistic", "trw-10-surrogate_em"),
    ("tight-trw-5-univariate_logistic", "trw-5-univariate_logistic"),
    ("block2-trw-5-univariate_logistic", "trw-5-univariate_logistic"),
)
_INTERVAL = ("", ", low", ", high")


def _difference_task(quick: bool) -> Task:
    """Return the task that compares rows on the same test images."""
    paper = {f"{first} minus {second}: difference{end}": None for first, second in _PAIRS for end in _INTERVAL}
    label = "differences of test errors on the same pictures, with 95 % intervals"
    return Task("differences", label, paper, "error rate", _differences, required=not quick, separate=True)


def _differences(checkpoint: Path) -> Finding:
    """Compare pairs of rows on the images of the folds that both have; pairs without results are left out."""
    folder, values, n = checkpoint.parent / "folds", dict[str, float](), 0
    for first, second in _PAIRS:
        common = [
            fold for fold in _FOLDS if all((folder / f"{key}-fold{fold}.json").exists() for key in (first, second))
        ]
        if not common:
            continue
        counts, base = (
            np.concatenate([finding.arrays["picture_errors"] for finding in _load_folds(folder, names).values()])
            for names in ([f"{key}-fold{fold}" for fold in common] for key in (first, second))
        )
        triple = (pooled_error(counts) - pooled_error(base), *bootstrap_error(counts, base))
        names = [f"{first} minus {second}: difference{end}" for end in _INTERVAL]
        values |= dict(zip(names, triple, strict=True))
        n = max(n, len(counts))
    return Finding(values, n)


def _load_folds(folder: Path, names: Sequence[str]) -> dict[str, Finding]:
    """Return the stored results of single folds, by the names of their files, in this order."""
    return load_findings([Task(name, name, {}, "error rate", lambda _: Finding({}, 0)) for name in names], folder)


def _figures(findings: dict[str, Finding], pictures: Any) -> dict[str, Figure]:
    """Plot the labels of one test image, paler where they are less certain."""
    findings = with_marginals(findings)
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
