"""Fits as transactions: a fit stores all its results or none, and later changes of settings are detected."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from intarsia._core.settings import Settings
from intarsia.exceptions import InvalidInputError


def describe(value: Any, *leave_out: str) -> str:
    """Describe settings as a string that is the same in every process; arrays appear as a hash of their content."""
    if isinstance(value, Settings):
        params = value.get_params(deep=False)
        inner = ", ".join(f"{key}={describe(params[key])}" for key in sorted(params) if key not in leave_out)
        return f"{type(value).__name__}({inner})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {describe(item)}' for key, item in value.items())}}}"
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()}"
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__ and hasattr(value, "__dict__"):  # the default repr is a memory address
        return f"{type(value).__name__}({', '.join(f'{key}={describe(item)}' for key, item in vars(value).items())})"
    return repr(value)


Method = TypeVar("Method", bound=Callable[..., Any])


def transaction(method: Method) -> Method:
    """Decorate a method so that it changes its object completely or not at all: if it raises, attributes are restored.

    Attributes are restored by reference, so the method must not change the old values in place: it computes new arrays
    and assigns them. An interrupted fit that returns its best result is not an error, so the result is stored.

    Examples
    --------
    >>> class Model:
    ...     @transaction
    ...     def fit(self, x):
    ...         self.x_ = x
    ...         self.inverse_ = 1 / x
    >>> model = Model()
    >>> model.fit(2)
    >>> try:
    ...     model.fit(0)
    ... except ZeroDivisionError:
    ...     print(model.x_, model.inverse_)
    2 0.5
    """

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        attributes = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(attributes)
            raise

    return run  # type: ignore[return-value]


_SIMPLE_TYPES = {type(None), bool, int, str}


def _is_certainly_equal(value: Any, other: Any) -> bool:
    """Return whether simple values, lists of them and dataclasses of them are equal; False for other types.

    Examples
    --------
    >>> _is_certainly_equal([1, ("a", None)], [1, ("a", None)]), _is_certainly_equal([1], [True])
    (True, False)
    """
    kind = type(value)
    if type(other) is not kind:
        return False
    if kind in _SIMPLE_TYPES:
        return bool(value == other)
    if kind is list or kind is tuple:
        return len(value) == len(other) and all(map(_is_certainly_equal, value, other))
    fields = getattr(kind, "__dataclass_fields__", None)
    return fields is not None and all(_is_certainly_equal(getattr(value, f), getattr(other, f)) for f in fields)


def _plain(value: Any, registry: Any) -> Any:
    """Return one of several equivalent values: an object for its name, None for an empty list, the only item of one."""
    if isinstance(value, str) and registry is not None and value in registry.names:
        return registry.resolve(value)
    if isinstance(value, (list, tuple, dict)) and not value:
        return None
    return _plain(value[0], registry) if isinstance(value, (list, tuple)) and len(value) == 1 else value


class SettingsOfFit:
    """Copy of the settings that a fitted model depends on, to detect that they were changed after the fit.

    Parameters
    ----------
    estimator : Settings
        Estimator whose settings are copied.
    names : tuple of str
        Names of the settings.

    Examples
    --------
    >>> from intarsia import ChainCRF
    >>> crf = ChainCRF(scheme="bio")
    >>> fitted = SettingsOfFit(crf, ("scheme", "forbidden"))
    >>> fitted.changed(crf), fitted.changed(crf.set_params(scheme=None))
    (None, 'scheme')
    """

    def __init__(self, estimator: Any, names: tuple[str, ...]) -> None:
        self.values = {name: copy.deepcopy(getattr(estimator, name)) for name in names}

    def changed(self, estimator: Any) -> str | None:
        """Return the name of the first setting that differs from the copy, or None."""
        for name, value in self.values.items():
            current = getattr(estimator, name)
            if _is_certainly_equal(value, current):
                continue  # the usual case, many times faster than descriptions
            registry = getattr(estimator, "_parts", {}).get(name)
            if describe(_plain(current, registry)) != describe(_plain(value, registry)):
                return name
        return None

    def check(self, estimator: Any) -> None:
        """Raise if a setting was changed after the fit."""
        name = self.changed(estimator)
        if name is not None:
            keep = " (freeze_weights=True keeps the weights)" if name in ("energies", "psi") else ""
            raise InvalidInputError(
                f"{name} was changed after fit, so the fitted model does not use it. Call fit again{keep}, or set "
                f"{name} back to its old value."
            )
