"""Features of a token as people write them (a dict, a list of strings), as names with values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from numbers import Real
from typing import Any

import numpy as np

from intarsia.exceptions import InvalidInputError

_ONLY_STRINGS = {str}


def named_values(token: Any) -> tuple[Sequence[str], list[float] | None]:
    """Names of the features of a token, and their values; None where every value is 1.

    The habits of CRFsuite's users are kept. In a dict, a number is the feature's value; True is 1; False and 0 are no
    feature; a string makes the indicator `name=value`; a list or set of strings makes one such indicator for each; a
    dict inside it puts `name:` before its own names. A list (tuple, set) of strings is a list of indicators, a string
    a single one.

    Raises
    ------
    InvalidInputError
        A value is no finite number, string or the like; the message does not know the token's position.

    Examples
    --------
    >>> named_values({"word": "cat", "length": 3, "first": True, "last": False})
    (['word=cat', 'length', 'first'], [1.0, 3.0, 1.0])
    >>> named_values(["bias", "word=cat"])
    (['bias', 'word=cat'], None)
    """
    if isinstance(token, Mapping):
        names: list[str] = []
        values: list[float] = []
        _expand(token, "", names, values)
        if values.count(1.0) == len(values):
            return names, None
        # One sum instead of a test for each value; finite values may still have an infinite sum.
        if not math.isfinite(sum(values)):
            for name, value in zip(names, values, strict=True):
                if not math.isfinite(value):
                    raise InvalidInputError(
                        f"feature {name!r} is {value}. Features must be finite; leave out what is missing."
                    )
        return names, values
    if isinstance(token, str):
        return [token], None
    if isinstance(token, np.ndarray) and token.dtype.kind in "UO":
        token = token.tolist()
    if isinstance(token, (list, tuple)):
        return (token if set(map(type, token)) <= _ONLY_STRINGS else [_as_name(name) for name in token]), None
    if isinstance(token, AbstractSet):
        return sorted(_as_name(name) for name in token), None  # the order of a set differs between processes
    raise InvalidInputError(
        f"expected the features of a token, a dict or a list of strings, got {type(token).__name__} {token!r:.60}."
    )


def _expand(token: Mapping[Any, Any], prefix: str, names: list[str], values: list[float]) -> None:
    for name, value in token.items():
        if not isinstance(name, str):
            raise InvalidInputError(f"a name is {name!r:.60}, of type {type(name).__name__}. Give strings as names.")
        kind = type(value)
        if kind is str:
            names.append(f"{prefix}{name}={value}")
            values.append(1.0)
        elif isinstance(value, (Real, np.bool_)):
            if value:
                names.append(prefix + name)
                values.append(_as_number(value, name))
        elif isinstance(value, Mapping):
            _expand(value, f"{prefix}{name}:", names, values)
        elif isinstance(value, (str, list, tuple, AbstractSet)):
            listed, _ = named_values(value)
            names += [f"{prefix}{name}={item}" for item in listed]
            values += [1.0] * len(listed)
        else:
            raise InvalidInputError(
                f"feature {name!r} is {value!r:.60}, of type {kind.__name__}. Expected a number, a string, True or "
                f"False, or a list of strings; leave out what is missing."
            )


def _as_number(value: Any, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidInputError(f"feature {name!r} is {value!r:.30}..., too large a number.") from None


def _as_name(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(
            f"a list of features holds {name!r:.60}, of type {type(name).__name__}. Expected strings; with values "
            f"give a dict."
        )
    return str(name)
