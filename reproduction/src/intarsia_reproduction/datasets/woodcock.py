"""Weekly abundance of a migrating bird on a map: counts per cell, without the paths of individuals."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, frozen
from intarsia_reproduction.datasets.archive import Field, damaged, read_arrays
from intarsia_reproduction.datasets.location import require

_LAYOUT = {
    "abundance": Field(("height", "width", "weeks"), kinds="f"),
    "pixel_m": Field((2,), kinds="f"),
    "ul_corner_m": Field((2,), kinds="f"),
}


@dataclass(frozen=True, eq=False)
class WeeklyAbundance:
    """Relative abundance for each week and map cell.

    Attributes
    ----------
    abundance : (n_weeks, n_cells) float array
        Relative abundance, at least 0.
    cells : (n_cells, 2) int array
        Row (0 is the north) and column of each cell on the map.
    positions : (n_cells, 2) float array
        Kilometres east and north of the origin of the projection, at the center of each cell.
    shape : (int, int)
        Rows and columns of the map.

    Examples
    --------
    Two cells in the corners of a map of two rows and two columns, in one week:

    >>> cells = np.array([[0, 0], [1, 1]])
    >>> birds = WeeklyAbundance(np.array([[3.0, 1.0]]), cells, positions=np.zeros((2, 2)), shape=(2, 2))
    >>> birds.on_map(birds.abundance[0])
    array([[ 3., nan],
           [nan,  1.]])
    """

    abundance: FloatArray
    cells: IntArray
    positions: FloatArray
    shape: tuple[int, int]

    def on_map(self, values: FloatArray) -> NDArray[np.float64]:
        """Return one value per cell as a map (rows, columns), with NaN outside the cells."""
        picture = np.full(self.shape, np.nan)
        picture[self.cells[:, 0], self.cells[:, 1]] = values
        return picture


def load_woodcock(data: str | os.PathLike[str] | None = None) -> WeeklyAbundance:
    """Load the weekly abundance of the American woodcock in 2019, from `cgm_birds/amewoo_2019_weekly.npz`.

    The file contains `abundance` (rows, columns, weeks), with NaN outside the range; `pixel_m` (width and height of a
    cell in metres) and `ul_corner_m` (east and north of the upper left corner). Only cells with a value in every week
    are loaded.

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        The file is missing; the message says where to obtain it.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> birds = load_woodcock()       # doctest: +SKIP
    >>> birds.abundance.shape        # doctest: +SKIP
    (52, 1706)
    """
    (path,) = require("woodcock", data)
    arrays = read_arrays(path, _LAYOUT)
    raw = arrays["abundance"].astype(np.float64)
    is_complete = ~np.isnan(raw).any(axis=2)
    if not is_complete.any() or not (raw[is_complete] >= 0).all() or not np.isfinite(raw[is_complete]).all():
        raise damaged(path, "'abundance' should have cells with finite, non-negative values in every week")
    width, height = np.abs(arrays["pixel_m"])
    east, north = arrays["ul_corner_m"]
    if not (np.isfinite([width, height, east, north]).all() and width > 0 and height > 0):
        raise damaged(path, "'pixel_m' and 'ul_corner_m' should be finite, and 'pixel_m' not 0")
    cells = np.argwhere(is_complete)
    centers = np.stack([east + (cells[:, 1] + 0.5) * width, north - (cells[:, 0] + 0.5) * height], axis=1) / 1000.0
    shape = (int(raw.shape[0]), int(raw.shape[1]))
    return WeeklyAbundance(frozen(raw[is_complete].T.copy()), frozen(cells.astype(np.int64)), frozen(centers), shape)
