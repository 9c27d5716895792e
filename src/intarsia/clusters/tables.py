"""Records of any data frame as plain columns, and strings as comparable words."""

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
    """Text without case, accents, and superfluous blanks.

    Examples
    --------
    >>> plain_text("  Hélène   O'Hara")
    "helene o'hara"
    """
    split = unicodedata.normalize("NFKD", str(value))
    return " ".join("".join(letter for letter in split if not unicodedata.combining(letter)).casefold().split())


def tokens(value: Any, ngram: int | None = None) -> list[str]:
    """Words of a text, letters and digits only, or its runs of `ngram` letters.

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
    """1 where a set (row) has a token (column), in the order of appearance.

    Examples
    --------
    >>> token_matrix([["a", "b"], ["b"]]).toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    number: dict[str, int] = {}
    columns = [number.setdefault(token, len(number)) for one in sets for token in sorted(set(one))]
    ends = np.cumsum([0, *(len(set(one)) for one in sets)])
    return csr_array((np.ones(len(columns)), np.array(columns, dtype=np.int64), ends), shape=(len(sets), len(number)))


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, None where a value is missing.

    Attributes
    ----------
    columns : dict of str -> list
        Values of each column.
    n_rows : int
        Number of records.
    kind : TableKind or None
        What the records came in.

    Examples
    --------
    >>> read_table({"name": ["Ann", " "], "age": [3, float("nan")]}).columns
    {'name': ['Ann', None], 'age': [3, None]}
    """

    columns: dict[str, list[Any]]
    n_rows: int
    kind: TableKind | None = None

    def column(self, name: str) -> list[Any]:
        """Values of a column; an unknown name is refused with the nearest."""
        return self.columns[check_choice(name, self.columns, "column")]


def read_table(records: Any) -> Table:
    """A table from a data frame, a dict of columns, or a list of dicts; missing are None, NaN, NA and blank text.

    Parameters
    ----------
    records : table, dict of sequences, or list of dicts
        Whatever `read_columns` reads: data frames, DuckDB relations, paths of Parquet, CSV and TSV files.

    Raises
    ------
    InvalidInputError
        It is none of these, or columns have unequal lengths.

    Examples
    --------
    >>> read_table([{"name": "Ann"}, {"age": 5}]).columns
    {'name': ['Ann', None], 'age': [None, 5]}
    """
    if isinstance(records, Table):
        return records
    if isinstance(records, Sequence) and all(isinstance(row, Mapping) for row in records):
        names = list(dict.fromkeys(str(name) for row in records for name in row))
        columns = {name: [_present(row.get(name)) for row in records] for name in names}
        return Table(columns, len(records), None)
    found = read_columns(records)
    if found is None:
        raise InvalidInputError(f"records are of type {type(records).__name__}. Give {TABLES}, or a list of dicts.")
    columns = {str(name): _column(values) for name, values in found.items()}
    return Table(columns, len(next(iter(columns.values()), ())), table_kind(records))


def _column(values: Iterable[Any]) -> list[Any]:
    """Values with None for what stands for nothing; numbers of an array, as millions of edges come, all at once."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        plain: list[Any] = values.tolist()
        return plain if values.dtype.kind != "f" or not np.isnan(values).any() else list(map(_present, plain))
    return [_present(value) for value in values]


def _present(value: Any) -> Any:
    """The value, or None for what stands for nothing."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, float) and value != value:
        return None
    return value


def record_ids(table: Table, column: str | None) -> list[Any]:
    """Names of the records: the values of a column, all different and none missing, or their numbers from 0.

    Examples
    --------
    >>> record_ids(read_table({"id": ["a", "b"]}), "id")
    ['a', 'b']
    >>> record_ids(read_table({"id": ["a", "a"]}), "id")
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: id 'a' comes twice, in rows 0 and 1. Give each record an id of its own.
    """
    if column is None:
        return list(range(table.n_rows))
    return check_ids(table.column(column))


def check_ids(ids: Iterable[Any]) -> list[Any]:
    """The ids as a list; refused where one comes twice or is missing."""
    found = [value.item() if hasattr(value, "item") else value for value in ids]
    row_of: dict[Any, int] = {}
    for row, name in enumerate(found):
        if name is None or name != name:
            raise InvalidInputError(f"the id of row {row} is missing. Give each record an id of its own.")
        if name in row_of:
            raise InvalidInputError(
                f"id {name!r} comes twice, in rows {row_of[name]} and {row}. Give each record an id of its own."
            )
        row_of[name] = row
    return found
