"""Sequences of tokens as one sparse matrix: a row for each token, a column for each feature seen in training."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise, repeat
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from intarsia._core.validation import IntArray, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.models.feature_matrix import check_features

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


_FEW_ENTRIES = np.iinfo(np.int32).max


class SequenceVectorizer(BaseEstimator):  # type: ignore[misc]
    """Feature matrices from sequences of tokens, with the features seen in training as columns.

    A sequence is an array (T, n_features), a CSR matrix, a list of feature dicts or a list of lists of strings; all
    sequences are of one kind. How dicts and lists become features is told by
    `intarsia.models.sequence_features.named_values`. A feature that is named twice in one token counts twice. Features
    unknown at transform time are left out. Arrays pass through: they are only checked.

    One pass over the sequences, which may come from a generator; nothing but the numbers is kept of it, 12 bytes for
    each feature of each token.

    Parameters
    ----------
    min_count : int
        Features that fewer tokens of the training set have are left out.
    dtype : {"float64", "float32"}
        Of the values of named features; float32 takes a third less memory, and indicators lose nothing.

    Attributes
    ----------
    vocabulary_ : list of str or None
        Names of the columns in sorted order, whatever the order of the sequences; None where sequences are arrays.
    n_features_ : int
        Number of columns.
    string_tokens_ : bool
        Whether some tokens of the training set are plain strings, each a single feature. Where none is, a plain string
        is refused at transform time: X is then probably one sequence that was not wrapped in a list.

    Raises
    ------
    InvalidInputError
        A value is not finite or of no known kind, sequences are of several kinds, numbers of columns differ; the
        message names sequence and token.

    Examples
    --------
    >>> X = [[{"word": "the"}, {"word": "cat", "length": 3}], [{"word": "cat"}]]
    >>> vectorizer = SequenceVectorizer().fit(X)
    >>> vectorizer.vocabulary_
    ['length', 'word=cat', 'word=the']
    >>> vectorizer.transform([[{"word": "the"}, {"word": "dog", "length": 4}]])[0].toarray()
    array([[0., 0., 1.],
           [4., 0., 0.]])
    """

    vocabulary_: list[str] | None

    def __init__(self, *, min_count: int = 1, dtype: str = "float64") -> None:
        self.min_count = min_count
        self.dtype = dtype

    @classmethod
    def from_vocabulary(cls, vocabulary: Iterable[str], **settings: Any) -> SequenceVectorizer:
        """A fitted vectorizer whose columns have these names, as a model read from a file needs it.

        Examples
        --------
        >>> SequenceVectorizer.from_vocabulary(["a", "b"]).transform([[["b", "c"]]])[0].toarray()
        array([[0., 1.]])
        """
        made = cls(**settings)
        names = list(vocabulary)
        made._keep(names)
        if len(made._column) != len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InvalidInputError(f"SequenceVectorizer: the vocabulary has {twice!r} twice. Give each name once.")
        return made

    def fit(self, X: Iterable[Any], y: Any = None) -> SequenceVectorizer:
        """Find the features that occur in the sequences."""
        self.fit_transform_stacked(X)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> list[Any]:
        """Find the features, and return the matrix (T, n_features_) of each sequence."""
        return _cut(*self.fit_transform_stacked(X))

    def transform(self, X: Iterable[Any]) -> list[Any]:
        """Matrix (T, n_features_) of each sequence: CSR, or the array that was given."""
        return _cut(*self.transform_stacked(X))

    def fit_transform_stacked(self, X: Iterable[Any]) -> tuple[Any, IntArray]:
        """Find the features, and return all sequences in one matrix, as `transform_stacked` does.

        Examples
        --------
        >>> SequenceVectorizer().fit_transform_stacked([[["a"], ["b"]], [["a", "b"]]])[1]
        array([0, 2, 3])
        """
        check_number(self.min_count, "SequenceVectorizer: min_count", low=1, integer=True)
        check_choice(self.dtype, ("float64", "float32"), "SequenceVectorizer: dtype")
        numeric, sequences = _of_one_kind(X)
        if numeric:
            matrix, ptr = _stack(sequences, None)
            self._keep([])
            self.vocabulary_, self.n_features_ = None, matrix.shape[1]
            return matrix, ptr
        seen: defaultdict[str, int] = defaultdict()
        seen.default_factory = seen.__len__
        columns, values, row_ptr, ptr, n_strings = _read_rows(sequences, seen.__getitem__)
        names = list(seen)
        order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int32)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order), dtype=np.int32)
        names.sort()
        matrix = self._matrix(rank[columns], values, row_ptr, len(names))
        if self.min_count > 1:
            kept = np.flatnonzero(np.bincount(matrix.indices, minlength=len(names)) >= self.min_count)
            matrix = sparse.csr_array(matrix[:, kept])
            names = [names[k] for k in kept]
        self._keep(names)
        self.string_tokens_ = n_strings > 0 or not len(columns)  # without any token nothing is known
        return matrix, ptr

    def transform_stacked(self, X: Iterable[Any]) -> tuple[Any, IntArray]:
        """All sequences in one matrix: the rows of sequence k are those from `ptr[k]` to `ptr[k + 1]`.

        Returns
        -------
        matrix : CSR array or ndarray (n_tokens, n_features_)
            An ndarray where all sequences were dense.
        ptr : (n_sequences + 1,) int array
            Where each sequence begins.

        Examples
        --------
        >>> vectorizer = SequenceVectorizer.from_vocabulary(["a", "b"])
        >>> matrix, ptr = vectorizer.transform_stacked([[["a"], ["b"]], [["a", "b"]]])
        >>> matrix.toarray(), ptr
        (array([[1., 0.],
           [0., 1.],
           [1., 1.]]), array([0, 2, 3]))
        """
        check_is_fitted(self, "n_features_")
        numeric, sequences = _of_one_kind(X, self.vocabulary_ is None)
        if numeric:
            return _stack(sequences, self.n_features_)
        columns, values, row_ptr, ptr, _ = _read_rows(sequences, self._column.get, self.string_tokens_)
        return self._matrix(columns, values, row_ptr, self.n_features_), ptr

    def _keep(self, names: list[str]) -> None:
        self.vocabulary_ = names
        self.n_features_ = len(names)
        self.string_tokens_ = True
        self._column = {name: k for k, name in enumerate(names)}

    def _matrix(self, columns: Any, values: Any, row_ptr: IntArray, n_columns: int) -> Any:
        index = np.int32 if len(columns) <= _FEW_ENTRIES else np.int64  # SciPy wants both index arrays of one type
        matrix = sparse.csr_array(
            (values.astype(self.dtype, copy=False), columns.astype(index, copy=False), row_ptr.astype(index)),
            shape=(len(row_ptr) - 1, n_columns),
        )
        matrix.sum_duplicates()
        return matrix


def _read_rows(
    sequences: Iterable[Any], lookup: Callable[[str], int | None], string_tokens: bool = True
) -> tuple[Any, Any, IntArray, IntArray, int]:
    """Columns and values of all entries, where each row ends, where each sequence ends; how many tokens are strings."""
    n_strings = 0
    columns, values, row_ptr, ptr = array("i"), array("d"), array("q", [0]), array("q", [0])
    for k, sequence in enumerate(sequences):
        for t, token in enumerate(sequence):
            if isinstance(token, str):
                n_strings += 1
                if not string_tokens:
                    raise InvalidInputError(
                        f"X[{k}][{t}] is the string {token!r:.60}, but tokens in fit were lists or dicts of features. "
                        f"If X is a single sequence, pass [X]; if the string is the only feature of a token, pass "
                        f"[{token!r:.60}] for it."
                    )
            try:
                names, weights = named_values(token)
            except InvalidInputError as error:
                raise InvalidInputError(f"X[{k}][{t}]: {error}") from None
            found: list[Any] = list(map(lookup, names))
            if None in found:
                if weights is not None:
                    weights = [weight for weight, column in zip(weights, found, strict=True) if column is not None]
                found = [column for column in found if column is not None]
            columns.extend(found)
            values.extend(repeat(1.0, len(found)) if weights is None else weights)
            row_ptr.append(len(columns))
        ptr.append(len(row_ptr) - 1)
    ends, starts = np.array(row_ptr).astype(np.int64), np.array(ptr).astype(np.int64)
    return np.asarray(columns), np.asarray(values), ends, starts, n_strings


def _stack(sequences: Iterable[Any], n_features: int | None) -> tuple[Any, IntArray]:
    """Arrays of equal width one below the other; dense if all are dense."""
    parts: list[Any] = []
    lengths = [0]
    width, owner = n_features, "the training set had"
    for k, sequence in enumerate(sequences):
        if isinstance(sequence, (list, tuple)) and not sequence:  # no token, hence no width
            lengths.append(0)
            continue
        part = check_features(sequence, f"X[{k}]")
        if width is None:
            width, owner = part.shape[1], f"X[{k}] has"
        if part.shape[1] != width:
            raise InvalidInputError(
                f"X[{k}] has {part.shape[1]} columns, but {owner} {width}. Give the same features everywhere."
            )
        parts.append(part)
        lengths.append(part.shape[0])
    ptr = np.cumsum(lengths, dtype=np.int64)
    if not parts:
        return np.zeros((0, width or 0)), ptr
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")), ptr
    return (np.concatenate(parts) if len(parts) > 1 else parts[0]), ptr


def _cut(matrix: Any, ptr: IntArray) -> list[Any]:
    """The rows of each sequence; what they share with `matrix` is not copied."""
    if not sparse.issparse(matrix):
        return [matrix[a:b] for a, b in pairwise(ptr)]
    thin: Any = matrix
    found = []
    for a, b in pairwise(ptr):
        first, last = thin.indptr[a], thin.indptr[b]
        parts = (thin.data[first:last], thin.indices[first:last], thin.indptr[a : b + 1] - first)
        found.append(sparse.csr_array(parts, shape=(b - a, thin.shape[1])))
    return found


def _of_one_kind(X: Iterable[Any], numeric: bool | None = None) -> tuple[bool, Iterator[Any]]:
    """Whether the sequences are arrays (told by the first that is not empty), and a checked stream of them.

    A sequence without any feature is of either kind; where nothing else is there, features are named ones.
    """
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise InvalidInputError(f"X is of type {type(X).__name__}; expected a list of sequences.")
    stream = enumerate(_as_sequence(sequence, k) for k, sequence in enumerate(X))
    held: list[tuple[int, Any]] = []
    decider = "the training set"
    while numeric is None:
        item = next(stream, None)
        if item is None:
            numeric = False
            break
        held.append(item)
        numeric = _is_numeric(item[1])
        decider = f"X[{item[0]}]"
    decided = numeric

    def checked() -> Iterator[Any]:
        for k, sequence in chain(held, stream):
            kind = _is_numeric(sequence)
            if kind is not None and kind != decided:
                of = ("named features", "numbers")
                raise InvalidInputError(
                    f"X[{k}] holds {of[kind]}, but {decider} holds {of[decided]}. Give all sequences in the same way."
                )
            yield sequence

    return decided, checked()


def _as_sequence(sequence: Any, k: int) -> Any:
    if isinstance(sequence, np.ndarray) and sequence.dtype.kind not in "biuf":
        return sequence.tolist() if sequence.ndim else _refuse(sequence, k)
    if isinstance(sequence, (list, tuple, np.ndarray)) or sparse.issparse(sequence):
        return sequence
    if isinstance(sequence, (str, bytes, Mapping)) or not isinstance(sequence, Iterable):
        return _refuse(sequence, k)
    return list(sequence)


def _refuse(sequence: Any, k: int) -> Any:
    raise InvalidInputError(
        f"X[{k}] is {sequence!r:.60}, of type {type(sequence).__name__}; expected an array (T, n_features), "
        f"a CSR matrix, a list of dicts or a list of lists of strings."
    )


def _is_numeric(sequence: Any) -> bool | None:
    """Whether a sequence holds numbers; None if no token tells."""
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
