"""Make `olivetti_faces.npz` from `olivettifaces.mat` (https://cs.nyu.edu/~roweis/data/olivettifaces.mat)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.io import loadmat

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import run, write_arrays


def make_olivetti_faces(original: Path, output: Path) -> None:
    """Convert 4096 x 400 values, a column per image with pixels in column order, to 400 images, ten per person."""
    faces = loadmat(original).get("faces")
    if faces is None or faces.shape != (4096, 400):
        raise InvalidInputError(f"{original} has no array 'faces' of shape (4096, 400). Download it again.")
    images = faces.T.reshape(400, 64, 64).transpose(0, 2, 1).astype(np.uint8)
    subject = np.repeat(np.arange(40, dtype=np.uint8), 10)
    write_arrays(output / "olivetti_faces.npz", {"images": images, "subject": subject})


if __name__ == "__main__":
    run(make_olivetti_faces, "olivettifaces.mat from https://cs.nyu.edu/~roweis/data/olivettifaces.mat")
