"""Base of all classes that hold settings: parameters as in scikit-learn, without importing scikit-learn.

Importing `sklearn.base` takes longer than importing everything else that a prediction needs. `Settings` has the
parameters of scikit-learn's `BaseEstimator` (`get_params`, `set_params`, `repr`, cloning). The other abilities
(metadata routing, tags, HTML in notebooks) are borrowed from `BaseEstimator` when they are used for the first time.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from typing import Any, Self

import numpy as np

from intarsia.exceptions import InvalidInputError

# Attributes of BaseEstimator that scikit-learn and notebooks look up.
_BORROWED = re.compile(r"\w*(?:request|routing|html|mimebundle|doc_link)\w*")
_LONGEST_REPR = 700


class Settings:
    """Base of estimators and of their parts: keyword arguments of the constructor are parameters.

    A subclass stores every argument of its constructor under the same name, unchanged, and checks it when it is used.
    Then `get_params`, `set_params` with nested names such as ``inference__max_iter``, scikit-learn's `clone` and
    `GridSearchCV` work.

    Examples
    --------
    >>> class Method(Settings):
    ...     def __init__(self, *, max_iter=100, tol=1e-6):
    ...         self.max_iter = max_iter
    ...         self.tol = tol
    >>> Method(max_iter=5)
    Method(max_iter=5)
    >>> Method().set_params(tol=0.1).get_params()
    {'max_iter': 100, 'tol': 0.1}
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, sorted."""
        return list(_parameters_of(cls))  # type: ignore[arg-type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default True
            Also return the parameters of parameters, as ``inference__max_iter``.
        """
        params: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, also those of a part (``inference__max_iter=50``), and return the object.

        Raises
        ------
        InvalidInputError
            A name is not a parameter, or a part has no parameters because it is None or a name. No parameter is
            changed then.
        """
        nested = self._check_params(params)
        for key, value in params.items():
            if "__" not in key:
                setattr(self, key, value)
        for name, inner in nested.items():
            getattr(self, name).set_params(**inner)
        return self

    def _check_params(self, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the parameters of each part; raise if a name is invalid, also of a part of a part."""
        names = self._get_param_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, delimiter, rest = key.partition("__")
            if name not in names:
                raise InvalidInputError(
                    f"Invalid parameter {name!r} for {type(self).__name__}. Valid parameters are: {names}. Pass one "
                    f"of these."
                )
            if delimiter:
                nested.setdefault(name, {})[rest] = value
        for name, inner in nested.items():
            component = params.get(name, getattr(self, name))
            if isinstance(component, type) or not hasattr(component, "set_params"):
                raise InvalidInputError(
                    f"{type(self).__name__}: {name}__{next(iter(inner))} cannot be set, because {name} is "
                    f"{component!r:.60}, not an object with parameters. Set {name} to such an object first."
                )
            if isinstance(component, Settings):
                component._check_params(inner)
        return nested

    def __repr__(self) -> str:
        """Return the constructor call with the parameters that differ from their defaults."""
        defaults = _parameters_of(type(self))  # type: ignore[arg-type]
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in defaults.items()
            if not _is_default(getattr(self, name), default)
        ]
        text = f"{type(self).__name__}({', '.join(changed)})"
        return text if len(text) <= _LONGEST_REPR else f"{text[: _LONGEST_REPR - 4]}...)"

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags of an estimator."""
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    def __getattr__(self, name: str) -> Any:
        """Borrow an attribute that only scikit-learn or a notebook looks up."""
        if _BORROWED.fullmatch(name):
            twin = _with_base_estimator(type(self))  # type: ignore[arg-type]
            attribute = inspect.getattr_static(twin, name, None)
            if attribute is not None:
                return attribute.__get__(self, twin) if hasattr(attribute, "__get__") else attribute
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def clone(value: Any) -> Any:
    """Return an unfitted copy with the same parameters; lists and tuples are copied item by item.

    Other objects are deep copies, as by scikit-learn's ``clone(value, safe=False)``.
    """
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)([clone(item) for item in value])
    if not hasattr(value, "get_params") or isinstance(value, type):
        return copy.deepcopy(value)
    params = {name: clone(inner) for name, inner in value.get_params(deep=False).items()}
    twin = type(value)(**params)
    if "_metadata_request" in vars(value):
        twin._metadata_request = copy.deepcopy(value._metadata_request)
    return twin


def check_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's `NotFittedError` if an attribute that `fit` sets is missing."""
    if attribute not in vars(estimator):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"This {type(estimator).__name__} instance is not fitted yet. Call fit first.")


@functools.cache
def _parameters_of(cls: Any) -> dict[str, Any]:
    """Return the default of each parameter of the constructor, sorted by name."""
    parameters = [] if cls.__init__ is object.__init__ else list(inspect.signature(cls).parameters.values())
    return {parameter.name: parameter.default for parameter in sorted(parameters, key=lambda item: item.name)}


def _is_default(value: Any, default: Any) -> bool:
    """Return whether a parameter has its default value; arrays never do."""
    if value is default:
        return True
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray) or type(value) is not type(default):
        return False
    if isinstance(value, Settings):
        return repr(value) == repr(default)
    try:
        return bool(value == default) or (value != value and default != default)
    except (TypeError, ValueError):
        return False


@functools.cache
def _with_base_estimator(cls: Any) -> Any:
    """Return a subclass that also inherits from `BaseEstimator`; its functions also work on objects of the class."""
    from sklearn.base import BaseEstimator

    return type(cls)(cls.__name__, (cls, BaseEstimator), {"__module__": cls.__module__, "__doc__": cls.__doc__})
