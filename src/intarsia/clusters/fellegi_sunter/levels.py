"""Agreement levels of pairs of records, and the relative frequencies of the values of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters.comparisons import Comparison, ExactMatch
from intarsia.clusters.tables import Table

MISSING = -1
# Levels of a comparison of similarities that has none below 1, such as numbers and embeddings.
_DEFAULT_LEVELS = (0.6, 0.75, 0.9)


@dataclass(frozen=True, eq=False)
class AgreementLevels:
    """Agreement levels of one comparison of a column.

    A pair has level 0 if its similarity reaches none of the thresholds, k if it reaches the first k of them, and the
    highest level, `n_levels - 1`, if the values are equal. It has level -1 if a value is missing.

    Attributes
    ----------
    column : str
        Name of the column.
    comparison : Comparison
        Comparison of two values.

    Examples
    --------
    >>> from intarsia.clusters.comparisons import JaroWinkler
    >>> name = AgreementLevels("name", JaroWinkler(levels=(0.7, 0.9)))
    >>> name.labels
    ('differ', '>= 0.7', '>= 0.9', 'equal')
    """

    column: str
    comparison: Comparison

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Similarities at which a level begins, in ascending order."""
        levels = tuple(sorted({float(level) for level in self.comparison.levels if level > 0}))
        if isinstance(self.comparison, ExactMatch) or (levels and levels[0] < 1.0):
            return levels
        return (*_DEFAULT_LEVELS, *levels)

    @property
    def n_levels(self) -> int:
        """Number of levels, without that of missing values."""
        return len(self.thresholds) + 2

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the levels, from the lowest."""
        return ("differ", *(f">= {threshold:g}" for threshold in self.thresholds), "equal")

    @property
    def name(self) -> str:
        """Name of the comparison, which begins with that of the column."""
        return f"{self.column} {self.comparison.name}"

    def levels(self, features: FloatArray, codes: IntArray, first: IntArray, second: IntArray) -> IntArray:
        """Return the level of each pair from the features of the comparison and the codes of the values.

        Parameters
        ----------
        features : (n_pairs, n_features) array
            Result of `Comparison.features`: similarity first, whether a value is missing last.
        codes : (n_rows,) int array
            Number of each row's value, -1 where it is missing.
        first, second : (n_pairs,) int arrays
            Rows of each pair.
        """
        level = np.searchsorted(np.array(self.thresholds) - 1e-12, features[:, 0], side="right")
        level[codes[first] == codes[second]] = self.n_levels - 1
        level[features[:, -1] > 0.5] = MISSING
        return level.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """Values of a column as numbers, with a key for each distinct value.

    Attributes
    ----------
    codes : (n_rows,) int array
        Number of each row's value, -1 where it is missing.
    keys : list of str
        Key of each distinct value, equal for equal values of different tables.
    """

    codes: IntArray
    keys: list[str]

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each value that occurs at least twice."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.keys))
        return {self.keys[k]: int(counts[k]) for k in np.flatnonzero(counts > 1)}

    def frequencies(self, counts: Mapping[str, int], n_present: int) -> FloatArray:
        """Return the relative frequency of each distinct value, by counts of another table."""
        return np.array([counts.get(key, 1) for key in self.keys], dtype=np.float64) / max(n_present, 1)


def read_values(table: Table, levels: AgreementLevels) -> ColumnValues:
    """Return the values of a column as the comparison reads them.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> values = read_values(read_table({"name": ["Ann", None, "ann ", "Bob"]}), AgreementLevels("name", ExactMatch()))
    >>> values.codes, values.keys, values.counts()
    (array([ 0, -1,  0,  1]), ['ann', 'bob'], {'ann': 2})
    """
    name = f"column {levels.column!r}"
    distinct, codes = levels.comparison.distinct_values(table.column(levels.column), name)
    return ColumnValues(codes, [_key(value) for value in distinct])


def _key(value: Any) -> str:
    """Return a string that identifies a value, also in a file."""
    if isinstance(value, str):
        return value
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)


def pair_levels(
    columns: Sequence[AgreementLevels], values: Sequence[ColumnValues], features: FloatArray, pairs: IntArray
) -> IntArray:
    """Return the levels of pairs of rows in all columns as an array (n_pairs, n_columns).

    Parameters
    ----------
    columns : list of AgreementLevels
        Levels of each column.
    values : list of ColumnValues
        Values of each column.
    features : (n_pairs, n_features) array
        Features of all comparisons, concatenated as by `compare_pairs`.
    pairs : (n_pairs, 2) int array
        Rows of each pair.
    """
    levels = np.empty((len(pairs), len(columns)), dtype=np.int64)
    begin = 0
    for k, (column, column_values) in enumerate(zip(columns, values, strict=True)):
        end = begin + len(column.comparison.feature_names(column.column))
        levels[:, k] = column.levels(features[:, begin:end], column_values.codes, pairs[:, 0], pairs[:, 1])
        begin = end
    return levels
