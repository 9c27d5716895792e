"""Make the folder `mrf_vision`: the Potts energy of the Tsukuba stereo pair, and images of the MRF benchmark.

The energy is that of Alahari, Kohli and Torr (2010): `stereo/tsukuba_datacost.txt` of
http://www.di.ens.fr/~alahari/data/pami10data.tgz has the unary costs, with columns changing fastest, then rows, then
labels; two neighbours with different labels cost 20. In our file, pixels are numbered down the columns, as in
`tsukubaInstance.mat` of https://github.com/aosokin/partialOptimality_Kovtun. The images are copied unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, diags_array, eye_array, kron

from intarsia._files.atomic_file import make_folder, write_bytes
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.catalogue import find_set
from intarsia_reproduction.datasets.make.command import read_original, run, write_arrays

HEIGHT, WIDTH, N_LABELS = 288, 384, 16
POTTS_WEIGHT = 20.0


def make_mrf_vision(original: Path, output: Path) -> None:
    """Convert the unary costs, add the grid of neighbours, and copy the five images."""
    files = [Path(file) for file in find_set("mrf_vision").files]
    images = [file for file in files if file.suffix == ".png"]
    missing = [image.name for image in images if not (original / image.name).is_file()]
    if missing:
        raise InvalidInputError(
            f"{original} has no {missing[0]}. Copy the images of https://vision.middlebury.edu/MRF/ into it."
        )
    arrays = potts_arrays(_read_costs(original / "tsukuba_datacost.txt"), HEIGHT, WIDTH, N_LABELS)
    for image in images:
        make_folder((output / image).parent)
        write_bytes(output / image, (original / image.name).read_bytes())
    write_arrays(output / "mrf_vision" / "tsukuba_potts_alahari.npz", arrays)


def potts_arrays(costs: Any, height: int, width: int, n_labels: int) -> dict[str, Any]:
    """Return the arrays of our file, with pixels numbered down the columns and edges in both directions.

    Parameters
    ----------
    costs : (width * height * n_labels,) array
        Unary costs, with columns changing fastest, then rows, then labels.
    height, width, n_labels : int
        Size of the image, and number of labels.

    Examples
    --------
    >>> arrays = potts_arrays(np.arange(6), height=1, width=3, n_labels=2)
    >>> arrays["unary"].tolist()
    [[0, 3], [1, 4], [2, 5]]
    >>> arrays["edges"].tolist()
    [[1, 0], [0, 1], [2, 1], [1, 2]]
    """
    unary = np.asarray(costs).reshape(n_labels, height, width).transpose(2, 1, 0).reshape(-1, n_labels)
    grid = csc_array(kron(eye_array(width), _path(height)) + kron(_path(width), eye_array(height)))
    grid.sort_indices()
    column = np.repeat(np.arange(height * width), np.diff(grid.indptr))
    return {
        "unary": unary.astype(np.int16),
        "edges": np.stack([grid.indices, column], axis=1).astype(np.int32),
        "weights": np.full(grid.nnz, POTTS_WEIGHT, dtype=np.float32),
        "nRows": np.array([float(height)]),
        "nCols": np.array([float(width)]),
        "nLabels": np.array([float(n_labels)]),
        "pottsCoefficient": np.array([POTTS_WEIGHT]),
        "name": np.array([ord(letter) for letter in "tsukuba"], dtype=np.uint16),
        "type": np.array([ord(letter) for letter in "stereo"], dtype=np.uint16),
    }


def _path(n: int) -> Any:
    """Return the adjacency matrix of a path of n nodes."""
    return diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1], shape=(n, n))


def _read_costs(path: Path) -> Any:
    """Return the numbers of a text file in the column order of a matrix, as MATLAB reads them."""
    try:
        costs = np.loadtxt(read_original(path).replace(",", " ").splitlines(), ndmin=2).ravel(order="F")
    except ValueError as error:
        raise InvalidInputError(f"{path} is not a table of numbers: {error}. Download it again.") from None
    expected = HEIGHT * WIDTH * N_LABELS
    largest = np.iinfo(np.int16).max
    if costs.size != expected or not ((costs == np.rint(costs)) & (np.abs(costs) <= largest)).all():
        raise InvalidInputError(
            f"{path} has {costs.size} numbers, expected {expected} integers of at most {largest}. Download it again."
        )
    return costs


if __name__ == "__main__":
    run(
        make_mrf_vision,
        "folder with tsukuba_datacost.txt from http://www.di.ens.fr/~alahari/data/pami10data.tgz and the images "
        "tsukuba-imL.png, tsukuba-imR.png, tsukuba-truedispL.png, penguin-input.png and penguin-mask.png from "
        "https://vision.middlebury.edu/MRF/",
    )
