"""Candidate pairs of records with features, from a table of records or from a table of scored pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters.blocking import BLOCKINGS, AllPairs, Blocking, SharedTokens, unique_pairs
from intarsia.clusters.cluster_model import sort_pairs
from intarsia.clusters.comparisons import Comparison, compare_pairs
from intarsia.clusters.resolution.pair_columns import choose_pair_columns, kind_of_column
from intarsia.clusters.tables import Table, check_id, check_ids, read_table, record_ids, tokens
from intarsia.exceptions import InvalidInputError

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SCORE_COLUMNS = ("match_weight", "match_probability", "probability", "confidence_score", "confidence", "score")


@dataclass(frozen=True, eq=False)
class RecordPairs:
    """Input rows, the distinct records among them, and the candidate pairs of records.

    Attributes
    ----------
    ids : list
        Id of each row, in the order of the input.
    record_of : (n_rows,) int array
        Record of each row; rows that are equal in all compared columns are one record.
    pairs : (n_pairs, 2) int array
        Records of each pair, the smaller number first; each pair once, sorted.
    values : (n_pairs, n_features) array
        Features of each pair.
    names : tuple of str
        Names of the features.
    columns : dict of str -> list
        Values of each record, of the columns that features of clusters read.
    pairs_per_rule : dict of str -> int
        Number of pairs that each blocking rule selects.
    """

    ids: list[Any]
    record_of: IntArray
    pairs: IntArray
    values: FloatArray
    names: tuple[str, ...]
    columns: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    pairs_per_rule: dict[str, int] = field(default_factory=dict, repr=False)

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

    def find(self, ids: Sequence[Any] | np.ndarray[Any, Any], name: str) -> IntArray:
        """Return the records with these ids; raise for the first unknown id.

        Examples
        --------
        >>> records = RecordPairs(["a", "b"], np.array([0, 1]), np.empty((0, 2), int), np.empty((0, 0)), ())
        >>> records.find(["b"], "must_link")
        array([1])
        """
        if isinstance(ids, np.ndarray):
            rows = self._rows_of_integers(ids)
            if rows is not None:
                return self.record_of[rows]
        values = list(ids)
        if any(hasattr(kind, "item") for kind in set(map(type, values))):  # numbers of NumPy
            values = [value.item() if hasattr(value, "item") else value for value in values]
        try:
            rows = np.fromiter(map(self._row_of.__getitem__, values), np.int64, len(values))
        except (KeyError, TypeError):
            for row, value in enumerate(values):
                check_id(value, f"{name}, row {row}")
            k = next(k for k, value in enumerate(values) if value not in self._row_of)
            raise InvalidInputError(
                f"{name}, row {k}: there is no record with id {values[k]!r}. Use ids of the table."
            ) from None
        return self.record_of[rows]

    def _rows_of_integers(self, values: np.ndarray[Any, Any]) -> IntArray | None:
        """Return the rows with these ids from a table; None if an id is not in the table or not an integer."""
        first_id, row_of_id = self._row_of_integer
        if values.dtype.kind not in "iu" or values.size == 0 or row_of_id.size == 0:
            return None
        if values.min() < first_id or values.max() >= first_id + row_of_id.size:
            return None
        rows = row_of_id[values.astype(np.int64) - first_id]
        return rows if rows.min() >= 0 else None

    @cached_property
    def _row_of_integer(self) -> tuple[int, IntArray]:
        """Smallest id, and the row of each integer from there on, -1 for none; empty unless ids are dense integers."""
        if set(map(type, self.ids)) != {int} or max(self.ids) - min(self.ids) >= 8 * len(self.ids):
            return 0, np.empty(0, np.int64)
        first_id = min(self.ids)
        row_of_id = np.full(max(self.ids) - first_id + 1, -1, dtype=np.int64)
        row_of_id[[value - first_id for value in self.ids]] = np.arange(len(self.ids))
        return first_id, row_of_id

    @cached_property
    def _row_of(self) -> dict[Any, int]:
        """Row of each id."""
        return {name: row for row, name in enumerate(self.ids)}


def compared_records(
    records: Any,
    comparisons: Sequence[tuple[str, Comparison]],
    blocking: str | Blocking | Sequence[str | Blocking] | None,
    id_column: str | None,
    separating_keys: Sequence[Any] | None = None,
    *,
    ids: list[Any] | None = None,
    side: IntArray | None = None,
    feature_columns: Sequence[str] = (),
) -> RecordPairs:
    """Compare the candidate pairs of a table column by column.

    Without `blocking`, candidates are the pairs that share a rare word in a text column; without text columns, all
    pairs. Rows that are equal in every column that is compared or used by blocking are treated as one record: they
    cannot be distinguished, and a hundred copies of a row would make its words look frequent.

    Parameters
    ----------
    records : table
        See `read_table`.
    comparisons : list of (column, comparison)
        Columns and their comparisons.
    blocking : blocking, or list of them, optional
        Blocking rules that select the candidate pairs.
    id_column : str, optional
        See `record_ids`.
    separating_keys : sequence, optional
        One key per row; rows with different keys are never one record.
    ids : list, optional
        Ids of the rows, instead of `id_column`.
    side : (n_rows,) int array, optional
        Table of each row, 0 or 1: only pairs across two tables are candidates.
    feature_columns : list of str
        Columns that features of clusters read.

    Examples
    --------
    >>> from intarsia.clusters.comparisons import ExactMatch
    >>> records = compared_records({"name": ["Ann", "ann", "Bob", "Ann"]}, [("name", ExactMatch())], None, None)
    >>> records.pairs.tolist(), records.values.tolist(), records.names
    ([[0, 1]], [[1.0, 0.0]], ('name exact', 'name exact missing'))
    >>> records.record_of
    array([0, 1, 2, 0])
    """
    table = read_table(records)
    ids = record_ids(table, id_column) if ids is None else ids
    rules = blocking_rules(comparisons, blocking)
    names = comparison_names(comparisons)
    if table.n_rows == 0:
        return RecordPairs(ids, np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty((0, len(names))), names)
    columns = {name: table.column(name) for name in used_columns(comparisons, rules, feature_columns)}
    record_of = _distinct_rows(list(columns.values()), separating_keys, table.n_rows)
    first = np.unique(record_of, return_index=True)[1]
    distinct = Table({name: [values[row] for row in first] for name, values in columns.items()}, len(first))
    pairs_of_rules = [rule.pairs(distinct) for rule in rules]
    if side is not None:
        side_of_record = side[first]
        pairs_of_rules = [pairs[side_of_record[pairs[:, 0]] != side_of_record[pairs[:, 1]]] for pairs in pairs_of_rules]
    pairs = unique_pairs(pairs_of_rules)
    values = compare_pairs(distinct, comparisons, pairs[:, 0], pairs[:, 1])
    feature_values = {name: distinct.columns[name] for name in feature_columns}
    pairs_per_rule = {repr(rule): len(pairs) for rule, pairs in zip(rules, pairs_of_rules, strict=True)}
    return RecordPairs(ids, record_of, pairs, values, names, feature_values, pairs_per_rule)


def blocking_rules(
    comparisons: Sequence[tuple[str, Comparison]], blocking: str | Blocking | Sequence[str | Blocking] | None
) -> list[Blocking]:
    """Return the blocking rules of a setting; by default pairs that share a rare word in a text column.

    Examples
    --------
    >>> from intarsia.clusters.comparisons import ExactMatch
    >>> blocking_rules([("name", ExactMatch())], None)
    [SharedTokens(columns=['name'])]
    """
    if blocking is None:
        texts = list(dict.fromkeys(column for column, comparison in comparisons if comparison.text))
        blocking = SharedTokens(texts) if texts else AllPairs()
    return [BLOCKINGS.resolve(rule) for rule in ([blocking] if isinstance(blocking, (str, Blocking)) else blocking)]


def used_columns(
    comparisons: Sequence[tuple[str, Comparison]], rules: Sequence[Blocking], feature_columns: Sequence[str]
) -> list[str]:
    """Return the columns that are compared, used by blocking rules or read by features of clusters, each once."""
    of_rules = [name for rule in rules for name in rule.named()]
    return list(dict.fromkeys([*(column for column, _ in comparisons), *of_rules, *feature_columns]))


def comparison_names(comparisons: Sequence[tuple[str, Comparison]]) -> tuple[str, ...]:
    """Return the names of the features of all comparisons."""
    return tuple(name for column, comparison in comparisons for name in comparison.feature_names(column))


def _distinct_rows(columns: list[list[Any]], separating_keys: Sequence[Any] | None, n_rows: int) -> IntArray:
    """Return the record of each row, numbered by first occurrence; rows without any value are separate records."""
    record_of_key: dict[Any, int] = {}
    record_of = np.empty(n_rows, dtype=np.int64)
    for row, values in enumerate(zip(*columns, strict=True)):
        key: Any = (None if separating_keys is None else separating_keys[row], *map(_hashable_value, values))
        record_of[row] = record_of_key.setdefault(
            row if all(value is None for value in values) else key, len(record_of_key)
        )
    return record_of


def _hashable_value(value: Any) -> Any:
    """Return the value, with arrays and lists converted to hashable objects."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return tuple(value) if isinstance(value, list) else value


def scored_records(
    records: Any, edges: Any, id_column: str | None, edge_ids: tuple[str, str] | None, edge_scores: Sequence[str] | None
) -> RecordPairs:
    """Return records with the scored pairs of a record linkage program such as Splink or dedupe.

    Parameters
    ----------
    records : table or list of ids
        All records, including those in no pair.
    edges : table
        One row per pair: two ids and one or more scores.
    id_column : str, optional
        Column of the ids if `records` is a table.
    edge_ids : pair of str, optional
        Columns with the ids; by default they are recognised by their names, see `choose_pair_columns`.
    edge_scores : list of str, optional
        Columns with scores; by default columns with a usual name of a score, or all other columns of numbers.

    Examples
    --------
    >>> edges = {"id1": ["a", "b"], "id2": ["b", "c"], "score": [0.9, 0.2]}
    >>> records = scored_records(["a", "b", "c"], edges, None, None, None)
    >>> records.pairs.tolist(), records.values.ravel().tolist(), records.names
    ([[0, 1], [1, 2]], [0.9, 0.2], ('score',))
    """
    ids = ids_of(records, id_column)
    with errors_in("edges"):
        table = read_table(edges, keep_arrays=True)
        kinds = {name: kind_of_column(values) for name, values in table.columns.items()}
        columns = choose_pair_columns(kinds, edge_ids, edge_scores or (), with_tables=False)
    ends = (columns.left[0], columns.right[0])
    scores = list(edge_scores) if edge_scores is not None else _score_columns(table, ends)
    if not scores:
        raise InvalidInputError(f"edges has no column of numbers besides {ends}. Name one with edge_scores=.")
    values = np.column_stack([_finite_numbers(table.column(name), f"edges, {name!r}") for name in scores])
    numbers = np.arange(len(ids), dtype=np.int64)
    empty = RecordPairs(ids, numbers, np.empty((0, 2), np.int64), values, ())
    pairs = np.column_stack([empty.find(table.column(end), "edges") for end in ends])
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise InvalidInputError(
            f"edges, row {loops[0]}: record {ids[pairs[loops[0], 0]]!r} is paired with itself. Remove this row."
        )
    pairs, order, repeated = sort_pairs(pairs, len(ids))
    if repeated is not None:
        first_record, second_record = pairs[repeated]
        raise InvalidInputError(
            f"edges has the pair {ids[first_record]!r}, {ids[second_record]!r} twice. Pass each pair once."
        )
    return RecordPairs(ids, numbers, pairs, values[order], tuple(scores))


def guess_comparisons(table: Table, excluded: Sequence[str] = ()) -> dict[str, str]:
    """Guess a comparison for each column from its values: dates, numbers, long strings or short strings.

    Examples
    --------
    >>> columns = {"name": ["Ann Lee"], "born": ["2001-02-03"], "age": [20], "note": ["a text of many words"]}
    >>> guess_comparisons(read_table(columns))
    {'name': 'jaro_winkler', 'born': 'date', 'age': 'numeric', 'note': 'token_overlap'}
    """
    comparisons = {}
    for name, values in table.columns.items():
        present = [value for value in values if value is not None]
        if name in excluded or not present:
            continue
        if all(isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) for value in present):
            comparisons[name] = "embedding"
        elif np.mean([hasattr(value, "year") or _ISO_DATE.match(str(value)) is not None for value in present]) > 0.8:
            comparisons[name] = "date"
        elif all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in present):
            comparisons[name] = "numeric"
        else:
            lengths = [len(tokens(value)) for value in present]
            comparisons[name] = "token_overlap" if np.mean(lengths) > 3 else "jaro_winkler"
    return comparisons


def ids_of(records: Any, id_column: str | None) -> list[Any]:
    """Return the ids of a list of ids, or of a table of records."""
    if hasattr(records, "to_list"):  # a column of a data frame
        records = records.to_list()
    is_list = isinstance(records, np.ndarray) or (isinstance(records, Sequence) and not isinstance(records, str))
    if is_list and not any(issubclass(kind, Mapping) for kind in set(map(type, records))):
        return check_ids(records)
    return record_ids(read_table(records), id_column)


def _score_columns(table: Table, ends: tuple[str, str]) -> list[str]:
    """Return the columns with a usual name of a score or, if there are none, all columns of numbers."""
    names = [name for name in table.columns if name in _SCORE_COLUMNS]
    if names:
        return names
    for name, values in table.columns.items():
        if name not in ends and any(value is not None for value in values):
            try:
                [float(value) for value in values if value is not None]
            except (TypeError, ValueError):
                continue
            names.append(name)
    return names


def _finite_numbers(values: list[Any] | np.ndarray[Any, Any], name: str) -> FloatArray:
    """Return the values as floats; raise for the first that is not a finite number."""
    with suppress(TypeError, ValueError):  # fast path; the loop below names the first offender
        if isinstance(values, np.ndarray):
            numbers = values.astype(np.float64)
        else:
            numbers = np.fromiter(map(float, values), np.float64, len(values))
        if np.isfinite(numbers).all():
            return numbers
    numbers = np.empty(len(values))
    for row, value in enumerate(values.tolist() if isinstance(values, np.ndarray) else values):
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            raise InvalidInputError(f"{name}, row {row}: expected a finite number, got {value!r}. Remove the pair.")
    return numbers
