"""Methods `save` and `load` of the estimators, and `intarsia.load` for a file of any estimator."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import entry_point
from intarsia._core.registry import Parts
from intarsia._core.settings import check_fitted
from intarsia._core.status import Status
from intarsia._files.model_file import DAMAGED_FILE_ERRORS, damaged, read_model, write_model
from intarsia._files.settings_json import saved_settings, settings_from_json
from intarsia.exceptions import FileFormatError, InvalidInputError, NotSupportedError, TooLargeError

if TYPE_CHECKING:
    from sklearn.utils import Tags

Arrays = dict[str, NDArray[Any]]
# Fields that are written as JSON, and arrays by name.
Content = tuple[dict[str, Any], Arrays]
# Limit of the memory for labels, which protects against damaged files.
_MAX_CHARACTERS = 5 * 10**7


class SavedModel(ABC):
    """Mixin before `BaseEstimator`: saves a model to one file without pickle, and loads it.

    An estimator returns its learned state (`_to_file`) and restores it (`_from_file`); settings, notes and errors are
    handled here. `intarsia.load` chooses the class from its name in the file.
    """

    _learned: ClassVar[str | None] = "weights_"
    """Attribute that exists when there is something to save; None for models that need no fit."""
    _settings_apart: ClassVar[tuple[str, ...]] = ()
    """Settings that JSON cannot represent; `_to_file` and `_from_file` handle them."""
    _parts: ClassVar[Parts]
    """Registries of the settings that may be objects; see `NamedParts`."""
    _needs_labels: ClassVar[bool] = True
    """Whether `fit` needs y."""
    _takes_matrix: ClassVar[bool] = False
    """Whether X is a 2-D array of numbers, as scikit-learn's common checks pass, possibly with NaN."""
    notes_: Any

    def __sklearn_tags__(self) -> Tags:
        """Return the estimator tags for scikit-learn."""
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.requires_fit = self._learned is not None
        tags.target_tags.required = self._needs_labels
        tags.input_tags.two_d_array = tags.input_tags.allow_nan = self._takes_matrix
        return tags

    @abstractmethod
    def _to_file(self) -> Content:
        """Return the learned state as JSON fields and arrays."""

    @abstractmethod
    def _from_file(self, fields: dict[str, Any], arrays: Arrays) -> None:
        """Restore the state from `_to_file` on a new model with its settings; invalid content may raise any error."""

    @entry_point
    def save(self, path: str | os.PathLike[str], notes: Any = None) -> None:
        """Save the model to one npz file without pickle; the file appears when it is complete.

        Parameters
        ----------
        path : path
            File to write.
        notes : dict, optional
            Values that JSON can represent; they become the attribute `notes_` of the loaded model.
        """
        kind = type(self).__name__
        if self._learned is not None:
            check_fitted(self, self._learned)
        settings: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        plain_settings = {name: settings[name] for name in settings if name not in self._settings_apart}
        fields, arrays = self._to_file()
        check_json(notes, "notes")
        fields = {"settings": saved_settings(plain_settings, self._parts), **fields, "notes": notes}
        write_model(path, kind, fields, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a model from a file that `save` wrote; loading never runs code.

        Raises
        ------
        FileFormatError
            The file is damaged, not a model of this class, or written by a newer version.
        """
        fields, arrays = read_model(path, cls.__name__)
        try:
            settings = settings_from_json(fields["settings"], cls._parts)
            model = cls(**dict.fromkeys(cls._settings_apart), **settings)
            model._from_file(fields, arrays)
            model.notes_ = fields["notes"]
        except FileFormatError:
            raise
        except (NotSupportedError, TooLargeError, *DAMAGED_FILE_ERRORS):
            raise damaged(path) from None
        return model


def check_json(value: Any, name: str) -> None:
    """Raise if a value cannot be represented as JSON.

    Examples
    --------
    >>> check_json({"columns": 3}, "notes")
    """
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{name} cannot be written as JSON: {error}. Use dicts, lists, strings and numbers."
        ) from None


def course_to_file(n_iter: int, status: Status, history: Mapping[str, NDArray[Any]]) -> Content:
    """Return the course of a fit (iterations, status, history) as JSON fields and arrays for `_to_file`.

    Examples
    --------
    >>> course_to_file(3, Status.CONVERGED, {"risk": np.ones(2)})
    ({'n_iter': 3, 'status': 'CONVERGED', 'history': ['risk']}, {'history_risk': array([1., 1.])})
    """
    fields = {"n_iter": int(n_iter), "status": status.name, "history": sorted(history)}
    return fields, {f"history_{name}": np.asarray(values) for name, values in history.items()}


def course_from_file(fields: dict[str, Any], arrays: Arrays) -> tuple[int, Status, Arrays]:
    """Read the course of a fit that `course_to_file` wrote.

    Examples
    --------
    >>> course_from_file(*course_to_file(3, Status.CONVERGED, {"risk": np.ones(2)}))
    (3, <Status.CONVERGED: 'reached its tolerance'>, {'risk': array([1., 1.])})
    """
    history = {str(name): arrays[f"history_{name}"] for name in fields["history"]}
    if any(values.dtype.kind not in "biuf" for values in history.values()):
        raise ValueError("history")
    return int(fields["n_iter"]), Status[fields["status"]], history


def number_to_json(value: float) -> float | None:
    """Return the number, or None if it is not finite and JSON cannot represent it."""
    return float(value) if np.isfinite(value) else None


def number_from_json(value: Any) -> float:
    """Return the number, or NaN for None."""
    return np.nan if value is None else float(value)


def finite_array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Read a float array of a file and check its shape and that its values are finite.

    Examples
    --------
    >>> finite_array({"weights": np.arange(2)}, "weights", (2,))
    array([0., 1.])
    """
    array = arrays[name].astype(np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(name)
    return array


def index_array(arrays: Arrays, name: str, n: int) -> NDArray[np.int64]:
    """Read an integer array of a file and check that all values are in 0 to n - 1, since kernels do not check indices.

    Examples
    --------
    >>> index_array({"order": np.array([1, 0])}, "order", 2)
    array([1, 0])
    """
    indices = arrays[name]
    if indices.dtype.kind not in "iu" or (indices.size and not (indices.min() >= 0 and indices.max() < n)):
        raise ValueError(name)
    return indices.astype(np.int64, copy=False)


def index_rows(arrays: Arrays, ptr: str, idx: str, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read a CSR pattern of a file, row pointers and column indices, and check that all columns are in 0 to n - 1.

    Examples
    --------
    >>> index_rows({"ptr": np.array([0, 2]), "idx": np.array([1, 0])}, "ptr", "idx", 2)
    (array([0, 2]), array([1, 0]))
    """
    columns = index_array(arrays, idx, n)
    row_ptr = index_array(arrays, ptr, columns.size + 1)
    if columns.ndim != 1 or row_ptr.ndim != 1 or row_ptr[0] != 0 or row_ptr[-1] != columns.size:
        raise ValueError(ptr)
    if (np.diff(row_ptr) < 0).any():
        raise ValueError(ptr)
    return row_ptr, columns


def names_to_arrays(names: Sequence[str], key: str) -> Arrays:
    """Return names as two arrays of a file: their UTF-8 bytes, and the first character of each name.

    Examples
    --------
    >>> names_to_arrays(["a", "bc"], "name")["name_ptr"]
    array([0, 1, 3])
    """
    ptr = np.concatenate([[0], np.cumsum([len(name) for name in names])]).astype(np.int64)
    content = "".join(names).encode("utf-8", "surrogatepass")
    return {f"{key}_text": np.frombuffer(content, np.uint8), f"{key}_ptr": ptr}


def names_from_arrays(arrays: Arrays, key: str) -> tuple[str, NDArray[np.int64]]:
    """Read the names that `names_to_arrays` wrote: all names, one after the other, and the first character of each.

    Examples
    --------
    >>> names_from_arrays(names_to_arrays(["a", "bc"], "name"), "name")
    ('abc', array([0, 1, 3]))
    """
    content = arrays[f"{key}_text"]
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ValueError(key)
    text = str(np.ascontiguousarray(content).data, "utf-8", "surrogatepass")
    ptr = index_array(arrays, f"{key}_ptr", len(text) + 1)
    if ptr.ndim != 1 or not ptr.size or ptr[0] != 0 or ptr[-1] != len(text) or (np.diff(ptr) < 0).any():
        raise ValueError(key)
    return text, ptr


def labels_from_json(labels: Any) -> NDArray[Any]:
    """Return labels as an array; they must be different, and all strings or all integers.

    Examples
    --------
    >>> labels_from_json(["O", "B"])
    array(['O', 'B'], dtype='<U1')
    """
    if {type(item) for item in labels} not in ({str}, {int}, {bool}) or len(set(labels)) != len(labels):
        raise ValueError("labels")
    # All strings of a NumPy array take the length of the longest.
    if isinstance(labels[0], str) and len(labels) * max(map(len, labels)) > _MAX_CHARACTERS:
        raise ValueError("labels")
    return np.array(labels)


# Name of the class in the file -> module of the class. No other class is ever instantiated.
KINDS = {
    "ChainCRF": "intarsia.sequences",
    "RecordParser": "intarsia.sequences",
    "GridCRF": "intarsia.crf",
    "GraphCRF": "intarsia.crf",
    "CollectiveChain": "intarsia.collective",
    "EntityClusterer": "intarsia.clusters",
    "ThresholdClusterer": "intarsia.clusters",
    "SoftLogic": "intarsia.softlogic",
}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a fitted estimator from a file that its `save` method wrote; the file says which class.

    Loading runs no code and no inference, writes nothing, and needs no more memory for arrays than the file is long.

    Parameters
    ----------
    path : path
        File to read.

    Raises
    ------
    FileFormatError
        The file is damaged, not a model, or written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import intarsia
    >>> crf = intarsia.ChainCRF().fit([[["rainy"], ["sunny"]]], [["stay", "go"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crf.save(Path(folder, "weather.npz"))
    ...     back = intarsia.load(Path(folder, "weather.npz"))
    >>> type(back).__name__, back.predict([[["sunny"]]])[0].tolist()
    ('ChainCRF', ['go'])
    """
    from intarsia._files.model_file import kind_of_model

    kind = kind_of_model(path)
    if kind not in KINDS:
        raise FileFormatError(
            f"{path} holds a {kind:.60}, which this version cannot load. Expected one of {', '.join(KINDS)}; install a "
            f"newer version of Intarsia if the file is from one."
        )
    return getattr(import_module(KINDS[kind]), kind).load(path)
