"""Panels of line plots on common scales with one legend, used for the curves of experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from intarsia.exceptions import InvalidInputError
from intarsia.report.plots import INK, QUIET

# Distinguishable with colour-blindness (Okabe and Ito), the darkest first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
REFERENCE = QUIET


@dataclass(frozen=True, eq=False)
class Line:
    """Curve with its label in the legend, its points, and an optional band around it.

    Without a `colour`, the next of `COLOURS` is used; lines with the same label have the same colour in all panels.
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    colour: str | None = None
    dashes: str = "-"
    marker: str = ""


@dataclass(frozen=True, eq=False)
class LinePanel:
    """Axes with a title and curves."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, eq=False)
class LineChart:
    """Arguments of `plot_lines`, so that a page can draw the same curves and show their values."""

    panels: Sequence[LinePanel]
    x_label: str
    y_label: str
    title: str
    log_x: bool
    log_y: bool
    y_range: tuple[float, float] | None


class LineFigure(Figure):
    """Figure of curves that stores the data they were drawn from."""

    chart: LineChart


def plot_lines(
    panels: Sequence[LinePanel],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    n_columns: int = 3,
    y_range: tuple[float, float] | None = None,
) -> LineFigure:
    """Draw a figure with one panel for each group of curves, all on the same scale.

    Parameters
    ----------
    panels : sequence of LinePanel
        Panels, row by row; at least one.
    x_label, y_label, title : str
        Labels of the axes and title of the figure.
    log_x, log_y : bool
        Whether an axis is logarithmic.
    n_columns : int
        Maximum number of panels in a row.
    y_range : pair of float, optional
        Limits of the y axis; by default those of the data.

    Examples
    --------
    >>> panel = LinePanel("shift 0", [Line("likelihood", [10, 100], [0.3, 0.2]), Line("exact", [10, 100], [0.1, 0.1])])
    >>> figure = plot_lines([panel, panel], x_label="examples", y_label="error", log_x=True)
    >>> len(figure.axes), [text.get_text() for text in figure.legends[0].get_texts()]
    (2, ['likelihood', 'exact'])
    """
    if not panels:
        raise InvalidInputError("plot_lines: panels is empty. Pass at least one panel.")
    n_columns = min(n_columns, len(panels))
    n_rows = math.ceil(len(panels) / n_columns)
    width = 5.2 if n_columns == 1 else 3.1
    figure = LineFigure(figsize=(width * n_columns + 2.0, (width * 0.78) * n_rows + 0.8), layout="constrained")
    figure.chart = LineChart(panels, x_label, y_label, title, log_x, log_y, y_range)
    FigureCanvasAgg(figure)
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    colours = line_colours(panels)
    handles: dict[str, Any] = {}
    for number, (axes, panel) in enumerate(zip(grid.reshape(-1), panels, strict=False)):
        for line in panel.lines:
            handles.setdefault(line.label, _draw(axes, line, colours[line.label]))
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        if y_range is not None:
            axes.set_ylim(*y_range)
        _style(axes, panel.title)
        if number + n_columns >= len(panels):  # the lowest panel of its column
            axes.set_xlabel(x_label, color=INK)
            axes.tick_params(labelbottom=True)
        if number % n_columns == 0:
            axes.set_ylabel(y_label, color=INK)
    for axes in grid.reshape(-1)[len(panels) :]:
        axes.set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, color=INK, fontweight="bold")
    return figure


def line_colours(panels: Sequence[LinePanel]) -> dict[str, str]:
    """Return a colour for each label: the colour of its line, else the next unused one.

    Examples
    --------
    >>> line_colours([LinePanel("", [Line("ours", [1], [2]), Line("best", [1], [1], colour="red")])])
    {'ours': '#0072b2', 'best': 'red'}
    """
    colours: dict[str, str] = {}
    for line in (line for panel in panels for line in panel.lines):
        if line.label not in colours:
            free = [candidate for candidate in COLOURS if candidate not in colours.values()]
            colours[line.label] = line.colour or (free[0] if free else COLOURS[len(colours) % len(COLOURS)])
    return colours


def _draw(axes: Any, line: Line, colour: str) -> Any:
    x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
    if line.low is not None and line.high is not None:
        axes.fill_between(x, np.asarray(line.low), np.asarray(line.high), color=colour, alpha=0.15, linewidth=0)
    (handle,) = axes.plot(x, y, color=colour, linestyle=line.dashes, marker=line.marker, markersize=4, linewidth=1.6)
    return handle


def _style(axes: Any, title: str) -> None:
    """Set the title, grid and colours of axes."""
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.tick_params(colors=INK, labelsize=8.5, length=2.5)
