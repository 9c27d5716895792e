"""Registries of settings objects: a name stands for a class with its defaults, in parameters and in nested settings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of the settings objects of one kind.

    Joining it is joining the contract tests and the docs' tables, which read it. Modules are imported at first use.

    Parameters
    ----------
    kind : str
        What a name is called in messages: "method", "loss", "gradient".
    package : str
        Where the modules are.
    classes : dict
        Name -> class, in a module of the same name as the name; or name -> "module:Class".
    base : type
        What every one of them is.

    Examples
    --------
    >>> from intarsia.learning.registry import OPTIMIZERS
    >>> OPTIMIZERS.names
    ['lbfgs', 'sgd', 'adam']
    >>> OPTIMIZERS.resolve("lbfgs", {"max_iter": 50})
    LBFGS(max_iter=50)
    """

    def __init__(self, kind: str, package: str, classes: Mapping[str, str], base: type[T]) -> None:
        self.kind = kind
        self.package = package
        self.base = base
        self._classes = dict(classes)
        _REGISTRIES.append(self)

    @property
    def names(self) -> list[str]:
        """All names, in the order of the docs' table."""
        return list(self._classes)

    def get(self, name: str) -> type[T]:
        """Class of a name; an unknown one raises with the nearest."""
        check_choice(name, self._classes, self.kind)
        module, _, class_name = self._classes[name].rpartition(":")
        found: type[T] = getattr(import_module(f"{self.package}.{module or name}"), class_name)
        return found

    def name_of(self, value: Any) -> str | None:
        """Name of the class of an object; None for a class that is not registered here."""
        for name, place in self._classes.items():
            if place.rpartition(":")[2] == type(value).__name__ and type(value) is self.get(name):
                return name
        return None

    def resolve(self, given: str | T, settings: Mapping[str, Any] | None = None) -> T:
        """Return a settings object from a name or an object, with further settings put in; nothing given is changed."""
        settings = settings or {}
        if isinstance(given, str):
            found: Any = self.get(given)
            for key in settings:
                check_choice(key, found._get_param_names(), f"{found.__name__}: setting")
            made: T = found(**settings)
            return made
        if not isinstance(given, self.base):
            raise InvalidInputError(
                f"{self.kind} must be a name ({', '.join(map(repr, self.names))}) or a settings object, "
                f"got {type(given).__name__}."
            )
        if not settings:
            return given
        from sklearn.base import clone

        changed: Any = clone(given)
        for key in settings:
            check_choice(key, changed.get_params(), f"{type(given).__name__}: setting")
        changed.set_params(**settings)
        return changed


_REGISTRIES: list[Registry[Any]] = []


def registered_name(value: Any) -> str | None:
    """Name under which a registry holds the class of an object; None for a class of no registry.

    Examples
    --------
    >>> from intarsia.energies import Hinge
    >>> registered_name(Hinge(2.0)), registered_name("hinge")
    ('hinge', None)
    """
    names = (registry.name_of(value) for registry in _REGISTRIES)
    return next((name for name in names if name is not None), None)


Self = TypeVar("Self", bound="NamedParts")
# For each setting that may be an object, or a list of objects, the registry of its classes.
Parts = Mapping[str, Registry[Any]]


class NamedParts:
    """Mixin before `BaseEstimator` for settings that are objects of a registry, or their names.

    `_parts` declares them once. `set_params(optimizer__tol=...)` then works where `optimizer` is a name (which is
    replaced by the object that it stands for), and model files can hold the objects.
    """

    _parts: ClassVar[Parts] = {}
    """For each setting that may be an object, or a list of objects, the registry of their classes."""

    def _part(self, name: str, settings: Mapping[str, Any] | None = None) -> Any:
        """Object that the setting `name` stands for, with further settings put in."""
        return self._parts[name].resolve(getattr(self, name), settings)

    def _named_part(self, name: str, value: str) -> Any:
        """Object for a name, where a nested setting needs one."""
        return self._parts[name].resolve(value)

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters; those of nested objects as `part__setting`, also where a name stands for the part."""
        for outer in {key.partition("__")[0] for key in params if "__" in key} & set(self._parts):
            part = params.get(outer, getattr(self, outer))
            if isinstance(part, str):
                params[outer] = self._named_part(outer, part)
        changed: Self = super().set_params(**params)  # type: ignore[misc]
        return changed
