"""Groundings as linear rows: what is known goes into the constant, what holds anyway is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows

# A distance that rounding alone can make.
ROUNDING = 1e-9


def fold_known(
    row: NDArray[np.int64], atom: Index32, coef: FloatArray, const: FloatArray, n_variables: int, values: FloatArray
) -> LinearRows:
    """Rows over variables from entries over atoms, sorted by row; atom `n_variables + k` has the truth `values[k]`.

    Examples
    --------
    >>> rows = fold_known(np.array([0, 0]), np.array([0, 3]), np.array([1.0, -1.0]), np.zeros(1), 2, np.array([0, 0.5]))
    >>> rows.idx.tolist(), rows.coef.tolist(), rows.const.tolist()
    ([0], [1.0], [-0.5])
    """
    free = atom < n_variables
    known = ~free
    const = const + np.bincount(row[known], coef[known] * values[atom[known] - n_variables], minlength=len(const))
    return owned_rows(np.bincount(row[free], minlength=len(const)), atom[free].astype(np.int32), coef[free], const)


def owned_rows(length: NDArray[np.int64], idx: Index32, coef: FloatArray, const: FloatArray) -> LinearRows:
    """Rows from arrays that nobody else holds, which are not copied again."""
    ptr = np.zeros(len(length) + 1, dtype=np.int64)
    np.cumsum(length, out=ptr[1:])
    for array in (ptr, idx, coef, const):
        array.flags.writeable = False
    return LinearRows(ptr, idx, coef, const)


def largest(rows: LinearRows) -> FloatArray:
    """The largest value of each row over the unit box.

    Examples
    --------
    >>> largest(LinearRows([0, 2, 2], [0, 1], [2.0, -1.0], [0.5, 1.0])).tolist()
    [2.5, 1.0]
    """
    lengths = np.diff(rows.ptr)
    above = np.maximum(rows.coef, 0.0)
    if rows.n_rows and lengths.all():
        return rows.const + np.add.reduceat(above, rows.ptr[:-1])
    return rows.const + np.bincount(np.repeat(np.arange(rows.n_rows), lengths), above, minlength=rows.n_rows)


class GroundRows(NamedTuple):
    """Groundings of a rule, and which of them are arithmetic and consist of a single atom, observed ones counted."""

    rows: LinearRows
    single: NDArray[np.bool_]


def taken_as_satisfied(rows: LinearRows, single: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows, that must not exceed 0, PSL leaves out because it takes them as satisfied although they need not be.

    PSL looks at a grounding with a single atom as if its coefficient were 1 or -1, so that it drops `3 * P(X) <= 1`.

    Examples
    --------
    >>> rows = LinearRows([0, 1, 2, 3], [0, 0, 0], [3.0, 3.0, -3.0], [-1.0, -0.5, 1.0])
    >>> taken_as_satisfied(rows, np.ones(3, dtype=bool)).tolist()
    [True, False, False]
    """
    above = np.zeros(rows.n_rows, dtype=bool)
    alone = single & (np.diff(rows.ptr) == 1)
    above[alone] = rows.coef[rows.ptr[:-1][alone]] > 0.0
    taken: NDArray[np.bool_] = above & (rows.const <= -1.0)
    return taken & is_violable(rows)


def negative(rows: LinearRows) -> LinearRows:
    """Minus every row."""
    return owned_rows(np.diff(rows.ptr), rows.idx, -rows.coef, -rows.const)


def select(rows: LinearRows, keep: NDArray[np.bool_]) -> LinearRows:
    """Some of the rows."""
    if keep.all():
        return rows
    lengths = np.diff(rows.ptr)
    entries = np.repeat(keep, lengths)
    return owned_rows(lengths[keep], rows.idx[entries], rows.coef[entries], rows.const[keep])


def is_violable(rows: LinearRows) -> NDArray[np.bool_]:
    """Which rows have a variable and can be above 0 somewhere in the unit box."""
    found: NDArray[np.bool_] = (largest(rows) > ROUNDING) & (np.diff(rows.ptr) > 0)
    return found


def violable(rows: LinearRows) -> LinearRows:
    """Rows that have a variable and can be above 0 somewhere in the unit box."""
    return select(rows, is_violable(rows))


def distinct(rows: LinearRows, both_signs: bool) -> LinearRows:
    """Each row once; with `both_signs` a row and minus that row are the same.

    Examples
    --------
    >>> rows = LinearRows([0, 2, 4], [0, 1, 0, 1], [1.0, -1.0, -1.0, 1.0], [0.0, 0.0])
    >>> distinct(rows, both_signs=True).n_rows, distinct(rows, both_signs=False).n_rows
    (1, 2)
    """
    keep = np.zeros(rows.n_rows, dtype=bool)
    lengths = np.diff(rows.ptr)
    for length in np.unique(lengths):
        which = np.flatnonzero(lengths == length)
        entries = rows.ptr[which][:, None] + np.arange(length)
        coef, const = rows.coef[entries], rows.const[which][:, None]
        if both_signs and length:
            sign = np.sign(coef[:, :1])
            coef, const = coef * sign, const * sign
        # Adding 0 makes -0 and 0 one number.
        table = np.concatenate([rows.idx[entries], coef, const], axis=1) + 0.0
        keep[which[_first_of_each(table)]] = True
    return select(rows, keep)


def _first_of_each(table: FloatArray) -> NDArray[np.int64]:
    """Where each row of a table stands first. Rows are sorted only where a sum of their bits is not theirs alone."""
    odd = 2 * np.arange(table.shape[1], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = np.ascontiguousarray(table).view(np.uint64)
    mixed = ((bits ^ (bits >> np.uint64(29))) * (odd * odd)).sum(axis=1, dtype=np.uint64)
    _, inverse, count = np.unique(mixed, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(count[inverse] > 1)
    _, first = np.unique(table[shared], axis=0, return_index=True)
    return np.concatenate([np.flatnonzero(count[inverse] == 1), shared[first]])


@dataclass
class RowCollector:
    """Rows of many rules, put together at the end."""

    rows: list[LinearRows] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    def add(self, rows: LinearRows, group: int) -> int:
        """Take rows of a rule; returns how many."""
        if rows.n_rows:
            self.rows.append(rows)
            self.groups.append(group)
        return rows.n_rows

    def together(self) -> tuple[LinearRows, Index32]:
        """All rows, and the rule of each."""
        if not self.rows:
            return LinearRows.empty(), np.empty(0, dtype=np.int32)
        lengths = np.concatenate([np.diff(rows.ptr) for rows in self.rows])
        group = np.repeat(np.array(self.groups, dtype=np.int32), [rows.n_rows for rows in self.rows])
        parts = [np.concatenate([getattr(rows, name) for rows in self.rows]) for name in ("idx", "coef", "const")]
        self.rows.clear()
        return owned_rows(lengths, *parts), group
