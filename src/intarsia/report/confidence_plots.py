"""Plots of confidences and weights of taggers: reliability curves and transitions between labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from intarsia._core.validation import as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.calibration import ReliabilityCurve
from intarsia.report.line_plots import COLOURS
from intarsia.report.plots import INK, QUIET

_MAX_NUMBERED = 16


def plot_reliability(curves: ReliabilityCurve | dict[str, ReliabilityCurve], *, title: str | None = None) -> Figure:
    """Plot accuracy against confidence; calibrated predictions are on the diagonal.

    The bars below the curve are the numbers of predictions of each bin.

    Parameters
    ----------
    curves : ReliabilityCurve, or dict name -> ReliabilityCurve
        One curve, or several, such as before and after calibration.
    title : str, optional
        Title of the figure.

    Examples
    --------
    >>> from intarsia.metrics import reliability_curve
    >>> figure = plot_reliability(reliability_curve([True, False, True], [0.9, 0.4, 0.8]))
    >>> len(figure.axes)        # the curve, and the numbers of predictions
    2
    """
    by_name = {"": curves} if isinstance(curves, ReliabilityCurve) else dict(curves)
    if not by_name:
        raise InvalidInputError("plot_reliability: curves is empty. Pass at least one ReliabilityCurve.")
    figure = Figure(figsize=(4.6, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    upper.plot([0, 1], [0, 1], color=QUIET, dashes=(4, 3), linewidth=1)
    width = 0.06 / len(by_name)
    for i, (name, curve) in enumerate(by_name.items()):
        colour = COLOURS[i % len(COLOURS)]
        label = f"{name}: calibration error {curve.error:.3f}".removeprefix(": ")
        upper.plot(curve.confidence, curve.accuracy, color=colour, marker="o", markersize=4, label=label)
        shift = (i - (len(by_name) - 1) / 2) * width
        lower.bar(curve.confidence + shift, curve.count, width=width, color=colour)
    upper.set(xlim=(0, 1.03), ylim=(0, 1.03))
    upper.set_ylabel("fraction correct", fontsize=9)
    upper.legend(fontsize=8, frameon=False, loc="upper left")
    lower.set_xlabel("confidence", fontsize=9)
    lower.set_ylabel("predictions", fontsize=9)
    lower.set_yscale("log")
    for panel in (upper, lower):
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=INK, labelsize=8)
    if title is not None:
        upper.set_title(title, fontsize=10, color=INK)
    return figure


def plot_transitions(transitions: ArrayLike, labels: Any, *, title: str | None = None) -> Figure:
    """Plot the scores of transitions between labels as a heat map: blue raises the score, red lowers it.

    Parameters
    ----------
    transitions : (k, k) float array
        Score of a label (row) followed by another (column), such as `ChainCRF.transitions_`; -inf if forbidden, which
        is shown as a cross.
    labels : sequence of k labels
        Names of rows and columns, such as `ChainCRF.classes_`.
    title : str, optional
        Title of the figure.

    Examples
    --------
    >>> figure = plot_transitions([[1.0, -0.5], [-np.inf, 0.2]], ["B-x", "I-x"])
    >>> len(figure.axes)        # the heat map, and its colour bar
    2
    """
    scores = as_float_array(transitions, "plot_transitions: transitions")
    names = [str(label) for label in labels]
    k = len(names)
    if scores.shape != (k, k) or k == 0:
        raise InvalidInputError(
            f"plot_transitions: transitions has shape {scores.shape}, but there are {k} labels. Pass one row and one "
            f"column per label."
        )
    is_finite = np.isfinite(scores)
    limit = float(np.abs(scores[is_finite]).max(initial=1e-12))
    size = max(3.2, 0.38 * k + 1.6)
    figure = Figure(figsize=(size + 1.4, size), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    image = axes.imshow(np.where(is_finite, scores, np.nan), cmap="RdBu", vmin=-limit, vmax=limit)
    for a, b in np.argwhere(~is_finite).tolist():
        axes.text(b, a, "×", ha="center", va="center", color=QUIET, fontsize=9)
    if k <= _MAX_NUMBERED:
        for a, b in np.argwhere(is_finite).tolist():
            colour = "white" if abs(scores[a, b]) > 0.6 * limit else INK
            axes.text(b, a, f"{scores[a, b]:.1f}", ha="center", va="center", color=colour, fontsize=7)
    axes.set_xticks(range(k), names, rotation=90 if k > 4 else 0, fontsize=8)
    axes.set_yticks(range(k), names, fontsize=8)
    axes.set_xlabel("next label", fontsize=9)
    axes.set_ylabel("label", fontsize=9)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=INK)
    figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=8)
    if title is not None:
        axes.set_title(title, fontsize=10, color=INK)
    return figure
