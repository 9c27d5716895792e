"""Where a data set is looked for, and what is said when it is not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from intarsia.exceptions import InvalidInputError, MissingDataError
from intarsia_reproduction.datasets.catalogue import DataSet, find_set

VARIABLE = "INTARSIA_DATA"


def data_folders(data: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders in which data sets are looked for, in order.

    First `data`, or without it the folder named by the environment variable INTARSIA_DATA; then the user's cache.

    Parameters
    ----------
    data : path, optional
        A folder; one that does not exist is refused, so that a slip is not answered from the cache.

    Examples
    --------
    >>> folders = data_folders(".")
    >>> len(folders), str(folders[0]), folders[1] == cache_folder()
    (2, '.', True)
    """
    if data is not None:
        named, origin = Path(data), "data"
    elif os.environ.get(VARIABLE):
        named, origin = Path(os.environ[VARIABLE]), f"${VARIABLE}"
    else:
        return [cache_folder()]
    named = named.expanduser()
    if not named.is_dir():
        raise InvalidInputError(f"{origin}={str(named)!r} is not a folder. Give the folder that holds the data sets.")
    return [named, cache_folder()]


def cache_folder() -> Path:
    """Folder of the user's cache that belongs to Intarsia, where this system keeps such folders; it may not exist.

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
    """Folder in which all files of a set are, or None.

    Parameters
    ----------
    name : str
        A name of `set_names()`.
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
    wanted = find_set(name)
    return next((folder for folder in data_folders(data) if _complete(folder, wanted)), None)


def require(name: str, data: str | os.PathLike[str] | None = None) -> list[Path]:
    """Paths of the files of a set, in the order of the catalogue; a set that is not there raises with its source.

    Parameters
    ----------
    name : str
        A name of `set_names()`.
    data : path, optional
        See `data_folders`.

    Raises
    ------
    MissingDataError
        The message says what the set is, who published it where, and which files are expected in which folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "snakes.npz").touch()
    ...     print([path.name for path in require("snakes", folder)])
    ['snakes.npz']
    """
    wanted = find_set(name)
    folder = locate(name, data)
    if folder is not None:
        return [folder / file for file in wanted.files]
    folders = data_folders(data)
    looked = " and ".join(map(str, folders))
    missing = next(file for file in wanted.files if not (folders[0] / file).is_file())
    raise MissingDataError(
        f"Data set {name!r} ({wanted.what}) was not found: no {missing} in {looked}. {wanted.how_to_obtain} "
        f"Put it in {folders[-1]}, or in a folder named by {VARIABLE} or data=."
    )


def _complete(folder: Path, wanted: DataSet) -> bool:
    return all((folder / file).is_file() for file in wanted.files)
