"""`save` and `load` of every estimator, and `intarsia.load` for a file of any kind."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point
from intarsia._core.registry import Parts
from intarsia._core.status import Status
from intarsia._files.model_file import DAMAGE, damaged, read_model, write_model
from intarsia._files.settings_json import saved_settings, settings_from_json
from intarsia.exceptions import FileFormatError, InvalidInputError, NotSupportedError, TooLargeError

Arrays = dict[str, NDArray[Any]]
# What JSON holds, and arrays by name.
Content = tuple[dict[str, Any], Arrays]
# A damaged file must not ask for an array of labels that no memory holds.
_MOST_CHARACTERS = 5 * 10**7


class SavedModel(ABC):
    """Mixin before `BaseEstimator`: the model as one file without pickle, and back.

    An estimator tells what it has learned (`_to_file`) and takes it back (`_from_file`); settings, notes and errors are
    dealt with here. `intarsia.load` knows the kinds of files by the names of their classes.
    """

    _learned: ClassVar[str | None] = "weights_"
    """Attribute without which there is nothing to save; None for models that need no fit."""
    _settings_apart: ClassVar[tuple[str, ...]] = ()
    """Settings that no JSON holds: `_to_file` and `_from_file` deal with them."""
    _parts: ClassVar[Parts]
    """Registries of the settings that may be objects; see `NamedParts`."""
    _needs_labels: ClassVar[bool] = True
    """Whether `fit` needs y."""
    _takes_matrix: ClassVar[bool] = False
    """Whether X is a 2-D array of numbers, as scikit-learn's common checks would send, NaN included."""
    notes_: Any

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what the estimator takes and needs."""
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.requires_fit = self._learned is not None
        tags.target_tags.required = self._needs_labels
        tags.input_tags.two_d_array = tags.input_tags.allow_nan = self._takes_matrix
        return tags

    @abstractmethod
    def _to_file(self) -> Content:
        """What was learned."""

    @abstractmethod
    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        """Take back what `_to_file` told, on a new model with its settings; whatever does not fit raises anything."""

    @entry_point
    def save(self, path: str | os.PathLike[str], notes: Any = None) -> None:
        """Write the model to one npz file, without pickle; it appears when all is written.

        Parameters
        ----------
        path : path
            The file.
        notes : dict, optional
            Anything that JSON can hold, for whoever loads the model: `notes_` of the loaded one.
        """
        kind = type(self).__name__
        if self._learned is not None:
            check_is_fitted(self, self._learned)
        settings: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        kept = {name: settings[name] for name in settings if name not in self._settings_apart}
        about, arrays = self._to_file()
        check_json(notes, "notes")
        about = {"settings": saved_settings(kept, self._parts), **about, "notes": notes}
        write_model(path, kind, about, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A model from a file that `save` wrote; loading can never run code.

        Raises
        ------
        FileFormatError
            The file is damaged, something else, or of a newer version.
        """
        about, arrays = read_model(path, cls.__name__)
        try:
            settings = settings_from_json(about["settings"], cls._parts)
            model = cls(**dict.fromkeys(cls._settings_apart), **settings)
            model._from_file(about, arrays)
            model.notes_ = about["notes"]
        except FileFormatError:
            raise
        except (NotSupportedError, TooLargeError, *DAMAGE):
            raise damaged(path) from None
        return model


def check_json(value: Any, name: str) -> None:
    """Raise for what JSON cannot hold.

    Examples
    --------
    >>> check_json({"columns": 3}, "notes")
    """
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name} cannot be written as JSON: {error}.") from None


def course_to_file(n_iter: int, status: Status, history: Mapping[str, NDArray[Any]]) -> Content:
    """How a fit went, for `_to_file`.

    Examples
    --------
    >>> course_to_file(3, Status.CONVERGED, {"risk": np.ones(2)})
    ({'n_iter': 3, 'status': 'CONVERGED', 'history': ['risk']}, {'history_risk': array([1., 1.])})
    """
    about = {"n_iter": int(n_iter), "status": status.name, "history": sorted(history)}
    return about, {f"history_{name}": np.asarray(values) for name, values in history.items()}


def course_from_file(about: dict[str, Any], arrays: Arrays) -> tuple[int, Status, Arrays]:
    """What `course_to_file` was given.

    Examples
    --------
    >>> course_from_file(*course_to_file(3, Status.CONVERGED, {"risk": np.ones(2)}))
    (3, <Status.CONVERGED: 'reached its tolerance'>, {'risk': array([1., 1.])})
    """
    history = {str(name): arrays[f"history_{name}"] for name in about["history"]}
    if any(values.dtype.kind not in "biuf" for values in history.values()):
        raise ValueError("history")
    return int(about["n_iter"]), Status[about["status"]], history


def number_to_json(value: float) -> float | None:
    """A number, or None where it is not finite, which JSON cannot say."""
    return float(value) if np.isfinite(value) else None


def number_from_json(value: Any) -> float:
    """The number; NaN for None."""
    return np.nan if value is None else float(value)


def finite_array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A float array of a file, which must have this shape and finite values.

    Examples
    --------
    >>> finite_array({"weights": np.arange(2)}, "weights", (2,))
    array([0., 1.])
    """
    found = arrays[name].astype(np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(name)
    return found


def index_array(arrays: Arrays, name: str, n: int) -> NDArray[np.int64]:
    """An array of whole numbers of a file, all within 0 .. n - 1: kernels take them for indices without looking.

    Examples
    --------
    >>> index_array({"at": np.array([1, 0])}, "at", 2)
    array([1, 0])
    """
    found = arrays[name]
    if found.dtype.kind not in "iu" or (found.size and not (found.min() >= 0 and found.max() < n)):
        raise ValueError(name)
    return found.astype(np.int64)


def index_rows(arrays: Arrays, ptr: str, idx: str, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A pattern of a file as CSR has it: where rows begin and end, and their columns, all within 0 .. n - 1.

    Examples
    --------
    >>> index_rows({"ptr": np.array([0, 2]), "idx": np.array([1, 0])}, "ptr", "idx", 2)
    (array([0, 2]), array([1, 0]))
    """
    columns = index_array(arrays, idx, n)
    begins = index_array(arrays, ptr, columns.size + 1)
    if columns.ndim != 1 or begins.ndim != 1 or begins[0] != 0 or begins[-1] != columns.size:
        raise ValueError(ptr)
    if (np.diff(begins) < 0).any():
        raise ValueError(ptr)
    return begins, columns


def labels_from_json(given: Any) -> NDArray[Any]:
    """Different labels, all texts or all whole numbers, as an array.

    Examples
    --------
    >>> labels_from_json(["O", "B"])
    array(['O', 'B'], dtype='<U1')
    """
    if {type(label) for label in given} not in ({str}, {int}, {bool}) or len(set(given)) != len(given):
        raise ValueError("labels")
    # In an array all are as long as the longest.
    if isinstance(given[0], str) and len(given) * max(map(len, given)) > _MOST_CHARACTERS:
        raise ValueError("labels")
    return np.array(given)


# Kind in the file -> where its class is; no other class is ever made.
KINDS = {
    "ChainCRF": "intarsia.sequences",
    "GridCRF": "intarsia.crf",
    "GraphCRF": "intarsia.crf",
    "CollectiveChain": "intarsia.collective",
    "EntityClusterer": "intarsia.clusters",
    "ThresholdClusterer": "intarsia.clusters",
    "SoftLogic": "intarsia.softlogic",
}


def load(path: str | os.PathLike[str]) -> Any:
    """A fitted estimator from the file that its `save` wrote, whatever its class.

    Loading runs no code and no inference, writes nothing, and its arrays take no more memory than the file is long.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    FileFormatError
        The file is damaged, no model, or written by a newer version.

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
            f"{path} holds a {kind:.60}, which this version does not know. It knows {', '.join(KINDS)}."
        )
    return getattr(import_module(KINDS[kind]), kind).load(path)
