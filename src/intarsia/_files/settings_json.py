"""Conversion of settings to JSON and back; only classes of the registries are ever instantiated."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.registry import Parts, Registry, registered_name
from intarsia._core.settings import Settings
from intarsia.exceptions import InvalidInputError


def saved_settings(value: Any, parts: Parts) -> Any:
    """Convert settings to JSON and check at once that they can be loaded again.

    Examples
    --------
    >>> saved_settings({"tol": 0.1}, {})
    {'dict': [['tol', 0.1]]}
    """
    document = settings_to_json(value)
    try:
        settings_from_json(document, parts)
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidInputError(
            f"a setting can be written but not read again ({type(error).__name__}: {error}). Pass one of the "
            f"names or objects that the estimator's documentation lists for it."
        ) from None
    return document


def settings_to_json(value: Any) -> Any:
    """Convert a setting to JSON: objects by name; tuples, sets, dicts and infinite numbers as marked lists.

    Examples
    --------
    >>> from intarsia.learning.lbfgs import LBFGS
    >>> settings_to_json({0: LBFGS(max_iter=5)})
    {'dict': [[0, {'object': 'lbfgs', 'settings': {'max_iter': 5, 'memory': 10, 'tol': 1e-05}}]]}
    """
    # A class derived from ours elsewhere must not be saved under the name of our class.
    if isinstance(value, Settings) and type(value).__module__.startswith("intarsia."):
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
        f"a setting of type {type(value).__name__} cannot be saved without running code at loading. Pass "
        f"settings as names, numbers, strings, lists, dicts or objects of Intarsia."
    )


def settings_from_json(value: Any, parts: Parts) -> Any:
    """Return the setting that `settings_to_json` wrote.

    Parameters
    ----------
    value : object
        Parsed JSON.
    parts : dict of str -> Registry
        Registry of each setting that may be an object; those of nested objects are in the `_parts` of their class. No
        other class is ever instantiated.

    Examples
    --------
    >>> from intarsia.learning.registry import OPTIMIZERS
    >>> optimizer = {"object": "lbfgs", "settings": {"max_iter": 5}}
    >>> settings_from_json({"dict": [["optimizer", optimizer]]}, {"optimizer": OPTIMIZERS})
    {'optimizer': LBFGS(max_iter=5)}
    """
    (_, items), *_ = value.items()
    return {str(name): _decode(item, parts.get(str(name))) for name, item in items}


def _decode(value: Any, registry: Registry[Any] | None) -> Any:
    """Decode a value that `settings_to_json` wrote; objects come from `registry`."""
    if isinstance(value, list):
        return [_decode(item, registry) for item in value]
    if not isinstance(value, dict):
        return value
    if "object" in value:
        if registry is None:
            raise InvalidInputError(
                f"the file has an object {value['object']!r:.60} in a setting that takes none. Save the model again."
            )
        name = str(value["object"])
        parts: Parts = getattr(registry.get(name), "_parts", {})
        settings = {str(key): _decode(item, parts.get(str(key))) for key, item in value["settings"].items()}
        return registry.resolve(name, settings)
    (mark, items), *_ = value.items()
    if mark == "dict":
        return {_decode(key, None): _decode(item, registry) for key, item in items}
    decoded = [_decode(item, registry) for item in items]
    if mark == "float":
        return float(decoded[0])
    return {"tuple": tuple, "set": frozenset}[mark](decoded)
