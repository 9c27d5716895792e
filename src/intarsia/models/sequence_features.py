"""Vectorizer of token sequences: one sparse matrix with a row per token and a column per feature seen in training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from scipy import sparse

from intarsia._core.settings import Settings, check_fitted
from intarsia._core.validation import IntArray, check_choice, check_number
from intarsia._kernels.state_scores import sort_rows
from intarsia.exceptions import InvalidInputError
from intarsia.models.feature_matrix import check_features
from intarsia.models.named_features import FeatureRows, check_kinds, read_rows

_MAX_INT32_ENTRIES = np.iinfo(np.int32).max


class SequenceVectorizer(Settings):
    """Vectorizer of token sequences, whose columns are the features seen in training.

    A sequence is an array (T, n_features), a CSR matrix, a list of feature dicts or a list of lists of strings; all
    sequences must be of the same kind. `intarsia.models.named_features.named_values` documents how dicts and lists
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
            matrix, ptr = _stack(sequences, None)
            self._set_vocabulary([])
            self.vocabulary_, self.n_features_ = None, matrix.shape[1]
            return matrix, ptr
        column_of: defaultdict[str, int] = defaultdict()
        column_of.default_factory = column_of.__len__
        rows, ptr, n_strings = read_rows(sequences, lambda names: map(column_of.__getitem__, names))
        columns = rows.columns
        names = list(column_of)
        order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int32)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order), dtype=np.int32)
        names.sort()
        matrix = self.matrix_of_rows(_sorted_rows(rows._replace(columns=rank[columns])), len(names))
        if self.min_count > 1:
            frequent = np.flatnonzero(np.bincount(matrix.indices, minlength=len(names)) >= self.min_count)
            matrix = sparse.csr_array(matrix[:, frequent])
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
            return _stack(check_kinds(X, True)[1], self.n_features_)
        rows, ptr = self.transform_rows(X)
        return self.matrix_of_rows(rows), ptr

    def transform_rows(self, X: Iterable[Any]) -> tuple[FeatureRows, IntArray]:
        """Return the entries of all sequences of named features without building a matrix, and `ptr` as above.

        The columns of a row are in order, and none occurs twice. Needs a vectorizer fitted to named features.
        """
        get, sequences = self._column.get, check_kinds(X, False)[1]
        rows, ptr, _ = read_rows(sequences, lambda names: map(get, names, repeat(-1)), self.string_tokens_)
        return _sorted_rows(rows), ptr

    def _set_vocabulary(self, names: list[str]) -> None:
        self.vocabulary_ = names
        self.n_features_ = len(names)
        self.string_tokens_ = True
        self._column = {name: k for k, name in enumerate(names)}

    def matrix_of_rows(self, rows: FeatureRows, n_columns: int | None = None) -> Any:
        """Return the CSR matrix of the entries from `transform_rows`."""
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
    columns, values, row_ptr = rows
    n_entries = sort_rows(columns, values, row_ptr)
    if n_entries < 0:  # a feature that occurs twice in a token has the value 2
        return _sorted_rows(FeatureRows(columns, np.ones(len(columns)), row_ptr))
    return FeatureRows(columns[:n_entries], values[:n_entries], row_ptr)


def _stack(sequences: Iterable[Any], n_features: int | None) -> tuple[Any, IntArray]:
    """Stack arrays of equal width vertically; the result is dense if all are dense."""
    matrices: list[Any] = []
    lengths = [0]
    width, owner = n_features, "the training set had"
    for k, sequence in enumerate(sequences):
        if isinstance(sequence, (list, tuple)) and not sequence:  # an empty sequence has no width
            lengths.append(0)
            continue
        matrix = check_features(sequence, f"X[{k}]")
        if width is None:
            width, owner = matrix.shape[1], f"X[{k}] has"
        if matrix.shape[1] != width:
            raise InvalidInputError(
                f"X[{k}] has {matrix.shape[1]} columns, but {owner} {width}. Use the same features in all sequences."
            )
        matrices.append(matrix)
        lengths.append(matrix.shape[0])
    ptr = np.cumsum(lengths, dtype=np.int64)
    if not matrices:
        return np.zeros((0, width or 0)), ptr
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(matrix) for matrix in matrices], format="csr")), ptr
    return (np.concatenate(matrices) if len(matrices) > 1 else matrices[0]), ptr


def _split_rows(matrix: Any, ptr: IntArray) -> list[Any]:
    """Return the rows of each sequence as a matrix that shares memory with `matrix`."""
    if not sparse.issparse(matrix):
        return [matrix[a:b] for a, b in pairwise(ptr)]
    csr: Any = matrix
    matrices = []
    for a, b in pairwise(ptr):
        first, last = csr.indptr[a], csr.indptr[b]
        arrays = (csr.data[first:last], csr.indices[first:last], csr.indptr[a : b + 1] - first)
        matrices.append(sparse.csr_array(arrays, shape=(b - a, csr.shape[1])))
    return matrices
