"""Shared code of the image experiments: fit a grid model, count its errors, and plot its marginals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.crf import GridCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.losses.marginal_losses import SmoothedClassificationError
from intarsia.metrics.pixels import count_errors, error_rate, interpolate
from intarsia_reproduction.experiment import Finding, Task
from intarsia_reproduction.models.intervals import pooled_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images with features, labels and optional features of edges.

    If the model has a lower resolution, `truth` holds the labels at full resolution: errors are counted there, with
    interpolated marginals.
    """

    features: list[Any]
    labels: list[Any]
    edges: list[Any] | None = None
    truth: list[Any] | None = None

    @property
    def counted(self) -> list[Any]:
        """Labels on which errors are counted."""
        return self.labels if self.truth is None else self.truth

    def take(self, indices: Sequence[int]) -> Pictures:
        """Return the images with these indices."""
        lists = (self.features, self.labels, self.edges, self.truth)
        subsets: list[Any] = [None if values is None else [values[i] for i in indices] for values in lists]
        return Pictures(*subsets)


# Rows of the tables: key, label, loss. The independent model is fitted first, since the other fits start from it.
LOSSES: tuple[tuple[str, str, Any], ...] = (
    ("surrogate", "surrogate likelihood", "likelihood"),
    ("univariate_logistic", "univariate logistic", "univariate_logistic"),
    ("clique_logistic", "clique logistic", "clique_logistic"),
    ("univariate_quadratic", "univariate quadratic", "univariate_quadratic"),
    ("smooth_5", "smooth class. alpha = 5", SmoothedClassificationError(alpha=5.0)),
    ("smooth_15", "smooth class. alpha = 15", SmoothedClassificationError(alpha=15.0)),
    ("smooth_50", "smooth class. alpha = 50", SmoothedClassificationError(alpha=50.0)),
    ("pseudo_likelihood", "pseudo-likelihood", "pseudo_likelihood"),
    ("piecewise", "piecewise likelihood", "piecewise_likelihood"),
)
# Classification losses have many local minima, so they start from the weights of the surrogate likelihood.
NEEDS_START = ("smooth_5", "smooth_15", "smooth_50")
# Cell size of the histograms and scale of the sinusoids, by name; scale 1 is the paper's.
FEATURE_CHOICES = {
    f"cells of {cell}, sinusoids of scale {name}": (float(cell), scale)
    for cell in (8, 12, 16)
    for name, scale in (("1", 1.0), ("pi", np.pi))
}
# Losses with a closed-form gradient, which need no gradient rule.
CLOSED_FORM = ("surrogate", "pseudo_likelihood", "piecewise")


def penalty(ridge: float, labels: Sequence[Any]) -> float:
    """Return `l2` for a regularization that is relative to the risk per labelled variable, as in papers.

    Examples
    --------
    >>> penalty(0.5, [[0, 1, -1], [[1, 1], [0, -1]]])                  # five labels, two are hidden
    2.5
    """
    return ridge * sum(int((np.asarray(y) >= 0).sum()) for y in labels)


def fit_independent(
    train: Pictures,
    test: Pictures,
    *,
    n_classes: int,
    ridge: float,
    optimizer: LBFGS,
    checkpoint: Path | None = None,
    plot_index: int = 0,
    settings: dict[str, Any] | None = None,
) -> Finding:
    """Fit a model of independent pixels (no sweeps), from which the other fits start."""
    learner = RiskMinimizer(
        loss="univariate_logistic",
        gradient=TruncatedGradient(n_iter=0),
        optimizer=optimizer,
        l2=penalty(ridge, train.labels),
        checkpoint=checkpoint,
    )
    n_edge_features = 2 if train.edges is None else train.edges[0].shape[1]  # by default indicators of the direction
    zeros = np.zeros(n_classes * train.features[0].shape[2] + n_classes**2 * n_edge_features)
    crf = GridCRF(learner=learner, classes=np.arange(n_classes))
    settings = {"ridge": ridge} | (settings or {})
    return fit_pictures(crf, train, test, plot_index=plot_index, start=("zeros", zeros), settings=settings)


def block_tasks(enlarge: Callable[[Path], Finding], choose: Callable[[Path], Finding], *, required: bool) -> list[Task]:
    """Return the tasks that judge the blocks: the error of their true labels, and the choice of features."""
    errors = {"train error": None, "test error": None}
    choices = dict.fromkeys(FEATURE_CHOICES)
    label = "choice of features, cross-validation of training pictures"
    return [
        Task("blocks", "true labels of the blocks, enlarged", errors, "error rate", enlarge, required=required),
        Task("features", label, choices, "validation error rate", choose, required=required, separate=True),
    ]


def choose_features(
    load: Callable[[float, float], Pictures],
    *,
    n_folds: int,
    n_classes: int,
    sweeps: int,
    ridge: float,
    optimizer: LBFGS,
) -> Finding:
    """Return the validation error of each choice of image features, by cross-validation inside the training images.

    The model is the CRF of the table with the univariate logistic loss. `load` returns the training images with
    features for a cell size of the histograms and a scale of the sinusoids.
    """
    values = {}
    for name, choice in FEATURE_CHOICES.items():
        errors = []
        pictures = load(*choice)
        fold = np.arange(len(pictures.labels)) % n_folds
        for k in range(n_folds):
            learn, held_out = (pictures.take(np.flatnonzero(mask).tolist()) for mask in (fold != k, fold == k))
            first = fit_independent(learn, held_out, n_classes=n_classes, ridge=ridge, optimizer=optimizer)
            learner = RiskMinimizer(
                loss="univariate_logistic",
                gradient=TruncatedGradient(n_iter=sweeps),
                optimizer=optimizer,
                l2=penalty(ridge, learn.labels),
            )
            crf = GridCRF(inference=TreeReweighted(), learner=learner, classes=np.arange(n_classes))
            start = ("independent", first.arrays["weights"])
            errors.append(fit_pictures(crf, learn, held_out, start=start).values["test error"])
        values[name] = float(np.mean(errors))
    settings = {"folds": n_folds, "sweeps": sweeps, "ridge": ridge, "tol": float(optimizer.tol)}
    return Finding(values, len(pictures.labels), settings=settings | {"chosen": min(values, key=lambda k: values[k])})


def fit_pictures(
    crf: GridCRF,
    train: Pictures,
    test: Pictures,
    *,
    plot_index: int = 0,
    start: tuple[str, FloatArray] | None = None,
    settings: dict[str, Any] | None = None,
) -> Finding:
    """Fit the model, and return errors on both sets, weights, history and the marginals of one test image.

    The array "picture_errors" holds the numbers of wrong and of labelled pixels of each test image.

    Parameters
    ----------
    crf : GridCRF
        Model to fit. Its learner may have a checkpoint.
    train, test : Pictures
        Training and test images.
    plot_index : int
        Index of the test image whose marginals are stored.
    start : (str, float array), optional
        Name and values of the initial weights; by default an independent model is fitted first.
    settings : dict, optional
        Further settings to store with the result.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the settings store the status
        initial = None if start is None else start[1]
        crf.fit(train.features, train.labels, edge_features=train.edges, start=initial)
        errors = {}
        for name, pictures in (("train error", train), ("test error", test)):
            marginals = crf.predict_marginals(pictures.features, edge_features=pictures.edges)
            counts = count_errors(marginals, pictures.counted)
            errors[name] = pooled_error(counts)
    details = {
        "note": f"{crf.status_.name}, {crf.n_iter_} iterations",
        "status": crf.status_.name,
        "iterations": int(crf.n_iter_),
        "risk": float(crf.risk_),
        "gradient_norm": float(np.min(crf.history_["gradient_norm"])),
        "begun_at": "independent" if start is None else start[0],
        "images": [len(train.features), len(test.features)],
    }
    arrays: dict[str, Any] = {
        "weights": crf.weights_,
        "marginals": interpolate(marginals[plot_index], test.counted[plot_index].shape).astype(np.float16),
        "risk": np.asarray(crf.history_["risk"]),
        "seconds": np.asarray(crf.history_["seconds"]),
        "picture_errors": counts,
    }
    return Finding(errors, int(counts[:, 1].sum()), arrays, details | (settings or {}))


_FIRST_ITERATIONS = 40  # after which a truncated likelihood that diverges has a negative risk


def fit_or_diverge(crf: GridCRF, train: Pictures, test: Pictures, **options: Any) -> Finding:
    """Fit a truncated tree-reweighted likelihood; stop early if it diverges.

    At convergence the tree-reweighted log-partition function is an upper bound, so the risk is at least 0. After too
    few sweeps it is no bound, and a fit that exploits this has a negative risk and no minimum. The iterations in the
    finding are those after the first 40.
    """
    settings = dict(options.pop("settings", None) or {})
    learner: Any = crf.learner
    checkpoint, max_iter = learner.checkpoint, learner.optimizer.max_iter
    learner.set_params(checkpoint=None)
    learner.optimizer.set_params(max_iter=min(_FIRST_ITERATIONS, max_iter))
    first = fit_pictures(crf, train, test, settings=settings, **options)
    if first.settings["risk"] < 0.0 or first.settings["status"] != "MAX_ITER" or max_iter <= _FIRST_ITERATIONS:
        return _with_divergence(first)
    learner.set_params(checkpoint=checkpoint)
    learner.optimizer.set_params(max_iter=max_iter - _FIRST_ITERATIONS)
    name = options.pop("start", ("independent", None))[0]
    options["start"] = (name, first.arrays["weights"])
    return _with_divergence(fit_pictures(crf, train, test, settings=settings, **options))


def _with_divergence(finding: Finding) -> Finding:
    """Return the finding of a likelihood; a negative risk is noted as divergence."""
    if finding.settings["risk"] >= 0.0:
        return finding
    note = f"diverged: risk {finding.settings['risk']:.3g} after {finding.settings['iterations']} iterations"
    return replace(finding, settings=finding.settings | {"note": note})


def block_means(picture: Any, scale: int) -> FloatArray:
    """Return the means over blocks of scale x scale pixels; incomplete blocks repeat the border.

    Examples
    --------
    >>> block_means(np.arange(6.0).reshape(2, 3), 2).tolist()
    [[2.0, 3.5]]
    """
    array = np.asarray(picture, dtype=np.float64)
    pad = [(0, -n % scale) for n in array.shape[:2]] + [(0, 0)] * (array.ndim - 2)
    whole = np.pad(array, pad, mode="edge")
    height, width = (n // scale for n in whole.shape[:2])
    blocks: FloatArray = whole.reshape(height, scale, width, scale, *array.shape[2:]).mean(axis=(1, 3))
    return blocks


def block_labels(labels: IntArray, scale: int, n_classes: int) -> IntArray:
    """Return the most frequent label of each block of scale x scale pixels; -1 if most of them are unlabelled.

    Examples
    --------
    >>> block_labels(np.array([[0, 1, -1, -1], [1, 1, -1, 2]]), 2, 3).tolist()
    [[1, -1]]
    """
    fractions = block_means(np.eye(n_classes)[np.maximum(labels, 0)] * (labels >= 0)[..., None], scale)
    return np.where(fractions.sum(axis=-1) >= 0.5, fractions.argmax(axis=-1), -1)


def error_of_blocks(train: Pictures, test: Pictures, n_classes: int) -> Finding:
    """Return the errors of the true labels of blocks, enlarged to full size: a floor for models that label blocks."""
    errors = {}
    for name, pictures in (("train error", train), ("test error", test)):
        one_hot = [np.eye(n_classes)[np.maximum(y, 0)] * (y >= 0)[..., None] for y in pictures.labels]
        errors[name] = error_rate(one_hot, pictures.counted)
    return Finding(errors, sum(int((np.asarray(y) >= 0).sum()) for y in test.counted))


def saved_weights(folder: Path, *keys: str) -> tuple[str, FloatArray] | None:
    """Return the key and the saved weights of the first of these tasks that was run in this folder, or None."""
    for key in keys:
        path = folder / f"{key}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as arrays:
                return key, np.asarray(arrays["weights"])
    return None


def with_marginals(findings: dict[str, Finding]) -> dict[str, Finding]:
    """Return the findings that can be plotted: the arrays of a finding may not have been saved."""
    return {key: finding for key, finding in findings.items() if "marginals" in finding.arrays}


def plot_beliefs(
    panels: Sequence[tuple[str, Any]], *, title: str, columns: int = 4, colours: str | None = None
) -> Figure:
    """Plot images side by side, each with a heading: marginals of state 1, or an input image."""
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    height, width = panels[0][1].shape[:2]
    figure = Figure(figsize=(2.6 * columns, (2.6 * height / width + 0.3) * rows + 0.5), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).reshape(-1)
    for axis, (heading, picture) in zip(axes, panels, strict=False):
        axis.imshow(picture, cmap=colours or "cividis", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(heading, fontsize=9)
    for axis in axes:
        axis.set_axis_off()
    figure.suptitle(title, fontsize=10)
    return figure
