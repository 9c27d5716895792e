"""Checkpoints of a fit: its state on disk, to resume after the process was killed, and a check that the fit matches."""

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

from intarsia._files.array_file import read_npz, write_npz
from intarsia._files.packed_file import check_regular
from intarsia.exceptions import FileFormatError, InvalidInputError

FORMAT = "intarsia fit 2"
# Sums over features may differ between machines in the last digits, but not by more than this fraction.
SUMS_AGREE = 1e-6
# Errors that NumPy and zipfile raise for damaged files.
_DAMAGED_FILE_ERRORS = (
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
    """File with the state of one fit: an npz without pickle, replaced completely or not at all.

    Parameters
    ----------
    path : str or Path
        The file; its folder must exist.
    settings : dict
        Settings that must be equal when the fit is resumed: name -> text.
    sums : (n, m) array
        Sizes and sums of the data, one row per example, which must be equal as well.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, str], sums: NDArray[np.float64]) -> None:
        self.path = Path(path)
        self.settings = dict(settings)
        self.sums = sums
        if not self.path.parent.is_dir():
            raise InvalidInputError(
                f"checkpoint={str(path)!r}: there is no folder {self.path.parent}. Create it first."
            )
        if self.path.is_dir():
            raise InvalidInputError(f"checkpoint={str(path)!r} is a folder. Pass the name of a file.")

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the file; a reader sees the old state or the new one, never a mixture."""
        header = json.dumps({"format": FORMAT, "settings": self.settings, "arrays": sorted(arrays)})
        write_npz(self.path, {"about": np.array(header), "sums": self.sums, **arrays})

    def read(self) -> dict[str, NDArray[Any]] | None:
        """Return the arrays that were written last, or None if there is no file yet.

        Raises
        ------
        FileFormatError
            If the file is damaged or not a checkpoint; it is not changed.
        InvalidInputError
            If the file belongs to another fit.
        """
        if not self.path.exists():
            return None
        check_regular(self.path)
        try:
            with open(self.path, "rb") as file:
                arrays = read_npz(file, max_bytes=np.inf)
            header = json.loads(str(arrays.pop("about")))
            if header["format"] != FORMAT:
                raise ValueError(header["format"])
            settings, sums = dict(header["settings"]), arrays.pop("sums")
            if header["arrays"] != sorted(arrays):
                raise ValueError(header["arrays"])
        except PermissionError:
            raise
        except _DAMAGED_FILE_ERRORS:
            raise FileFormatError(
                f"checkpoint {self.path} is damaged, or not a checkpoint of this version. Move the file away to start "
                f"again, or pass another path."
            ) from None
        self._check_same_fit(settings, sums)
        return arrays

    def _check_same_fit(self, settings: dict[str, str], sums: NDArray[np.float64]) -> None:
        """Raise if the settings or the data of the checkpoint differ from those of this fit."""
        for name in self.settings:
            if settings.get(name) != self.settings[name]:
                self._raise_other_fit(f"{name} was {settings.get(name)}, but now it is {self.settings[name]}")
        if sums.shape != self.sums.shape:
            self._raise_other_fit(f"there were {len(sums)} examples, but now there are {len(self.sums)}")
        agrees = np.isclose(sums, self.sums, rtol=SUMS_AGREE, atol=0.0).all(axis=1)
        if not agrees.all():
            self._raise_other_fit(f"example {int(np.argmin(agrees))} has different features, labels or weights")

    def _raise_other_fit(self, reason: str) -> None:
        raise InvalidInputError(
            f"checkpoint {self.path} belongs to another fit: {reason}. Pass another path, or move the file away to "
            f"start again."
        )
