"""Comparisons of two values of a column: each gives similarity features of a pair, and one for missing values."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia._core.worker_threads import run_by_workers
from intarsia.clusters.tables import Table, plain_text, token_matrix, tokens
from intarsia.exceptions import InvalidInputError

_CHUNK = 200_000  # pairs whose rows of tokens are gathered at a time


class Comparison(Settings, ABC):
    """Abstract base of comparisons of two values.

    The features of a pair are the similarity (0 to 1), for each of `levels` whether the similarity reaches it, and
    whether a value is missing. If a value is missing, the other features are 0: a missing value is no evidence that
    records agree or differ.
    """

    name: ClassVar[str]
    text: ClassVar[bool] = False
    levels: Sequence[float] = ()

    def feature_names(self, column: str) -> list[str]:
        """Return the names of the features, which begin with the name of the column."""
        level_names = [f"{column} {self.name} >= {level:g}" for level in self.levels]
        return [f"{column} {self.name}", *level_names, f"{column} {self.name} missing"]

    def features(self, values: Sequence[Any], first: IntArray, second: IntArray, name: str) -> FloatArray:
        """Compute the features of the pairs of records `first[k]`, `second[k]`.

        Parameters
        ----------
        values : list
            Value of each record, None where it is missing.
        first, second : (n_pairs,) int arrays
            Row numbers of the records.
        name : str
            Name of the column, used in errors.

        Returns
        -------
        (n_pairs, n_features) array
        """
        for level in self.levels:
            check_number(level, f"{name}: {type(self).__name__}: levels", low=0, high=1)
        distinct, code = self.distinct_values(values, name)
        present = (code[first] >= 0) & (code[second] >= 0)
        first_code, second_code = code[first[present]], code[second[present]]
        similarity = np.zeros(len(first))
        if len(first_code):
            # Values repeat, so each pair of distinct values is compared only once.
            pair_code, inverse = np.unique(
                np.minimum(first_code, second_code) * len(distinct) + np.maximum(first_code, second_code),
                return_inverse=True,
            )
            of_distinct = self._similarity(distinct, pair_code // len(distinct), pair_code % len(distinct))
            similarity[present] = of_distinct[inverse]
        level_reached = [present & (similarity >= level - 1e-12) for level in self.levels]
        return np.column_stack([similarity, *level_reached, ~present]).astype(np.float64)

    def distinct_values(self, values: Sequence[Any], name: str) -> tuple[list[Any], IntArray]:
        """Return the distinct readable values, and the index of each record's value among them; -1 if missing."""
        index_of_parsed: dict[Any, int] = {}
        index_of_value: dict[Any, int] = {}
        distinct: list[Any] = []
        codes = np.full(len(values), -1, dtype=np.int64)
        unreadable = None
        for row, value in enumerate(values):
            if value is None:
                continue
            if value not in index_of_value:
                parsed = self._parse(value, f"{name}, row {row}")
                if parsed is None:
                    index_of_value[value] = -1
                    unreadable = value if unreadable is None else unreadable
                else:
                    if parsed not in index_of_parsed:
                        index_of_parsed[parsed] = len(distinct)
                        distinct.append(parsed)
                    index_of_value[value] = index_of_parsed[parsed]
            codes[row] = index_of_value[value]
        if unreadable is not None and not distinct:
            raise unreadable_error(self, name, unreadable)
        return distinct, codes

    @abstractmethod
    def _parse(self, value: Any, name: str) -> Any:
        """Return the value in the form that is compared, or None if it is unreadable."""

    @abstractmethod
    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        """Return the similarities of pairs of distinct values."""


def unreadable_error(comparison: Comparison, name: str, value: Any) -> InvalidInputError:
    """Return the error for a column of which a comparison can read no value."""
    return InvalidInputError(
        f"{name}: {type(comparison).__name__} cannot read any value, such as {value!r:.60}. Choose another comparison."
    )


class ExactMatch(Comparison):
    """Whether two values are equal: 1 or 0. Strings are compared without case, accents and extra whitespace.

    Examples
    --------
    >>> ExactMatch().features(["Ann", "ann ", None], np.array([0, 0]), np.array([1, 2]), "name")
    array([[1., 0.],
           [0., 1.]])
    """

    name = "exact"
    text = True

    def _parse(self, value: Any, name: str) -> Any:
        return plain_text(value) if isinstance(value, str) else value

    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        return (first == second).astype(np.float64)


class JaroWinkler(Comparison):
    """Jaro-Winkler similarity of short strings such as names: tolerates typos, more so after equal beginnings.

    Parameters
    ----------
    levels : sequence of float
        Similarity levels; reaching each of them is a separate feature.

    Examples
    --------
    The classic pair: all six letters in common, two of them transposed, and three equal letters at the beginning.

    >>> JaroWinkler(levels=()).features(["martha", "marhta"], np.array([0]), np.array([1]), "name").round(4)
    array([[0.9611, 0.    ]])
    """

    name = "jaro_winkler"
    text = True

    def __init__(self, levels: Sequence[float] = (0.7, 0.9)) -> None:
        self.levels = levels

    def _parse(self, value: Any, name: str) -> Any:
        return plain_text(value)

    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        from rapidfuzz.distance import JaroWinkler as Scorer
        from rapidfuzz.process import cpdist

        first_values, second_values = [distinct[k] for k in first], [distinct[k] for k in second]
        similarities = cpdist(first_values, second_values, scorer=Scorer.normalized_similarity, dtype=np.float64)
        return np.asarray(similarities, dtype=np.float64)


class TokenOverlap(Comparison):
    """Fraction of the words (or character n-grams) that two strings have in common, in any order; for long strings.

    Parameters
    ----------
    measure : {"jaccard", "overlap", "tfidf"}
        Number of common words divided by the number of all words of both ("jaccard"), or by the number of words of the
        shorter string ("overlap"). "tfidf" is "jaccard" with words weighted by the logarithm of their inverse document
        frequency: a rare word, such as the number of a model, counts more than a frequent one.
    ngram : int, optional
        Compare character n-grams of this length instead of words.
    levels : sequence of float
        Similarity levels; reaching each of them is a separate feature.

    Examples
    --------
    Two of four words are in common.

    >>> texts = ["learning to rank", "Learning to sort"]
    >>> TokenOverlap(levels=()).features(texts, np.array([0]), np.array([1]), "title")
    array([[0.5, 0. ]])
    """

    name = "token_overlap"
    text = True

    def __init__(
        self, measure: str = "jaccard", ngram: int | None = None, levels: Sequence[float] = (0.3, 0.6, 0.9)
    ) -> None:
        self.measure = measure
        self.ngram = ngram
        self.levels = levels

    def _parse(self, value: Any, name: str) -> Any:
        check_choice(self.measure, ("jaccard", "overlap", "tfidf"), "measure")
        return frozenset(tokens(value, self.ngram)) or None

    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        words = token_matrix(distinct)
        if self.measure == "tfidf":
            n_documents = np.bincount(words.indices, minlength=words.shape[1])
            words.data = np.sqrt(np.log((1.0 + len(distinct)) / n_documents))[words.indices]  # of products of roots
            sizes = np.asarray(words.multiply(words).sum(axis=1)).ravel()
        else:
            sizes = np.diff(words.indptr).astype(np.float64)
        n_common = np.empty(len(first))
        for start in range(0, len(first), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            n_common[chunk] = words[first[chunk]].multiply(words[second[chunk]]).sum(axis=1)
        if self.measure != "overlap":
            return n_common / (sizes[first] + sizes[second] - n_common)
        return n_common / np.minimum(sizes[first], sizes[second])


class Numeric(Comparison):
    """Similarity of two numbers: 1 if they are equal, falling linearly to 0 at a difference of `scale`.

    Parameters
    ----------
    scale : float, optional
        Difference at which the similarity is 0; by default the larger of the two absolute values.
    levels : sequence of float
        Similarity levels; reaching each of them is a separate feature.

    Examples
    --------
    >>> Numeric(scale=10).features([3, "5", "?"], np.array([0, 0]), np.array([1, 2]), "age")
    array([[0.8, 0. , 0. ],
           [0. , 0. , 1. ]])
    """

    name = "numeric"

    def __init__(self, scale: float | None = None, levels: Sequence[float] = (1.0,)) -> None:
        self.scale = scale
        self.levels = levels

    def _parse(self, value: Any, name: str) -> Any:
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
        return number if np.isfinite(number) else None

    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        if self.scale is not None:
            check_number(self.scale, "Numeric: scale", low=0, open_low=True)
        numbers = np.array(distinct, dtype=np.float64)
        larger = np.maximum(np.abs(numbers[first]), np.abs(numbers[second]))
        scale = np.where(larger > 0, larger, 1.0) if self.scale is None else self.scale
        return np.clip(1.0 - np.abs(numbers[first] - numbers[second]) / scale, 0.0, 1.0)


class Date(Comparison):
    """Fraction of year, month and day that two dates have in common; day and month may be swapped.

    A typo changes one field of a date, which can be a difference of many days, so fields are compared and not days.

    Parameters
    ----------
    format : str, optional
        Format of `datetime.strptime`. By default date objects, ISO strings (2001-02-28) and eight digits (20010228)
        are read.
    levels : sequence of float
        Similarity levels; reaching each of them is a separate feature.

    Examples
    --------
    >>> dates = ["2001-02-10", "20011002", "1999-02-10"]
    >>> Date(levels=()).features(dates, np.array([0, 0]), np.array([1, 2]), "born").round(2)
    array([[1.  , 0.  ],
           [0.67, 0.  ]])
    """

    name = "date"

    def __init__(self, format: str | None = None, levels: Sequence[float] = (0.6, 1.0)) -> None:
        self.format = format
        self.levels = levels

    def _parse(self, value: Any, name: str) -> Any:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[D]").item()
        if isinstance(value, datetime.date):
            return value.year, value.month, value.day
        string = str(value).strip()
        if self.format is not None:
            try:
                date = datetime.datetime.strptime(string, self.format)
            except ValueError:
                return None
            return date.year, date.month, date.day
        # Fields are compared one by one, so impossible dates such as 2001-02-31 are accepted.
        fields = re.fullmatch(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?", string)
        return None if fields is None else (int(fields[1]), int(fields[2]), int(fields[3]))

    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        dates = np.array(distinct, dtype=np.int64)
        first_dates, second_dates = dates[first], dates[second]
        n_equal = (first_dates == second_dates).sum(axis=1)
        n_equal_swapped = (first_dates == second_dates[:, [0, 2, 1]]).sum(axis=1)
        return np.maximum(n_equal, n_equal_swapped) / 3


class Embedding(Comparison):
    """Cosine similarity of vectors (embeddings) supplied by the user; negative values count as 0.

    Examples
    --------
    >>> vectors = [[1.0, 0.0], [1.0, 1.0]]
    >>> Embedding().features(vectors, np.array([0]), np.array([1]), "meaning").round(4)
    array([[0.7071, 0.    ]])
    """

    name = "embedding"

    def __init__(self, levels: Sequence[float] = ()) -> None:
        self.levels = levels

    def distinct_values(self, values: Sequence[Any], name: str) -> tuple[list[Any], IntArray]:
        """Return all vectors, and the index of each record's vector among them; -1 if missing."""
        present = [row for row, value in enumerate(values) if value is not None]
        distinct = [self._parse(values[row], f"{name}, row {row}") for row in present]
        for row, vector in zip(present, distinct, strict=True):
            if vector.shape != distinct[0].shape:
                raise InvalidInputError(
                    f"{name}, row {row}: the vector has {len(vector)} numbers, but that of row {present[0]} has "
                    f"{len(distinct[0])}. Pass vectors of equal length."
                )
        code = np.full(len(values), -1, dtype=np.int64)
        code[present] = np.arange(len(present))
        return distinct, code

    def _parse(self, value: Any, name: str) -> Any:
        try:
            vector = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty((0, 0))
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise InvalidInputError(
                f"{name}: expected a vector of finite numbers, got {value!r:.60}. Use None if missing."
            )
        return vector

    def _similarity(self, distinct: list[Any], first: IntArray, second: IntArray) -> FloatArray:
        vectors = np.array(distinct)
        length = np.linalg.norm(vectors, axis=1)
        vectors /= np.where(length > 0, length, 1.0)[:, None]
        return np.clip(np.einsum("kd,kd->k", vectors[first], vectors[second]), 0.0, 1.0)


COMPARISONS: Registry[Comparison] = Registry(
    "comparison",
    "intarsia.clusters",
    {
        "exact": "comparisons:ExactMatch",
        "jaro_winkler": "comparisons:JaroWinkler",
        "token_overlap": "comparisons:TokenOverlap",
        "numeric": "comparisons:Numeric",
        "date": "comparisons:Date",
        "embedding": "comparisons:Embedding",
    },
    Comparison,  # type: ignore[type-abstract]
)

ColumnComparisons = Mapping[str, str | Comparison | Sequence[str | Comparison]]


def resolve_comparisons(comparisons: ColumnComparisons) -> list[tuple[str, Comparison]]:
    """Return a list of (column, comparison); names of comparisons become objects with default settings.

    Examples
    --------
    >>> resolve_comparisons({"name": ["exact", JaroWinkler()], "born": "date"})
    [('name', ExactMatch()), ('name', JaroWinkler()), ('born', Date())]
    """
    if not isinstance(comparisons, Mapping) or not comparisons:
        raise InvalidInputError(
            "comparisons must be a dict from column to comparison, such as {'name': 'jaro_winkler'}, got "
            f"{comparisons!r:.60}. Known: {', '.join(COMPARISONS.names)}."
        )
    resolved = []
    for column, column_comparisons in comparisons.items():
        choices = (
            [column_comparisons] if isinstance(column_comparisons, (str, Comparison)) else list(column_comparisons)
        )
        resolved += [(column, COMPARISONS.resolve(choice)) for choice in choices]
    return resolved


def compare_pairs(
    table: Table, comparisons: Sequence[tuple[str, Comparison]], first: IntArray, second: IntArray
) -> FloatArray:
    """Compute the features of pairs of records; the features of all comparisons are concatenated.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> table = read_table({"name": ["Ann", "Ann"], "age": [30, 40]})
    >>> compare_pairs(table, [("name", ExactMatch()), ("age", Numeric(levels=()))], np.array([0]), np.array([1]))
    array([[1.  , 0.  , 0.75, 0.  ]])
    """
    calls = [
        partial(comparison.features, table.column(column), first, second, f"column {column!r}")
        for column, comparison in comparisons
    ]
    columns = run_by_workers(calls, None)  # serial by default, because comparisons hold the GIL
    return np.hstack(columns) if columns else np.zeros((len(first), 0))
