"""Hashable keys of states, so that states of any type can be compared and counted."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np


def state_key(state: Any) -> Hashable:
    """Return a hashable key of a state; equal states have equal keys.

    Arrays, lists, tuples, sets and dicts of these are compared by their contents. An object of another type that is not
    hashable is compared by its attributes.

    Parameters
    ----------
    state : object
        State of a world, such as an array or a dict of lists.

    Examples
    --------
    >>> import numpy as np
    >>> state_key(np.array([1, 2])) == state_key([1, 2])
    True
    >>> state_key({"tags": [0, 1]}) == state_key({"tags": [0, 2]})
    False
    """
    if isinstance(state, np.ndarray):
        return state_key(state.tolist())
    if isinstance(state, dict):
        return frozenset((key, state_key(value)) for key, value in state.items())
    if isinstance(state, (list, tuple)):
        return tuple(state_key(value) for value in state)
    if isinstance(state, (set, frozenset)):
        return frozenset(state_key(value) for value in state)
    is_compared_by_identity = not isinstance(state, Hashable) or type(state).__hash__ is object.__hash__
    if is_compared_by_identity and hasattr(state, "__dict__"):
        return type(state).__name__, state_key(vars(state))
    key: Hashable = state
    return key
