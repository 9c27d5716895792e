"""A fit on disk: what is needed to go on after the process was killed, and a check that it is the same fit."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._files.array_file import read_npz
from intarsia._files.atomic_file import replaced_file
from intarsia.exceptions import FileFormatError, InvalidInputError

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
