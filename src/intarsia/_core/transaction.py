"""Fits as transactions: everything is stored or nothing, and settings changed after a fit are detected."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia.exceptions import InvalidInputError


def describe(value: Any, *leave_out: str) -> str:
    """Settings in words, the same for the same settings in every process; arrays by their content."""
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        inner = ", ".join(f"{key}={describe(params[key])}" for key in sorted(params) if key not in leave_out)
        return f"{type(value).__name__}({inner})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {describe(one)}' for key, one in value.items())}}}"
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()}"
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__ and hasattr(value, "__dict__"):  # that shows only where it is stored
        return f"{type(value).__name__}({', '.join(f'{key}={describe(one)}' for key, one in vars(value).items())})"
    return repr(value)


Method = TypeVar("Method", bound=Callable[..., Any])


def transaction(method: Method) -> Method:
    """Make a method that changes its object all or nothing: if it raises, all attributes are as before the call.

    Attributes are restored by reference, so the method must not change the old values in place: it computes new arrays
    and assigns them. An interrupted fit that keeps its best result returns normally, and its result is stored.

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
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run  # type: ignore[return-value]


class SettingsOfFit:
    """Settings that are part of a fitted model, so that a later change cannot take effect without another fit.

    Parameters
    ----------
    estimator : BaseEstimator
        Its settings are copied.
    names : tuple of str
        Which.

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
        """Name of the first setting that is not as it was."""
        for name, value in self.values.items():
            if describe(getattr(estimator, name)) != describe(value):
                return name
        return None

    def check(self, estimator: Any) -> None:
        """Raise if a setting was changed after the fit."""
        name = self.changed(estimator)
        if name is not None:
            keep = " (freeze_weights=True keeps the weights)" if name in ("energies", "psi") else ""
            raise InvalidInputError(
                f"{name} was changed after fit, so it is not part of this model. Call fit again{keep}, or set "
                f"{name} back to what it was."
            )
