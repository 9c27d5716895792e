"""Tables of atoms: convert data frames, dicts of columns or rows to integer codes of constants."""

from __future__ import annotations

import bisect
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.tables import TABLES, read_columns
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.linear_rows import Index32

# PSL's argument types, and whether constants of a type are read and ordered as integers.
ARGUMENT_TYPES = {
    "UniqueIntID": True,
    "UniqueStringID": False,
    "Integer": True,
    "Long": True,
    "Double": False,
    "String": False,
    "DeferredFunctionalUniqueID": False,
}
_INTEGER = re.compile(r"[+-]?[0-9]+")
# Python cannot parse integers of more than 4300 digits; longer names are treated as strings.
_LONGEST_INTEGER = 1000


class ConstantTable:
    """Integer codes of the constants of a program, in order of first occurrence.

    An integer is equal to the string of its digits: 7 in a table and '7' in a rule are the same constant.

    Examples
    --------
    >>> table = ConstantTable()
    >>> table.numbers(["b", "a", "b"], "names").tolist(), table.numbers(np.array([7, 7]), "ids").tolist()
    ([0, 1, 0], [2, 2])
    >>> table.names
    ['b', 'a', '7']
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._names: list[str] = []
        self._sorted: dict[bool, list[tuple[int, int, str]]] = {}

    def __len__(self) -> int:
        return len(self._number)

    @property
    def names(self) -> list[str]:
        """Name of the constant of each number."""
        if len(self._names) != len(self._number):
            self._names = list(self._number)
        return self._names

    def number(self, name: str) -> int:
        """Return the number of a constant, adding the constant if it is new."""
        return self._number.setdefault(name, len(self._number))

    def find(self, name: str) -> int:
        """Return the number of a constant, or -1 if it is unknown."""
        return self._number.get(name, -1)

    def numbers(self, column: Sequence[Any] | NDArray[Any], place: str) -> Index32:
        """Return the numbers of a column of constants, adding those that are new.

        Raises
        ------
        InvalidInputError
            An entry is neither a string nor an integer.
        """
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
            return self._of_integers(column, place)
        is_date = isinstance(column, np.ndarray) and column.dtype.kind == "M"  # tolist() would give integers
        values = list(column) if is_date else column.tolist() if isinstance(column, np.ndarray) else column
        if set(map(type, values)) - {str}:
            values = [_as_name(value, row, place) for row, value in enumerate(values)]
        return self._of_strings(values)

    def ranks(self, by_number: bool) -> IntArray:
        """Return the rank of each constant in the order of the constants.

        Parameters
        ----------
        by_number : bool
            Whether integers come first, ordered by number; otherwise all names are ordered as strings.
        """
        rank = np.empty(len(self), dtype=np.int64)
        rank[[self._number[name] for *_, name in self._in_order(by_number)]] = np.arange(len(self))
        return rank

    def rank(self, name: str, by_number: bool) -> float:
        """Return the rank of a name in the order of the constants; a half-integer if the constant is unknown.

        Examples
        --------
        >>> table = ConstantTable()
        >>> _ = table.numbers(["10", "2", "a"], "names")
        >>> table.rank("2", by_number=True), table.rank("2", by_number=False), table.rank("3", by_number=True)
        (0.0, 1.0, 0.5)
        """
        place = bisect.bisect_left(self._in_order(by_number), _order(name, by_number))
        return float(place) if name in self._number else place - 0.5

    def _in_order(self, by_number: bool) -> list[tuple[int, int, str]]:
        """Return the sorted sort keys of all constants."""
        if len(self._sorted.get(by_number, [])) != len(self):
            self._sorted[by_number] = sorted(_order(name, by_number) for name in self.names)
        return self._sorted[by_number]

    def _of_strings(self, values: Iterable[str]) -> Index32:
        """Return the numbers of names."""
        number = self._number
        return np.array([number.setdefault(value, len(number)) for value in values], dtype=np.int32)

    def _of_integers(self, column: NDArray[Any], place: str) -> Index32:
        """Return the numbers of a numeric column of constants."""
        if column.dtype.kind == "f":
            good = np.isfinite(column) & (column == np.rint(column)) & (np.abs(column) < 2**53)
            if not good.all():
                row = int(np.argmin(good))
                _as_name(float(column[row]), row, place)
            column = column.astype(np.int64)
        unique, inverse = np.unique(column, return_inverse=True)
        return self._of_strings(map(str, unique.tolist()))[inverse]


def _order(name: str, by_number: bool) -> tuple[int, int, str]:
    """Return the sort key of a constant: integers first; equal integers such as 1 and 01 are ordered as strings."""
    if by_number and len(name) <= _LONGEST_INTEGER and _INTEGER.fullmatch(name):
        return 0, int(name), name
    return 1, 0, name


def _as_name(value: Any, row: int, place: str) -> str:
    """Return a constant as a string; raise if it is neither a string nor an integer."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, (datetime.date, np.datetime64)) and not np.isnat(np.datetime64(value)):
        raise InvalidInputError(
            f"{place}, row {row}: a constant must be a string or an integer, got the date {value!s:.40}. Convert dates "
            f"to strings, for example with .astype(str)."
        )
    raise InvalidInputError(
        f"{place}, row {row}: a constant must be a string or an integer, got {value!r:.40}. Remove rows with missing "
        f"constants."
    )


@dataclass(frozen=True, eq=False)
class AtomRows:
    """Atoms of a predicate with their values.

    Attributes
    ----------
    arguments : int32 array (n, n_arguments)
        Numbers of the constants.
    values : float array (n,)
        Values in [0, 1].
    columns : tuple of (str, str)
        Name and type of the column of each argument in the input table, such as ("user", "<i8"); the name is empty if
        the table has none, the type if the constants are strings.

    Examples
    --------
    >>> rows = AtomRows(np.array([[0, 1]], dtype=np.int32), np.array([0.5]))
    >>> len(rows)
    1
    """

    arguments: Index32
    values: FloatArray
    columns: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.values)


def common_columns(tables: Sequence[AtomRows], n_arguments: int) -> list[tuple[str, str]]:
    """Return name and type of each argument: the first names; a type if all tables have one, else strings."""
    described = [rows.columns for rows in tables if len(rows)]
    common = []
    for k in range(n_arguments):
        names = [columns[k][0] for columns in described if columns and columns[k][0]]
        types = {columns[k][1] if columns else "" for columns in described}
        kind = "" if "" in types or not types else np.result_type(*types).str
        common.append((names[0] if names else "", kind))
    return common


def _described(columns: Mapping[Any, Any], n_arguments: int) -> tuple[tuple[str, str], ...]:
    """Return name and type of the columns of arguments."""
    labelled = [(name if isinstance(name, str) else "", column) for name, column in columns.items()]
    return tuple((name, _integer_type(column)) for name, column in labelled[:n_arguments])


def _integer_type(column: Any) -> str:
    """Return the type of a column of integers; empty for other columns."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return str(column.dtype.str)
    entries = column.tolist() if isinstance(column, np.ndarray) else column
    integers = len(entries) and set(map(type, entries)) == {int} and -(2**63) <= min(entries) <= max(entries) < 2**63
    return "<i8" if integers else ""


def read_table(table: Any, n_arguments: int, constants: ConstantTable, place: str) -> AtomRows:
    """Read the atoms of a table: a column per argument, and an optional column of values in [0, 1] (default 1).

    Parameters
    ----------
    table : table, dict of columns, array or list of rows
        Any table that `read_columns` accepts, or a list of rows. Columns are identified by their order, not by their
        names. For a predicate with one argument a list of constants is enough.
    n_arguments : int
        Number of arguments of the predicate.
    constants : ConstantTable
        Constants of the program; new constants are added.
    place : str
        Name of the table in error messages.

    Raises
    ------
    InvalidInputError
        The number of columns is wrong, a value is outside [0, 1], or a constant is missing.

    Examples
    --------
    >>> rows = read_table([("ann", "bob"), ("bob", "ann", 0.5)], 2, ConstantTable(), "Knows")
    >>> rows.arguments.tolist(), rows.values.tolist()
    ([[0, 1], [1, 0]], [1.0, 0.5])
    """
    columns = _columns(table, n_arguments, place)
    values = list(columns.values())
    rows = rows_of_columns(values[:n_arguments], values[n_arguments] if len(values) > n_arguments else None,
                           constants, place)  # fmt: skip
    return replace(rows, columns=_described(columns, n_arguments))


def read_connected(
    connection: Any, name: str, n_arguments: int, constants: ConstantTable, place: str
) -> tuple[Any, AtomRows]:
    """Read the atoms of a table or view of a DuckDB connection; return the relation and the atoms.

    DuckDB replaces strings by integers: only the distinct strings and the integers are copied to Python.

    Examples
    --------
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("create table knows as select 'ann' as a, 'bob' as b, 0.5 as truth")
    >>> read_connected(connection, "knows", 2, ConstantTable(), "Knows")[1].arguments.tolist()
    [[0, 1]]
    """
    import duckdb

    try:
        relation = connection.table(name)
        rows = _connected_rows(relation, n_arguments, constants, place)
        kinds = ["<i8" if "INT" in str(kind) else "" for kind in relation.types[:n_arguments]]
        return relation, replace(rows, columns=tuple(zip(relation.columns, kinds, strict=False)))
    except duckdb.CatalogException as error:
        reason = f"the connection has no table or view {name!r:.60}: {str(error).splitlines()[0]}"
        raise InvalidInputError(f"{place}: {reason} Check the name, or pass the table itself.") from None
    except duckdb.Error as error:
        raise InvalidInputError(
            f"{place}: DuckDB cannot read {name!r:.60}: {str(error).splitlines()[0]} Check the table or view in DuckDB."
        ) from None


def _connected_rows(relation: Any, n_arguments: int, constants: ConstantTable, place: str) -> AtomRows:
    """Read the atoms of a DuckDB relation, and add its constants."""
    _check_width(len(relation.columns), n_arguments, place)
    columns = ['"' + column.replace('"', '""') + '"' for column in relation.columns]
    for column, kind in zip(columns[:n_arguments], map(str, relation.types), strict=False):
        if kind != "VARCHAR" and "INT" not in kind and not kind.startswith("ENUM"):
            raise InvalidInputError(
                f"{place}: column {column} is of type {kind}, expected strings or integers. Cast it in a view."
            )
    numbered = relation.project(", ".join(["row_number() over () as place", *columns]))
    names: dict[str, Any] = {}
    for column in columns[:n_arguments]:
        first = numbered.filter(f"{column} is not null").aggregate(f"{column}::varchar as name, min(place) as place")
        names.update(dict.fromkeys(first.order("place").project("name").fetchnumpy()["name"].tolist()))
    codes = {"name": np.array(list(names), dtype=object), "number": constants.numbers(list(names), place)}
    return _coded_rows(numbered, codes, columns, n_arguments, place)


def _coded_rows(numbered: Any, codes: dict[str, Any], columns: list[str], n_arguments: int, place: str) -> AtomRows:
    """Read the atoms of a relation with numbered rows, replacing each name by its number."""
    fields = [f"c{k}.number as a{k}" for k in range(n_arguments)]
    fields += [f"rows.{column} as truth" for column in columns[n_arguments:]]
    joins = [
        f"left join codes as c{k} on c{k}.name = rows.{column}::varchar"
        for k, column in enumerate(columns[:n_arguments])
    ]
    query = f"select {', '.join(fields)} from rows {' '.join(joins)} order by rows.place"
    result = numbered.query("rows", query).fetchnumpy()
    arguments = np.empty((len(result["a0"]), n_arguments), dtype=np.int32)
    for k in range(n_arguments):
        column = result.pop(f"a{k}")
        if np.ma.is_masked(column):
            _as_name(None, int(np.argmax(np.ma.getmaskarray(column))), place)
        arguments[:, k] = column
    truth = result.get("truth")
    if np.ma.isMaskedArray(truth):
        truth = truth.filled(None if truth.dtype.kind == "O" else np.nan)
    return AtomRows(arguments, _truth(truth, arguments.shape, place, 0, "row"))


def _check_width(n_columns: int, n_arguments: int, place: str) -> None:
    """Raise if a table has a wrong number of columns."""
    if n_columns not in (n_arguments, n_arguments + 1):
        raise InvalidInputError(
            f"{place}: the table has {n_columns} columns; expected {n_arguments}, one for each argument, and "
            f"optionally one more with values in [0, 1]."
        )


def rows_of_columns(
    columns: Sequence[Any], values: Any, constants: ConstantTable, place: str, first_row: int = 0, unit: str = "row"
) -> AtomRows:
    """Build atoms from columns of constants, and a column of values in [0, 1] or None."""
    arguments = np.stack([constants.numbers(column, place) for column in columns], axis=1)
    return AtomRows(arguments, _truth(values, arguments.shape, place, first_row, unit))


def row_keys(arguments: Index32, n_constants: int) -> IntArray:
    """Return an integer key for each row, equal for equal rows.

    Examples
    --------
    >>> keys = row_keys(np.array([[0, 1], [1, 0], [0, 1]], dtype=np.int32), 2)
    >>> keys[0] == keys[2], keys[0] == keys[1]
    (np.True_, np.False_)
    """
    key = np.zeros(len(arguments), dtype=np.int64)
    n_keys = 1
    for column in arguments.T:
        if n_keys * max(n_constants, 1) >= 2**62:
            unique, key = np.unique(key, return_inverse=True)
            n_keys = len(unique)
        key = key * n_constants + column
        n_keys *= max(n_constants, 1)
    return key


def _columns(table: Any, n_arguments: int, place: str) -> dict[Any, Any]:
    """Return the columns of any supported table by name, or by number if they have no names."""
    with errors_in(place):
        columns_by_name = read_columns(table)
    if columns_by_name is not None:
        columns = columns_by_name
    elif isinstance(table, np.ndarray) and table.ndim == 2:
        columns = dict(enumerate(table.T))
    elif isinstance(table, (list, tuple, range, np.ndarray)):
        return dict(enumerate(_columns_of_rows(table, n_arguments, place)))
    else:
        raise InvalidInputError(f"{place}: expected {TABLES}, or a list of rows, got {type(table).__name__}.")
    _check_width(len(columns), n_arguments, place)
    return columns


def _columns_of_rows(rows: Any, n_arguments: int, place: str) -> list[Any]:
    """Return the columns of a list of rows; rows without a value get the value 1."""
    fields = []
    for k, row in enumerate(rows):
        entries = tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
        if len(entries) not in (n_arguments, n_arguments + 1):
            raise InvalidInputError(
                f"{place}, row {k}: {len(entries)} entries; expected {n_arguments} arguments and optionally a value in "
                f"[0, 1]."
            )
        fields.append(entries if len(entries) > n_arguments else (*entries, 1.0))
    return [list(column) for column in zip(*fields, strict=True)] if fields else [[] for _ in range(n_arguments + 1)]


def _truth(values: Any, shape: tuple[int, ...], place: str, first_row: int, unit: str) -> FloatArray:
    """Return checked values in [0, 1] of atoms; 1 where no values were passed."""
    n, n_arguments = shape
    if values is None:
        return np.ones(n)
    try:
        truth = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        row = next(k for k, value in enumerate(values) if not _is_number(value))
        raise InvalidInputError(
            f"{place}, {unit} {first_row + row}: expected a value in [0, 1] after {n_arguments} arguments, got "
            f"{values[row]!r:.40}."
        ) from None
    good = (truth >= 0.0) & (truth <= 1.0)
    if not good.all():
        row = int(np.argmin(good))
        if np.isnan(truth[row]):
            raise InvalidInputError(
                f"{place}, {unit} {first_row + row}: the value is missing. Remove the row, or fill in a value in "
                f"[0, 1]."
            )
        raise InvalidInputError(
            f"{place}, {unit} {first_row + row}: the value {values[row]!s:.40} is outside [0, 1]. Rescale the values."
        )
    return truth


def _is_number(value: Any) -> bool:
    """Return whether a value can be converted to a float."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
