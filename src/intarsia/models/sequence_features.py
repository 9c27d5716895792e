"""Vectorizer of token sequences: one sparse matrix with a row per token and a column per feature seen in training.

SciPy and Numba are imported by the functions that need them, because they take long and `Tagger` needs neither.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, pairwise, repeat
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.settings import Settings, check_fitted
from intarsia._core.validation import IntArray, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.models.feature_matrix import FeatureRows, is_sparse, stack_features

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


_MAX_INT32_ENTRIES = np.iinfo(np.int32).max


class SequenceVectorizer(Settings):
    """Vectorizer of token sequences, whose columns are the features seen in training.

    A sequence is an array (T, n_features), a CSR matrix, a list of feature dicts or a list of lists of strings; all
    sequences must be of the same kind. `intarsia.models.sequence_features.named_values` documents how dicts and lists
    become features. A feature that occurs twice in a token counts twice. Features that were not seen in training are
    ignored by `transform`. Arrays are checked and returned unchanged.

    The sequences are read once and may come from a generator; the memory is 12 bytes for each feature of each token.

    Parameters
    ----------
    min_count : int
        Smallest number of tokens of the training set in which a feature must occur; rarer features are ignored.
    dtype : {"float64", "float32"}
        Data type of the values of named features; float32 needs a third less memory and is exact for indicators.

    Attributes
    ----------
    vocabulary_ : list of str or None
        Sorted names of the columns, independent of the order of the sequences; None if sequences are arrays.
    n_features_ : int
        Number of columns.
    string_tokens_ : bool
        Whether some tokens of the training set are plain strings, each a single feature. If none is, `transform` raises
        for a plain string, because X is then probably a single sequence that was not wrapped in a list.

    Raises
    ------
    InvalidInputError
        If a value is not finite or of an unsupported type, sequences are of several kinds, or numbers of columns
        differ; the message names sequence and token.

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
        """Return a fitted vectorizer whose columns have these names, for example from a saved model.

        Examples
        --------
        >>> SequenceVectorizer.from_vocabulary(["a", "b"]).transform([[["b", "c"]]])[0].toarray()
        array([[0., 1.]])
        """
        vectorizer = cls(**settings)
        names = list(vocabulary)
        vectorizer._set_vocabulary(names)
        if len(vectorizer._column) != len(names):
            repeated = Counter(names).most_common(1)[0][0]
            raise InvalidInputError(f"SequenceVectorizer: the vocabulary has {repeated!r} twice. Pass each name once.")
        return vectorizer

    def fit(self, X: Iterable[Any], y: Any = None) -> SequenceVectorizer:
        """Learn the vocabulary of features that occur in the sequences."""
        self.fit_transform_stacked(X)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> list[Any]:
        """Learn the vocabulary and return the matrix (T, n_features_) of each sequence."""
        return _split_rows(*self.fit_transform_stacked(X))

    def transform(self, X: Iterable[Any]) -> list[Any]:
        """Return the matrix (T, n_features_) of each sequence: CSR, or the array itself."""
        return _split_rows(*self.transform_stacked(X))

    def fit_transform_stacked(self, X: Iterable[Any]) -> tuple[Any, IntArray]:
        """Learn the vocabulary and return all sequences in one matrix, as `transform_stacked` does.

        Examples
        --------
        >>> SequenceVectorizer().fit_transform_stacked([[["a"], ["b"]], [["a", "b"]]])[1]
        array([0, 2, 3])
        """
        check_number(self.min_count, "SequenceVectorizer: min_count", low=1, integer=True)
        check_choice(self.dtype, ("float64", "float32"), "SequenceVectorizer: dtype")
        numeric, sequences = check_kinds(X)
        if numeric:
            matrix, ptr = stack_features(sequences, None)
            self._set_vocabulary([])
            self.vocabulary_, self.n_features_ = None, matrix.shape[1]
            return matrix, ptr
        column_of: defaultdict[str, int] = defaultdict()
        column_of.default_factory = column_of.__len__
        rows, ptr, n_strings = read_rows(sequences, lambda names: _int32(map(column_of.__getitem__, names), len(names)))
        columns = rows.columns
        names = list(column_of)
        order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int32)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order), dtype=np.int32)
        names.sort()
        matrix = self.matrix_of_rows(_sorted_rows(rows._replace(columns=rank[columns])), len(names))
        if self.min_count > 1:
            frequent = np.flatnonzero(np.bincount(matrix.indices, minlength=len(names)) >= self.min_count)
            matrix = matrix[:, frequent]
            names = [names[k] for k in frequent]
        self._set_vocabulary(names)
        self.string_tokens_ = n_strings > 0 or not len(columns)  # accept strings if there was no token to decide
        return matrix, ptr

    def transform_stacked(self, X: Iterable[Any]) -> tuple[Any, IntArray]:
        """Return all sequences in one matrix, in which sequence k has the rows `ptr[k]` to `ptr[k + 1]`.

        Returns
        -------
        matrix : CSR array or ndarray (n_tokens, n_features_)
            An ndarray if all sequences are dense arrays.
        ptr : (n_sequences + 1,) int array
            First row of each sequence, followed by the number of rows.

        Examples
        --------
        >>> vectorizer = SequenceVectorizer.from_vocabulary(["a", "b"])
        >>> matrix, ptr = vectorizer.transform_stacked([[["a"], ["b"]], [["a", "b"]]])
        >>> matrix.toarray(), ptr
        (array([[1., 0.],
           [0., 1.],
           [1., 1.]]), array([0, 2, 3]))
        """
        check_fitted(self, "n_features_")
        if self.vocabulary_ is None:
            return stack_features(check_kinds(X, True)[1], self.n_features_)
        rows, ptr = self.transform_rows(X)
        return self.matrix_of_rows(rows), ptr

    def transform_rows(self, X: Iterable[Any]) -> tuple[FeatureRows, IntArray]:
        """Return the entries of all sequences of named features without building a matrix, and `ptr` as above.

        The columns of a row are in order, and none occurs twice. Needs a vectorizer fitted to named features.
        """
        get, sequences = self._column.get, check_kinds(X, False)[1]
        rows, ptr, _ = read_rows(
            sequences, lambda names: _int32(map(get, names, repeat(-1)), len(names)), self.string_tokens_
        )
        return _sorted_rows(rows), ptr

    def _set_vocabulary(self, names: list[str]) -> None:
        self.vocabulary_ = names
        self.n_features_ = len(names)
        self.string_tokens_ = True
        self._column = {name: k for k, name in enumerate(names)}

    def matrix_of_rows(self, rows: FeatureRows, n_columns: int | None = None) -> Any:
        """Return the CSR matrix of the entries from `transform_rows`."""
        from scipy import sparse

        columns, values, row_ptr = rows
        # SciPy needs both index arrays to have the same type.
        index = np.int32 if len(columns) <= _MAX_INT32_ENTRIES else np.int64
        data = values.astype(self.dtype, copy=False) if values.size else np.ones(len(columns), dtype=self.dtype)
        shape = (len(row_ptr) - 1, self.n_features_ if n_columns is None else n_columns)
        matrix = sparse.csr_array((data, columns.astype(index, copy=False), row_ptr.astype(index)), shape=shape)
        matrix.has_canonical_format = True
        return matrix


def _sorted_rows(rows: FeatureRows) -> FeatureRows:
    """Return the entries with the columns of each row in order and repeated columns merged; the arrays are reused."""
    from intarsia._kernels.state_scores import sort_rows

    columns, values, row_ptr = rows
    n_entries = sort_rows(columns, values, row_ptr)
    if n_entries < 0:  # a feature that occurs twice in a token has the value 2
        return _sorted_rows(FeatureRows(columns, np.ones(len(columns)), row_ptr))
    return FeatureRows(columns[:n_entries], values[:n_entries], row_ptr)


def _int32(numbers: Iterator[int], size: int) -> NDArray[np.int32]:
    return np.fromiter(numbers, np.int32, size)


def read_rows(
    sequences: Iterable[Any], lookup: Callable[[Sequence[str]], NDArray[np.int32]], string_tokens: bool = True
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
        columns.append(lookup(names))
        n_entries += len(names)
        ptr.append(len(row_ptr) - 1)
    all_columns = columns[0] if len(columns) == 1 else np.concatenate([np.empty(0, np.int32), *columns])
    all_values = np.frombuffer(values) if values else np.empty(0)
    rows = FeatureRows(all_columns, all_values, np.array(row_ptr, dtype=np.int64))
    return rows, np.array(ptr, dtype=np.int64), n_strings


def _split_rows(matrix: Any, ptr: IntArray) -> list[Any]:
    """Return the rows of each sequence as a matrix that shares memory with `matrix`."""
    if not is_sparse(matrix):
        return [matrix[a:b] for a, b in pairwise(ptr)]
    from scipy import sparse

    csr: Any = matrix
    matrices = []
    for a, b in pairwise(ptr):
        first, last = csr.indptr[a], csr.indptr[b]
        arrays = (csr.data[first:last], csr.indices[first:last], csr.indptr[a : b + 1] - first)
        matrices.append(sparse.csr_array(arrays, shape=(b - a, csr.shape[1])))
    return matrices


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
        return sequence.tolist() if sequence.ndim else _refuse_sequence(sequence, k)
    if isinstance(sequence, (list, tuple, np.ndarray)) or is_sparse(sequence):
        shape = getattr(sequence, "shape", (0,))
        return sequence if 0 in shape or len(shape) > 1 else _refuse_sequence(sequence, k)
    is_list = isinstance(sequence, Iterable) and not isinstance(sequence, (str, bytes, Mapping))
    return list(sequence) if is_list else _refuse_sequence(sequence, k)


def _refuse_sequence(sequence: Any, k: int) -> Any:
    raise InvalidInputError(
        f"X[{k}] is {sequence!r:.60}, of type {type(sequence).__name__}; expected an array (T, n_features), "
        f"a CSR matrix, a list of dicts or a list of lists of strings. If X is a single sequence, pass [X]."
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
