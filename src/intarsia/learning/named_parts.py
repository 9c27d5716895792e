"""Nested settings of parts that stand there as a name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

Self = TypeVar("Self", bound="NamedParts")


class NamedParts(ABC):
    """Mixin before `BaseEstimator`: `set_params(optimizer__tol=...)` also where `optimizer` is a name.

    The name is then replaced by the object that it stands for, so that the setting has a place.
    """

    @abstractmethod
    def _resolvers(self) -> dict[str, Callable[[Any], Any]]:
        """For each part, what turns its name into an object."""

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters; those of nested objects as `part__setting`, also where a name stands for the part."""
        resolvers = self._resolvers()
        for outer in {key.partition("__")[0] for key in params if "__" in key} & set(resolvers):
            part = params.get(outer, getattr(self, outer))
            if isinstance(part, str):
                params[outer] = resolvers[outer](part)
        changed: Self = super().set_params(**params)  # type: ignore[misc]
        return changed
