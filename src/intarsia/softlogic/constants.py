"""Names of things as whole numbers, so that joins compare numbers and no name ever stands in a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.linear_rows import Index32


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

    def ranks(self) -> IntArray:
        """For each number, the place of its name in the order of the alphabet."""
        order = sorted(range(len(self)), key=self.names.__getitem__)
        rank = np.empty(len(self), dtype=np.int64)
        rank[order] = np.arange(len(self))
        return rank

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
