"""One form for every image that comes in: RGB between 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._validation import FloatArray
from intarsia.exceptions import InvalidInputError


def as_rgb(image: Any, where: str) -> FloatArray:
    """Image as (H, W, 3) float64 in [0, 1]; bytes are divided by 255, grey becomes three equal channels."""
    given = np.asarray(image)
    shape = given.shape
    if not (given.ndim == 2 or (given.ndim == 3 and shape[2] == 3)) or given.size == 0:
        raise InvalidInputError(
            f"{where}: the image has shape {shape}, but (height, width) or (height, width, 3) is needed, with at least "
            f"one pixel. Take one image at a time, and drop an alpha channel with image[..., :3]."
        )
    if given.dtype == np.uint8:
        values = given / 255.0
    elif given.dtype.kind in "fb":
        values = given.astype(np.float64)
        inside = (values >= 0.0) & (values <= 1.0)
        if not inside.all():
            at = tuple(int(i) for i in np.argwhere(~inside)[0])
            raise InvalidInputError(
                f"{where}: image[{', '.join(map(str, at))}] is {values[at]}, but intensities lie in [0, 1]. "
                f"Divide 8-bit values by 255 or give them as uint8, and fill in what is missing."
            )
    else:
        raise InvalidInputError(
            f"{where}: the image has dtype {given.dtype}. Give uint8 (0 to 255) or floats in [0, 1]; for other whole "
            f"numbers divide by their largest possible value."
        )
    return np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else np.ascontiguousarray(values)
