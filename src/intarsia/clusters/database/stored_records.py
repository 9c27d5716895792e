"""Records in the database: cleaned strings, values as the comparisons read them, and equal rows as one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import IntArray
from intarsia.clusters.comparisons import Comparison, unreadable_error
from intarsia.clusters.database.sql_comparisons import SqlComparison, sql_comparison
from intarsia.clusters.database.stored_tables import DATE, INTEGER, TEXT, WHITESPACE, StoredTables
from intarsia.clusters.tables import plain_text


@dataclass(frozen=True, eq=False)
class StoredRecords:
    """Distinct records in the table `records` of the database.

    The table has the columns record, first_row, side, n_copies and position (in the sort order of all values); x0,
    x1, ... (cleaned strings of each column); and those of the comparisons.

    Attributes
    ----------
    tables : StoredTables
        Tables that the records come from.
    columns : dict of str -> int
        Number of each column.
    kinds : dict of str -> str
        Kind of each column.
    comparisons : list of SqlComparison
        Comparisons as SQL.
    record_of : (n_rows,) int array
        Record of each row.
    """

    tables: StoredTables
    columns: dict[str, int]
    kinds: dict[str, str]
    comparisons: list[SqlComparison]
    record_of: IntArray

    @property
    def connection(self) -> Any:
        """Connection to the database."""
        return self.tables.connection


def store_records(
    tables: StoredTables,
    comparisons: Sequence[tuple[str, Comparison]],
    columns: Sequence[str],
    separating_keys: IntArray | None,
) -> StoredRecords:
    """Clean the values, join equal rows into records and parse the values for the comparisons.

    Parameters
    ----------
    tables : StoredTables
        Tables of records.
    comparisons : list of (column, comparison)
        Columns and their comparisons.
    columns : list of str
        Columns that are compared or used by blocking, in the order that decides the sort order of records.
    separating_keys : (n_rows,) int array, optional
        Rows with different keys are never one record; an empty array if all rows are different records.

    Examples
    --------
    >>> from intarsia.clusters.comparisons import ExactMatch
    >>> with StoredTables([{"name": ["Ann", "ann", "Bob", "Ann"]}]) as tables:
    ...     store_records(tables, [("name", ExactMatch())], ["name"], None).record_of
    array([0, 1, 2, 0], dtype=int32)
    """
    connection, names = tables.connection, list(columns)
    kinds = tables.load(names)
    number = {name: k for k, name in enumerate(names)}
    lookups = _Lookups(connection)
    cleaned, plain = [], []
    for k, name in enumerate(names):
        raw, text = _cleaned_text(lookups, k, kinds[name])
        cleaned.append(f"{raw} as c{k}")
        plain.append(f"{text} as x{k}")
    key = "0" if separating_keys is None else "row" if not len(separating_keys) else "separating_key"
    source = "input_rows"
    if separating_keys is not None and len(separating_keys):
        connection.register("separating", {"row": np.arange(tables.n_rows), "separating_key": separating_keys})
        source += " join separating using (row)"
    connection.execute(
        f"create table cleaned_rows as select row, side, {key} as separating_key, {', '.join(cleaned + plain)} "
        f"from {source}{lookups.joins}"
    )
    connection.execute("drop table input_rows")
    _join_equal_rows(connection, len(names))
    expressions = [
        sql_comparison(k, comparison, f"c{number[name]}", f"x{number[name]}", kinds[name], name)
        for k, (name, comparison) in enumerate(comparisons)
    ]
    values = _parse_values(connection, expressions)
    order = ", ".join(f"coalesce(c{k}::VARCHAR, '')" for k in range(len(names)))
    strings = "".join(f", x{k}" for k in range(len(names)))
    connection.execute(
        f"create table records as select (row_number() over (order by first_row) - 1)::INTEGER as record, "
        f"first_row, side, n_copies, row_number() over (order by {order}, first_row) as position{strings}, "
        f"{', '.join(values.columns)} from distinct_rows{values.joins}"
    )
    record_of = connection.sql(
        "select record from row_groups join records using (first_row) order by row_groups.row"
    ).fetchnumpy()["record"]
    connection.execute("drop table distinct_rows; drop table row_groups")
    records = StoredRecords(tables, number, kinds, expressions, np.asarray(record_of))
    _check_readable(records, comparisons)
    return records


class _Lookups:
    """Values that Python converts: small tables of distinct values, which are joined to the rows."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._n_tables = 0
        self.joins = ""

    def add(self, table: str, column: str, condition: str, convert: Callable[[Any], Any], sql_type: str) -> str | None:
        """Convert the distinct values that meet a condition; return the SQL of the result, None if there are none."""
        distinct = self._connection.sql(
            f"select distinct {column} as raw from {table} where {column} is not null and {condition} order by raw"
        ).fetchnumpy()["raw"]
        if not len(distinct):
            return None
        raw = distinct.tolist()
        name = f"lookup_{table}_{self._n_tables}"
        self._n_tables += 1
        result = [convert(value) for value in raw]
        if sql_type == "VARCHAR":
            array = np.array([*result, None], dtype=object)[:-1]
        else:
            array = np.array([np.nan if value is None else value for value in result], dtype=np.float64)
        self._connection.register("lookup", {"raw": np.array([*raw, None], dtype=object)[:-1], "result": array})
        missing = "" if sql_type == "VARCHAR" else " where not isnan(result)"
        self._connection.execute(
            f"create table {name} as select raw::VARCHAR as raw, result::{sql_type} as result from lookup{missing}"
        )
        self._connection.unregister("lookup")
        self.joins += f" left join {name} on {name}.raw = {table}.{column}::VARCHAR"
        return f"{name}.result"


def _cleaned_text(lookups: _Lookups, k: int, kind: str) -> tuple[str, str]:
    """Return the SQL of a column's values, and of its values as cleaned strings (`plain_text`)."""
    column = f"c{k}"
    if kind in (INTEGER, DATE):
        return column, f"{column}::VARCHAR"
    if kind != TEXT:
        return column, "NULL"
    ascii_text = f"trim(regexp_replace(lower({column}), '{WHITESPACE}+', ' ', 'g'))"

    def convert(value: str) -> str | None:
        return plain_text(value) if value.strip() else None

    condition = f"strlen({column}) <> length({column})"  # values with characters of several bytes
    converted = lookups.add("input_rows", column, condition, convert, "VARCHAR")
    if converted is None:
        return column, ascii_text
    return (
        f"case when {condition} and {converted} is null then NULL else {column} end",
        f"case when {condition} then {converted} else {ascii_text} end",
    )


def _join_equal_rows(connection: Any, n_columns: int) -> None:
    """Create `row_groups`, the first row of the equal rows of each row, and `distinct_rows`, the first rows."""
    columns = ", ".join(f"c{k}" for k in range(n_columns))
    is_empty = " and ".join(f"c{k} is null" for k in range(n_columns))
    connection.execute(
        f"create table row_groups as select row, min(row) over (partition by separating_key, {columns}, "
        f"case when {is_empty} then row end) as first_row from cleaned_rows"
    )
    connection.execute(
        "create table distinct_rows as select cleaned_rows.*, first_row, n_copies from cleaned_rows join "
        "(select first_row, count(*) as n_copies from row_groups group by first_row) sizes "
        "on cleaned_rows.row = sizes.first_row"
    )
    connection.execute("drop table cleaned_rows")


@dataclass(frozen=True)
class _Values:
    """SQL of the parsed values of all comparisons, and of the joins that they need."""

    columns: list[str]
    joins: str


def _parse_values(connection: Any, expressions: Sequence[SqlComparison]) -> _Values:
    """Return the SQL of the parsed values; values that SQL does not read like Python are converted by Python."""
    lookups = _Lookups(connection)
    columns = []
    for item in expressions:
        value = item.value
        if item.unusual is not None:
            converted = lookups.add("distinct_rows", item.column, item.unusual, item.convert, item.sql_type)
            if converted is not None:
                value = f"case when {item.unusual} then {converted} else {value} end"
        columns.append(f"{value} as v{item.number}")
        for name, expression in item.further_columns(connection).items():
            columns.append(f"{expression} as {name}")
    return _Values(columns, lookups.joins)


def _check_readable(records: StoredRecords, comparisons: Sequence[tuple[str, Comparison]]) -> None:
    """Raise if a comparison can read no value of its column, although there are values."""
    for item, (name, comparison) in zip(records.comparisons, comparisons, strict=True):
        n_values, n_readable, example = records.connection.sql(
            f"select count(x{records.columns[name]}), count(v{item.number}), any_value(x{records.columns[name]}) "
            f"from records"
        ).fetchall()[0]
        if n_values and not n_readable:
            raise unreadable_error(comparison, f"column {name!r}", example)
