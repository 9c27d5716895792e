"""Fitted models on disk: arrays and settings in one file that can be read without running anything from it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from intarsia.energies.registry import name_of_part
from intarsia.exceptions import FileFormatError, InvalidInputError

FORMAT = "intarsia model"
VERSION = 1
ABOUT = "model.json"
# What NumPy, zipfile and json raise for files with wrong bytes in some place.
_DAMAGE = (
    zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError, AttributeError, RuntimeError, RecursionError,
    NotImplementedError, IndexError, OverflowError, MemoryError, SyntaxError, OSError,
)  # fmt: skip


def write_model(
    path: str | os.PathLike[str], kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a model as one npz: an array for each name, and `model.json` with format, version, kind and `about`.

    The file appears when all is written. Nothing is compressed, so that what a reader must hold is never more than
    the file.

    Parameters
    ----------
    path : path
        The file; its folder must exist.
    kind : str
        What the model is, such as "ChainCRF".
    about : dict
        Anything that JSON can hold.
    arrays : dict of arrays
        Of numbers, booleans or strings.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "a.npz"), "line", {"slope": 2}, {"x": np.arange(3)})
    ...     read_model(Path(folder, "a.npz"), "line")
    ({'slope': 2}, {'x': array([0, 1, 2])})
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInputError(f"{target}: there is no folder {target.parent}. Make it first.")
    if target.is_dir():
        raise InvalidInputError(f"{target} is a folder; give the name of a file.")
    text = json.dumps(
        {"format": FORMAT, "version": VERSION, "kind": kind, "arrays": sorted(arrays), "about": dict(about)},
        allow_nan=False,
    )
    beside = target.with_name(target.name + ".part")
    try:
        with open(beside, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_member(ABOUT), text)
                for name, array in sorted(arrays.items()):
                    with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def _member(name: str) -> zipfile.ZipInfo:
    """Without the present time, so that the same model makes the same file."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def kind_of_model(path: str | os.PathLike[str]) -> str:
    """What kind of model a file holds, such as "ChainCRF".

    Raises
    ------
    FileFormatError
        The file is damaged, no model, or written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "a.npz"), "line", {}, {})
    ...     kind_of_model(Path(folder, "a.npz"))
    'line'
    """
    with _opened(path) as archive:
        return str(_head(archive, Path(path))["kind"])


def read_model(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `write_model` was given: `about` and the arrays.

    Nothing in the file is executed, and no more memory is taken than the file is long.

    Raises
    ------
    FileFormatError
        The file is damaged, no model, a model of another kind, or written by a newer version.

    Examples
    --------
    See `write_model`.
    """
    source = Path(path)
    with _opened(path) as archive:
        head = _head(archive, source)
        if head["kind"] != kind:
            raise FileFormatError(f"{source} holds a {head['kind']!s:.60}, not a {kind}. Load it with that class.")
        arrays = {name: _read_array(archive, f"{name}.npy") for name in head["arrays"]}
        return dict(head["about"]), arrays


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive; whatever goes wrong with its content while it is open is told as damage."""
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    if info.compress_type != zipfile.ZIP_STORED:
                        raise ValueError(info.filename)
                yield archive
        except FileFormatError:
            raise
        except _DAMAGE:
            raise damaged(path) from None


def _head(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(archive.read(ABOUT))
    if head["format"] != FORMAT or not isinstance(head["version"], int):
        raise ValueError(head["format"])
    if head["version"] > VERSION:
        raise FileFormatError(
            f"{source} has version {head['version']} of the format, but this program reads versions up to "
            f"{VERSION}. Install a newer Intarsia."
        )
    return head


def _read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    content = archive.read(name)
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def damaged(path: str | os.PathLike[str]) -> FileFormatError:
    """The error for a file that does not hold what it should."""
    return FileFormatError(f"{path} is damaged, or no model of Intarsia. Get it again, or fit and save it anew.")


def check_notes(notes: Any, where: str) -> None:
    """Raise for notes that JSON cannot hold.

    Examples
    --------
    >>> check_notes({"columns": 3}, "ChainCRF.save")
    """
    try:
        json.dumps(notes, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{where}: notes cannot be written as JSON: {error}.") from None


# ---------------------------------------------------------------- settings


def settings_to_json(value: Any, where: str) -> Any:
    """A setting as JSON can hold it: settings objects by registry name, tuples, sets and dicts as marked lists.

    Examples
    --------
    >>> from intarsia.learning.lbfgs import LBFGS
    >>> settings_to_json({0: LBFGS(max_iter=5)}, "ChainCRF.save")
    {'dict': [[0, {'object': 'lbfgs', 'settings': {'max_iter': 5, 'memory': 10, 'tol': 1e-05}}]]}
    """
    name = getattr(value, "name", None) or name_of_part(value)
    if isinstance(value, BaseEstimator) and isinstance(name, str):
        params = value.get_params(deep=False)
        return {
            "object": name,
            "settings": {key: settings_to_json(params[key], where) for key in sorted(params)},
        }
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [settings_to_json(item, where) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [settings_to_json(item, where) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [settings_to_json(item, where) for item in sorted(value, key=str)]}
    if isinstance(value, Mapping):
        return {"dict": [[settings_to_json(key, where), settings_to_json(value[key], where)] for key in value]}
    raise InvalidInputError(
        f"{where}: a setting of type {type(value).__name__} cannot be saved without running code at loading. Give "
        f"settings as names, numbers, strings, lists, dicts or objects of Intarsia."
    )


def settings_from_json(value: Any, resolvers: Mapping[str, Callable[[str, dict[str, Any]], Any]]) -> Any:
    """The setting that `settings_to_json` wrote.

    Parameters
    ----------
    value : object
        As JSON gives it.
    resolvers : dict of str -> function
        For each setting that may be an object ("" for members of lists), what makes it from registry name and
        settings: no other class is ever made.

    Examples
    --------
    >>> from intarsia.learning.registry import resolve_optimizer
    >>> made = {"object": "lbfgs", "settings": {"max_iter": 5}}
    >>> settings_from_json({"dict": [["optimizer", made]]}, {"optimizer": resolve_optimizer})
    {'optimizer': LBFGS(max_iter=5)}
    """
    return _decode(value, resolvers, "")


def _decode(value: Any, resolvers: Mapping[str, Callable[[str, dict[str, Any]], Any]], key: str) -> Any:
    if isinstance(value, list):
        return [_decode(item, resolvers, "") for item in value]
    if not isinstance(value, dict):
        return value
    if "object" in value:
        settings = {str(name): _decode(item, resolvers, str(name)) for name, item in value["settings"].items()}
        return resolvers[key](str(value["object"]), settings)
    (mark, items), *_ = value.items()
    if mark == "dict":
        return {_decode(name, resolvers, ""): _decode(item, resolvers, str(name)) for name, item in items}
    found = [_decode(item, resolvers, "") for item in items]
    return {"tuple": tuple, "set": frozenset}[mark](found)
