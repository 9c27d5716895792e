"""Tables in files: CSV, tab-separated and Parquet, read as columns and written with a column more."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from intarsia._files.atomic_file import replaced_file
from intarsia.exceptions import FileFormatError, InvalidInputError


def read_table_file(path: Path) -> dict[str, list[Any]]:
    """Columns of a file; cells of CSV are text as it stands there.

    Raises
    ------
    FileFormatError
        The file does not follow its format.
    InvalidInputError
        The ending is none that is known.
    """
    from intarsia._files.tables import DELIMITERS, PARQUET, quiet_database, table_file_kind

    kind = table_file_kind(path)
    if kind in PARQUET:
        import duckdb

        if not path.is_file():
            raise InvalidInputError(f"{path}: there is no such file.")
        try:
            found = quiet_database().execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in found.description or []]
            rows = found.fetchall()
        except duckdb.Error as error:
            raise FileFormatError(f"{path.name}: {str(error).splitlines()[0]}. Get the file again.") from None
        return {name: [row[k] for row in rows] for k, name in enumerate(names)}
    from intarsia._files.plain_tables import read_csv_rows

    header, lines = read_csv_rows(path, DELIMITERS[kind])
    return {name: [row[k] for row in lines] for k, name in enumerate(header)}


def write_table_file(path: Path, columns: dict[str, list[Any]], source: Path, added: str) -> None:
    """Write columns; from Parquet to Parquet those of `source` keep their types, with the column `added` after them.

    The file appears when all is written.
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
