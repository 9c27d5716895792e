"""Tables of records in a temporary DuckDB database, whose columns are numbered."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.validation import IntArray, check_choice
from intarsia._files.atomic_file import replaced_file, temporary_folder
from intarsia._files.tables import (
    is_parquet,
    is_relation,
    is_table_file,
    parquet_pattern,
    parquet_relation,
    quoted,
)
from intarsia.clusters.tables import Table, read_table
from intarsia.exceptions import FileFormatError, InvalidInputError

# Kinds of columns: which SQL reads a value depends on them.
TEXT, INTEGER, NUMBER, DATE, TIMESTAMP = "text", "integer", "number", "date", "timestamp"
# DuckDB uses at most this much memory; larger intermediate results are written to the temporary folder.
MEMORY_LIMIT = "2GB"
_TYPES = (
    (re.compile(r"VARCHAR|ENUM.*"), TEXT),
    (re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?"), INTEGER),
    (re.compile(r"DOUBLE|FLOAT|REAL|DECIMAL.*"), NUMBER),
    (re.compile(r"DATE"), DATE),
    (re.compile(r"TIMESTAMP(_NS|_MS|_S)?"), TIMESTAMP),
    (re.compile(r'"?NULL"?'), TEXT),
)
_SQL_TYPE = {TEXT: "VARCHAR", INTEGER: "BIGINT", NUMBER: "DOUBLE", DATE: "DATE", TIMESTAMP: "TIMESTAMP"}
_DATE_TYPES = {datetime.date, type(None)}
_LARGEST_INTEGER = 2**62
# White space of ASCII, as `str.split` defines it.
WHITESPACE = r"[\s\x0b\x1c-\x1f]"
ROW = "file_row_number"  # name of the column that DuckDB adds to the rows of a file


class NotInDatabaseError(InvalidInputError):
    """Records, comparisons or blocking rules that the database cannot process like the library does in memory."""


def count_rows(table: Any) -> int:
    """Return the number of rows of a table; of files and relations without reading their columns.

    Examples
    --------
    >>> count_rows({"name": ["Ann", "Bob"]})
    2
    """
    if is_relation(table):
        return int(table.aggregate("count(*)").fetchall()[0][0])
    if is_parquet(table):
        with parquet_relation(table) as relation:
            return int(relation.aggregate("count(*)").fetchall()[0][0])
    if isinstance(table, Mapping):
        first = next(iter(table.values()), ())
        return len(first) if hasattr(first, "__len__") else 0
    if hasattr(table, "collect") or not hasattr(table, "__len__") or is_table_file(table):
        return read_table(table).n_rows
    return len(table)


def existing_file(table: Any) -> Path:
    """Return the path of a file; raise if there is none."""
    path = Path(table)
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}. Check the path.")
    return path


def text_literal(value: str) -> str:
    """Return a string as SQL.

    Examples
    --------
    >>> text_literal("O'Hara")
    "'O''Hara'"
    """
    return "'" + value.replace("'", "''") + "'"


class _MemorySource:
    """Table of records in memory."""

    def __init__(self, connection: Any, table: Table, name: str) -> None:
        self._connection, self._table, self._name = connection, table, name
        self.names, self.n_rows = list(table.columns), table.n_rows

    def sample(self, step: int) -> Table:
        """Return every `step`-th row."""
        columns = {name: values[::step] for name, values in self._table.columns.items()}
        return Table(columns, -(-self.n_rows // step))

    def take(self, rows: IntArray) -> Table:
        """Return some rows, by their numbers in ascending order."""
        return Table({name: [values[row] for row in rows] for name, values in self._table.columns.items()}, len(rows))

    def fetch(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return list(self._table.columns[name])

    def scan(self, names: Sequence[str]) -> tuple[str, dict[str, str]]:
        """Return the SQL of the rows with their numbers, and that of each column; DuckDB ignores the case of names."""
        arrays = {f"n{k}": _array(self._table.columns[name], name) for k, name in enumerate(names)}
        self._connection.register(self._name, {ROW: np.arange(self.n_rows), **arrays})
        columns = {}
        for (column, array), name in zip(arrays.items(), names, strict=True):
            is_date = array.dtype.kind == "M" and {type(value) for value in self._table.columns[name]} <= _DATE_TYPES
            columns[name] = f"{column}::DATE" if is_date else column
        return self._name, columns


class _FileSource:
    """Parquet file with records."""

    def __init__(self, connection: Any, path: Path) -> None:
        self._connection, self._scan = connection, f"read_parquet({text_literal(parquet_pattern(path))}, {ROW} = true)"
        self.names = [name for name in connection.sql(f"from {self._scan}").columns if name != ROW]
        self.n_rows = int(connection.sql(f"select count(*) from {self._scan}").fetchall()[0][0])

    def sample(self, step: int) -> Table:
        """Return every `step`-th row."""
        text = f"select * exclude {ROW} from {self._scan} where {ROW} % {step} = 0 order by {ROW}"
        return read_table(self._connection.sql(text))

    def take(self, rows: IntArray) -> Table:
        """Return some rows, by their numbers in ascending order."""
        listed_rows = ", ".join(map(str, rows.tolist())) or "-1"
        text = f"select * exclude {ROW} from {self._scan} where {ROW} in ({listed_rows}) order by {ROW}"
        return read_table(self._connection.sql(text))

    def fetch(self, name: str) -> list[Any]:
        """Return the values of a column."""
        text = f"select {quoted(name)} as column_values from {self._scan} order by {ROW}"
        return list(read_table(self._connection.sql(text)).columns["column_values"])

    def scan(self, names: Sequence[str]) -> tuple[str, dict[str, str]]:
        """Return the SQL of the rows with their numbers, and that of each column."""
        return self._scan, {name: quoted(name) for name in names}


class StoredTables:
    """One table, or two, in a temporary database; Parquet files and relations are read by the database itself.

    Use it as a context manager: the database is deleted at the end.

    Parameters
    ----------
    tables : list of tables
        One table of records, or two to be linked.

    Examples
    --------
    >>> with StoredTables([{"name": ["Ann", " ", "Bob"]}]) as tables:
    ...     kinds = tables.load(["name"])
    ...     tables.connection.sql("select * from input_rows order by row").fetchall(), kinds
    ([(0, 0, 'Ann'), (1, 0, None), (2, 0, 'Bob')], {'name': 'text'})
    """

    def __init__(self, tables: Sequence[Any]) -> None:
        import duckdb

        self._folder = temporary_folder()
        folder = Path(self._folder.name)
        settings: dict[str, Any] = {"memory_limit": MEMORY_LIMIT, "temp_directory": str(folder / "spilled")}
        self.connection = duckdb.connect(str(folder / "records.duckdb"), config=settings)
        self.connection.execute("SET enable_progress_bar = false")
        try:
            self._sources = [self._open(table, folder / f"table{k}.parquet", k) for k, table in enumerate(tables)]
        except BaseException:
            self.close()
            raise
        self.sizes = [source.n_rows for source in self._sources]
        self.names = list(dict.fromkeys(name for source in self._sources for name in source.names))

    def __enter__(self) -> StoredTables:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the database."""
        self.connection.close()
        self._folder.cleanup()

    @property
    def n_rows(self) -> int:
        """Number of rows of all tables."""
        return sum(self.sizes)

    @property
    def side(self) -> IntArray | None:
        """Table of each row, 0 or 1; None for one table."""
        return None if len(self.sizes) == 1 else np.repeat(np.arange(2), self.sizes)

    def _open(self, table: Any, path: Path, side: int) -> _MemorySource | _FileSource:
        """Open a table; relations are copied into a file, because they belong to another connection."""
        import duckdb

        try:
            if is_relation(table):
                with replaced_file(path) as temporary:
                    table.write_parquet(str(temporary))
                return _FileSource(self.connection, path)
            if is_parquet(table):
                return _FileSource(self.connection, existing_file(table))
        except duckdb.Error as error:
            raise FileFormatError(f"DuckDB cannot read the records: {first_line(error)}. Correct them.") from None
        return _MemorySource(self.connection, read_table(table), f"table{side}")

    def sample(self, n_rows: int) -> Table:
        """Return evenly spaced rows of all tables, at most `n_rows` of each."""
        return self._concatenated(
            [source.sample(max(1, -(-source.n_rows // n_rows))) for source in self._sources],
        )

    def take(self, rows: IntArray) -> Table:
        """Return some rows, by their numbers in ascending order; those of the second table follow the first."""
        ends = np.cumsum([0, *self.sizes])
        return self._concatenated(
            [
                source.take(rows[(rows >= begin) & (rows < end)] - begin)
                for source, begin, end in zip(self._sources, ends[:-1], ends[1:], strict=True)
            ]
        )

    def _concatenated(self, tables: Sequence[Table]) -> Table:
        """Return the rows of several tables as one; a column that a table lacks is empty there."""
        columns: dict[str, list[Any]] = {name: [] for name in self.names}
        for table in tables:
            for name in self.names:
                columns[name] += list(table.columns.get(name, [None] * table.n_rows))
        return Table(columns, sum(table.n_rows for table in tables))

    def fetch(self, name: str, side: int | None = None) -> list[Any]:
        """Return the values of a column of all tables, or of one, None where they are missing."""
        check_choice(name, self.names, "column")
        values: list[Any] = []
        for source in self._sources if side is None else [self._sources[side]]:
            values += source.fetch(name) if name in source.names else [None] * source.n_rows
        return values

    def load(self, names: Sequence[str]) -> dict[str, str]:
        """Create the table `input_rows` with columns row, side, c0, c1, ...; return the kind of each column.

        Blank strings and NaN are missing values. Strings that are not ASCII are cleaned later.
        """
        import duckdb

        for name in names:
            check_choice(name, self.names, "column")
        kinds: dict[str, str] = {}
        scans = []
        for source in self._sources:
            scan, columns = source.scan([name for name in names if name in source.names])
            if columns:
                types = self.connection.sql(f"select {', '.join(columns.values())} from {scan}").types
                for name, sql_type in zip(columns, map(str, types), strict=True):
                    kind = _kind(sql_type, name)
                    kinds[name] = _common_kind(kinds.get(name, kind), kind, name)
            scans.append((scan, columns))
        queries = []
        first_row = 0
        for side, ((scan, columns), size) in enumerate(zip(scans, self.sizes, strict=True)):
            expressions = [
                f"{_cleaned(columns[name], kinds[name]) if name in columns else 'NULL'} as c{k}"
                for k, name in enumerate(names)
            ]
            queries.append(
                f"select ({ROW} + {first_row})::INTEGER as row, {side}::TINYINT as side, {', '.join(expressions)} "
                f"from {scan}"
            )
            first_row += size
        try:
            self.connection.execute(f"create table input_rows as {' union all '.join(queries)}")
        except duckdb.Error as error:
            raise NotInDatabaseError(f"DuckDB cannot read the records: {first_line(error)}. Correct them.") from None
        return kinds


def first_line(error: Exception) -> str:
    """Return the first line of the message of an error, without a full stop."""
    return str(error).splitlines()[0].rstrip(".")


def _kind(sql_type: str, name: str) -> str:
    """Return the kind of a column from its SQL type."""
    kind = next((kind for pattern, kind in _TYPES if pattern.fullmatch(sql_type)), None)
    if kind is None:
        raise NotInDatabaseError(
            f"column {name!r} has values of type {sql_type}, which DuckDB cannot compare. Set engine='memory'."
        )
    return kind


def _common_kind(first: str, second: str, name: str) -> str:
    """Return the kind of a column of two tables."""
    if first == second:
        return first
    if {first, second} == {INTEGER, NUMBER}:
        return NUMBER
    raise NotInDatabaseError(
        f"column {name!r} has values of kind {first} in one table and {second} in the other. Convert one of them."
    )


def _cleaned(column: str, kind: str) -> str:
    """Return the SQL of a column with NULL for missing values."""
    if kind == TEXT:
        return f"case when regexp_full_match({column}::VARCHAR, '{WHITESPACE}*') then NULL else {column}::VARCHAR end"
    if kind == NUMBER:
        return f"case when isnan({column}::DOUBLE) then NULL else {column}::DOUBLE end"
    return f"{column}::{_SQL_TYPE[kind]}"


def _array(values: Any, name: str) -> Any:
    """Return a column of a table in memory as an array that DuckDB reads; raise for mixed types."""
    if isinstance(values, np.ndarray):
        return values
    types = set(map(type, values)) - {type(None)}
    if types <= {str}:
        return np.array(values, dtype=object) if types else np.full(len(values), None, dtype=object)
    if types == {int} and all(value is None or abs(value) < _LARGEST_INTEGER for value in values):
        return np.array(values, dtype=object)
    if types == {float}:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if all(issubclass(kind, datetime.date) for kind in types) and not any(
        getattr(value, "tzinfo", None) for value in values
    ):
        return np.array(values, dtype="datetime64[us]")
    names = ", ".join(sorted(kind.__name__ for kind in types))
    raise NotInDatabaseError(
        f"column {name!r} has values of type {names}, which DuckDB cannot compare. Set engine='memory'."
    )
