"""Names of things as whole numbers, so that joins compare numbers and no name ever stands in a query."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.linear_rows import Index32

# PSL's names of the types of arguments, and whether constants of a type are read and ordered as integers.
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
# Python refuses to read integers of more than 4300 digits, and nobody means one by such a name.
_LONGEST_INTEGER = 1000


class ConstantTable:
    """Numbers of all constants of a program, in the order in which they came.

    Whole numbers are taken as their digits, so that 7 in a table and '7' in a rule are one constant.

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
        """The constant of each number."""
        if len(self._names) != len(self._number):
            self._names = list(self._number)
        return self._names

    def number(self, name: str) -> int:
        """The number of one constant, a new one if it was never seen."""
        return self._number.setdefault(name, len(self._number))

    def find(self, name: str) -> int:
        """The number of one constant, -1 if it was never seen."""
        return self._number.get(name, -1)

    def numbers(self, column: Sequence[Any] | NDArray[Any], where: str) -> Index32:
        """Numbers of a column of names.

        Raises
        ------
        InvalidInputError
            An entry is neither a text nor a whole number.
        """
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
            return self._of_numbers(column, where)
        values = column.tolist() if isinstance(column, np.ndarray) else column
        if set(map(type, values)) - {str}:
            values = [_as_name(value, row, where) for row, value in enumerate(values)]
        return self._of_texts(values)

    def ranks(self, by_number: bool) -> IntArray:
        """For each number, the place of its name in the order of the constants.

        Parameters
        ----------
        by_number : bool
            Whether integers come first, ordered by number; otherwise all names are ordered as strings.
        """
        rank = np.empty(len(self), dtype=np.int64)
        rank[[self._number[name] for *_, name in self._in_order(by_number)]] = np.arange(len(self))
        return rank

    def rank(self, name: str, by_number: bool) -> float:
        """The place of a name in the order of the constants; between two places if it was never seen.

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
        if len(self._sorted.get(by_number, [])) != len(self):
            self._sorted[by_number] = sorted(_order(name, by_number) for name in self.names)
        return self._sorted[by_number]

    def _of_texts(self, values: Iterable[str]) -> Index32:
        number = self._number
        return np.array([number.setdefault(value, len(number)) for value in values], dtype=np.int32)

    def _of_numbers(self, column: NDArray[Any], where: str) -> Index32:
        if column.dtype.kind == "f":
            good = np.isfinite(column) & (column == np.rint(column)) & (np.abs(column) < 2**53)
            if not good.all():
                row = int(np.argmin(good))
                _as_name(float(column[row]), row, where)
            column = column.astype(np.int64)
        unique, inverse = np.unique(column, return_inverse=True)
        return self._of_texts(map(str, unique.tolist()))[inverse]


def _order(name: str, by_number: bool) -> tuple[int, int, str]:
    """What a constant is sorted by; integers before others, equal ones such as 1 and 01 as strings."""
    if by_number and len(name) <= _LONGEST_INTEGER and _INTEGER.fullmatch(name):
        return 0, int(name), name
    return 1, 0, name


def _as_name(value: Any, row: int, where: str) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    raise InvalidInputError(
        f"{where}, row {row}: {value!r:.40} names nothing. Constants are texts or whole numbers; leave out rows with "
        f"missing names."
    )
