"""Read and write tables of records: CSV, tab-separated and Parquet files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from intarsia._files.atomic_file import replaced_file
from intarsia.exceptions import FileFormatError, InvalidInputError


def read_table_file(path: Path) -> dict[str, list[Any]]:
    """Read the columns of a file; the cells of a CSV file stay strings.

    Raises
    ------
    FileFormatError
        The file does not follow its format.
    InvalidInputError
        The file name has an unknown suffix, or there is no such file.
    """
    from intarsia._files.tables import DELIMITERS, PARQUET, quiet_database, table_file_kind

    kind = table_file_kind(path)
    if kind in PARQUET:
        import duckdb

        if not path.is_file():
            raise InvalidInputError(f"{path}: there is no such file. Check the path.")
        try:
            query = quiet_database().execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in query.description or []]
            rows = query.fetchall()
        except duckdb.Error as error:
            raise FileFormatError(
                f"{path.name}: {str(error).splitlines()[0]}. Download or export the file again."
            ) from None
        return {name: [row[k] for row in rows] for k, name in enumerate(names)}
    from intarsia._files.plain_tables import read_csv_rows

    header, lines = read_csv_rows(path, DELIMITERS[kind])
    return {name: [row[k] for row in lines] for k, name in enumerate(header)}


def read_links_file(path: Path | None) -> list[tuple[Any, Any]]:
    """Return the pairs of ids in the first two columns of a file; an empty list without a file."""
    if path is None:
        return []
    columns = list(read_table_file(path).values())
    if len(columns) < 2:
        raise InvalidInputError(f"{path.name} has {len(columns)} columns; expected two ids. Pass such a table.")
    return list(zip(columns[0], columns[1], strict=True))


def write_table_file(path: Path, columns: dict[str, list[Any]], source: Path, added: str) -> None:
    """Write columns to a file; from Parquet to Parquet, the columns of `source` keep their types before column `added`.

    The file appears under its name only when it is complete.
    """
    from intarsia._files.tables import DELIMITERS, PARQUET, quiet_database, table_file_kind

    kind = table_file_kind(path)
    if kind not in PARQUET:
        from intarsia._files.text_lines import written_text

        with written_text(path) as file:
            writer = csv.writer(file, delimiter=DELIMITERS[kind], lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return
    import numpy as np

    connection = quiet_database()
    typed = table_file_kind(source) in PARQUET
    arrays = {}
    for name in [added] if typed else columns:
        arrays[name] = np.empty(len(columns[name]), dtype=object)
        arrays[name][:] = columns[name]
    connection.register("added_columns", arrays)
    query = "SELECT * FROM read_parquet(?) POSITIONAL JOIN added_columns" if typed else "SELECT * FROM added_columns"
    with replaced_file(path) as temporary:
        connection.execute(
            f"COPY ({query}) TO '{str(temporary).replace(chr(39), chr(39) * 2)}' (FORMAT parquet, USE_TMP_FILE false)",
            [str(source)] * typed,
        )
