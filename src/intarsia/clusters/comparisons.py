"""How two values of a column are compared: each comparison gives features of a pair, one of them for missing values."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia._core.worker_threads import run_by_workers
from intarsia.clusters.tables import Table, plain_text, token_matrix, tokens
from intarsia.exceptions import InvalidInputError, MissingDependencyError

_CHUNK = 200_000  # pairs at a time where token rows are gathered


class Comparison(BaseEstimator, ABC):  # type: ignore[misc]
    """A way to compare two values; abstract.

    The features of a pair are the likeness (0 to 1), for each of `levels` whether it is reached, and whether a value
    is missing, in which case the others are 0: an unknown value says neither that records agree nor that they differ.
    """

    name: ClassVar[str]
    text: ClassVar[bool] = False
    levels: Sequence[float] = ()

    def feature_names(self, column: str) -> list[str]:
        """Names of the features, with the column before them."""
        reached = [f"{column} {self.name} >= {level:g}" for level in self.levels]
        return [f"{column} {self.name}", *reached, f"{column} {self.name} missing"]

    def features(self, values: Sequence[Any], first: IntArray, second: IntArray, name: str) -> FloatArray:
        """Features of the pairs of records `first[k]`, `second[k]`.

        Parameters
        ----------
        values : list
            Value of each record, None where it is missing.
        first, second : (n_pairs,) int arrays
            Numbers of records.
        name : str
            How messages begin.

        Returns
        -------
        (n_pairs, n_features) array
        """
        for level in self.levels:
            check_number(level, f"{name}: {type(self).__name__}: levels", low=0, high=1)
        distinct, code = self._distinct(values, name)
        known = (code[first] >= 0) & (code[second] >= 0)
        one, other = code[first[known]], code[second[known]]
        likeness = np.zeros(len(first))
        if len(one):
            # Values repeat, so every pair of values is compared once.
            key, back = np.unique(np.minimum(one, other) * len(distinct) + np.maximum(one, other), return_inverse=True)
            likeness[known] = self._likeness(distinct, key // len(distinct), key % len(distinct))[back]
        reached = [known & (likeness >= level - 1e-12) for level in self.levels]
        return np.column_stack([likeness, *reached, ~known]).astype(np.float64)

    def _distinct(self, values: Sequence[Any], name: str) -> tuple[list[Any], IntArray]:
        """Distinct readable values, and the number of each record's value among them; -1 where there is none."""
        number: dict[Any, int] = {}
        read: dict[Any, int] = {}
        distinct: list[Any] = []
        code = np.full(len(values), -1, dtype=np.int64)
        unread = None
        for row, value in enumerate(values):
            if value is None:
                continue
            if value not in read:
                parsed = self._parse(value, f"{name}, row {row}")
                if parsed is None:
                    read[value] = -1
                    unread = value if unread is None else unread
                else:
                    if parsed not in number:
                        number[parsed] = len(distinct)
                        distinct.append(parsed)
                    read[value] = number[parsed]
            code[row] = read[value]
        if unread is not None and not distinct:
            raise InvalidInputError(
                f"{name}: {type(self).__name__} can read no value, such as {unread!r:.60}. Choose another comparison."
            )
        return distinct, code

    @abstractmethod
    def _parse(self, value: Any, name: str) -> Any:
        """The value as it is compared, or None where it cannot be read."""

    @abstractmethod
    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        """Likeness of pairs of distinct values."""


class ExactMatch(Comparison):
    """Whether two values are the same: 1 or 0. Text is compared without case, accents and superfluous blanks.

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

    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        return (one == other).astype(np.float64)


class JaroWinkler(Comparison):
    """Jaro-Winkler likeness of short texts such as names: tolerant of slips, the more so behind equal beginnings.

    Parameters
    ----------
    levels : sequence of float
        Likenesses that are features of their own when reached.

    Raises
    ------
    MissingDependencyError
        At use, where rapidfuzz is not installed.

    Examples
    --------
    The classic pair: five and a half of six letters in common, three at the beginning.

    >>> JaroWinkler(levels=()).features(["martha", "marhta"], np.array([0]), np.array([1]), "name").round(4)
    array([[0.9611, 0.    ]])
    """

    name = "jaro_winkler"
    text = True

    def __init__(self, levels: Sequence[float] = (0.7, 0.9)) -> None:
        self.levels = levels

    def _parse(self, value: Any, name: str) -> Any:
        return plain_text(value)

    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        try:
            from rapidfuzz.distance import JaroWinkler as Scorer
            from rapidfuzz.process import cpdist
        except ImportError:
            raise MissingDependencyError(
                "JaroWinkler needs rapidfuzz. Install it with: pip install 'intarsia[records]'"
            ) from None
        left, right = [distinct[k] for k in one], [distinct[k] for k in other]
        found = cpdist(left, right, scorer=Scorer.normalized_similarity, dtype=np.float64)
        return np.asarray(found, dtype=np.float64)


class TokenOverlap(Comparison):
    """Share of the words (or of the runs of letters) that two texts have in common; for long texts, in any order.

    Parameters
    ----------
    measure : {"jaccard", "overlap"}
        Common words by all words of both, or by the words of the shorter text.
    ngram : int, optional
        Runs of so many letters take the place of words.
    levels : sequence of float
        Likenesses that are features of their own when reached.

    Examples
    --------
    Two of four words are common.

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
        check_choice(self.measure, ("jaccard", "overlap"), "measure")
        return frozenset(tokens(value, self.ngram)) or None

    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        words = token_matrix(distinct)
        sizes = np.diff(words.indptr).astype(np.float64)
        common = np.empty(len(one))
        for start in range(0, len(one), _CHUNK):
            part = slice(start, start + _CHUNK)
            common[part] = words[one[part]].multiply(words[other[part]]).sum(axis=1)
        if self.measure == "jaccard":
            return common / (sizes[one] + sizes[other] - common)
        return common / np.minimum(sizes[one], sizes[other])


class Numeric(Comparison):
    """Nearness of two numbers: 1 where they are equal, 0 from a difference of `scale` on, in between linear.

    Parameters
    ----------
    scale : float, optional
        Difference from which numbers have nothing in common; by default the larger of the two absolute values.
    levels : sequence of float
        Likenesses that are features of their own when reached.

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

    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        if self.scale is not None:
            check_number(self.scale, "Numeric: scale", low=0, open_low=True)
        numbers = np.array(distinct, dtype=np.float64)
        larger = np.maximum(np.abs(numbers[one]), np.abs(numbers[other]))
        scale = np.where(larger > 0, larger, 1.0) if self.scale is None else self.scale
        return np.clip(1.0 - np.abs(numbers[one] - numbers[other]) / scale, 0.0, 1.0)


class Date(Comparison):
    """Share of year, month and day that two dates have in common, day and month also where they are exchanged.

    A slip changes one part of a date, however many days that makes, so parts are compared rather than days.

    Parameters
    ----------
    format : str, optional
        As of `datetime.strptime`; by default dates, ISO (2001-02-28) and eight digits (20010228) are read.
    levels : sequence of float
        Likenesses that are features of their own when reached.

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
        written = str(value).strip()
        if self.format is not None:
            try:
                found = datetime.datetime.strptime(written, self.format)
            except ValueError:
                return None
            return found.year, found.month, found.day
        # Parts are compared one by one, so a day that no calendar has is read all the same.
        parts = re.fullmatch(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?", written)
        return None if parts is None else (int(parts[1]), int(parts[2]), int(parts[3]))

    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        dates = np.array(distinct, dtype=np.int64)
        left, right = dates[one], dates[other]
        straight = (left == right).sum(axis=1)
        exchanged = (left == right[:, [0, 2, 1]]).sum(axis=1)
        return np.maximum(straight, exchanged) / 3


class Embedding(Comparison):
    """Cosine of the angle between vectors that the user gives, 0 where they point apart.

    Examples
    --------
    >>> vectors = [[1.0, 0.0], [1.0, 1.0]]
    >>> Embedding().features(vectors, np.array([0]), np.array([1]), "meaning").round(4)
    array([[0.7071, 0.    ]])
    """

    name = "embedding"

    def __init__(self, levels: Sequence[float] = ()) -> None:
        self.levels = levels

    def _distinct(self, values: Sequence[Any], name: str) -> tuple[list[Any], IntArray]:
        known = [row for row, value in enumerate(values) if value is not None]
        distinct = [self._parse(values[row], f"{name}, row {row}") for row in known]
        for row, vector in zip(known, distinct, strict=True):
            if vector.shape != distinct[0].shape:
                raise InvalidInputError(
                    f"{name}, row {row}: a vector of {len(vector)} numbers, but that of row {known[0]} has "
                    f"{len(distinct[0])}."
                )
        code = np.full(len(values), -1, dtype=np.int64)
        code[known] = np.arange(len(known))
        return distinct, code

    def _parse(self, value: Any, name: str) -> Any:
        try:
            vector = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty((0, 0))
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise InvalidInputError(f"{name}: expected a vector of finite numbers, got {value!r:.60}.")
        return vector

    def _likeness(self, distinct: list[Any], one: IntArray, other: IntArray) -> FloatArray:
        vectors = np.array(distinct)
        length = np.linalg.norm(vectors, axis=1)
        vectors /= np.where(length > 0, length, 1.0)[:, None]
        return np.clip(np.einsum("kd,kd->k", vectors[one], vectors[other]), 0.0, 1.0)


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

Declared = Mapping[str, str | Comparison | Sequence[str | Comparison]]


def resolve_comparisons(declared: Declared) -> list[tuple[str, Comparison]]:
    """Column and comparison of each declared one; names stand for comparisons with their defaults.

    Examples
    --------
    >>> resolve_comparisons({"name": ["exact", JaroWinkler()], "born": "date"})
    [('name', ExactMatch()), ('name', JaroWinkler()), ('born', Date())]
    """
    if not isinstance(declared, Mapping) or not declared:
        raise InvalidInputError(
            "comparisons must be a dict from column to comparison, such as {'name': 'jaro_winkler'}, got "
            f"{declared!r:.60}. Known: {', '.join(COMPARISONS.names)}."
        )
    found = []
    for column, given in declared.items():
        several = [given] if isinstance(given, (str, Comparison)) else list(given)
        found += [(column, COMPARISONS.resolve(one)) for one in several]
    return found


def compare_pairs(
    table: Table, comparisons: Sequence[tuple[str, Comparison]], first: IntArray, second: IntArray
) -> FloatArray:
    """Features of pairs of records, comparison by comparison side by side.

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
    parts = run_by_workers(calls, None)  # one after the other, unless joblib is configured: they hold the interpreter
    return np.hstack(parts) if parts else np.zeros((len(first), 0))
