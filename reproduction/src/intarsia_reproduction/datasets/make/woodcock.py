"""Make `cgm_birds/amewoo_2019_weekly.npz` from a GeoTIFF of BirdFlow (https://github.com/birdflow-science/BirdFlowPy).

`amewoo-moll-2019-croptoextent-100.tif` has a band for each week of 2019 with the relative abundance of the American
woodcock (eBird Status and Trends) in cells of 80 km, and a large negative number outside the range. Reading it needs
rasterio.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from intarsia.exceptions import InvalidInputError, MissingDependencyError
from intarsia_reproduction.datasets.make.command import run, write_arrays

N_WEEKS = 52
_NO_DATA = -3.3e38  # values up to this one mark cells outside the range


def make_woodcock(original: Path, output: Path) -> None:
    """Convert the bands to an array (rows, columns, weeks) with NaN outside the range, and write the map's origin."""
    try:
        rasterio = import_module("rasterio")
    except ImportError:
        raise MissingDependencyError(
            "Reading a GeoTIFF needs rasterio. Install it with: pip install rasterio"
        ) from None
    try:
        with rasterio.open(original) as file:
            bands, transform = file.read().astype(np.float32), file.transform
    except rasterio.errors.RasterioError as error:
        raise InvalidInputError(f"{original} is not a readable GeoTIFF: {error}. Download it again.") from None
    if len(bands) != N_WEEKS:
        raise InvalidInputError(f"{original} has {len(bands)} bands, expected one for each of {N_WEEKS} weeks.")
    abundance = np.moveaxis(np.where(bands <= _NO_DATA, np.float32(np.nan), bands), 0, -1)
    arrays = {
        "abundance": np.ascontiguousarray(abundance),
        "pixel_m": np.abs([transform.a, transform.e]),
        "ul_corner_m": np.array([transform.c, transform.f]),
    }
    write_arrays(output / "cgm_birds" / "amewoo_2019_weekly.npz", arrays)


if __name__ == "__main__":
    run(make_woodcock, "amewoo-moll-2019-croptoextent-100.tif from https://github.com/birdflow-science/BirdFlowPy")
