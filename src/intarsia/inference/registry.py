"""Names of the inference methods. Joining the registry is joining the contract tests and the docs' table."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from intarsia._validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.inference.method import InferenceMethod

# Name (also that of the module) -> class; modules are imported at first use.
_METHODS = {
    "brute_force": "BruteForce",
    "tree": "Tree",
    "junction_tree": "JunctionTree",
    "mean_field": "MeanField",
    "belief_propagation": "BeliefPropagation",
    "tree_reweighted": "TreeReweighted",
    "gibbs": "Gibbs",
    "icm": "ICM",
}


def method_names() -> list[str]:
    """Names of all inference methods, in the order of the docs' table.

    Examples
    --------
    >>> method_names()[:2]
    ['brute_force', 'tree']
    """
    return list(_METHODS)


def method_class(name: str) -> type[InferenceMethod]:
    """Class of a method by its name; an unknown name raises with the nearest one.

    Examples
    --------
    >>> method_class("brute_force").log_partition_is
    'exact'
    """
    check_choice(name, _METHODS, "method")
    module = import_module(f"intarsia.inference.{name}")
    found: type[InferenceMethod] = getattr(module, _METHODS[name])
    return found


def resolve_method(method: str | InferenceMethod, settings: dict[str, Any]) -> InferenceMethod:
    """Return a settings object from a name or an object, with further settings put in."""
    if isinstance(method, str):
        found = method_class(method)
        known = found._get_param_names()
        for key in settings:
            if key not in known:
                check_choice(key, known, f"{found.__name__}: setting")
        return found(**settings)
    if not isinstance(method, InferenceMethod):
        raise InvalidInputError(
            f"method must be a name ({', '.join(map(repr, _METHODS))}) or a settings object, "
            f"got {type(method).__name__}."
        )
    if not settings:
        return method
    from sklearn.base import clone

    changed: InferenceMethod = clone(method)
    for key in settings:
        if key not in changed.get_params():
            check_choice(key, changed.get_params(), f"{type(method).__name__}: setting")
    changed.set_params(**settings)
    return changed
