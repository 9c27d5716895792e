"""Read and write tables of records: CSV, tab-separated and Parquet files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from intarsia._files.atomic_file import replaced_file


def read_table_file(path: Path) -> dict[str, list[Any]]:
    """Read the columns of a file; the cells of a CSV file stay strings.

    Raises
    ------
    FileFormatError
        The file does not follow its format.
    InvalidInputError
        The file name has an unknown suffix, or there is no such file.
    """
    from intarsia._files.tables import DELIMITERS, PARQUET, parquet_relation, table_file_kind

    kind = table_file_kind(path)
    if kind in PARQUET:
        with parquet_relation(path) as relation:
            names, rows = relation.columns, relation.fetchall()
        return {name: [row[k] for row in rows] for k, name in enumerate(names)}
    from intarsia._files.plain_tables import read_csv_rows

    header, lines = read_csv_rows(path, DELIMITERS[kind])
    return {name: [row[k] for row in lines] for k, name in enumerate(header)}


def read_links_file(path: Path | None) -> list[tuple[Any, Any]]:
    """Return the pairs of ids in a file; an empty list without a file."""
    from intarsia._core.error_context import errors_in
    from intarsia.clusters.resolution.pair_columns import choose_pair_columns, kind_of_column

    if path is None:
        return []
    columns = read_table_file(path)
    with errors_in(path.name):
        ends = choose_pair_columns({name: kind_of_column(values) for name, values in columns.items()})
        return list(zip(*ends.read_pairs(columns), strict=True))


def write_table_file(path: Path, columns: dict[str, list[Any]], source: Path, added: str) -> None:
    """Write columns to a file; from Parquet to Parquet, the columns of `source` keep their types before column `added`.

    The file appears under its name only when it is complete.
    """
    from intarsia._files.tables import DELIMITERS, PARQUET, parquet_pattern, quiet_database, table_file_kind

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
            [parquet_pattern(source)] * typed,
        )
