"""Files of atoms in PSL's format: an atom per line, with arguments and an optional value, separated by tabs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from intarsia._files.packed_file import open_packed
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.softlogic.grounding.tables import ARGUMENT_TYPES, AtomRows, ConstantTable, rows_of_columns

MAX_LINE_LENGTH = 1_000_000
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BLANK = "".join(map(chr, range(33)))  # characters that Java strips from both ends of a line
_BLOCK = 1 << 20


def read_atom_file(
    path: str | os.PathLike[str], n_arguments: int, constants: ConstantTable, types: Sequence[str] | None = None
) -> AtomRows:
    r"""Read the atoms of a file, plain or gzip (detected from its content).

    As in PSL, spaces and tabs at both ends of a line are removed and empty lines are skipped; between tabs every
    character counts, including quotes. The file is read in blocks; a line of more than a few million bytes raises
    before it is read completely.

    Parameters
    ----------
    path : path
        The file.
    n_arguments : int
        Number of arguments of the predicate.
    constants : ConstantTable
        Constants of the program; new constants are added.
    types : sequence of str, optional
        PSL's type of each argument; for integer types `07` and `7` are the same constant.

    Raises
    ------
    FileFormatError
        A line has too few or too many fields, is too long or is not UTF-8, or a value is outside [0, 1]; the message
        names file and line.

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
    kinds = ["UniqueStringID"] * n_arguments if types is None else list(types)
    blocks: list[AtomRows] = []
    with open_packed(path) as stream:
        for first_line, text in _blocks(stream, name):
            blocks.extend(_rows(text, first_line, kinds, constants, name))
    if not blocks:
        return AtomRows(np.empty((0, n_arguments), dtype=np.int32), np.empty(0))
    return AtomRows(np.concatenate([p.arguments for p in blocks]), np.concatenate([p.values for p in blocks]))


def _blocks(stream: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Yield blocks of complete lines, with the number of their first line."""
    rest, line = b"", 1
    while True:
        block = stream.read(_BLOCK)
        data = rest + block
        cut = data.rfind(b"\n") + 1 if block else len(data)
        complete, rest = data[:cut], data[cut:]
        if len(rest) > MAX_LINE_LENGTH:
            number = line + complete.count(b"\n")
            raise FileFormatError(
                f"{name}, line {number}: the line has more than {MAX_LINE_LENGTH} bytes, expected an atom. Write one "
                f"atom per line."
            )
        if complete:
            text = _decoded(complete, name, line)
            if line == 1:
                text = text.removeprefix("\ufeff")
            yield line, text
            line += complete.count(b"\n")
        if not block:
            return


def _decoded(data: bytes, name: str, first_line: int) -> str:
    """Decode UTF-8 and normalize line ends."""
    try:
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise FileFormatError(
            f"{name}, line {line}: byte 0x{data[error.start]:02x} is not valid UTF-8. Save the file as UTF-8."
        ) from None


def _rows(text: str, first_line: int, types: list[str], constants: ConstantTable, name: str) -> Iterator[AtomRows]:
    """Yield the atoms of complete lines; all at once if they have the same number of fields and none is empty."""
    lines = [line.strip(_BLANK) for line in text.removesuffix("\n").split("\n")]
    n_fields = lines[0].count("\t") + 1
    plain = "" not in lines and all(line.count("\t") == n_fields - 1 for line in lines)
    if plain and n_fields in (len(types), len(types) + 1):
        fields = "\t".join(lines).split("\t")
        yield _atoms_of_fields(fields, n_fields, types, constants, name, first_line)
        return
    for number, line in enumerate(lines, first_line):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) not in (len(types), len(types) + 1):
            raise FileFormatError(
                f"{name}, line {number}: {len(fields)} fields; expected {len(types)} arguments and optionally a value "
                f"in [0, 1], separated by tabs."
            )
        yield _atoms_of_fields(fields, len(fields), types, constants, name, number)


def _atoms_of_fields(
    fields: list[str], n_fields: int, types: list[str], constants: ConstantTable, name: str, first_line: int
) -> AtomRows:
    """Convert the fields of lines of equal length to atoms."""
    columns = [typed_names(fields[k::n_fields], kind, name, first_line, "line") for k, kind in enumerate(types)]
    values = fields[len(types) :: n_fields] if n_fields > len(types) else None
    try:
        return rows_of_columns(columns, values, constants, name, first_line, "line")
    except InvalidInputError as error:
        raise FileFormatError(str(error)) from None


def typed_names(column: list[str], kind: str, place: str, first_row: int = 1, unit: str = "row") -> list[str]:
    """Return the constants of an argument; integers of an integer type are converted to their shortest form.

    Examples
    --------
    >>> typed_names(["07", "+1"], "UniqueIntID", "knows.txt"), typed_names(["07"], "UniqueStringID", "knows.txt")
    (['7', '1'], ['07'])
    """
    if not ARGUMENT_TYPES[kind]:
        return column
    names = []
    for row, name in enumerate(column, first_row):
        if not _INTEGER.fullmatch(name):
            raise FileFormatError(
                f"{place}, {unit} {row}: {name!r:.40} is not an integer, but the argument is of type {kind}. Correct "
                f"it, or use strings (runtime.db.intids, types)."
            )
        names.append(str(int(name)))
    return names
