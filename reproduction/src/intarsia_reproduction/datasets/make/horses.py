"""Make `weizmann_horses_144.npz` and `weizmann_horses_32.npz` (https://www.msri.org/people/members/eranb/).

The folder has `rgb/horse001.jpg`, ... and the masks `figure_ground/horse001.jpg`, .... Images are reduced with Pillow's
box filter. The filter behind our stored results was not recorded, so pixels can differ from those files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import files_in, flat_images, run, write_arrays

LONGEST = 144
SQUARE = 32


def make_horses(original: Path, output: Path) -> None:
    """Convert every photograph and its mask; a reduced pixel is 1 if more than half of its area is horse."""
    photographs = files_in(original / "rgb", "horse*.jpg")
    small: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []
    square: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []
    for photograph in photographs:
        mask = original / "figure_ground" / photograph.name
        if not mask.is_file():
            raise InvalidInputError(
                f"{photograph.name} has no mask {mask}. Unpack the folder figure_ground beside rgb."
            )
        with Image.open(photograph) as rgb, Image.open(mask) as grey:
            scale = LONGEST / max(rgb.size)
            size = (max(1, round(rgb.width * scale)), max(1, round(rgb.height * scale)))
            small.append(_resized(rgb, grey, size))
            square.append(_resized(rgb, grey, (SQUARE, SQUARE)))
    names = np.array([photograph.stem for photograph in photographs])
    arrays = flat_images(rgb=[rgb for rgb, _ in small], mask=[mask for _, mask in small])
    write_arrays(output / "weizmann_horses_144.npz", {"name": names, **arrays})
    rgb_32, mask_32 = (np.stack(images) for images in zip(*square, strict=True))
    write_arrays(output / "weizmann_horses_32.npz", {"name": names, "rgb": rgb_32, "mask": mask_32})


def _resized(rgb: Image.Image, mask: Image.Image, size: tuple[int, int]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    colours = np.asarray(rgb.convert("RGB").resize(size, Image.Resampling.BOX), dtype=np.uint8)
    horse = mask.convert("L").point([0] * 128 + [255] * 128).resize(size, Image.Resampling.BOX)
    return colours, (np.asarray(horse) > 127).astype(np.uint8)


if __name__ == "__main__":
    run(make_horses, "folder with rgb/ and figure_ground/ from https://www.msri.org/people/members/eranb/")
