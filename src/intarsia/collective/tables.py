"""Scores of moves from cell to cell, stored densely, by diagonals or by moves, whichever is quickest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, too_large
from intarsia._kernels.collective import NEGLIGIBLE
from intarsia.exceptions import InvalidInputError

# From this share of possible moves on, a matrix product beats going through a list of moves.
_DENSE_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class MoveTables:
    """Tables of scores of moves; steps may share them.

    Attributes
    ----------
    n_cells : int
        Number of cells s.
    theta : float array (n, s, s), or (n, n_moves) when `ptr` is given
        Scores; -inf for a move that cannot be.
    table_of_step : int array (T - 1,)
        Which table leads from each step to the next.
    ptr, idx : int arrays or None
        CSR pattern of the possible moves, or None if all are stored.
    reach : int or None
        When set, moves lead at most this far in the numbering of cells, and messages pass by diagonals.
    parents : int array (T,) or None
        For a tree of steps: the step from which walkers come to each; None for a chain.

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
        """Step from which walkers come to each, -1 for step 0, also of a chain."""
        return np.arange(-1, self.table_of_step.size) if self.parents is None else self.parents

    @property
    def maxima(self) -> FloatArray:
        """Largest score of each table; 0 where there is none."""
        top = self.theta.reshape(len(self.theta), -1).max(axis=1, initial=-np.inf)
        return np.where(top == -np.inf, 0.0, top)

    def pattern(self) -> tuple[IntArray, IntArray, FloatArray]:
        """CSR pattern and scores (n, n_moves), also of dense tables; impossible moves may be among them."""
        if self.ptr is not None and self.idx is not None:
            return self.ptr, self.idx, self.theta
        s = self.n_cells
        return np.arange(s + 1) * s, np.tile(np.arange(s), s), self.theta.reshape(len(self.theta), s * s)

    def exponentials(self) -> FloatArray:
        """Exp of the scores less their maxima, as the messages want them; negligible ones are 0."""
        spread = self.maxima.reshape(-1, *(1,) * (self.theta.ndim - 1))
        values: FloatArray = np.exp(self.theta - spread)
        values[values < NEGLIGIBLE] = 0.0
        return values if self.reach is None else self._diagonals(values)

    def matrix(self, values: FloatArray) -> Any:
        """One number per move as a matrix (s, s): an array, or a CSR array."""
        if self.ptr is None:
            return values.reshape(self.n_cells, self.n_cells)
        _, idx, _ = self.pattern()
        return sparse.csr_array((values, idx, self.ptr), shape=(self.n_cells, self.n_cells))

    def rows(self) -> IntArray:
        """Cell from which each stored move leaves."""
        ptr = self.pattern()[0]
        return np.repeat(np.arange(self.n_cells), np.diff(ptr))

    def _diagonals(self, values: FloatArray) -> FloatArray:
        reach = int(self.reach or 0)
        laid = np.zeros((len(values), 2 * reach + 1, self.n_cells))
        rows, idx = self.rows(), self.pattern()[1]
        laid[:, idx - rows + reach, rows] = values
        return laid


def move_tables(
    theta: Any,
    n_steps: int,
    table_of_step: ArrayLike | None = None,
    parents: ArrayLike | None = None,
) -> MoveTables:
    """Tables of moves from what a user has.

    Parameters
    ----------
    theta : array (s, s) or (n, s, s), SciPy sparse matrix (s, s), or a sequence of those
        Scores of moves; in a sparse matrix, moves that are not stored cannot be (a stored 0 is a score of 0).
    n_steps : int
        Steps T of the chain.
    table_of_step : int array (T - 1,), optional
        Which table each step uses; by default the only one, or one each.
    parents : int array (T,), optional
        For a tree: the step from which walkers come to each, earlier than it; -1 for step 0. By default a chain.

    Examples
    --------
    >>> move_tables(np.zeros((2, 2)), n_steps=4).table_of_step
    array([0, 0, 0])
    """
    given = [theta] if sparse.issparse(theta) or np.ndim(theta) == 2 else list(theta)
    if not given:
        raise InvalidInputError("theta holds no table. Give scores of moves, an array (cells, cells).")
    thin = any(sparse.issparse(one) for one in given)
    made = _union(given) if thin else (_dense(given), None, None)
    values, ptr, idx = made
    n_cells = values.shape[1] if ptr is None else ptr.size - 1
    bad = np.isnan(values) | (values == np.inf)
    if bad.any() or too_large(values):
        raise InvalidInputError("theta holds NaN, +inf or a score beyond 1e200. Scores are finite, or -inf.")
    steps, tree = _steps(table_of_step, len(values), n_steps), _tree(parents, n_steps)
    return _arranged(n_cells, values, steps, ptr, idx, tree)


def _arranged(
    n_cells: int,
    values: FloatArray,
    steps: IntArray,
    ptr: IntArray | None,
    idx: IntArray | None,
    parents: IntArray | None,
) -> MoveTables:
    """Choose the storage: all pairs, diagonals, or moves."""
    if ptr is None:
        possible = (values > -np.inf).any(axis=0)
        if possible.sum() >= _DENSE_SHARE * n_cells**2:
            return MoveTables(n_cells, values, steps, parents=parents)
        where = np.nonzero(possible)
        ptr = np.concatenate([[0], np.cumsum(possible.sum(axis=1))]).astype(np.int64)
        idx, values = where[1].astype(np.int64), np.ascontiguousarray(values[:, where[0], where[1]])
    moves: IntArray = np.empty(0, np.int64) if idx is None else idx
    rows = np.repeat(np.arange(n_cells), np.diff(ptr))
    if moves.size >= _DENSE_SHARE * n_cells**2:
        full = np.full((len(values), n_cells, n_cells), -np.inf)
        full[:, rows, moves] = values
        return MoveTables(n_cells, full, steps, parents=parents)
    reach = int(np.abs(moves - rows).max(initial=0))
    banded = parents is None and moves.size >= 0.5 * (2 * reach + 1) * n_cells
    return MoveTables(n_cells, values, steps, ptr, moves, reach if banded else None, parents)


def _dense(given: list[Any]) -> FloatArray:
    tables = [as_float_array(one, "theta") for one in given]
    shape = tables[0].shape
    for k, one in enumerate(tables):
        if one.ndim != 2 or one.shape[0] != one.shape[1] or one.shape != shape or not one.size:
            raise InvalidInputError(
                f"table {k} has shape {one.shape}, but a table has a row and a column for each cell"
                f"{'' if k == 0 else f', here {shape}'}. Give arrays (cells, cells)."
            )
    return np.stack(tables)


def _union(given: list[Any]) -> tuple[FloatArray, IntArray, IntArray]:
    """Scores over the moves that at least one of sparse tables has."""
    tables = [sparse.coo_array(one) for one in given]
    shape = tables[0].shape
    for k, one in enumerate(tables):
        if one.shape != shape or shape[0] != shape[1] or not shape[0]:
            raise InvalidInputError(f"table {k} has shape {one.shape}; give square tables of one size.")
    s = int(shape[0])
    places = [one.row.astype(np.int64) * s + one.col for one in tables]
    union = np.unique(np.concatenate(places))
    values = np.full((len(tables), union.size), -np.inf)
    for k, (one, at) in enumerate(zip(tables, places, strict=True)):
        if np.unique(at).size != at.size:
            raise InvalidInputError(f"table {k} stores a move twice. Call sum_duplicates() first.")
        values[k, np.searchsorted(union, at)] = one.data
    ptr = np.searchsorted(union, np.arange(s + 1) * s).astype(np.int64)
    return values, ptr, union % s


def _steps(table_of_step: ArrayLike | None, n_tables: int, n_steps: int) -> IntArray:
    n_moves = max(n_steps - 1, 0)
    if table_of_step is None:
        if n_tables not in (1, n_moves):
            raise InvalidInputError(
                f"{n_tables} tables for {n_moves} moves between {n_steps} steps. Give one, one for each, or "
                f"table_of_step."
            )
        return np.zeros(n_moves, np.int64) if n_tables == 1 else np.arange(n_moves)
    chosen = as_int_array(table_of_step, "table_of_step")
    if chosen.shape != (n_moves,) or ((chosen < 0) | (chosen >= n_tables)).any():
        raise InvalidInputError(
            f"table_of_step must hold {n_moves} numbers from 0 to {n_tables - 1}, one per move between steps."
        )
    return chosen


def _tree(parents: ArrayLike | None, n_steps: int) -> IntArray | None:
    if parents is None:
        return None
    found = as_int_array(parents, "parents")
    if found.shape != (n_steps,):
        raise InvalidInputError(
            f"parents has shape {found.shape}, but there are {n_steps} steps. Give one each, -1 for step 0."
        )
    bad = (found >= np.arange(n_steps)) | (found < 0)
    bad[0] = found[0] != -1
    if bad.any():
        t = int(np.argmax(bad))
        raise InvalidInputError(
            f"parents[{t}] is {found[t]}, expected {'-1' if t == 0 else f'one of 0..{t - 1}'}. Number the "
            f"steps so that parents come before children."
        )
    return None if np.array_equal(found, np.arange(-1, n_steps - 1)) else found


def check_counts(counts: ArrayLike, name: str) -> NDArray[np.float64]:
    """Counts (T, s), NaN where nothing was looked for."""
    found = as_float_array(counts, name)
    if found.ndim != 2 or not found.size:
        raise InvalidInputError(
            f"{name}: expected a row per step and a column per cell, got shape {found.shape}. Use NaN for what was "
            f"not observed."
        )
    return found
