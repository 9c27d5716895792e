"""Tables in files: CSV, tab-separated and Parquet, read as columns and written with a column more."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia._files.atomic_file import replaced_file
from intarsia.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    import duckdb

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_PARQUET = (".parquet", ".pq")


def read_table_file(path: Path) -> dict[str, list[Any]]:
    """Columns of a file; cells of CSV are text as it stands there.

    Raises
    ------
    FileFormatError
        The file does not follow its format.
    InvalidInputError
        The ending is none that is known.
    """
    kind = _kind(path)
    if kind in _PARQUET:
        import duckdb

        if not path.is_file():
            raise InvalidInputError(f"{path}: there is no such file.")
        try:
            found = _database().execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in found.description or []]
            rows = found.fetchall()
        except duckdb.Error as error:
            raise FileFormatError(f"{path.name}: {str(error).splitlines()[0]}. Get the file again.") from None
        return {name: [row[k] for row in rows] for k, name in enumerate(names)}
    from intarsia._files.plain_tables import read_csv_rows

    header, lines = read_csv_rows(path, _DELIMITERS[kind])
    return {name: [row[k] for row in lines] for k, name in enumerate(header)}


def write_table_file(path: Path, columns: dict[str, list[Any]], source: Path, added: str) -> None:
    """Write columns; from Parquet to Parquet those of `source` keep their types, with the column `added` after them.

    The file appears when all is written.
    """
    kind = _kind(path)
    if kind not in _PARQUET:
        from intarsia._files.text_lines import written_text

        with written_text(path) as file:
            writer = csv.writer(file, delimiter=_DELIMITERS[kind], lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return
    import numpy as np

    connection = _database()
    typed = _kind(source) in _PARQUET
    made = {}
    for name in [added] if typed else columns:
        made[name] = np.empty(len(columns[name]), dtype=object)
        made[name][:] = columns[name]
    connection.register("made", made)
    query = "SELECT * FROM read_parquet(?) POSITIONAL JOIN made" if typed else "SELECT * FROM made"
    with replaced_file(path) as beside:
        connection.execute(
            f"COPY ({query}) TO '{str(beside).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)", [str(source)] * typed
        )


def _database() -> duckdb.DuckDBPyConnection:
    """A database in memory."""
    import duckdb

    connection = duckdb.connect()
    # Where nobody's file is the main program, DuckDB would draw a bar on stdout for long reads.
    connection.execute("SET enable_progress_bar = false")
    return connection


def _kind(path: Path) -> str:
    ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if ending.lower() not in (*_DELIMITERS, *_PARQUET) or (path.suffix == ".gz" and ending.lower() in _PARQUET):
        raise InvalidInputError(
            f"{path.name}: the ending tells no format. Expected {', '.join((*_DELIMITERS, *_PARQUET))}, text also as "
            f".gz."
        )
    return ending.lower()
