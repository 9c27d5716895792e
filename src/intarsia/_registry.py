"""One registry for every kind of settings object: a name stands for a class with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from intarsia._validation import check_choice
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
    """

    def __init__(self, kind: str, package: str, classes: Mapping[str, str], base: type[T]) -> None:
        self.kind = kind
        self.package = package
        self.base = base
        self._classes = dict(classes)

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
