"""Files of atoms as PSL has them: arguments and perhaps a truth value, separated by tabs, an atom in each line."""

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

LONGEST_LINE = 1_000_000
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BLANK = "".join(map(chr, range(33)))  # what Java removes from both ends of a line
_BLOCK = 1 << 20


def read_atom_file(
    path: str | os.PathLike[str], n_arguments: int, constants: ConstantTable, types: Sequence[str] | None = None
) -> AtomRows:
    r"""Read the atoms of a file, plain or gzip (detected from its content).

    As in PSL, spaces and tabs at both ends of a line are removed and empty lines are skipped; between tabs every
    character counts, quotes included. The file is read in blocks; a line of more than a few million bytes is refused
    before it is read whole.

    Parameters
    ----------
    path : path
        The file.
    n_arguments : int
        Arguments of the predicate.
    constants : ConstantTable
        Where names get their numbers.
    types : sequence of str, optional
        PSL's type of each argument; integers are the same however they are written (`07` and `7`).

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
    kinds = ["UniqueStringID"] * n_arguments if types is None else list(types)
    parts: list[AtomRows] = []
    with open_packed(path) as stream:
        for first_line, text in _blocks(stream, name):
            parts.extend(_rows(text, first_line, kinds, constants, name))
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
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise FileFormatError(
            f"{name}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8. Save the file as UTF-8."
        ) from None


def _rows(text: str, first_line: int, types: list[str], constants: ConstantTable, name: str) -> Iterator[AtomRows]:
    """Atoms of whole lines; in one go if all have equally many fields and none is empty."""
    lines = [line.strip(_BLANK) for line in text.removesuffix("\n").split("\n")]
    n_fields = lines[0].count("\t") + 1
    plain = "" not in lines and all(line.count("\t") == n_fields - 1 for line in lines)
    if plain and n_fields in (len(types), len(types) + 1):
        fields = "\t".join(lines).split("\t")
        yield _checked(fields, n_fields, types, constants, name, first_line)
        return
    for number, line in enumerate(lines, first_line):
        if not line:
            continue
        parts = line.split("\t")
        if len(parts) not in (len(types), len(types) + 1):
            raise FileFormatError(
                f"{name}, line {number}: {len(parts)} fields; expected {len(types)} arguments and perhaps a truth "
                f"value, separated by tabs."
            )
        yield _checked(parts, len(parts), types, constants, name, number)


def _checked(
    fields: list[str], n_fields: int, types: list[str], constants: ConstantTable, name: str, first_line: int
) -> AtomRows:
    columns = [typed_names(fields[k::n_fields], kind, name, first_line, "line") for k, kind in enumerate(types)]
    values = fields[len(types) :: n_fields] if n_fields > len(types) else None
    try:
        return rows_of_columns(columns, values, constants, name, first_line, "line")
    except InvalidInputError as error:
        raise FileFormatError(str(error)) from None


def typed_names(column: list[str], kind: str, place: str, first_row: int = 1, unit: str = "row") -> list[str]:
    """Names of one argument, those of an integer type in their shortest form.

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
