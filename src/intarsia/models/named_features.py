"""Named features of tokens as flat arrays, read without SciPy and Numba, which take long to import."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, repeat
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.models.feature_matrix import is_sparse


class FeatureRows(NamedTuple):
    """Sparse features of positions: the entries of row r are those from `row_ptr[r]` to `row_ptr[r + 1]`.

    `values` is empty if the value of every entry is 1.
    """

    columns: NDArray[np.int32]
    values: FloatArray
    row_ptr: IntArray


_ONLY_STRINGS = {str}
_ONLY_LISTS = {list}


def named_values(token: Any) -> tuple[Sequence[str], list[float] | None]:
    """Return the names of the features of a token and their values, or None in place of values that are all 1.

    The conventions are those of python-crfsuite. In a dict, a number is the value of a feature; True is 1; False and 0
    mean no feature; a string becomes the indicator `name=value`; a list or set of strings becomes one such indicator
    each; a nested dict adds the prefix `name:` to its names. A list (tuple, set) of strings is a list of indicators,
    and a string is a single indicator.

    Raises
    ------
    InvalidInputError
        If a value is not a finite number, string, bool or list of strings; callers add the position of the token.

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
        # Testing the sum is faster than testing each value; finite values may still have an infinite sum.
        if not math.isfinite(sum(values)):
            for name, value in zip(names, values, strict=True):
                if not math.isfinite(value):
                    raise InvalidInputError(
                        f"feature {name!r} is {value}, but features must be finite. Leave out missing values."
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
            raise InvalidInputError(
                f"the name of a feature is {name!r:.60}, of type {type(name).__name__}. Use strings as names."
            )
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
            items, _ = named_values(value)
            names += [f"{prefix}{name}={item}" for item in items]
            values += [1.0] * len(items)
        else:
            raise InvalidInputError(
                f"feature {name!r} is {value!r:.60}, of type {kind.__name__}. Expected a number, a string, True or "
                f"False, or a list of strings; leave out missing values."
            )


def _as_number(value: Any, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidInputError(
            f"feature {name!r} is {value!r:.30}..., which is too large. Rescale the feature."
        ) from None


def _as_name(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(
            f"a list of features contains {name!r:.60}, of type {type(name).__name__}. Expected strings; pass a dict "
            f"for features with values."
        )
    return str(name)


def read_rows(
    sequences: Iterable[Any], lookup: Callable[[Sequence[str]], Iterator[int]], string_tokens: bool = True
) -> tuple[FeatureRows, IntArray, int]:
    """Return the entries of all rows, the first row of each sequence, and the number of string tokens.

    `lookup` returns the columns of names, -1 for a name without a column. Entries are in the order of the tokens.
    """
    n_strings = n_entries = 0
    columns: list[NDArray[np.int32]] = []
    row_ptr, ptr = array("q", [0]), array("q", [0])
    values: array[float] | None = None  # needed only if some value is not 1
    for k, sequence in enumerate(sequences):
        names: list[str] = []
        if values is None and set(map(type, sequence)) == _ONLY_LISTS:
            names.extend(chain.from_iterable(sequence))
        if names and set(map(type, names)) == _ONLY_STRINGS:  # a shortcut for the most common form
            row_ptr.pop()  # the end of the previous row, with which the next values begin
            row_ptr.extend(accumulate(map(len, sequence), initial=n_entries))
        else:
            names = []
            for t, token in enumerate(sequence):
                if isinstance(token, str):
                    n_strings += 1
                    if not string_tokens:
                        raise InvalidInputError(
                            f"X[{k}][{t}] is the string {token!r:.60}, but tokens in fit were lists or dicts of "
                            f"features. If X is a single sequence, pass [X]; if the string is the only feature of a "
                            f"token, pass [{token!r:.60}] for it."
                        )
                try:
                    token_names, weights = named_values(token)
                except InvalidInputError as error:
                    message = f"X[{k}][{t}]: {error}"
                    raise InvalidInputError(message) from None
                if weights is not None and values is None:
                    values = array("d", [1.0]) * (n_entries + len(names))
                if values is not None:
                    values.extend(repeat(1.0, len(token_names)) if weights is None else weights)
                names += token_names
                row_ptr.append(n_entries + len(names))
        columns.append(np.fromiter(lookup(names), np.int32, len(names)))
        n_entries += len(names)
        ptr.append(len(row_ptr) - 1)
    all_columns = columns[0] if len(columns) == 1 else np.concatenate([np.empty(0, np.int32), *columns])
    all_values = np.frombuffer(values) if values else np.empty(0)
    rows = FeatureRows(all_columns, all_values, np.array(row_ptr, dtype=np.int64))
    return rows, np.array(ptr, dtype=np.int64), n_strings


def check_kinds(X: Iterable[Any], numeric: bool | None = None) -> tuple[bool, Iterator[Any]]:
    """Return whether the sequences are arrays, and an iterator that checks that all of them are of the same kind.

    The first sequence with a feature decides. Sequences without features are of either kind; if there are no others,
    features are treated as named.
    """
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise InvalidInputError(f"X is of type {type(X).__name__}, but a list of sequences is expected.")
    stream = enumerate(_as_sequence(sequence, k) for k, sequence in enumerate(X))
    first_sequences: list[tuple[int, Any]] = []
    reference = "the training set"
    while numeric is None:
        item = next(stream, None)
        if item is None:
            numeric = False
            break
        first_sequences.append(item)
        numeric = _is_numeric(item[1])
        reference = f"X[{item[0]}]"
    is_numeric = numeric

    def check_sequences() -> Iterator[Any]:
        for k, sequence in chain(first_sequences, stream):
            kind = _is_numeric(sequence)
            if kind is not None and kind != is_numeric:
                kind_names = ("named features", "numbers")
                raise InvalidInputError(
                    f"X[{k}] holds {kind_names[kind]}, but {reference} holds {kind_names[is_numeric]}. Pass all "
                    f"sequences in the same form."
                )
            yield sequence

    return is_numeric, check_sequences()


def _as_sequence(sequence: Any, k: int) -> Any:
    if isinstance(sequence, np.ndarray) and sequence.dtype.kind not in "biuf":
        return sequence.tolist() if sequence.ndim else _raise_not_a_sequence(sequence, k)
    if isinstance(sequence, (list, tuple, np.ndarray)) or is_sparse(sequence):
        return sequence
    if isinstance(sequence, (str, bytes, Mapping)) or not isinstance(sequence, Iterable):
        return _raise_not_a_sequence(sequence, k)
    return list(sequence)


def _raise_not_a_sequence(sequence: Any, k: int) -> Any:
    raise InvalidInputError(
        f"X[{k}] is {sequence!r:.60}, of type {type(sequence).__name__}; expected an array (T, n_features), "
        f"a CSR matrix, a list of dicts or a list of lists of strings."
    )


def _is_numeric(sequence: Any) -> bool | None:
    """Return whether a sequence holds numbers, or None if it has no features to decide."""
    if not isinstance(sequence, (list, tuple)):
        return True
    for token in sequence:
        if isinstance(token, np.ndarray) and token.size:
            return token.dtype.kind not in "UO"
        if isinstance(token, (list, tuple)):
            if not token:
                continue
            token = token[0]
        return isinstance(token, (bool, int, float, np.number, np.bool_))
    return None
