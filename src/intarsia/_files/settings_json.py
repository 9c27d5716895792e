"""Settings as JSON, and back: no class is made but those that the reader names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.error_context import errors_in
from intarsia._core.registry import registered_name
from intarsia.exceptions import InvalidInputError

# From a name and settings to an object.
Maker = Callable[[str, dict[str, Any]], Any]
Part = TypeVar("Part", bound=BaseEstimator)


def only(part: type[Part]) -> Callable[[str, dict[str, Any]], Part]:
    """What makes the objects of a place where one class stands alone, without a registry.

    Examples
    --------
    >>> from intarsia.learning.lbfgs import LBFGS
    >>> only(LBFGS)("LBFGS", {"max_iter": 5})
    LBFGS(max_iter=5)
    """

    def make(name: str, settings: dict[str, Any]) -> Part:
        if name != part.__name__:
            raise InvalidInputError(f"expected {part.__name__}, got {name!r:.60}.")
        return part(**settings)

    return make


def saved_settings(value: Any, makers: Mapping[str, Maker]) -> Any:
    """`settings_to_json`, tried at once: what could not be loaded is told to whoever saves.

    Examples
    --------
    >>> saved_settings({"tol": 0.1}, {})
    {'dict': [['tol', 0.1]]}
    """
    written = settings_to_json(value)
    try:
        settings_from_json(written, makers)
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidInputError(
            f"a setting can be written but not read again ({type(error).__name__}: {error}). Give one of the "
            f"names or objects that the estimator's documentation lists for it."
        ) from None
    return written


def settings_to_json(value: Any) -> Any:
    """A setting as JSON can hold it: objects by name, tuples, sets, dicts and infinite numbers as marked lists.

    Examples
    --------
    >>> from intarsia.learning.lbfgs import LBFGS
    >>> settings_to_json({0: LBFGS(max_iter=5)})
    {'dict': [[0, {'object': 'lbfgs', 'settings': {'max_iter': 5, 'memory': 10, 'tol': 1e-05}}]]}
    """
    # The name of a class of Intarsia would be a lie for one derived from it elsewhere.
    if isinstance(value, BaseEstimator) and type(value).__module__.startswith("intarsia."):
        name = getattr(value, "name", None) or registered_name(value) or type(value).__name__
        params, settings = value.get_params(deep=False), {}
        for key in sorted(params):
            with errors_in(f"{type(value).__name__}.{key}"):
                settings[key] = settings_to_json(params[key])
        return {"object": str(name), "settings": settings}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": [str(value)]}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [settings_to_json(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [settings_to_json(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [settings_to_json(item) for item in sorted(value, key=str)]}
    if isinstance(value, Mapping):
        return {"dict": [[settings_to_json(key), settings_to_json(value[key])] for key in value]}
    if isinstance(value, np.random.Generator):
        raise InvalidInputError("a numpy Generator cannot be saved. Set random_state to an integer seed before saving.")
    raise InvalidInputError(
        f"a setting of type {type(value).__name__} cannot be saved without running code at loading. Give "
        f"settings as names, numbers, strings, lists, dicts or objects of Intarsia."
    )


def settings_from_json(value: Any, makers: Mapping[str, Maker]) -> Any:
    """The setting that `settings_to_json` wrote.

    Parameters
    ----------
    value : object
        As JSON gives it.
    makers : dict of str -> function
        For each setting that may be an object ("" for members of lists), what makes it from name and settings: no other
        class is ever made.

    Examples
    --------
    >>> from intarsia.learning.registry import resolve_optimizer
    >>> made = {"object": "lbfgs", "settings": {"max_iter": 5}}
    >>> settings_from_json({"dict": [["optimizer", made]]}, {"optimizer": resolve_optimizer})
    {'optimizer': LBFGS(max_iter=5)}
    """
    return _decode(value, makers, "")


def _decode(value: Any, makers: Mapping[str, Maker], key: str) -> Any:
    if isinstance(value, list):
        return [_decode(item, makers, "") for item in value]
    if not isinstance(value, dict):
        return value
    if "object" in value:
        settings = {str(name): _decode(item, makers, str(name)) for name, item in value["settings"].items()}
        return makers[key](str(value["object"]), settings)
    (mark, items), *_ = value.items()
    if mark == "dict":
        return {_decode(name, makers, ""): _decode(item, makers, str(name)) for name, item in items}
    found = [_decode(item, makers, "") for item in items]
    if mark == "float":
        return float(found[0])
    return {"tuple": tuple, "set": frozenset}[mark](found)
