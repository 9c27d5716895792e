"""Input checks shared by all packages: each returns a valid array or raises an error that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia.exceptions import InvalidInputError

# Limit of finite scores, so that sums of many scores and their quotients by rho are finite as well.
LARGEST_SCORE = 1e200
# Limit of integers, so that kernels can count to them.
LARGEST_INTEGER = 2**63 - 1

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_int_array(values: ArrayLike, name: str) -> IntArray:
    """Return `values` as a contiguous int64 array; raise for fractions and for values beyond 64 bits."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise InvalidInputError(f"{name}: expected integers, got {_brief(values)}. {error}") from None
    is_integer = array.dtype.kind in "iub" or array.size == 0
    if is_integer or (array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(array == np.rint(array))):
        if array.dtype.kind in "uf" and array.size and np.abs(array).max() >= 2**63:
            raise InvalidInputError(
                f"{name}: {_brief(np.abs(array).max())} does not fit into 64 bits. Use smaller numbers."
            )
        return np.asarray(array, dtype=np.int64, order="C")
    raise InvalidInputError(f"{name}: expected integers, got dtype {array.dtype}.")


def as_float_array(values: ArrayLike, name: str) -> FloatArray:
    """Return `values` as a contiguous float64 array."""
    try:
        if np.asarray(values).dtype.kind not in "fiub":
            raise TypeError(f"The values have type {np.asarray(values).dtype}.")
        return np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: expected numbers, got {_brief(values)}. {error}") from None


def too_large(scores: FloatArray) -> bool:
    """Return whether a finite score exceeds `LARGEST_SCORE`, or a score is +inf."""
    if not scores.size or (scores.max() <= LARGEST_SCORE and scores.min() >= -LARGEST_SCORE):
        return False
    return bool((scores > LARGEST_SCORE).any() or ((scores < -LARGEST_SCORE) & (scores > -np.inf)).any())


def frozen(array: NDArray[Any], original: Any = None) -> NDArray[Any]:
    """Return `array` as read-only; it is copied first if its memory belongs to the caller (`original`)."""
    if array.flags.writeable:
        if array is original or array.base is not None:
            array = array.copy()
        array.flags.writeable = False
    return array


def as_generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return a Generator from a seed, a Generator (returned unchanged) or None (a new one)."""
    try:
        if isinstance(random_state, np.random.RandomState):
            raise TypeError("A RandomState is the legacy generator. Use numpy.random.default_rng(seed)")
        if isinstance(random_state, (bool, np.bool_)):
            raise TypeError("A boolean is not a seed")
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"random_state must be an integer of at least 0, a numpy Generator or None, got {_brief(random_state)}. "
            f"{error}."
        ) from None


def as_seed(random_state: int | np.random.Generator | None) -> int:
    """Return an integer seed: `random_state` itself if it is an integer, otherwise a number drawn from a Generator."""
    generator = as_generator(random_state)
    return int(random_state if isinstance(random_state, (int, np.integer)) else generator.integers(2**62))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; Numba compiles a kernel for each kind of array, so that inputs are of one kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_choice(value: str, choices: Iterable[str], name: str) -> str:
    """Return `value` if it is one of `choices`; otherwise raise an error that lists them and suggests the nearest."""
    names = list(choices)
    if value in names:
        return value
    names.sort()
    names_text = ", ".join(repr(k) for k in names) or "none"
    nearest = max(names, key=lambda name: _similarity(str(value), name), default="")
    hint = f" Did you mean {nearest!r}?" if nearest and _similarity(str(value), nearest) > 0.4 else ""
    raise InvalidInputError(f"{name}={value!r} is not known. Known: {names_text}.{hint}")


def _similarity(word: str, name: str) -> float:
    """Return how likely `word` is a misspelling of `name` (common letters) or its abbreviation ("trw", "jt")."""
    word, name = word.lower(), name.lower()
    n_matched, position = 0, 0
    for letter in word:
        position = name.find(letter, position) + 1
        if position == 0:
            break
        n_matched += 1
    return 0.5 * difflib.SequenceMatcher(None, word, name).ratio() + 0.5 * n_matched / max(len(word), 1)


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
    kind = "an integer" if integer else "a number"
    numeric = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    valid = numeric and abs(value) <= LARGEST_INTEGER if integer or isinstance(value, int) else numeric
    valid = valid and not np.isnan(value) and (not integer or float(value).is_integer())
    if valid:
        above_low = value > low if open_low else value >= low
        below_high = value < high if open_high else value <= high
        valid = bool(above_low and below_high)
    if not valid:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        span = "" if (low, high) == (-np.inf, np.inf) else f" in {left}{low:g}, {high:g}{right}"
        raise InvalidInputError(f"{name} must be {kind}{span}, got {_brief(value)}.")


def check_n_jobs(value: Any, name: str) -> None:
    """Raise unless `value` is a valid number of workers for joblib."""
    if value is not None:
        check_number(value, name, integer=True)
        if value == 0:
            raise InvalidInputError(f"{name} is 0, but work needs a worker. Pass 1 or more, or -1 for all cores.")


def _brief(value: Any) -> str:
    """Return the repr of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return the weight of each example as an array, 1 by default."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_float_array(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}, but X has {n} examples. Pass one number for each example."
        )
    bad = ~(weights >= 0) | (weights == np.inf)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidInputError(f"sample_weight[{i}] is {weights[i]}. Weights must be finite and at least 0.")
    return weights
