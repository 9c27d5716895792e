"""Read small tables from text files: tab-separated columns, and CSV with a header; errors name the line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

from intarsia._files.text_lines import Source, read_lines, source_name
from intarsia.exceptions import FileFormatError

# Limit of numbers that count or index something, such as users or words; larger ones would not fit into memory.
LARGEST_NUMBER = 2**40


def read_tab_columns(source: Source, kinds: Sequence[Callable[[str], Any]]) -> list[list[Any]]:
    r"""Read tab-separated columns of a file without header; `kinds` holds the function that converts each column.

    Empty lines are skipped.

    Raises
    ------
    FileFormatError
        A line has the wrong number of columns, a value cannot be converted, or an integer is too large.

    Examples
    --------
    >>> import io
    >>> read_tab_columns(io.StringIO("1\t0.5\n2\t0.25\n"), (int, float))
    [[1, 2], [0.5, 0.25]]
    """
    name = source_name(source)
    columns: list[list[Any]] = [[] for _ in kinds]
    for number, line in read_lines(source):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(kinds):
            raise FileFormatError(
                f"{name}, line {number}: {len(cells)} columns, expected {len(kinds)}. Separate columns by tabs."
            )
        for k, (cell, kind) in enumerate(zip(cells, kinds, strict=True)):
            try:
                value = kind(cell)
                if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
                    raise ValueError(cell)
                columns[k].append(value)
            except ValueError:
                raise FileFormatError(
                    f"{name}, line {number}: column {k + 1} is {cell!r:.60}; expected {_kind_name(kind)}."
                ) from None
    return columns


def read_csv_rows(source: Source, delimiter: str = ",") -> tuple[list[str], list[list[str]]]:
    r"""Read the header and the rows of a CSV file; blank lines are skipped.

    Raises
    ------
    FileFormatError
        There is no header, a name occurs twice, or a line has a different number of columns.

    Examples
    --------
    >>> import io
    >>> read_csv_rows(io.StringIO('name,town\n"Lee, Ann",\n'))
    (['name', 'town'], [['Lee, Ann', '']])
    """
    name = source_name(source)
    lines = (line + "\n" for _, line in read_lines(source))
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)
    try:
        header = [word.strip() for word in next(reader, [])]
        duplicates = [word for k, word in enumerate(header) if word in header[:k]]
        if not header or duplicates:
            reason = f"the name {duplicates[0]!r} occurs twice" if duplicates else "the file is empty"
            raise FileFormatError(f"{name}, line 1: {reason}; expected a header with the names of the columns.")
        rows = []
        for row in reader:
            if row and len(row) != len(header):
                raise FileFormatError(
                    f"{name}, line {reader.line_num}: {len(row)} columns, expected {len(header)} as in line 1."
                )
            if row:
                rows.append(row)
    except csv.Error as error:
        raise FileFormatError(f"{name}, line {reader.line_num}: {error}. Check quotes and separators.") from None
    return header, rows


def read_csv_columns(source: Source) -> dict[str, list[str | None]]:
    r"""Read the columns of a CSV file by name; blanks around values are stripped, and empty values become None.

    Raises
    ------
    FileFormatError
        See `read_csv_rows`.

    Examples
    --------
    >>> import io
    >>> read_csv_columns(io.StringIO("name, town\nann, \n"))
    {'name': ['ann'], 'town': [None]}
    """
    header, rows = read_csv_rows(source)
    return {word: [row[k].strip() or None for row in rows] for k, word in enumerate(header)}


def _kind_name(kind: Callable[[str], Any]) -> str:
    return {int: "an integer", float: "a number"}.get(kind, "another value")  # type: ignore[call-overload]
