"""Names of the optimisers."""

from __future__ import annotations

from typing import Any

from intarsia._registry import Registry
from intarsia.learning.lbfgs import Optimizer

OPTIMIZERS: Registry[Optimizer] = Registry(
    "optimizer",
    "intarsia.learning",
    {"lbfgs": "LBFGS"},
    Optimizer,  # type: ignore[type-abstract]
)


def optimizer_names() -> list[str]:
    """Names of all optimisers.

    Examples
    --------
    >>> optimizer_names()
    ['lbfgs']
    """
    return OPTIMIZERS.names


def resolve_optimizer(optimizer: str | Optimizer, settings: dict[str, Any] | None = None) -> Optimizer:
    """Return a settings object from a name or an object, with further settings put in.

    Examples
    --------
    >>> resolve_optimizer("lbfgs", {"max_iter": 50}).max_iter
    50
    """
    return OPTIMIZERS.resolve(optimizer, settings)
