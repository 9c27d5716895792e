"""Registries of settings objects: a name stands for a class with its default settings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Mapping from names to the classes of one kind, imported at first use.

    The contract tests and the tables in the documentation read the registries, so a registered class appears in both.

    Parameters
    ----------
    kind : str
        Word for a name in messages: "method", "loss", "gradient".
    package : str
        Package of the modules.
    classes : dict
        Name -> "Class" in a module that has the same name, or name -> "module:Class".
    base : type
        Base class of all registered classes.

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
        self._loaded: dict[str, type[T]] = {}
        _REGISTRIES.append(self)

    @property
    def names(self) -> list[str]:
        """All names, in the order of the tables in the documentation."""
        return list(self._classes)

    def get(self, name: str) -> type[T]:
        """Return the class of a name; an unknown name raises an error that suggests the most similar one."""
        if isinstance(name, str) and name in self._loaded:
            return self._loaded[name]
        check_choice(name, self._classes, self.kind)
        module, _, class_name = self._classes[name].rpartition(":")
        cls: type[T] = getattr(import_module(f"{self.package}.{module or name}"), class_name)
        self._loaded[name] = cls
        return cls

    def name_of(self, value: Any) -> str | None:
        """Return the name of an object's class, or None if the class is not registered here."""
        for name, path in self._classes.items():
            if path.rpartition(":")[2] == type(value).__name__ and type(value) is self.get(name):
                return name
        return None

    def resolve(self, value: str | T, settings: Mapping[str, Any] | None = None) -> T:
        """Return a settings object from a name or an object, with further settings applied to a copy."""
        settings = settings or {}
        if isinstance(value, str):
            cls: Any = self.get(value)
            for key in settings:
                check_choice(key, cls._get_param_names(), f"{cls.__name__}: setting")
            instance: T = cls(**settings)
            return instance
        if not isinstance(value, self.base):
            raise InvalidInputError(
                f"{self.kind} must be a name ({', '.join(map(repr, self.names))}) or a settings object, "
                f"got {type(value).__name__}."
            )
        if not settings:
            return value
        from intarsia._core.settings import clone

        changed: Any = clone(value)
        for key in settings:
            check_choice(key, changed.get_params(), f"{type(value).__name__}: setting")
        changed.set_params(**settings)
        return changed


_REGISTRIES: list[Registry[Any]] = []


def registered_name(value: Any) -> str | None:
    """Return the name under which any registry holds the class of an object, or None.

    Examples
    --------
    >>> from intarsia.learning.registry import OPTIMIZERS
    >>> registered_name(OPTIMIZERS.resolve("lbfgs")), registered_name("lbfgs")
    ('lbfgs', None)
    """
    names = (registry.name_of(value) for registry in _REGISTRIES)
    return next((name for name in names if name is not None), None)


Self = TypeVar("Self", bound="NamedParts")
# Registry of the classes of each setting that may be an object or a list of objects.
Parts = Mapping[str, Registry[Any]]


class NamedParts:
    """Mixin before `BaseEstimator` for settings that are objects of a registry, or their names.

    `_parts` declares these settings once. Then `set_params(optimizer__tol=...)` also works if `optimizer` is a name,
    which is replaced by its object, and model files can store the objects.
    """

    _parts: ClassVar[Parts] = {}
    """Registry of the classes of each setting that may be an object or a list of objects."""

    def _part(self, name: str, settings: Mapping[str, Any] | None = None) -> Any:
        """Return the object of the setting `name`, with further settings applied."""
        return self._parts[name].resolve(getattr(self, name), settings)

    def _named_part(self, name: str, value: str) -> Any:
        """Return the object for a name when a nested setting is set."""
        return self._parts[name].resolve(value)

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters; those of nested objects as `part__setting`, also where the part is a name."""
        changed: Self = super().set_params(**self._with_named_parts(params))  # type: ignore[misc]
        return changed

    def _check_params(self, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Check parameters as `Settings` does, after names of parts are replaced by their objects."""
        nested: dict[str, dict[str, Any]] = super()._check_params(self._with_named_parts(params))  # type: ignore[misc]
        return nested

    def _with_named_parts(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters with objects for those parts that are names and whose parameters are set."""
        objects = {}
        for outer in {key.partition("__")[0] for key in params if "__" in key} & set(self._parts):
            value = params.get(outer, getattr(self, outer))
            if isinstance(value, str):
                objects[outer] = self._named_part(outer, value)
        return params | objects
