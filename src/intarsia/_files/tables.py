"""Read tables of any kind and return results in the same kind: data frames, Arrow, DuckDB relations, files, dicts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import check_choice
from intarsia._files.plain_tables import read_csv_rows
from intarsia.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    import duckdb

# Separators of text files by suffix, and suffixes of Parquet files.
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
TABLES = (
    "a data frame (pandas, polars), an Arrow table, a polars LazyFrame, a DuckDB relation, the path of a Parquet, CSV "
    "or TSV file, or a dict of columns"
)


@dataclass(frozen=True)
class TableKind:
    """Kind of table of the input, in which results are returned.

    Attributes
    ----------
    name : str
        Library, such as "PANDAS", "POLARS", "PYARROW" or "DUCKDB".
    lazy : bool
        Whether the frame is lazy.
    relation : DuckDB relation or None
        Relation whose connection is used to create new relations; None stands for DuckDB's default connection.

    Examples
    --------
    >>> import pandas
    >>> table_kind(pandas.DataFrame({"a": [1]})).name
    'PANDAS'
    """

    name: str
    lazy: bool = False
    relation: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        import narwhals.stable.v2 as nw

        check_choice(self.name, nw.Implementation.__members__, "kind of table")

    def __deepcopy__(self, memo: dict[int, Any]) -> TableKind:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the connection, which another process cannot use."""
        return TableKind, (self.name, self.lazy)

    def write(self, columns: Mapping[str, Any]) -> Any:
        """Create a table of this kind from columns."""
        if self.name == "DUCKDB":
            return _relation(columns, self.relation)
        import narwhals.stable.v2 as nw

        backend: Any = nw.Implementation[self.name]
        frame = nw.from_dict(dict(columns), backend=backend)
        return (frame.lazy() if self.lazy else frame).to_native()


def table_kind(table: Any) -> TableKind | None:
    """Return the kind of a table; None for dicts, lists and files, for which results are dicts of columns."""
    if is_table_file(table):
        return None
    if is_relation(table):
        return TableKind("DUCKDB", relation=table)
    if not _can_be_frame(table):
        return None
    import narwhals.stable.v2 as nw

    frame: Any = nw.from_native(table, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        if frame.implementation.name == "POLARS":
            return TableKind("POLARS", lazy=True)
        return TableKind(frame.head(0).collect().implementation.name)
    return TableKind(frame.implementation.name) if isinstance(frame, nw.DataFrame) else None


def write_table(columns: dict[str, Any], kind: TableKind | None) -> Any:
    """Create a table of the given kind; None returns the dict of columns unchanged.

    Examples
    --------
    >>> import polars
    >>> write_table({"a": [1, 2]}, table_kind(polars.LazyFrame({"b": [0]}))).collect().to_dict(as_series=False)
    {'a': [1, 2]}
    """
    if kind is None:
        return columns
    try:
        return kind.write(columns)
    except UnicodeEncodeError as error:
        text = error.object[max(0, error.start - 10) : error.end]
        raise InvalidInputError(
            f"the table cannot hold {text!r:.60}, which is not valid Unicode (a surrogate without its pair). Correct "
            f"that name, or pass the data as a dict of columns."
        ) from None


def is_table_file(table: Any) -> bool:
    """Return whether `table` is a path, or a string with the suffix of a file that `read_columns` reads."""
    if not isinstance(table, str):
        return isinstance(table, os.PathLike)
    return table.lower().removesuffix(".gz").endswith((*DELIMITERS, *PARQUET))


def is_parquet(table: Any) -> bool:
    """Return whether `table` is the path of a Parquet file."""
    return is_table_file(table) and table_file_kind(Path(table)) in PARQUET


def table_file_kind(path: Path) -> str:
    """Return the suffix that determines the format of a file, without `.gz`; raise if it is unknown."""
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in (*DELIMITERS, *PARQUET) or (path.suffix == ".gz" and suffix.lower() in PARQUET):
        raise InvalidInputError(
            f"{path.name}: unknown file suffix. Expected {', '.join((*DELIMITERS, *PARQUET))}; text files may also "
            f"be compressed (.gz)."
        )
    return suffix.lower()


def quiet_database() -> duckdb.DuckDBPyConnection:
    """Return an in-memory database that draws no progress bar on stdout."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def parquet_pattern(path: str | os.PathLike[str]) -> str:
    """Return the glob pattern of DuckDB that matches exactly this path.

    Examples
    --------
    >>> parquet_pattern("/p[1]*.parquet")
    '/p[[]1][*].parquet'
    """
    return re.sub(r"([*?[])", r"[\1]", str(Path(path).absolute()))


def quoted(name: str) -> str:
    """Return a name of a column as SQL.

    Examples
    --------
    >>> quoted("first name")
    '"first name"'
    """
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def parquet_relation(path: str | os.PathLike[str]) -> Iterator[duckdb.DuckDBPyRelation]:
    """Read one Parquet file as a relation; raise for a missing file, and for errors of DuckDB in the block."""
    import duckdb

    if not Path(path).is_file():
        raise InvalidInputError(f"there is no file {path}. Check the path.")
    try:
        yield quiet_database().read_parquet(parquet_pattern(path))
    except duckdb.Error as error:
        raise FileFormatError(f"{Path(path).name}: {str(error).splitlines()[0]}. Export the file again.") from None


def read_columns(table: Any) -> dict[Any, Any] | None:
    """Read the columns of a table by name; return None if it is not a table with named columns.

    Parameters
    ----------
    table : data frame, lazy frame, DuckDB relation, path or dict
        Lazy frames and relations are computed once. Columns of CSV and TSV files are strings.

    Returns
    -------
    Numbers without missing values as arrays, other columns as lists with None where a value is missing. Columns of
        a dict are returned unchanged.

    Raises
    ------
    InvalidInputError
        Columns differ in length, two columns have the same name, or the file does not exist.
    FileFormatError
        The file cannot be read.

    Examples
    --------
    >>> import duckdb
    >>> read_columns(duckdb.sql("select 'ann' as name, 3 as age"))
    {'name': ['ann'], 'age': array([3], dtype=int32)}
    """
    if isinstance(table, Mapping):
        return _checked_columns(table)
    if is_table_file(table):
        return _file_columns(Path(table))
    if is_relation(table):
        return _relation_columns(table)
    if not _can_be_frame(table):
        return None
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame: Any = nw.from_native(table, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        return {s.name: _series(s) for s in frame.iter_columns()} if isinstance(frame, nw.DataFrame) else None
    except DuplicateError as error:
        raise InvalidInputError(f"two columns have the same name. Rename one of them. {error}") from None


def _can_be_frame(table: Any) -> bool:
    """Return whether `table` can be a data frame. Rows and arrays are not, and importing narwhals takes long."""
    return not (table is None or isinstance(table, (list, tuple, dict, np.ndarray)))


def _series(series: Any) -> Any:
    """Return a column of a data frame as an array or a list."""
    missing = series.is_null()
    if not missing.any():
        return series.to_numpy() if series.dtype.is_numeric() else series.to_list()
    return [None if absent else value for value, absent in zip(series.to_list(), missing.to_list(), strict=True)]


def _checked_columns(table: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the columns of a dict; raise unless they are lists of equal length."""
    columns = dict(table)
    for name, column in columns.items():
        if isinstance(column, str) or not isinstance(column, Sized):
            raise InvalidInputError(
                f"column {name!r} is {column!r:.40}, expected a list with one entry per row. Pass each column as a "
                f"list or an array, or pass rows: [('ann', 'bob', 0.5), ...]."
            )
    lengths = {name: len(column) for name, column in columns.items()}
    first = next(iter(lengths), None)
    for name, length in lengths.items():
        if length != lengths[first]:
            raise InvalidInputError(
                f"column {first!r} has {lengths[first]} values, but {name!r} has {length}. Pass columns of equal "
                f"length."
            )
    return columns


def _file_columns(path: Path) -> dict[Any, Any]:
    """Read the columns of a CSV, TSV or Parquet file."""
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}. Check the path.")
    kind = table_file_kind(path)
    if kind in DELIMITERS:
        header, rows = read_csv_rows(path, DELIMITERS[kind])
        return {name: [row[k].strip() or None for row in rows] for k, name in enumerate(header)}
    with parquet_relation(path) as relation:
        return _relation_columns(relation)


def is_relation(table: Any) -> bool:
    """Return whether `table` is a DuckDB relation, without importing DuckDB."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(table, duckdb.DuckDBPyRelation)


def _relation_columns(relation: Any) -> dict[Any, Any]:
    """Return the columns of a relation, computed once and without Arrow."""
    arrays, types = relation.fetchnumpy(), map(str, relation.types)
    return {name: _relation_column(column, kind) for (name, column), kind in zip(arrays.items(), types, strict=True)}


def _relation_column(column: Any, kind: str) -> Any:
    """Convert a column of a relation to an array of numbers or a list."""
    if isinstance(column, np.ma.MaskedArray) and not np.ma.is_masked(column):
        column = column.data
    if column.dtype.kind in "iuf" and not isinstance(column, np.ma.MaskedArray):
        return column
    if column.dtype.kind == "M":
        column = column.astype("M8[D]" if kind == "DATE" else "M8[us]")
    return column.tolist()


def _relation(columns: Mapping[str, Any], other: Any) -> Any:
    """Create a relation in the connection of another one."""
    import duckdb

    new_columns = {name: _duckdb_column(column) for name, column in columns.items()}  # noqa: F841
    text = "select * from new_columns"
    return duckdb.sql(text) if other is None else other.query("intarsia_unused", text)


def _duckdb_column(column: Sequence[Any]) -> Any:
    array = np.asarray(column)
    return array if array.dtype.kind in "biuf" else np.array(list(column), dtype=object)
