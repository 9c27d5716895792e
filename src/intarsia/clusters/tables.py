"""Records of any data frame as lists of values, and strings split into comparable words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from intarsia._core.validation import check_choice, check_number
from intarsia._files.tables import TABLES, TableKind, read_columns, table_kind
from intarsia.exceptions import InvalidInputError


def plain_text(value: Any) -> str:
    """Return a string without case, accents and extra whitespace.

    Examples
    --------
    >>> plain_text("  Hélène   O'Hara")
    "helene o'hara"
    """
    decomposed = unicodedata.normalize("NFKD", str(value))
    return " ".join("".join(letter for letter in decomposed if not unicodedata.combining(letter)).casefold().split())


def tokens(value: Any, ngram: int | None = None) -> list[str]:
    """Return the words of a string (letters and digits), or its character n-grams.

    Examples
    --------
    >>> tokens("Proc. 36th Annual")
    ['proc', '36th', 'annual']
    >>> tokens("ann", ngram=2)
    [' a', 'an', 'nn', 'n ']
    """
    words = re.findall(r"\w+", plain_text(value))
    if ngram is None:
        return words
    check_number(ngram, "ngram", low=1, integer=True)
    padded = f" {' '.join(words)} "
    return [padded[k : k + ngram] for k in range(len(padded) - ngram + 1)]


def token_matrix(sets: Sequence[Sequence[str] | frozenset[str]]) -> csr_array:
    """Return a sparse matrix that is 1 where a set (row) has a token (column); columns in order of appearance.

    Examples
    --------
    >>> token_matrix([["a", "b"], ["b"]]).toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    column_of_token: dict[str, int] = {}
    columns = [
        column_of_token.setdefault(token, len(column_of_token)) for words in sets for token in sorted(set(words))
    ]
    ends = np.cumsum([0, *(len(set(words)) for words in sets)])
    return csr_array(
        (np.ones(len(columns)), np.array(columns, dtype=np.int64), ends), shape=(len(sets), len(column_of_token))
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; missing values are None.

    Attributes
    ----------
    columns : dict of str -> list or array
        Values of each column; arrays only if `read_table` was called with `keep_arrays`.
    n_rows : int
        Number of records.
    kind : TableKind or None
        Kind of data frame that the records came from.

    Examples
    --------
    >>> read_table({"name": ["Ann", " "], "age": [3, float("nan")]}).columns
    {'name': ['Ann', None], 'age': [3, None]}
    """

    columns: dict[str, Any]
    n_rows: int
    kind: TableKind | None = None

    def column(self, name: str) -> Any:
        """Return the values of a column; raise for an unknown name, with the closest names."""
        return self.columns[check_choice(name, self.columns, "column")]


def read_table(records: Any, *, keep_arrays: bool = False) -> Table:
    """Read records from a data frame, a dict of columns or a list of dicts.

    None, NaN, NA and blank strings are missing values.

    Parameters
    ----------
    records : table, dict of sequences, or list of dicts
        Any input of `read_columns`: data frames, DuckDB relations, paths of Parquet, CSV and TSV files.
    keep_arrays : bool
        Whether arrays of numbers without missing values stay arrays, for tables with millions of rows.

    Raises
    ------
    InvalidInputError
        If the type is not supported, or if columns have unequal lengths.

    Examples
    --------
    >>> read_table([{"name": "Ann"}, {"age": 5}]).columns
    {'name': ['Ann', None], 'age': [None, 5]}
    """
    if isinstance(records, Table):
        return records
    if isinstance(records, Sequence) and all(isinstance(row, Mapping) for row in records):
        names = list(dict.fromkeys(str(name) for row in records for name in row))
        columns = {name: [_none_if_missing(row.get(name)) for row in records] for name in names}
        return Table(columns, len(records), None)
    values_of_column = read_columns(records)
    if values_of_column is None:
        raise InvalidInputError(f"records are of type {type(records).__name__}. Pass {TABLES}, or a list of dicts.")
    columns = {str(name): _column_values(values, keep_arrays) for name, values in values_of_column.items()}
    return Table(columns, len(next(iter(columns.values()), ())), table_kind(records))


def _column_values(values: Iterable[Any], keep_arrays: bool) -> Any:
    """Return the values with None for missing ones, as a list; see `read_table` for arrays of numbers."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        if values.dtype.kind == "f" and np.isnan(values).any():
            return list(map(_none_if_missing, values.tolist()))
        return values if keep_arrays else values.tolist()
    return [_none_if_missing(value) for value in values]


def _none_if_missing(value: Any) -> Any:
    """Return the value, or None if it is a blank string or NaN."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, float) and value != value:
        return None
    return value


def record_ids(table: Table, column: str | None) -> list[Any]:
    """Return the ids of the records: the values of a column, which must be unique and present, or row numbers from 0.

    Examples
    --------
    >>> record_ids(read_table({"id": ["a", "b"]}), "id")
    ['a', 'b']
    >>> record_ids(read_table({"id": ["a", "a"]}), "id")
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: id 'a' is in row 0 and in row 1. Make ids unique.
    """
    if column is None:
        return list(range(table.n_rows))
    return check_ids(table.column(column))


def check_id(value: Any, name: str) -> None:
    """Raise if a value cannot be the id of a record, such as a table or a list.

    Examples
    --------
    >>> check_id([1, 2], "explain")
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: explain: expected the id of a record, got a list. Pass a string or a number.
    """
    try:
        hash(value)
    except TypeError:
        raise InvalidInputError(
            f"{name}: expected the id of a record, got a {type(value).__name__}. Pass a string or a number."
        ) from None


def check_ids(ids: Iterable[Any]) -> list[Any]:
    """Return the ids as a list; raise if one is missing or repeated."""
    values = [value.item() if hasattr(value, "item") else value for value in ids]
    row_of: dict[Any, int] = {}
    for row, value in enumerate(values):
        if value is None or value != value:
            raise InvalidInputError(f"the id of row {row} is missing. Pass an id for every record.")
        if value in row_of:
            raise InvalidInputError(f"id {value!r} is in row {row_of[value]} and in row {row}. Make ids unique.")
        row_of[value] = row
    return values
