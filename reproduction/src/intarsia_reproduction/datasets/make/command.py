"""What the scripts have in common: two paths from the command line, pictures of unequal size in flat arrays."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia.exceptions import IntarsiaError, InvalidInputError


def run(make: Callable[[Path, Path], None], source: str, arguments: Sequence[str] | None = None) -> None:
    """Call `make` with the two paths of the command line; an error is one line on stderr and exit status 1.

    Examples
    --------
    >>> run(lambda original, output: print(original, output), "anywhere", ["a", "b"])
    a b
    """
    parser = argparse.ArgumentParser(description=source)
    parser.add_argument("original", type=Path, help=source)
    parser.add_argument("output", type=Path, help="folder for our files")
    paths = parser.parse_args(arguments)
    try:
        make(paths.original, paths.output)
    except IntarsiaError as error:
        sys.exit(f"{parser.prog}: {error}")


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Files of a folder that match a pattern, in the order of their names; none is an error.

    Examples
    --------
    >>> files_in(Path(__file__).parent, "comm*.py")[0].name
    'command.py'
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise InvalidInputError(f"{folder} has no files {pattern}. Unpack the published original there.")
    return files


def flat_images(**images: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Pictures of unequal size, pixel after pixel, with `height`, `width` and `offset` as the loaders expect them.

    Examples
    --------
    >>> arrays = flat_images(mask=[np.zeros((1, 2)), np.ones((2, 2))])
    >>> arrays["height"].tolist(), arrays["offset"].tolist(), arrays["mask"].tolist()
    ([1, 2], [0, 2, 6], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    """
    first = next(iter(images.values()))
    height, width = (np.array([image.shape[axis] for image in first], dtype=np.int32) for axis in (0, 1))
    offset = np.concatenate([[0], np.cumsum(height.astype(np.int64) * width)])
    flat = {
        name: np.concatenate([image.reshape(-1, *image.shape[2:]) for image in parts]) for name, parts in images.items()
    }
    return {**flat, "height": height, "width": width, "offset": offset}


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a compressed npz file, and its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
