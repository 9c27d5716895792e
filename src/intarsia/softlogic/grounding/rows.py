"""Groundings as linear rows: observed values become part of the constant, satisfied groundings are removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows

# Violations up to this size can be rounding errors.
ROUNDING = 1e-9


def fold_known(
    row: NDArray[np.int64], atom: Index32, coef: FloatArray, const: FloatArray, n_variables: int, values: FloatArray
) -> LinearRows:
    """Convert entries over atoms, sorted by row, to rows over variables; atom `n_variables + k` has value `values[k]`.

    Examples
    --------
    >>> rows = fold_known(np.array([0, 0]), np.array([0, 3]), np.array([1.0, -1.0]), np.zeros(1), 2, np.array([0, 0.5]))
    >>> rows.idx.tolist(), rows.coef.tolist(), rows.const.tolist()
    ([0], [1.0], [-0.5])
    """
    free = atom < n_variables
    observed = ~free
    const = const + np.bincount(
        row[observed], coef[observed] * values[atom[observed] - n_variables], minlength=len(const)
    )
    return owned_rows(np.bincount(row[free], minlength=len(const)), atom[free].astype(np.int32), coef[free], const)


def owned_rows(length: NDArray[np.int64], idx: Index32, coef: FloatArray, const: FloatArray) -> LinearRows:
    """Create rows from arrays that the caller will not use again, without copying them."""
    ptr = np.zeros(len(length) + 1, dtype=np.int64)
    np.cumsum(length, out=ptr[1:])
    for array in (ptr, idx, coef, const):
        array.flags.writeable = False
    return LinearRows(ptr, idx, coef, const)


def largest(rows: LinearRows) -> FloatArray:
    """Return the largest value of each row over the unit box.

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
    """Groundings of a rule, and which of them are arithmetic with a single atom (observed atoms included)."""

    rows: LinearRows
    single: NDArray[np.bool_]


def taken_as_satisfied(rows: LinearRows, single: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows, each meaning `row <= 0`, PSL treats as satisfied although they can be violated.

    PSL checks a grounding with a single atom as if its coefficient were 1 or -1, so it drops `3 * P(X) <= 1`.

    Examples
    --------
    >>> rows = LinearRows([0, 1, 2, 3], [0, 0, 0], [3.0, 3.0, -3.0], [-1.0, -0.5, 1.0])
    >>> taken_as_satisfied(rows, np.ones(3, dtype=bool)).tolist()
    [True, False, False]
    """
    positive = np.zeros(rows.n_rows, dtype=bool)
    single_variable = single & (np.diff(rows.ptr) == 1)
    positive[single_variable] = rows.coef[rows.ptr[:-1][single_variable]] > 0.0
    satisfied: NDArray[np.bool_] = positive & (rows.const <= -1.0)
    return satisfied & is_violable(rows)


def negative(rows: LinearRows) -> LinearRows:
    """Return the rows multiplied by -1."""
    return owned_rows(np.diff(rows.ptr), rows.idx, -rows.coef, -rows.const)


def select(rows: LinearRows, keep: NDArray[np.bool_]) -> LinearRows:
    """Return the rows for which `keep` is True."""
    if keep.all():
        return rows
    lengths = np.diff(rows.ptr)
    entries = np.repeat(keep, lengths)
    return owned_rows(lengths[keep], rows.idx[entries], rows.coef[entries], rows.const[keep])


def is_violable(rows: LinearRows) -> NDArray[np.bool_]:
    """Return which rows have a variable and can be above 0 in the unit box."""
    mask: NDArray[np.bool_] = (largest(rows) > ROUNDING) & (np.diff(rows.ptr) > 0)
    return mask


def violable(rows: LinearRows) -> LinearRows:
    """Return the rows that have a variable and can be above 0 in the unit box."""
    return select(rows, is_violable(rows))


def distinct(rows: LinearRows, both_signs: bool) -> LinearRows:
    """Remove duplicate rows; with `both_signs` a row and its negative are duplicates.

    Examples
    --------
    >>> rows = LinearRows([0, 2, 4], [0, 1, 0, 1], [1.0, -1.0, -1.0, 1.0], [0.0, 0.0])
    >>> distinct(rows, both_signs=True).n_rows, distinct(rows, both_signs=False).n_rows
    (1, 2)
    """
    keep = np.zeros(rows.n_rows, dtype=bool)
    lengths = np.diff(rows.ptr)
    for length in np.unique(lengths):
        same_length = np.flatnonzero(lengths == length)
        entries = rows.ptr[same_length][:, None] + np.arange(length)
        coef, const = rows.coef[entries], rows.const[same_length][:, None]
        if both_signs and length:
            sign = np.sign(coef[:, :1])
            coef, const = coef * sign, const * sign
        # Adding 0 turns -0.0 into 0.0, so that their bits are equal.
        table = np.concatenate([rows.idx[entries], coef, const], axis=1) + 0.0
        keep[same_length[_first_of_each(table)]] = True
    return select(rows, keep)


def _first_of_each(table: FloatArray) -> NDArray[np.int64]:
    """Return the index of the first copy of each distinct row; only rows whose hash is not unique are sorted."""
    factors = 2 * np.arange(table.shape[1], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = np.ascontiguousarray(table).view(np.uint64)
    hashes = ((bits ^ (bits >> np.uint64(29))) * (factors * factors)).sum(axis=1, dtype=np.uint64)
    _, inverse, count = np.unique(hashes, return_inverse=True, return_counts=True)
    collisions = np.flatnonzero(count[inverse] > 1)
    _, first = np.unique(table[collisions], axis=0, return_index=True)
    return np.concatenate([np.flatnonzero(count[inverse] == 1), collisions[first]])


@dataclass
class RowCollector:
    """Collection of the rows of many rules, concatenated at the end."""

    rows: list[LinearRows] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    def add(self, rows: LinearRows, group: int) -> int:
        """Add rows of a rule and return their number."""
        if rows.n_rows:
            self.rows.append(rows)
            self.groups.append(group)
        return rows.n_rows

    def together(self) -> tuple[LinearRows, Index32]:
        """Return all rows, and the group (rule) of each."""
        if not self.rows:
            return LinearRows.empty(), np.empty(0, dtype=np.int32)
        lengths = np.concatenate([np.diff(rows.ptr) for rows in self.rows])
        group = np.repeat(np.array(self.groups, dtype=np.int32), [rows.n_rows for rows in self.rows])
        arrays = [np.concatenate([getattr(rows, name) for rows in self.rows]) for name in ("idx", "coef", "const")]
        self.rows.clear()
        return owned_rows(lengths, *arrays), group
