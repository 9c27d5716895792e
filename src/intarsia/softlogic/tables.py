"""Tables of atoms as people have them: data frames, dicts of columns, rows; and as we keep them: numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from intarsia._validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.constants import ConstantTable
from intarsia.softlogic.linear_rows import Index32


@dataclass(frozen=True, eq=False)
class AtomRows:
    """Atoms of one predicate.

    Attributes
    ----------
    arguments : int32 array (n, n_arguments)
        Numbers of the constants.
    values : float array (n,)
        Truth values in [0, 1].

    Examples
    --------
    >>> rows = AtomRows(np.array([[0, 1]], dtype=np.int32), np.array([0.5]))
    >>> len(rows)
    1
    """

    arguments: Index32
    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)


def read_table(table: Any, n_arguments: int, constants: ConstantTable, where: str) -> AtomRows:
    """Atoms of a table: a column for each argument, and perhaps one with truth values, which are 1 without it.

    Parameters
    ----------
    table : data frame, dict of columns, array or list of rows
        pandas, polars, PyArrow, ... whatever narwhals knows. The order of the columns counts, not their names. For a
        predicate with one argument a list of names is enough.
    n_arguments : int
        Arguments of the predicate.
    constants : ConstantTable
        Where names get their numbers.
    where : str
        For messages.

    Raises
    ------
    InvalidInputError
        Too few or too many columns, a truth value outside [0, 1], a missing name.

    Examples
    --------
    >>> rows = read_table([("ann", "bob"), ("bob", "ann", 0.5)], 2, ConstantTable(), "Knows")
    >>> rows.arguments.tolist(), rows.values.tolist()
    ([[0, 1], [1, 0]], [1.0, 0.5])
    """
    columns = _columns(table, n_arguments, where)
    return rows_of_columns(columns[:n_arguments], columns[n_arguments] if len(columns) > n_arguments else None,
                           constants, where)  # fmt: skip


def rows_of_columns(
    columns: Sequence[Any], values: Any, constants: ConstantTable, where: str, first_row: int = 0, unit: str = "row"
) -> AtomRows:
    """Atoms of columns of names, and a column of truth values or None."""
    arguments = np.stack([constants.numbers(column, where) for column in columns], axis=1)
    return AtomRows(arguments, _truth(values, arguments.shape, where, first_row, unit))


def backend_of(table: Any) -> Any:
    """The kind of data frame that a table is, or None if it is no data frame."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return frame.implementation if isinstance(frame, nw.DataFrame) else None


def row_keys(arguments: Index32, n_constants: int) -> IntArray:
    """One number for each row, equal where rows are equal.

    Examples
    --------
    >>> keys = row_keys(np.array([[0, 1], [1, 0], [0, 1]], dtype=np.int32), 2)
    >>> keys[0] == keys[2], keys[0] == keys[1]
    (np.True_, np.False_)
    """
    key = np.zeros(len(arguments), dtype=np.int64)
    room = 1
    for column in arguments.T:
        if room * max(n_constants, 1) >= 2**62:
            unique, key = np.unique(key, return_inverse=True)
            room = len(unique)
        key = key * n_constants + column
        room *= max(n_constants, 1)
    return key


def _columns(table: Any, n_arguments: int, where: str) -> list[Any]:
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        columns = [_column(series) for series in frame.iter_columns()]
    elif isinstance(table, Mapping):
        columns = list(table.values())
        for name, column in table.items():
            if isinstance(column, str) or not isinstance(column, Sized):
                raise InvalidInputError(
                    f"{where}: column {name!r} is {column!r:.40}, expected a list with an entry for every atom. Give "
                    f"atoms with their truth as rows, [('ann', 'bob', 0.5), ...]."
                )
        if len({len(column) for column in columns}) > 1:
            raise InvalidInputError(f"{where}: columns have different lengths. Give an entry in each for every atom.")
    elif isinstance(table, np.ndarray) and table.ndim == 2:
        columns = list(table.T)
    elif isinstance(table, (list, tuple, np.ndarray)):
        return _columns_of_rows(table, n_arguments, where)
    else:
        raise InvalidInputError(
            f"{where}: expected a data frame, a dict of columns or a list of rows, got {type(table).__name__}."
        )
    if len(columns) not in (n_arguments, n_arguments + 1):
        raise InvalidInputError(
            f"{where}: the table has {len(columns)} columns; expected {n_arguments}, one for each argument, and "
            f"perhaps one more with truth values."
        )
    return columns


def _column(series: nw.Series[Any]) -> Any:
    return series.to_numpy() if series.dtype.is_numeric() and not series.is_null().any() else series.to_list()


def _columns_of_rows(rows: Any, n_arguments: int, where: str) -> list[Any]:
    fields = []
    for k, row in enumerate(rows):
        parts = tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
        if len(parts) not in (n_arguments, n_arguments + 1):
            raise InvalidInputError(
                f"{where}, row {k}: {len(parts)} entries; expected {n_arguments} arguments and perhaps a truth value."
            )
        fields.append(parts if len(parts) > n_arguments else (*parts, 1.0))
    return [list(column) for column in zip(*fields, strict=True)] if fields else [[] for _ in range(n_arguments + 1)]


def _truth(values: Any, shape: tuple[int, ...], where: str, first_row: int, unit: str) -> FloatArray:
    n, n_arguments = shape
    if values is None:
        return np.ones(n)
    try:
        truth = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        row = next(k for k, value in enumerate(values) if not _is_number(value))
        raise InvalidInputError(
            f"{where}, {unit} {first_row + row}: expected a truth value in [0, 1] after {n_arguments} arguments, "
            f"got {values[row]!r:.40}."
        ) from None
    good = (truth >= 0.0) & (truth <= 1.0)
    if not good.all():
        row = int(np.argmin(good))
        raise InvalidInputError(
            f"{where}, {unit} {first_row + row}: the truth value {values[row]!s:.40} is outside [0, 1]. Rescale them."
        )
    return truth


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
