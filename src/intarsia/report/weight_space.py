"""Pictures of two weights: the path of a learner, and where in the plane examples are labelled rightly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from intarsia._validation import FloatArray
from intarsia.report.line_plots import COLOURS
from intarsia.report.plots import INK, QUIET

# Of none, the first, the second, both.
_REGIONS = ("#ffffff", "#d9d9d9", "#bdbdbd", INK)


def plot_path(paths: Mapping[str, FloatArray], *, goal: tuple[float, float] | None = None, title: str = "") -> Figure:
    """Weights of two features, step by step; an arrow points to weights that would make no mistake.

    Examples
    --------
    >>> figure = plot_path({"perceptron": np.array([[0.0, 0.0], [1.0, 0.5]])}, goal=(1.0, -1.0))
    >>> figure.axes[0].lines[0].get_label()
    'perceptron'
    """
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (label, path), colour in zip(paths.items(), COLOURS, strict=False):
        axes.plot(path[:, 0], path[:, 1], color=colour, marker="o", markersize=3, linewidth=0.8, label=label)
    if goal is not None:
        end = 0.6 * np.array(goal)
        axes.update_datalim([end])  # an annotation alone does not widen the axes
        axes.autoscale_view()
        axes.annotate("", xy=tuple(end), xytext=(0.0, 0.0), arrowprops={"arrowstyle": "->", "color": COLOURS[1]})
        told = f"towards ({goal[0]:g}, {goal[1]:g}),\nwhich makes no mistake "
        axes.text(end[0], end[1], told, color=COLOURS[1], fontsize=8, ha="right", va="top")
    _finish(axes)
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    axes.set_title(title, fontsize=9, color=INK)
    return figure


def plot_regions(ticks: FloatArray, regions: Mapping[str, FloatArray], *, title: str = "") -> Figure:
    """For each inference the plane of weights: white where no example is right, black where both are.

    Parameters
    ----------
    ticks : (n,) array
        Values of both weights.
    regions : dict of (n, n) arrays
        0, 1 for the first example only, 2 for the second only, 3 for both; a row for each value of the second weight.

    Examples
    --------
    >>> figure = plot_regions(np.linspace(-1, 1, 3), {"exact": np.zeros((3, 3)), "loopy": np.ones((3, 3))})
    >>> [axes.get_title() for axes in figure.axes]
    ['exact', 'loopy']
    """
    figure = Figure(figsize=(4.2 * len(regions), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    half = 0.5 * float(ticks[1] - ticks[0])
    span = (float(ticks[0]) - half, float(ticks[-1]) + half)
    for axes, (name, values) in zip(np.atleast_1d(figure.subplots(1, len(regions))), regions.items(), strict=True):
        axes.imshow(values, origin="lower", extent=(*span, *span), cmap=ListedColormap(_REGIONS), vmin=-0.5, vmax=3.5)
        axes.set_title(name, fontsize=9, color=INK)
        _finish(axes)
    figure.suptitle(f"{title}\nblack: both, grey: one of them", fontsize=9, color=INK)
    return figure


def _finish(axes: object) -> None:
    axes.set_xlabel("$w_1$")  # type: ignore[attr-defined]
    axes.set_ylabel("$w_2$")  # type: ignore[attr-defined]
    axes.axhline(0.0, color=QUIET, linewidth=0.6)  # type: ignore[attr-defined]
    axes.axvline(0.0, color=QUIET, linewidth=0.6)  # type: ignore[attr-defined]
    axes.spines[["top", "right"]].set_visible(False)  # type: ignore[attr-defined]
