"""Checks shared by every room: each returns a clean array or raises an error that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia.exceptions import InvalidInputError

# Finite scores stay below this, so that sums of many of them, and their quotients by rho, are finite as well.
LARGEST_SCORE = 1e200
# Whole numbers stay below this, so that kernels can count to them.
LARGEST_INTEGER = 2**63 - 1

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_int_array(values: ArrayLike, name: str) -> IntArray:
    """Return `values` as a contiguous int64 array; refuse fractions and values that do not fit."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise InvalidInputError(f"{name}: expected whole numbers, got {_brief(values)}. {error}") from None
    whole = array.dtype.kind in "iub" or array.size == 0
    if whole or (array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(array == np.rint(array))):
        if array.dtype.kind in "uf" and array.size and np.abs(array).max() >= 2**63:
            raise InvalidInputError(f"{name}: {_brief(np.abs(array).max())} does not fit into 64 bits. Use less.")
        return np.asarray(array, dtype=np.int64, order="C")
    raise InvalidInputError(f"{name}: expected whole numbers, got dtype {array.dtype}.")


def as_float_array(values: ArrayLike, name: str) -> FloatArray:
    """Return `values` as a contiguous float64 array."""
    try:
        if np.asarray(values).dtype.kind not in "fiub":
            raise TypeError(f"Their type is {np.asarray(values).dtype}.")
        return np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: expected numbers, got {_brief(values)}. {error}") from None


def too_large(scores: FloatArray) -> bool:
    """Whether a finite score exceeds `LARGEST_SCORE`, or +inf is among them."""
    if not scores.size or (scores.max() <= LARGEST_SCORE and scores.min() >= -LARGEST_SCORE):
        return False
    return bool((scores > LARGEST_SCORE).any() or ((scores < -LARGEST_SCORE) & (scores > -np.inf)).any())


def frozen(array: NDArray[Any], given: Any = None) -> NDArray[Any]:
    """Return `array` marked read-only; copied first where its memory is the caller's (`given`)."""
    if array.flags.writeable:
        if array is given or array.base is not None:
            array = array.copy()
        array.flags.writeable = False
    return array


def as_generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return a Generator from a seed, a Generator (used as it is) or None (a fresh one)."""
    try:
        if isinstance(random_state, np.random.RandomState):
            raise TypeError("A RandomState is the legacy generator; use numpy.random.default_rng(seed)")
        if isinstance(random_state, (bool, np.bool_)):
            raise TypeError("A boolean is no seed")
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"random_state must be a whole number from 0 on, a numpy Generator or None, got {_brief(random_state)}. "
            f"{error}."
        ) from None


def as_seed(random_state: int | np.random.Generator | None) -> int:
    """Return an integer seed: the one given, or one drawn from a Generator (None: a fresh one)."""
    generator = as_generator(random_state)
    return int(random_state if isinstance(random_state, (int, np.integer)) else generator.integers(2**62))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: kernels are compiled for each kind of array, so what they only read is always of this kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_choice(value: str, choices: Iterable[str], name: str) -> str:
    """Return `value` if it is one of `choices`; otherwise name them all and the nearest one."""
    known = sorted(choices)
    if value in known:
        return value
    listed = ", ".join(repr(k) for k in known) or "none"
    near = max(known, key=lambda name: _likeness(str(value), name), default="")
    hint = f" Did you mean {near!r}?" if near and _likeness(str(value), near) > 0.4 else ""
    raise InvalidInputError(f"{name}={value!r} is not known. Known: {listed}.{hint}")


def _likeness(given: str, name: str) -> float:
    """How likely `given` is a misspelling of `name` (shared letters) or short for it ("trw", "jt")."""
    given, name = given.lower(), name.lower()
    taken, at = 0, 0
    for letter in given:
        at = name.find(letter, at) + 1
        if at == 0:
            break
        taken += 1
    return 0.5 * difflib.SequenceMatcher(None, given, name).ratio() + 0.5 * taken / max(len(given), 1)


def check_number(
    value: Any,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    integer: bool = False,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Raise unless `value` is a number inside the interval."""
    kind = "a whole number" if integer else "a number"
    numeric = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    good = numeric and abs(value) <= LARGEST_INTEGER if integer or isinstance(value, int) else numeric
    good = good and not np.isnan(value) and (not integer or float(value).is_integer())
    if good:
        above = value > low if open_low else value >= low
        below = value < high if open_high else value <= high
        good = bool(above and below)
    if not good:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        span = "" if (low, high) == (-np.inf, np.inf) else f" in {left}{low:g}, {high:g}{right}"
        raise InvalidInputError(f"{name} must be {kind}{span}, got {_brief(value)}.")


def check_n_jobs(value: Any, name: str) -> None:
    """Raise unless `value` is a number of workers that joblib takes."""
    if value is not None:
        check_number(value, name, integer=True)
        if value == 0:
            raise InvalidInputError(f"{name} is 0, which is no worker at all. Give 1 or more, or -1 for all cores.")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_sample_weight(given: Any, n: int) -> FloatArray:
    """A weight for each example, 1 by default."""
    if given is None:
        return np.ones(n)
    weights = as_float_array(given, "sample_weight")
    if weights.shape != (n,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}, but X has {n} examples. Give one number for each."
        )
    bad = ~(weights >= 0) | (weights == np.inf)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidInputError(f"sample_weight[{i}] is {weights[i]}. Weights are finite and at least 0.")
    return weights
