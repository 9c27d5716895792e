"""Make `bsds_132_200x300.npz` (https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/).

The folder is `BSDS300/images/train` with `2092.jpg`, `8049.jpg`, .... Our file has the first 132 of these 200
photographs in the order of their numbers. Upright photographs are turned by 90 degrees counterclockwise, and the whole
photograph of 481 x 321 pixels is reduced to 300 x 200 with Pillow's box filter. The paper does not say which 132
photographs it used, nor whether it reduced or cropped them. The filter behind our stored results was not recorded, so
pixels can differ from that file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import files_in, run, write_arrays

N_IMAGES = 132
HEIGHT, WIDTH = 200, 300


def make_denoising(original: Path, output: Path, n_images: int = N_IMAGES) -> None:
    """Convert the first photographs to grey images and to binary images, 1 where a pixel is brighter than the mean."""
    photographs = sorted(files_in(original, "*.jpg"), key=_number)[:n_images]
    if len(photographs) < n_images:
        raise InvalidInputError(
            f"{original} has {len(photographs)} photographs, expected at least {n_images}. Pass the folder "
            f"images/train of BSDS300."
        )
    converted = [_convert(photograph) for photograph in photographs]
    grey = np.stack([image for image, _ in converted])
    mean = grey.mean(axis=(1, 2))
    arrays = {
        "grey": grey,
        "binary_packed": np.packbits((grey > mean[:, None, None]).reshape(n_images, -1), axis=1),
        "mean": mean,
        "image_id": np.array([_number(photograph) for photograph in photographs], dtype=np.int32),
        "split": np.full(n_images, "train"),
        "rotated": np.array([upright for _, upright in converted]),
    }
    write_arrays(output / "bsds_132_200x300.npz", arrays)


def _number(photograph: Path) -> int:
    if not photograph.stem.isdecimal():
        raise InvalidInputError(
            f"{photograph} is not named by a number, such as 2092.jpg. Pass the folder images/train of BSDS300."
        )
    return int(photograph.stem)


def _convert(photograph: Path) -> tuple[NDArray[np.uint8], bool]:
    """Return the reduced grey image, and whether it was turned."""
    with Image.open(photograph) as image:
        upright = image.height > image.width
        lying = image.transpose(Image.Transpose.ROTATE_90) if upright else image
        grey = lying.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return np.asarray(grey, dtype=np.uint8), upright


if __name__ == "__main__":
    run(
        make_denoising,
        "folder images/train of BSDS300 from https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
    )
