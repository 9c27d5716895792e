"""From records, or from a table of scored pairs, to candidate pairs with features."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters.blocking import BLOCKINGS, AllPairs, Blocking, SharedTokens, candidate_pairs
from intarsia.clusters.comparisons import Comparison, compare_pairs
from intarsia.clusters.tables import Table, check_ids, read_table, record_ids, tokens
from intarsia.exceptions import InvalidInputError

# How programs for linkage call the two ends of a pair.
_KNOWN_ENDS = (
    ("unique_id_l", "unique_id_r"), ("id_l", "id_r"), ("id1", "id2"), ("id_1", "id_2"), ("left", "right"),
    ("record_id_1", "record_id_2"),
)  # fmt: skip


_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_KNOWN_SCORES = ("match_weight", "match_probability", "probability", "confidence_score", "confidence", "score")


@dataclass(frozen=True, eq=False)
class RecordPairs:
    """Rows of the input, the different records among them, and the pairs of records that may belong together.

    Attributes
    ----------
    ids : list
        Name of each row, in the order of the input.
    record_of : (n_rows,) int array
        Number of the record that a row is; rows that are the same in all that is compared are one record.
    pairs : (n_pairs, 2) int array
        Numbers of records, the smaller first, each pair once, in order.
    values : (n_pairs, n_features) array
        Features of each pair.
    names : tuple of str
        Names of the features.
    """

    ids: list[Any]
    record_of: IntArray
    pairs: IntArray
    values: FloatArray
    names: tuple[str, ...]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.record_of.max(initial=-1)) + 1

    @cached_property
    def first_row(self) -> IntArray:
        """First row of each record."""
        return np.unique(self.record_of, return_index=True)[1].astype(np.int64)

    def name(self, record: int) -> Any:
        """Id of the first row of a record."""
        return self.ids[int(self.first_row[record])]

    def find(self, ids: Sequence[Any], name: str) -> IntArray:
        """Numbers of the records with these ids; one that is missing is named.

        Examples
        --------
        >>> records = RecordPairs(["a", "b"], np.array([0, 1]), np.empty((0, 2), int), np.empty((0, 0)), ())
        >>> records.find(["b"], "must_link")
        array([1])
        """
        names = [given.item() if hasattr(given, "item") else given for given in ids]
        rows = np.fromiter(map(self._row_of.get, names, repeat(-1)), np.int64, len(names))
        unknown = np.flatnonzero(rows < 0)
        if unknown.size:
            k = int(unknown[0])
            raise InvalidInputError(
                f"{name}, row {k}: there is no record {names[k]!r}. Name records of the table, by their ids."
            )
        return self.record_of[rows]

    @cached_property
    def _row_of(self) -> dict[Any, int]:
        return {name: row for row, name in enumerate(self.ids)}


def compared_records(
    records: Any,
    comparisons: Sequence[tuple[str, Comparison]],
    blocking: str | Blocking | Sequence[str | Blocking] | None,
    id_column: str | None,
    apart: Sequence[Any] | None = None,
) -> RecordPairs:
    """Candidate pairs of a table, compared column by column.

    Without `blocking`, pairs must share a rare word in a column that is compared as text; where none is, all pairs
    are candidates. Rows that agree in every column that is compared, or that blocking names, are one record: nothing
    could tell them apart, and a hundred copies of a row would make its words look common.

    Parameters
    ----------
    records : table
        See `read_table`.
    comparisons : list of (column, comparison)
        What is compared.
    blocking : blocking, or list of them, optional
        Candidate pairs.
    id_column : str, optional
        See `record_ids`.
    apart : sequence, optional
        One thing for each row; rows for which it differs are never one record.

    Examples
    --------
    >>> from intarsia.clusters.comparisons import ExactMatch
    >>> found = compared_records({"name": ["Ann", "ann", "Bob", "Ann"]}, [("name", ExactMatch())], None, None)
    >>> found.pairs.tolist(), found.values.tolist(), found.names
    ([[0, 1]], [[1.0, 0.0]], ('name exact', 'name exact missing'))
    >>> found.record_of
    array([0, 1, 2, 0])
    """
    table = read_table(records)
    ids = record_ids(table, id_column)
    texts = list(dict.fromkeys(column for column, comparison in comparisons if comparison.text))
    if blocking is None:
        blocking = SharedTokens(texts) if texts else AllPairs()
    several = [blocking] if isinstance(blocking, (str, Blocking)) else list(blocking)
    rules = [BLOCKINGS.resolve(one) for one in several]
    used = dict.fromkeys([column for column, _ in comparisons] + [name for rule in rules for name in rule.named()])
    names = tuple(name for column, comparison in comparisons for name in comparison.feature_names(column))
    if table.n_rows == 0:
        return RecordPairs(ids, np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty((0, len(names))), names)
    columns = {name: table.column(name) for name in used}
    record_of = _distinct_rows(list(columns.values()), apart, table.n_rows)
    first = np.unique(record_of, return_index=True)[1]
    kept = Table({name: [values[row] for row in first] for name, values in columns.items()}, len(first))
    pairs = candidate_pairs(kept, rules)
    return RecordPairs(ids, record_of, pairs, compare_pairs(kept, comparisons, pairs[:, 0], pairs[:, 1]), names)


def _distinct_rows(columns: list[list[Any]], apart: Sequence[Any] | None, n_rows: int) -> IntArray:
    """Number of the record of each row, by first occurrence; rows without any value are records of their own."""
    number: dict[Any, int] = {}
    found = np.empty(n_rows, dtype=np.int64)
    for row, values in enumerate(zip(*columns, strict=True)):
        key: Any = (None if apart is None else apart[row], *map(_hashable, values))
        found[row] = number.setdefault(row if all(value is None for value in values) else key, len(number))
    return found


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return tuple(value) if isinstance(value, list) else value


def scored_records(
    records: Any, edges: Any, id_column: str | None, edge_ids: tuple[str, str] | None, edge_scores: Sequence[str] | None
) -> RecordPairs:
    """Records with the scored pairs that a matcher such as Splink or dedupe gave.

    Parameters
    ----------
    records : table or list of ids
        All records, also those in no pair.
    edges : table
        A row for each pair: two ids and one or more scores.
    id_column : str, optional
        Column of the ids where `records` is a table.
    edge_ids : pair of str, optional
        Columns with the ids; by default those of Splink and others, or the first two.
    edge_scores : list of str, optional
        Columns with scores; by default those that are called so, or all other columns that hold numbers.

    Examples
    --------
    >>> edges = {"id1": ["a", "b"], "id2": ["b", "c"], "score": [0.9, 0.2]}
    >>> found = scored_records(["a", "b", "c"], edges, None, None, None)
    >>> found.pairs.tolist(), found.values.ravel().tolist(), found.names
    ([[0, 1], [1, 2]], [0.9, 0.2], ('score',))
    """
    ids = _ids_of(records, id_column)
    with errors_in("edges"):
        table = read_table(edges)
    ends = edge_ids or next((pair for pair in _KNOWN_ENDS if set(pair) <= set(table.columns)), None)
    if ends is None:
        if len(table.columns) < 2:
            raise InvalidInputError(f"edges has columns {list(table.columns)}; expected two ids and a score.")
        first, second, *_ = table.columns
        ends = (first, second)
    scores = list(edge_scores) if edge_scores is not None else _score_columns(table, ends)
    if not scores:
        raise InvalidInputError(f"edges has no column of numbers besides {ends}. Name one by edge_scores.")
    values = np.column_stack([_numbers(table.column(name), f"edges, {name!r}") for name in scores])
    numbers = np.arange(len(ids), dtype=np.int64)
    empty = RecordPairs(ids, numbers, np.empty((0, 2), np.int64), values, ())
    pairs = np.column_stack([empty.find(table.column(end), "edges") for end in ends])
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise InvalidInputError(
            f"edges, row {loops[0]}: record {ids[pairs[loops[0], 0]]!r} is paired with itself. Leave it out."
        )
    pairs = np.sort(pairs, axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    twice = np.flatnonzero((np.diff(pairs[order], axis=0) == 0).all(axis=1))
    if twice.size:
        one, other = pairs[order[twice[0]]]
        raise InvalidInputError(f"edges has the pair {ids[one]!r}, {ids[other]!r} twice. Give each pair once.")
    return RecordPairs(ids, numbers, pairs[order], values[order], tuple(scores))


def guess_comparisons(table: Table, without: Sequence[str] = ()) -> dict[str, str]:
    """A comparison for each column by what it holds: dates, numbers, long texts, short texts.

    Examples
    --------
    >>> columns = {"name": ["Ann Lee"], "born": ["2001-02-03"], "age": [20], "note": ["a text of many words"]}
    >>> guess_comparisons(read_table(columns))
    {'name': 'jaro_winkler', 'born': 'date', 'age': 'numeric', 'note': 'token_overlap'}
    """
    found = {}
    for name, values in table.columns.items():
        known = [value for value in values if value is not None]
        if name in without or not known:
            continue
        if all(isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) for value in known):
            found[name] = "embedding"
        elif np.mean([hasattr(value, "year") or _ISO_DATE.match(str(value)) is not None for value in known]) > 0.8:
            found[name] = "date"
        elif all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in known):
            found[name] = "numeric"
        else:
            lengths = [len(tokens(value)) for value in known]
            found[name] = "token_overlap" if np.mean(lengths) > 3 else "jaro_winkler"
    return found


def _ids_of(records: Any, id_column: str | None) -> list[Any]:
    if hasattr(records, "to_list"):  # a column of a data frame
        records = records.to_list()
    listed = isinstance(records, np.ndarray) or (isinstance(records, Sequence) and not isinstance(records, str))
    if listed and not any(isinstance(record, Mapping) for record in records):
        return check_ids(records)
    return record_ids(read_table(records), id_column)


def _score_columns(table: Table, ends: tuple[str, str]) -> list[str]:
    """Columns that are called as scores are; where there is none, all that hold numbers."""
    found = [name for name in table.columns if name in _KNOWN_SCORES]
    if found:
        return found
    for name, values in table.columns.items():
        if name not in ends and any(value is not None for value in values):
            try:
                [float(value) for value in values if value is not None]
            except (TypeError, ValueError):
                continue
            found.append(name)
    return found


def _numbers(values: list[Any], name: str) -> FloatArray:
    with suppress(TypeError, ValueError):  # all at once where nothing is amiss, else one by one to name the first
        found = np.fromiter(map(float, values), np.float64, len(values))
        if np.isfinite(found).all():
            return found
    found = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            found[row] = float(value)
        except (TypeError, ValueError):
            found[row] = np.nan
        if not np.isfinite(found[row]):
            raise InvalidInputError(f"{name}, row {row}: expected a finite number, got {value!r}. Leave the pair out.")
    return found
