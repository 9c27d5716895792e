"""A fit on disk: what is needed to go on after the process was killed, and a check that it is the same fit."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from intarsia._array_file import read_npz
from intarsia._atomic_file import replaced_file
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.learning.example import Example

FORMAT = "intarsia fit 2"
# Sums over features may differ in the last digits between machines, but not by more than this share.
SUMS_AGREE = 1e-6
# What NumPy and zipfile raise for files with wrong bytes in some place.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    AttributeError,
    RuntimeError,
    OSError,
)


class Checkpoint:
    """One file with the state of one fit: an npz, never pickle, replaced as a whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file; its folder must exist.
    settings : dict
        What must be the same when the fit goes on: text by name.
    sums : (n, m) array
        Sizes and sums of the data, a row for each example, likewise.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, str], sums: NDArray[np.float64]) -> None:
        self.path = Path(path)
        self.settings = dict(settings)
        self.sums = sums
        if not self.path.parent.is_dir():
            raise InvalidInputError(f"checkpoint={str(path)!r}: there is no folder {self.path.parent}. Make it first.")
        if self.path.is_dir():
            raise InvalidInputError(f"checkpoint={str(path)!r} is a folder. Give the name of a file.")

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the file; whoever reads it finds the old state or the new one, never half of either."""
        about = json.dumps({"format": FORMAT, "settings": self.settings, "arrays": sorted(arrays)})
        with replaced_file(self.path) as beside, open(beside, "xb") as file:
            np.savez(file, allow_pickle=False, about=np.array(about), sums=self.sums, **arrays)

    def read(self) -> dict[str, NDArray[Any]] | None:
        """What was written last; None if there is no file yet.

        Raises
        ------
        FileFormatError
            If the file is damaged or something else; it is left as it is.
        InvalidInputError
            If it belongs to another fit.
        """
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file:
                arrays = read_npz(file, most_bytes=np.inf)
            about = json.loads(str(arrays.pop("about")))
            if about["format"] != FORMAT:
                raise ValueError(about["format"])
            settings, sums = dict(about["settings"]), arrays.pop("sums")
            if about["arrays"] != sorted(arrays):
                raise ValueError(about["arrays"])
        except PermissionError:
            raise
        except _DAMAGE:
            raise FileFormatError(
                f"checkpoint {self.path} is damaged, or no checkpoint of this version. Move it away to begin anew, or "
                f"give another path."
            ) from None
        self._check_same(settings, sums)
        return arrays

    def _check_same(self, settings: dict[str, str], sums: NDArray[np.float64]) -> None:
        for name in self.settings:
            if settings.get(name) != self.settings[name]:
                self._refuse(f"{name} was {settings.get(name)}, but is {self.settings[name]}")
        if sums.shape != self.sums.shape:
            self._refuse(f"there were {len(sums)} examples, but now there are {len(self.sums)}")
        same = np.isclose(sums, self.sums, rtol=SUMS_AGREE, atol=0.0).all(axis=1)
        if not same.all():
            self._refuse(f"example {int(np.argmin(same))} has other features, labels or weights")

    def _refuse(self, why: str) -> None:
        raise InvalidInputError(
            f"checkpoint {self.path} is of another fit: {why}. Give another path, or move the file away to begin anew."
        )


def describe(value: Any, *leave_out: str) -> str:
    """Settings in words, the same for the same settings in every process; arrays by their content."""
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        inner = ", ".join(f"{key}={describe(params[key])}" for key in sorted(params) if key not in leave_out)
        return f"{type(value).__name__}({inner})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe, value))}]"
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()}"
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__ and hasattr(value, "__dict__"):  # that shows only where it is stored
        return f"{type(value).__name__}({', '.join(f'{key}={describe(one)}' for key, one in vars(value).items())})"
    return repr(value)


def data_sums(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Sizes and sums of each example: scores at fixed weights, with their places, stand for the features."""
    rows = []
    for one in examples:
        theta, graph, labels = one.scores.theta(np.cos(np.arange(one.scores.n_weights))), one.form.graph, one.labels
        # Never below 0, so that nothing cancels; other signs and other places give other sums.
        sizes = np.where(np.isfinite(theta), np.maximum(theta, -0.5 * theta), 0.0)
        placed = sizes @ (1.5 + np.sin(np.arange(theta.size)))
        exact = hashlib.blake2b(digest_size=4)
        for array in (labels.allowed, labels.weights, graph.scope_ptr, graph.scope_idx):
            if array is not None:
                exact.update(np.ascontiguousarray(array).tobytes())
        rows.append((float(theta.size), float(placed), float(int(exact.hexdigest(), 16)), one.mass))
    return np.array(rows).reshape(-1, 4)
