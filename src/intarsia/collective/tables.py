"""Scores of moves between cells, stored as dense tables, diagonals or lists of moves, whichever is fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, too_large
from intarsia._kernels.collective import NEGLIGIBLE
from intarsia.exceptions import InvalidInputError

# From this fraction of possible moves on, a dense matrix product is faster than a list of moves.
_DENSE_FRACTION = 0.25


@dataclass(frozen=True, eq=False)
class MoveTables:
    """Tables of scores of moves, which steps can share.

    Attributes
    ----------
    n_cells : int
        Number of cells s.
    theta : float array (n, s, s), or (n, n_moves) when `ptr` is given
        Scores of the moves; -inf for an impossible move.
    table_of_step : int array (T - 1,)
        Index of the table from each step to the next.
    ptr, idx : int arrays or None
        CSR pattern of the possible moves; None if all moves are stored.
    reach : int or None
        If not None, moves change the number of the cell by at most this, and tables are stored as diagonals.
    parents : int array (T,) or None
        For a tree of steps: the parent of each step; None for a chain.

    Examples
    --------
    >>> tables = move_tables(sparse.diags_array([0.5, 1.0, 0.5], offsets=[-1, 0, 1], shape=(50, 50)), n_steps=3)
    >>> tables.reach, tables.theta.shape
    (1, (1, 148))
    """

    n_cells: int
    theta: FloatArray
    table_of_step: IntArray
    ptr: IntArray | None = None
    idx: IntArray | None = None
    reach: int | None = None
    parents: IntArray | None = None

    @property
    def dense(self) -> bool:
        """Whether every pair of cells is stored."""
        return self.ptr is None

    @property
    def parent_of_step(self) -> IntArray:
        """Parent of each step, -1 for step 0, also for a chain."""
        return np.arange(-1, self.table_of_step.size) if self.parents is None else self.parents

    @property
    def maxima(self) -> FloatArray:
        """Largest score of each table; 0 if all scores are -inf."""
        largest = self.theta.reshape(len(self.theta), -1).max(axis=1, initial=-np.inf)
        return np.where(largest == -np.inf, 0.0, largest)

    def pattern(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the CSR pattern and the scores (n, n_moves), also of dense tables; it may contain impossible moves."""
        if self.ptr is not None and self.idx is not None:
            return self.ptr, self.idx, self.theta
        s = self.n_cells
        return np.arange(s + 1) * s, np.tile(np.arange(s), s), self.theta.reshape(len(self.theta), s * s)

    def exponentials(self) -> FloatArray:
        """Return exp of the scores minus their maxima, in the layout of the kernels; negligible values are 0."""
        maxima = self.maxima.reshape(-1, *(1,) * (self.theta.ndim - 1))
        values: FloatArray = np.exp(self.theta - maxima)
        values[values < NEGLIGIBLE] = 0.0
        return values if self.reach is None else self._diagonals(values)

    def matrix(self, values: FloatArray) -> Any:
        """Return one number per move as a matrix (s, s): an array, or a CSR array."""
        if self.ptr is None:
            return values.reshape(self.n_cells, self.n_cells)
        _, idx, _ = self.pattern()
        return sparse.csr_array((values, idx, self.ptr), shape=(self.n_cells, self.n_cells))

    def rows(self) -> IntArray:
        """Return the cell from which each stored move starts."""
        ptr = self.pattern()[0]
        return np.repeat(np.arange(self.n_cells), np.diff(ptr))

    def _diagonals(self, values: FloatArray) -> FloatArray:
        """Return the values of the moves stored by diagonals."""
        reach = int(self.reach or 0)
        diagonals = np.zeros((len(values), 2 * reach + 1, self.n_cells))
        rows, idx = self.rows(), self.pattern()[1]
        diagonals[:, idx - rows + reach, rows] = values
        return diagonals


def move_tables(
    theta: Any,
    n_steps: int,
    table_of_step: ArrayLike | None = None,
    parents: ArrayLike | None = None,
) -> MoveTables:
    """Build tables of moves from dense or sparse scores.

    Parameters
    ----------
    theta : array (s, s) or (n, s, s), SciPy sparse matrix (s, s), or a sequence of those
        Scores of moves. Moves that a sparse matrix does not store are impossible (a stored 0 is a score of 0).
    n_steps : int
        Number T of steps.
    table_of_step : int array (T - 1,), optional
        Index of the table of each pair of steps; by default the only table, or one table each.
    parents : int array (T,), optional
        For a tree: the parent of each step, which precedes it; -1 for step 0. By default a chain.

    Examples
    --------
    >>> move_tables(np.zeros((2, 2)), n_steps=4).table_of_step
    array([0, 0, 0])
    """
    score_tables = [theta] if sparse.issparse(theta) or np.ndim(theta) == 2 else list(theta)
    if not score_tables:
        raise InvalidInputError("theta holds no table. Pass scores of moves, an array (n_cells, n_cells).")
    any_sparse = any(sparse.issparse(table) for table in score_tables)
    parsed = _union_of_sparse(score_tables) if any_sparse else (_stack_dense(score_tables), None, None)
    values, ptr, idx = parsed
    n_cells = values.shape[1] if ptr is None else ptr.size - 1
    bad = np.isnan(values) | (values == np.inf)
    if bad.any() or too_large(values):
        raise InvalidInputError("theta holds NaN, +inf or a score beyond 1e200. Pass finite scores, or -inf.")
    steps, tree = _check_table_of_step(table_of_step, len(values), n_steps), _check_parents(parents, n_steps)
    return _choose_storage(n_cells, values, steps, ptr, idx, tree)


def _choose_storage(
    n_cells: int,
    values: FloatArray,
    steps: IntArray,
    ptr: IntArray | None,
    idx: IntArray | None,
    parents: IntArray | None,
) -> MoveTables:
    """Choose the fastest storage: dense tables, diagonals, or a list of moves."""
    if ptr is None:
        possible = (values > -np.inf).any(axis=0)
        if possible.sum() >= _DENSE_FRACTION * n_cells**2:
            return MoveTables(n_cells, values, steps, parents=parents)
        rows, columns = np.nonzero(possible)
        ptr = np.concatenate([[0], np.cumsum(possible.sum(axis=1))]).astype(np.int64)
        idx, values = columns.astype(np.int64), np.ascontiguousarray(values[:, rows, columns])
    moves: IntArray = np.empty(0, np.int64) if idx is None else idx
    rows = np.repeat(np.arange(n_cells), np.diff(ptr))
    if moves.size >= _DENSE_FRACTION * n_cells**2:
        full = np.full((len(values), n_cells, n_cells), -np.inf)
        full[:, rows, moves] = values
        return MoveTables(n_cells, full, steps, parents=parents)
    reach = int(np.abs(moves - rows).max(initial=0))
    banded = parents is None and moves.size >= 0.5 * (2 * reach + 1) * n_cells
    return MoveTables(n_cells, values, steps, ptr, moves, reach if banded else None, parents)


def _stack_dense(score_tables: list[Any]) -> FloatArray:
    """Return dense tables as an array (n, s, s); raise if they are not square or of unequal size."""
    tables = [as_float_array(table, "theta") for table in score_tables]
    shape = tables[0].shape
    for k, table in enumerate(tables):
        if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape != shape or not table.size:
            raise InvalidInputError(
                f"table {k} has shape {table.shape}, expected {'(n_cells, n_cells)' if k == 0 else shape}. Pass square "
                f"arrays of equal size."
            )
    return np.stack(tables)


def _union_of_sparse(score_tables: list[Any]) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the scores over the moves that at least one of several sparse tables has."""
    tables = [sparse.coo_array(table) for table in score_tables]
    shape = tables[0].shape
    for k, table in enumerate(tables):
        if table.shape != shape or shape[0] != shape[1] or not shape[0]:
            raise InvalidInputError(f"table {k} has shape {table.shape}. Pass square tables of equal size.")
    s = int(shape[0])
    move_codes = [table.row.astype(np.int64) * s + table.col for table in tables]
    union = np.unique(np.concatenate(move_codes))
    values = np.full((len(tables), union.size), -np.inf)
    for k, (table, codes) in enumerate(zip(tables, move_codes, strict=True)):
        if np.unique(codes).size != codes.size:
            raise InvalidInputError(f"table {k} stores a move twice. Call sum_duplicates() first.")
        values[k, np.searchsorted(union, codes)] = table.data
    ptr = np.searchsorted(union, np.arange(s + 1) * s).astype(np.int64)
    return values, ptr, union % s


def _check_table_of_step(table_of_step: ArrayLike | None, n_tables: int, n_steps: int) -> IntArray:
    """Return the index of the table of each pair of steps; raise if an index is invalid."""
    n_moves = max(n_steps - 1, 0)
    if table_of_step is None:
        if n_tables not in (1, n_moves):
            raise InvalidInputError(
                f"there are {n_tables} tables for {n_moves} pairs of steps. Pass one table, one per pair, or "
                f"table_of_step."
            )
        return np.zeros(n_moves, np.int64) if n_tables == 1 else np.arange(n_moves)
    tables = as_int_array(table_of_step, "table_of_step")
    if tables.shape != (n_moves,) or ((tables < 0) | (tables >= n_tables)).any():
        raise InvalidInputError(
            f"table_of_step must hold {n_moves} numbers from 0 to {n_tables - 1}, one per pair of steps."
        )
    return tables


def _check_parents(parents: ArrayLike | None, n_steps: int) -> IntArray | None:
    """Return the parents of a tree of steps; None for a chain; raise if a parent is invalid."""
    if parents is None:
        return None
    parent_of_step = as_int_array(parents, "parents")
    if parent_of_step.shape != (n_steps,):
        raise InvalidInputError(
            f"parents has shape {parent_of_step.shape}, but there are {n_steps} steps. Pass one per step (-1 first)."
        )
    bad = (parent_of_step >= np.arange(n_steps)) | (parent_of_step < 0)
    bad[0] = parent_of_step[0] != -1
    if bad.any():
        t = int(np.argmax(bad))
        raise InvalidInputError(
            f"parents[{t}] is {parent_of_step[t]}, expected {'-1' if t == 0 else f'one of 0..{t - 1}'}. Number the "
            f"steps so that parents come before children."
        )
    return None if np.array_equal(parent_of_step, np.arange(-1, n_steps - 1)) else parent_of_step


def check_counts(counts: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return counts as an array (T, s); raise if the shape is wrong."""
    array = as_float_array(counts, name)
    if array.ndim != 2 or not array.size:
        raise InvalidInputError(
            f"{name}: expected an array (n_steps, n_cells), got shape {array.shape}. Use NaN for cells that were not "
            f"observed."
        )
    return array
