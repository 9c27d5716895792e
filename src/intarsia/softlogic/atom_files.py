"""Files of atoms as PSL has them: arguments and perhaps a truth value, separated by tabs, an atom in each line."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.softlogic.constants import ConstantTable
from intarsia.softlogic.tables import AtomRows, rows_of_columns

LONGEST_LINE = 1_000_000
_BLOCK = 1 << 20


def read_atom_file(path: str | os.PathLike[str], n_arguments: int, constants: ConstantTable) -> AtomRows:
    r"""Atoms of a file; plain or gzip, told by content. Empty lines are left out.

    The file is read in blocks; a line of more than a few million bytes is refused before it is read whole.

    Raises
    ------
    FileFormatError
        A line has too few or too many fields, is too long or is not UTF-8, or a truth value is outside [0, 1]; the
        message has file and line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "knows_obs.txt")
    ...     _ = path.write_text("ann\tbob\t0.5\nbob\tann\n")
    ...     rows = read_atom_file(path, 2, ConstantTable())
    >>> rows.arguments.tolist(), rows.values.tolist()
    ([[0, 1], [1, 0]], [0.5, 1.0])
    """
    name = Path(path).name
    parts: list[AtomRows] = []
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        try:
            for first_line, text in _blocks(stream, name):
                parts.extend(_rows(text, first_line, n_arguments, constants, name))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileFormatError(f"{name}: damaged gzip file ({error}). Get it again, or unpack it by hand.") from None
    if not parts:
        return AtomRows(np.empty((0, n_arguments), dtype=np.int32), np.empty(0))
    return AtomRows(np.concatenate([p.arguments for p in parts]), np.concatenate([p.values for p in parts]))


def _blocks(stream: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Whole lines, many at a time, with the number of the first."""
    rest, line = b"", 1
    while True:
        block = stream.read(_BLOCK)
        data = rest + block
        cut = data.rfind(b"\n") + 1 if block else len(data)
        whole, rest = data[:cut], data[cut:]
        if len(rest) > LONGEST_LINE:
            at = line + whole.count(b"\n")
            raise FileFormatError(
                f"{name}, line {at}: more than {LONGEST_LINE} bytes in one line. Expected an atom in each line."
            )
        if whole:
            text = _decoded(whole, name, line)
            if line == 1:
                text = text.removeprefix("\ufeff")
            yield line, text
            line += whole.count(b"\n")
        if not block:
            return


def _decoded(data: bytes, name: str, first_line: int) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise FileFormatError(
            f"{name}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8. Save the file as UTF-8."
        ) from None


def _rows(text: str, first_line: int, n_arguments: int, constants: ConstantTable, name: str) -> Iterator[AtomRows]:
    """Atoms of whole lines; in one go if all have equally many fields and none is empty."""
    lines = text.removesuffix("\n").split("\n")
    n_fields = lines[0].count("\t") + 1
    plain = "" not in lines and all(line.count("\t") == n_fields - 1 for line in lines)
    if plain and n_fields in (n_arguments, n_arguments + 1):
        fields = "\t".join(lines).split("\t")
        yield _checked(fields, n_fields, n_arguments, constants, name, first_line)
        return
    for number, line in enumerate(lines, first_line):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) not in (n_arguments, n_arguments + 1):
            raise FileFormatError(
                f"{name}, line {number}: {len(parts)} fields; expected {n_arguments} arguments and perhaps a truth "
                f"value, separated by tabs."
            )
        yield _checked(parts, len(parts), n_arguments, constants, name, number)


def _checked(
    fields: list[Any], n_fields: int, n_arguments: int, constants: ConstantTable, name: str, first_line: int
) -> AtomRows:
    columns = [fields[k::n_fields] for k in range(n_arguments)]
    values = fields[n_arguments::n_fields] if n_fields > n_arguments else None
    try:
        return rows_of_columns(columns, values, constants, name, first_line, "line")
    except InvalidInputError as error:
        raise FileFormatError(str(error)) from None
