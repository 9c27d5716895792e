"""Make `stanford_background_20pct.npz` from `iccv09Data` (http://dags.stanford.edu/projects/scenedataset.html).

The folder has `images/NAME.jpg` and `labels/NAME.regions.txt`. Photographs are reduced with Pillow's box filter,
regions by the label of the pixel at the center of each block. The filter behind our stored results was not recorded, so
pixels can differ from that file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import files_in, flat_images, run, write_arrays

SHRINK = 5


def make_backgrounds(original: Path, output: Path) -> None:
    """Convert every photograph and its regions (-1 unknown, 0 sky to 7 foreground) at a fifth of the size."""
    photographs = files_in(original / "images", "*.jpg")
    rgb, regions = [], []
    for photograph in photographs:
        labels = original / "labels" / f"{photograph.stem}.regions.txt"
        if not labels.is_file():
            raise InvalidInputError(
                f"{photograph.name} has no labels {labels}. Unpack the folder labels beside images."
            )
        full = np.loadtxt(labels, dtype=np.int64, ndmin=2)
        with Image.open(photograph) as image:
            if full.shape != (image.height, image.width):
                raise InvalidInputError(
                    f"{labels} has shape {full.shape}, expected {(image.height, image.width)}. Download both."
                )
            height, width = max(1, round(image.height / SHRINK)), max(1, round(image.width / SHRINK))
            rgb.append(np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BOX), dtype=np.uint8))
        row = ((np.arange(height) + 0.5) * full.shape[0] / height).astype(np.int64)
        column = ((np.arange(width) + 0.5) * full.shape[1] / width).astype(np.int64)
        regions.append(np.maximum(full[np.ix_(row, column)], -1).astype(np.int8))
    names = np.array([photograph.stem for photograph in photographs])
    arrays = {"name": names, **flat_images(rgb=rgb, regions=regions)}
    write_arrays(output / "stanford_background_20pct.npz", arrays)


if __name__ == "__main__":
    run(make_backgrounds, "folder iccv09Data from http://dags.stanford.edu/projects/scenedataset.html")
