"""Maps of many walkers: how many are where, and arrows for where they go."""

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
    """Walkers that leave each cell for another, and their mean displacement.

    Parameters
    ----------
    flows : array or sparse matrix (s, s)
        Walkers on each move.
    positions : array (s, 2)
        Where the cells are.

    Returns
    -------
    leaving : float array (s,)
        Staying does not count.
    displacement : float array (s, 2)
        0 where nobody leaves.

    Examples
    --------
    >>> leaving, displacement = mean_displacement([[5.0, 3.0], [0.0, 2.0]], [[0.0, 0.0], [1.0, 2.0]])
    >>> leaving, displacement[0]
    (array([3., 0.]), array([1., 2.]))
    """
    at = as_float_array(positions, "mean_displacement: positions")
    table = sparse.coo_array(flows)
    if at.ndim != 2 or at.shape[1] != 2 or table.shape != (len(at), len(at)):
        raise InvalidInputError(
            f"mean_displacement: flows have shape {table.shape} and positions {at.shape}. Give (cells, cells) and "
            f"(cells, 2)."
        )
    moved = table.row != table.col
    rows, columns, walkers = table.row[moved], table.col[moved], table.data[moved]
    leaving = np.bincount(rows, weights=walkers, minlength=len(at)).astype(np.float64)
    shift = np.stack(
        [np.bincount(rows, weights=walkers * (at[columns, k] - at[rows, k]), minlength=len(at)) for k in (0, 1)], axis=1
    )
    return leaving, shift / np.where(leaving > 0, leaving, 1.0)[:, None]


def plot_flow_map(
    walkers: ArrayLike,
    positions: ArrayLike,
    flows: Any = None,
    *,
    title: str = "",
    max_arrows: int = 80,
) -> Figure:
    """Map of the walkers in each cell, with arrows along the mean move of those that leave.

    Colours follow the square root of the numbers, so that small ones are seen as well.

    Parameters
    ----------
    walkers : array (s,)
        Walkers in each cell.
    positions : array (s, 2)
        East and north of each cell.
    flows : array or sparse matrix (s, s), optional
        Walkers on each move; without them no arrows.
    title : str
        Stands above.
    max_arrows : int
        At most so many: neighbouring cells share one, at the middle of those who leave; the fainter, the fewer do.

    Examples
    --------
    >>> figure = plot_flow_map([8.0, 2.0], [[0, 0], [1, 0]], [[4.0, 4.0], [0.0, 2.0]], title="week 10")
    >>> len(figure.axes)       # the map and its scale
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
    """Several maps on one scale, row by row; see `plot_flow_map`.

    Parameters
    ----------
    walkers : sequence of arrays (s,)
        For each map.
    positions : array (s, 2)
        East and north of each cell.
    flows : sequence of arrays or sparse matrices (s, s), optional
        For each map; None for one without arrows.
    titles : sequence of str
        Above each.
    n_columns : int
        Maps in a row, at most.
    max_arrows : int
        Arrows on each map, at most.

    Examples
    --------
    >>> figure = plot_flow_maps([[8.0, 2.0], [5.0, 5.0]], [[0, 0], [1, 0]], titles=["then", "now"])
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]]
    ['then', 'now']
    """
    at = as_float_array(positions, "plot_flow_maps: positions")
    numbers = [as_float_array(one, "plot_flow_maps: walkers") for one in walkers]
    check_number(max_arrows, "plot_flow_maps: max_arrows", low=0, integer=True)
    if not numbers or at.ndim != 2 or at.shape[1] != 2 or any(one.shape != (len(at),) for one in numbers):
        raise InvalidInputError(
            f"plot_flow_maps: walkers have shapes {[one.shape for one in numbers][:3]} and positions {at.shape}. Give "
            f"at least one (cells,) and (cells, 2)."
        )
    if flows is not None and len(flows) != len(numbers):
        raise InvalidInputError(f"plot_flow_maps: {len(flows)} flows for {len(numbers)} maps. Give one each, or None.")
    n_columns = max(1, min(n_columns, len(numbers)))
    n_rows = math.ceil(len(numbers) / n_columns)
    extent = np.maximum(np.ptp(at, axis=0), 1e-9)
    tall = float(np.clip(extent[1] / extent[0], 0.4, 2.0))
    width = 5.0 if n_columns == 1 else 3.0
    figure = Figure(figsize=(width * n_columns + 1.0, width * tall * n_rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    top = max(float(one.max(initial=0.0)) for one in numbers) or 1.0
    side = _cell_side(at)
    corners = 0.5 * side * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    squares = at[:, None, :] + corners
    norm = PowerNorm(0.5, vmin=0.0, vmax=top)
    drawn: Any = None
    for k, axes in enumerate(grid.reshape(-1)):
        if k >= len(numbers):
            axes.set_visible(False)
            continue
        # Edges in the same colour, or thin lines of the ground shine through.
        cells = PolyCollection(list(squares), array=numbers[k], cmap=PROBABILITY, norm=norm, edgecolors="face", lw=0.3)
        drawn = axes.add_collection(cells)
        axes.set_xlim(at[:, 0].min() - side, at[:, 0].max() + side)
        axes.set_ylim(at[:, 1].min() - side, at[:, 1].max() + side)
        if flows is not None and flows[k] is not None:
            _draw_arrows(axes, flows[k], at, side, int(max_arrows))
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(titles[k] if k < len(titles) else "", loc="left", fontsize=10, color=INK)
    figure.colorbar(drawn, ax=grid.reshape(-1).tolist(), label="walkers", shrink=0.7)
    return figure


def _cell_side(at: FloatArray) -> float:
    """Least distance between neighbours along an axis."""
    gaps = [np.diff(np.unique(at[:, k])) for k in (0, 1)]
    steps = [float(gap.min()) for gap in gaps if gap.size]
    return min(steps, default=1.0)


def _draw_arrows(axes: Any, flows: Any, at: FloatArray, side: float, most: int) -> None:
    leaving, shift = mean_displacement(flows, at)
    if most == 0 or not leaving.any():
        return
    # Cells of one block share an arrow.
    block = side * math.ceil(math.sqrt(len(at) / most))
    _, group = np.unique(np.floor((at - at.min(axis=0)) / block + 1e-9), axis=0, return_inverse=True)
    group = group.reshape(-1)
    total = np.bincount(group, weights=leaving)
    held = np.flatnonzero(total > 0)
    held = held[np.argsort(-total[held], kind="stable")][:most]
    mean = [np.bincount(group, weights=leaving * one)[held] / total[held] for one in (*at.T, *shift.T)]
    axes.quiver(
        *mean, angles="xy", scale_units="xy", scale=1.0, color=ARROW, alpha=np.sqrt(total[held] / total[held].max()),
        width=0.008, headwidth=3.5, headlength=4.0, headaxislength=3.6,
    )  # fmt: skip
