"""What the image experiments share: a grid model fitted to pictures, its errors, and marginals to look at."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.crf import GridCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.learning import LBFGS, Incremental, RiskMinimizer
from intarsia.losses.marginal_losses import SmoothedClassificationError
from intarsia.metrics.pixels import error_rate, interpolate
from intarsia_reproduction.experiment import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures with features, labels and, where there are any, features of edges.

    Where the model works at a lower resolution, `truth` holds the labels at the full one: errors are counted there,
    with marginals interpolated between the model's pixels.
    """

    features: list[Any]
    labels: list[Any]
    edges: list[Any] | None = None
    truth: list[Any] | None = None

    @property
    def counted(self) -> list[Any]:
        """Labels that errors are counted on."""
        return self.labels if self.truth is None else self.truth

    def take(self, indices: Sequence[int]) -> Pictures:
        """Some of them."""
        lists = (self.features, self.labels, self.edges, self.truth)
        some: list[Any] = [None if kept is None else [kept[i] for i in indices] for kept in lists]
        return Pictures(*some)


# Rows of the tables: key, label, loss. The independent model comes first, since the others begin at its weights.
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
# The losses of classifications have many local minima, so they begin at the surrogate likelihood's weights.
NEEDS_START = ("smooth_5", "smooth_15", "smooth_50")
# Losses with a gradient of their own.
CLOSED_FORM = ("surrogate", "pseudo_likelihood", "piecewise")


def penalty(ridge: float, labels: Sequence[Any]) -> float:
    """`l2` for a ridge relative to the risk per labelled variable, as papers name it.

    Examples
    --------
    >>> penalty(0.5, [[0, 1, -1], [[1, 1], [0, -1]]])                  # five labels, two hidden ones
    2.5
    """
    return ridge * sum(int((np.asarray(one) >= 0).sum()) for one in labels)


def fit_independent(
    train: Pictures,
    test: Pictures,
    *,
    n_classes: int,
    ridge: float,
    stages: tuple[int, int],
    checkpoint: Path | None = None,
    shown: int = 0,
    settings: dict[str, Any] | None = None,
) -> Finding:
    """Each pixel by its own features: no sweep, so that neighbours have no say. The other fits begin here."""
    learner = RiskMinimizer(
        loss="univariate_logistic",
        gradient=TruncatedGradient(n_iter=0),
        optimizer=LBFGS(tol=1e-5),
        schedule=Incremental(n_start=stages[0], max_iter=stages[1]),
        l2=penalty(ridge, train.labels),
        checkpoint=checkpoint,
    )
    n_edge_features = 2 if train.edges is None else train.edges[0].shape[1]  # without any: which direction
    zeros = np.zeros(n_classes * train.features[0].shape[2] + n_classes**2 * n_edge_features)
    crf = GridCRF(learner=learner, classes=np.arange(n_classes))
    told = {"ridge": ridge, "incremental": list(stages)} | (settings or {})
    return fit_pictures(crf, train, test, shown=shown, start=("zeros", zeros), settings=told)


def fit_pictures(
    crf: GridCRF,
    train: Pictures,
    test: Pictures,
    *,
    shown: int = 0,
    start: tuple[str, FloatArray] | None = None,
    settings: dict[str, Any] | None = None,
) -> Finding:
    """Fit the model; errors on both sets, the weights, the history and the marginals of one test picture.

    Parameters
    ----------
    crf : GridCRF
        Its learner may have a checkpoint.
    train, test : Pictures
        To fit and to test on.
    shown : int
        Which test picture's marginals are kept.
    start : (str, float array), optional
        Weights to begin with, and whose they are; by default those of an independent model fitted first.
    settings : dict, optional
        What else tells how this was made.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is among the settings
        first = None if start is None else start[1]
        crf.fit(train.features, train.labels, edge_features=train.edges, start=first)
        errors = {}
        for name, pictures in (("train error", train), ("test error", test)):
            marginals = crf.predict_marginals(pictures.features, edge_features=pictures.edges)
            errors[name] = error_rate(marginals, pictures.counted)
    told = {
        "status": crf.status_.name,
        "iterations": int(crf.n_iter_),
        "risk": float(crf.risk_),
        "begun_at": "independent" if start is None else start[0],
        "images": [len(train.features), len(test.features)],
    }
    arrays: dict[str, Any] = {
        "weights": crf.weights_,
        "marginals": interpolate(marginals[shown], test.counted[shown].shape).astype(np.float16),
        "risk": np.asarray(crf.history_["risk"]),
        "seconds": np.asarray(crf.history_["seconds"]),
    }
    n = sum(int((np.asarray(y) >= 0).sum()) for y in test.counted)
    return Finding(errors, n, arrays, told | (settings or {}))


def in_blocks(picture: Any, scale: int) -> FloatArray:
    """Means over blocks of scale x scale pixels; blocks that stick out repeat the border.

    Examples
    --------
    >>> in_blocks(np.arange(6.0).reshape(2, 3), 2).tolist()
    [[2.0, 3.5]]
    """
    array = np.asarray(picture, dtype=np.float64)
    pad = [(0, -n % scale) for n in array.shape[:2]] + [(0, 0)] * (array.ndim - 2)
    whole = np.pad(array, pad, mode="edge")
    height, width = (n // scale for n in whole.shape[:2])
    blocks: FloatArray = whole.reshape(height, scale, width, scale, *array.shape[2:]).mean(axis=(1, 3))
    return blocks


def weights_left(folder: Path, *keys: str) -> tuple[str, FloatArray] | None:
    """Weights that an earlier task left in this folder, with its key: of the first of these that was run."""
    for key in keys:
        path = folder / f"{key}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as stored:
                return key, np.asarray(stored["weights"])
    return None


def with_marginals(found: dict[str, Finding]) -> dict[str, Finding]:
    """Those that can be drawn: the arrays of a finding may have been left behind."""
    return {key: finding for key, finding in found.items() if "marginals" in finding.arrays}


def plot_beliefs(
    panels: Sequence[tuple[str, Any]], *, title: str, columns: int = 4, colours: str | None = None
) -> Figure:
    """Pictures beside each other, each with a heading: marginals of state 1, or an input as it is."""
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
