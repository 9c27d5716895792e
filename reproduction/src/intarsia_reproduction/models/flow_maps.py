"""Maps of many walkers: the number in each cell, and arrows for their mean moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.report.plots import INK, PROBABILITY

ARROW = "#e8590c"


def mean_displacement(flows: Any, positions: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Compute the number of walkers that leave each cell, and their mean displacement.

    Parameters
    ----------
    flows : array or sparse matrix (s, s)
        Number of walkers on each move.
    positions : array (s, 2)
        Coordinates of the cells.

    Returns
    -------
    leaving : float array (s,)
        Number of walkers that move to another cell.
    displacement : float array (s, 2)
        Mean displacement; 0 where nobody leaves.

    Examples
    --------
    >>> leaving, displacement = mean_displacement([[5.0, 3.0], [0.0, 2.0]], [[0.0, 0.0], [1.0, 2.0]])
    >>> leaving, displacement[0]
    (array([3., 0.]), array([1., 2.]))
    """
    points = as_float_array(positions, "mean_displacement: positions")
    table = sparse.coo_array(flows)
    if points.ndim != 2 or points.shape[1] != 2 or table.shape != (len(points), len(points)):
        raise InvalidInputError(
            f"mean_displacement: flows have shape {table.shape} and positions {points.shape}. Pass shapes (cells, "
            f"cells) and (cells, 2)."
        )
    moves = table.row != table.col
    rows, columns, walkers = table.row[moves], table.col[moves], table.data[moves]
    leaving = np.bincount(rows, weights=walkers, minlength=len(points)).astype(np.float64)
    total_shift = np.stack(
        [
            np.bincount(rows, weights=walkers * (points[columns, k] - points[rows, k]), minlength=len(points))
            for k in (0, 1)
        ],
        axis=1,
    )
    return leaving, total_shift / np.where(leaving > 0, leaving, 1.0)[:, None]


def plot_flow_map(
    walkers: ArrayLike,
    positions: ArrayLike,
    flows: Any = None,
    *,
    title: str = "",
    max_arrows: int = 80,
) -> Figure:
    """Draw a map of the walkers in each cell, with arrows along the mean move of those that leave.

    Colours follow the square root of the numbers, so that small numbers are visible as well.

    Parameters
    ----------
    walkers : array (s,)
        Number of walkers in each cell.
    positions : array (s, 2)
        East and north coordinates of each cell.
    flows : array or sparse matrix (s, s), optional
        Number of walkers on each move; without flows no arrows are drawn.
    title : str
        Title of the map.
    max_arrows : int
        Maximum number of arrows. Neighbouring cells share an arrow, which starts at the mean position of the walkers
        that leave; it is fainter where fewer leave.

    Examples
    --------
    >>> figure = plot_flow_map([8.0, 2.0], [[0, 0], [1, 0]], [[4.0, 4.0], [0.0, 2.0]], title="week 10")
    >>> len(figure.axes)       # the map and its colour bar
    2
    """
    return plot_flow_maps(
        [walkers], positions, None if flows is None else [flows], titles=[title], max_arrows=max_arrows
    )


def plot_flow_maps(
    walkers: Sequence[ArrayLike],
    positions: ArrayLike,
    flows: Sequence[Any] | None = None,
    *,
    titles: Sequence[str] = (),
    n_columns: int = 4,
    max_arrows: int = 80,
) -> Figure:
    """Draw several maps on one colour scale, row by row; see `plot_flow_map`.

    Parameters
    ----------
    walkers : sequence of arrays (s,)
        Number of walkers in each cell, for each map.
    positions : array (s, 2)
        East and north coordinates of each cell.
    flows : sequence of arrays or sparse matrices (s, s), optional
        Number of walkers on each move, for each map; None for a map without arrows.
    titles : sequence of str
        Title of each map.
    n_columns : int
        Maximum number of maps in a row.
    max_arrows : int
        Maximum number of arrows on each map.

    Examples
    --------
    >>> figure = plot_flow_maps([[8.0, 2.0], [5.0, 5.0]], [[0, 0], [1, 0]], titles=["then", "now"])
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]]
    ['then', 'now']
    """
    points = as_float_array(positions, "plot_flow_maps: positions")
    numbers = [as_float_array(values, "plot_flow_maps: walkers") for values in walkers]
    check_number(max_arrows, "plot_flow_maps: max_arrows", low=0, integer=True)
    if (
        not numbers
        or points.ndim != 2
        or points.shape[1] != 2
        or any(values.shape != (len(points),) for values in numbers)
    ):
        raise InvalidInputError(
            f"plot_flow_maps: walkers have shapes {[values.shape for values in numbers][:3]} and positions "
            f"{points.shape}. Pass at least one array of shape (cells,), and positions of shape (cells, 2)."
        )
    if flows is not None and len(flows) != len(numbers):
        raise InvalidInputError(
            f"plot_flow_maps: {len(flows)} flows for {len(numbers)} maps. Pass one for each map, or None."
        )
    n_columns = max(1, min(n_columns, len(numbers)))
    n_rows = math.ceil(len(numbers) / n_columns)
    extent = np.maximum(np.ptp(points, axis=0), 1e-9)
    aspect = float(np.clip(extent[1] / extent[0], 0.4, 2.0))
    width = 5.0 if n_columns == 1 else 3.0
    figure = Figure(figsize=(width * n_columns + 1.0, width * aspect * n_rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    largest = max(float(values.max(initial=0.0)) for values in numbers) or 1.0
    side = _cell_side(points)
    corners = 0.5 * side * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    squares = points[:, None, :] + corners
    norm = PowerNorm(0.5, vmin=0.0, vmax=largest)
    collection: Any = None
    for k, axes in enumerate(grid.reshape(-1)):
        if k >= len(numbers):
            axes.set_visible(False)
            continue
        # Edges get the colour of the face, because otherwise thin lines of the background are visible.
        cells = PolyCollection(list(squares), array=numbers[k], cmap=PROBABILITY, norm=norm, edgecolors="face", lw=0.3)
        collection = axes.add_collection(cells)
        axes.set_xlim(points[:, 0].min() - side, points[:, 0].max() + side)
        axes.set_ylim(points[:, 1].min() - side, points[:, 1].max() + side)
        if flows is not None and flows[k] is not None:
            _draw_arrows(axes, flows[k], points, side, int(max_arrows))
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(titles[k] if k < len(titles) else "", loc="left", fontsize=10, color=INK)
    figure.colorbar(collection, ax=grid.reshape(-1).tolist(), label="walkers", shrink=0.7)
    return figure


def _cell_side(points: FloatArray) -> float:
    """Return the smallest distance between neighbours along an axis."""
    gaps = [np.diff(np.unique(points[:, k])) for k in (0, 1)]
    steps = [float(gap.min()) for gap in gaps if gap.size]
    return min(steps, default=1.0)


def _draw_arrows(axes: Any, flows: Any, points: FloatArray, side: float, max_arrows: int) -> None:
    """Draw arrows for the mean displacement of groups of neighbouring cells."""
    leaving, shift = mean_displacement(flows, points)
    if max_arrows == 0 or not leaving.any():
        return
    # Cells of the same block share an arrow.
    block = side * math.ceil(math.sqrt(len(points) / max_arrows))
    _, group = np.unique(np.floor((points - points.min(axis=0)) / block + 1e-9), axis=0, return_inverse=True)
    group = group.reshape(-1)
    total = np.bincount(group, weights=leaving)
    groups = np.flatnonzero(total > 0)
    groups = groups[np.argsort(-total[groups], kind="stable")][:max_arrows]
    mean = [np.bincount(group, weights=leaving * values)[groups] / total[groups] for values in (*points.T, *shift.T)]
    axes.quiver(
        *mean, angles="xy", scale_units="xy", scale=1.0, color=ARROW, alpha=np.sqrt(total[groups] /
        total[groups].max()), width=0.008, headwidth=3.5, headlength=4.0, headaxislength=3.6,
    )  # fmt: skip
