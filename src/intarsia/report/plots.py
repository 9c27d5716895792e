"""Plots of marginals: an image if the variables form a grid, bars otherwise; no global plotting state is used."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.atomic_file import written_file
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.graph.shapes import grid_edges
from intarsia.inference.result import InferenceResult

INK = "#2b2b2b"
QUIET = "#8a8a8a"
PROBABILITY = "cividis"  # readable in greyscale and with colour-blindness
_MAX_BARS = 60
_MAX_STATES = 12


def detect_grid(graph: FactorGraph) -> tuple[int, int] | None:
    """Return height and width if the variables are the pixels of an image in row-major order, else None.

    A UAI file has no shape, so the shape is derived from the edges: every pixel is connected to its right and lower
    neighbour. Edges around the border (a torus) and diagonal edges are also allowed; any other edge means no grid.

    Examples
    --------
    >>> from intarsia.graph import FactorGraph, chain_graph, grid_graph
    >>> grid = grid_graph(3, 5, 2)
    >>> detect_grid(FactorGraph(grid.n_states, grid.scope_ptr, grid.scope_idx))
    (3, 5)
    >>> detect_grid(chain_graph(6, 2)) is None
    True
    """
    if graph.grid_shape is not None:
        return graph.grid_shape
    n = graph.n_variables
    widths = np.diff(graph.scope_ptr)
    if n < 4 or widths.max(initial=0) != 2:
        return None
    starts = graph.scope_ptr[:-1][widths == 2]
    pairs = np.stack([graph.scope_idx[starts], graph.scope_idx[starts + 1]], axis=1)
    pairs.sort(axis=1)
    edge_codes = np.unique(pairs[:, 0] * n + pairs[:, 1])
    for width in pairs[pairs[:, 0] == 0, 1].tolist():
        # The pixel below the first one has the number `width`.
        if width >= 2 and n % width == 0 and n // width >= 2 and _is_grid(edge_codes, n // width, width):
            return n // width, int(width)
    return None


def _is_grid(edge_codes: IntArray, height: int, width: int) -> bool:
    """Return whether edges (coded as u * n + v) are those of a grid, diagonals and borders allowed."""
    n = height * width
    right_and_down, all_eight = (np.concatenate(grid_edges(height, width, k)) for k in (4, 8))
    if not np.isin(right_and_down[:, 0] * n + right_and_down[:, 1], edge_codes).all():
        return False
    pixel = np.arange(n).reshape(height, width)
    border = np.concatenate(
        [np.stack([pixel[:, 0], pixel[:, -1]], axis=1), np.stack([pixel[0], pixel[-1]], axis=1)], axis=0
    )
    # Both diagonals of each cell: down-left edges are stored with the upper pixel first, so the pair is sorted.
    allowed = np.concatenate([all_eight, border])
    return bool(np.isin(edge_codes, allowed[:, 0] * n + allowed[:, 1]).all())


def plot_marginals(result: InferenceResult, *, title: str | None = None, max_variables: int = _MAX_BARS) -> Figure:
    """Plot the marginals of a result, or its assignment for the task "map".

    On a grid with two states the image shows P(state 1); with more states each pixel has the colour of its most
    probable state, paler where that state is less certain. An assignment has one plain colour per state. Other graphs
    get one stacked bar per variable.

    Parameters
    ----------
    result : InferenceResult
        Result with marginals or an assignment.
    title : str, optional
        Title; by default the method, log Z with its guarantee, and the status.
    max_variables : int
        Maximum number of bars, for graphs that are not grids.

    Raises
    ------
    NotSupportedError
        If the result has no marginals (an infeasible model).

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.grid_graph(2, 3, 2)
    >>> figure = plot_marginals(intarsia.infer(graph, graph.zeros(), "brute_force"))
    >>> len(figure.axes)        # the image and its colour bar
    2
    """
    if result.graph.n_variables:
        result.marginals(0)  # raises if the result has no marginals
    shape = detect_grid(result.graph)
    heading = _heading(result) if title is None else title
    if shape is not None and (result.graph.n_states == result.graph.n_states[0]).all():
        return _image_figure(result, shape, heading)
    return _bar_figure(result, heading, max_variables)


def _heading(result: InferenceResult) -> str:
    if result.task == "map":
        return f"{type(result.method).__name__}: labelling of score {result.score:.6g}, {result.status.name}"
    value = "" if result.log_partition is None else f" log Z = {result.log_partition:.6g} ({result.log_partition_is}),"
    return f"{type(result.method).__name__}:{value} {result.status.name}"


def _image_figure(result: InferenceResult, shape: tuple[int, int], title: str) -> Figure:
    """Draw the marginals or the assignment of a grid as an image."""
    height, width = shape
    scale = 5.2 / max(height, width)
    figure = Figure(figsize=(max(width * scale, 2.0) + 2.0, max(height * scale, 1.6) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    block = _pixel_marginals(result, shape)
    if result.task == "map":
        axes.imshow(_palette(block.shape[-1])[block.argmax(axis=-1)], interpolation="nearest")
        _label_legend(axes, block.shape[-1], None)
    elif block.shape[-1] == 2:
        image = axes.imshow(block[..., 1], vmin=0, vmax=1, cmap=PROBABILITY, interpolation="nearest")
        bar = figure.colorbar(image, ax=axes, shrink=0.9, ticks=[0, 0.5, 1])
        bar.set_label("P(state 1)", color=INK)
        bar.outline.set_visible(False)
    else:
        axes.imshow(_label_colours(block), interpolation="nearest")
        _label_legend(axes, block.shape[-1], "paler:\nless certain")
    _remove_axes(axes, _wrapped(title, figure))
    return figure


def _pixel_marginals(result: InferenceResult, shape: tuple[int, int]) -> FloatArray:
    mu = result.mu if result.mu is not None else np.empty(0)
    split = int(result.graph.variable_ptr[-1])
    return np.clip(mu[:split].reshape(*shape, -1), 0.0, 1.0)


def _palette(n_states: int) -> FloatArray:
    """Return one RGB colour per state."""
    if n_states == 2:  # dark and light, as in a black-and-white image
        return np.asarray(colormaps[PROBABILITY]([0.0, 1.0]))[:, :3]
    if n_states <= 10:
        return np.asarray(colormaps["tab10"](np.arange(n_states)))[:, :3]
    return np.asarray(colormaps["turbo"](np.linspace(0.05, 0.95, n_states)))[:, :3]


def _label_colours(block: FloatArray) -> FloatArray:
    """Return the colour of the most probable state of each pixel, mixed with white where the distribution is flat."""
    k = block.shape[-1]
    confidence = (block.max(axis=-1, keepdims=True) - 1 / k) / (1 - 1 / k)
    saturation = 0.12 + 0.88 * np.clip(confidence, 0, 1)
    colours = _palette(k)[block.argmax(axis=-1)]
    return saturation * colours + (1 - saturation)


def _label_legend(axes: Any, n_states: int, title: str | None) -> None:
    from matplotlib.patches import Patch

    colours = _palette(n_states)
    states = range(n_states) if n_states <= _MAX_STATES else np.linspace(0, n_states - 1, _MAX_STATES).astype(int)
    handles = [Patch(color=tuple(colours[k]), label=f"state {k}") for k in states]
    _legend_beside(axes, handles, title)


def _legend_beside(axes: Any, handles: Sequence[Any], title: str | None = None) -> None:
    """Add a legend to the right of the axes, so that a long title has the whole width of the figure."""
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9,
        title=title, title_fontsize=9,
    )  # fmt: skip


def _bar_figure(result: InferenceResult, title: str, max_variables: int) -> Figure:
    """Draw the marginals of the first variables as stacked bars."""
    graph = result.graph
    n_shown = min(graph.n_variables, max_variables)
    n_states = int(graph.n_states[:n_shown].max(initial=1))
    figure = Figure(figsize=(min(max(4.5, 0.24 * n_shown + 2.2), 16.0), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    blocks = np.zeros((n_shown, n_states))
    for v in range(n_shown):
        block = result.marginals(v)
        blocks[v, : block.size] = np.clip(block, 0.0, 1.0)
    positions = np.arange(n_shown)
    colours = [QUIET, "#1f6fb4"] if n_states == 2 else list(_palette(n_states))
    bottom = np.zeros(n_shown)
    # State 0 is on top, so that with two states the coloured bar is P(state 1), rising from the axis.
    for k in range(n_states - 1, -1, -1):
        opacity = 0.35 if n_states == 2 and k == 0 else 1.0
        axes.bar(positions, blocks[:, k], bottom=bottom, width=0.82, color=colours[k], alpha=opacity)
        bottom += blocks[:, k]
    axes.set_ylim(0, 1)
    axes.set_xlim(-0.7, n_shown - 0.3 if n_shown else 0.7)
    labelling = result.task == "map"
    axes.set_yticks([] if labelling else [0, 0.5, 1])
    axes.set_ylabel("" if labelling else "probability", color=INK)
    axes.set_xlabel(
        f"variable (the first {n_shown} of {graph.n_variables})" if n_shown < graph.n_variables else "variable",
        color=INK,
    )
    step = max(1, math.ceil(n_shown / 20))
    names = graph.names
    axes.set_xticks(positions[::step], [names[v] if names else str(v) for v in positions[::step]], fontsize=8)
    if names and n_shown and max(len(names[v]) for v in positions[::step]) > 3:
        axes.tick_params(axis="x", rotation=60)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, length=0)
    axes.set_title(_wrapped(title, figure), loc="left", fontsize=10, color=INK)
    _state_legend(axes, n_states, colours)
    return figure


def _state_legend(axes: Any, n_states: int, colours: Sequence[Any]) -> None:
    from matplotlib.patches import Patch

    states = range(n_states) if n_states <= _MAX_STATES else [*range(_MAX_STATES - 1), n_states - 1]
    handles = [
        Patch(color=colours[k], alpha=0.35 if n_states == 2 and k == 0 else None, label=f"state {k}") for k in states
    ]
    _legend_beside(axes, handles)


@dataclass(frozen=True)
class Panel:
    """Image of a comparison with a title and a caption: probabilities, raw values or errors."""

    title: str
    caption: str
    image: FloatArray
    kind: str = "probability"  # or "input": grey values of any range; "error": differences between probabilities


def plot_comparison(panels: Sequence[Panel], *, title: str = "", n_columns: int = 4) -> Figure:
    """Draw images side by side, with all probabilities on one colour scale.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.full((4, 6), 0.5)
    >>> figure = plot_comparison([Panel("exact", "", half), Panel("mean field", "off by 0.1", half + 0.1)])
    >>> len(figure.axes)        # two images and a colour bar
    3
    """
    if not panels:
        raise InvalidInputError("plot_comparison: panels is empty. Pass at least one panel.")
    n_columns = min(n_columns, len(panels))
    n_rows = math.ceil(len(panels) / n_columns)
    height, width = panels[0].image.shape
    cell = 3.0
    figure = Figure(
        figsize=(cell * n_columns + 0.8, (cell * height / width + 0.62) * n_rows + (0.5 if title else 0.1)),
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.02, hspace=0.03)  # type: ignore[union-attr, call-arg]
    grid = np.atleast_1d(figure.subplots(n_rows, n_columns, squeeze=False)).reshape(-1)
    scale: dict[str, dict[str, Any]] = {
        "probability": {"cmap": PROBABILITY, "vmin": 0, "vmax": 1},
        "input": {"cmap": "gray"},
        "error": {"cmap": "RdBu_r", "vmin": -0.5, "vmax": 0.5},
    }
    probability_image = None
    for axes, panel in zip(grid, panels, strict=False):
        image = axes.imshow(panel.image, interpolation="nearest", **scale[panel.kind])
        if panel.kind == "probability":
            probability_image = image
        _remove_axes(axes, panel.title)
        axes.set_xlabel(panel.caption, fontsize=8.5, color=QUIET, loc="left")
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    if probability_image is not None:
        bar = figure.colorbar(probability_image, ax=list(grid), shrink=0.6, aspect=30, ticks=[0, 0.5, 1])
        bar.set_label("P(state 1)", color=INK)
        bar.outline.set_visible(False)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, color=INK, fontweight="bold")
    return figure


def _wrapped(title: str, figure: Figure) -> str:
    """Wrap a title to the width of the figure; the layout engine does not."""
    per_inch = 12.0  # characters at 10 points
    return textwrap.fill(title, max(int((figure.get_figwidth() - 0.8) * per_inch), 12))


def _remove_axes(axes: Any, title: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, loc="left", fontsize=10, color=INK)


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Save a figure; the suffix of the file name determines the format (png, pdf, svg), png without suffix.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(Figure(), pathlib.Path(folder) / "empty.png")
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower().lstrip(".") or "png"
    formats = figure.canvas.get_supported_filetypes()
    if suffix not in formats:
        raise InvalidInputError(
            f"{os.fspath(path)}: unknown image format {suffix!r}. Use one of {', '.join(sorted(formats))}."
        )
    with written_file(path) as file:
        figure.savefig(file, dpi=dpi, format=suffix)
