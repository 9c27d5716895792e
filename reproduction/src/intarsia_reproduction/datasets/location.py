"""Find the files of a data set, or raise an error that says where to obtain them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from intarsia.exceptions import InvalidInputError, MissingDataError
from intarsia_reproduction.datasets.catalogue import DataSet, find_set

VARIABLE = "INTARSIA_DATA"


def data_folders(data: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders that are searched for data sets, in order.

    The first is `data` or, without it, the folder in the environment variable INTARSIA_DATA; the last is the user's
    cache folder.

    Parameters
    ----------
    data : path, optional
        Folder to search first. It must exist, so that a typo does not silently fall back to the cache.

    Examples
    --------
    >>> folders = data_folders(".")
    >>> len(folders), str(folders[0]), folders[1] == cache_folder()
    (2, '.', True)
    """
    if data is not None:
        folder, origin = Path(data), "data"
    elif os.environ.get(VARIABLE):
        folder, origin = Path(os.environ[VARIABLE]), f"${VARIABLE}"
    else:
        return [cache_folder()]
    folder = folder.expanduser()
    if not folder.is_dir():
        raise InvalidInputError(
            f"{origin}={str(folder)!r} is not a folder. Pass the folder that contains the data sets."
        )
    return [folder, cache_folder()]


def cache_folder() -> Path:
    """Return the folder of Intarsia in the user's cache folder of this system; it may not exist.

    Examples
    --------
    >>> cache_folder().name
    'intarsia'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "intarsia"


def locate(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the first folder that contains all files of a data set, or None.

    Parameters
    ----------
    name : str
        Name of a data set, see `set_names`.
    data : path, optional
        See `data_folders`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "snakes.npz").touch()
    ...     print(locate("snakes", folder) == Path(folder))
    True
    """
    entry = find_set(name)
    return next((folder for folder in data_folders(data) if _has_all_files(folder, entry)), None)


def require(name: str, data: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the paths of the files of a data set, in the order of the catalogue; raise if a file is missing.

    Parameters
    ----------
    name : str
        Name of a data set, see `set_names`.
    data : path, optional
        See `data_folders`.

    Raises
    ------
    MissingDataError
        A file is missing. The message describes the data set, its publisher and address, and the expected files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "snakes.npz").touch()
    ...     print([path.name for path in require("snakes", folder)])
    ['snakes.npz']
    """
    entry = find_set(name)
    folder = locate(name, data)
    if folder is not None:
        return [folder / file for file in entry.files]
    folders = data_folders(data)
    searched = " and ".join(map(str, folders))
    missing = next(file for file in entry.files if not (folders[0] / file).is_file())
    raise MissingDataError(
        f"Data set {name!r} ({entry.description}) was not found: no {missing} in {searched}. {entry.how_to_obtain} "
        f"Put it in {folders[-1]}, or in a folder named by {VARIABLE} or data=."
    )


def _has_all_files(folder: Path, entry: DataSet) -> bool:
    return all((folder / file).is_file() for file in entry.files)
