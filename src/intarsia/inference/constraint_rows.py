"""Constraints on counts as rows of a linear program, without a table."""

from __future__ import annotations

import numpy as np

from intarsia._validation import FloatArray, IntArray
from intarsia.graph import FactorGraph
from intarsia.graph.factor_kinds import count_range, counts_off


class ConstraintRows:
    """Rows and further columns for the constraints of a graph, to go below and right of those of its tables.

    With l_i = mu_i(1), or mu_i(0) where a variable counts when it is off, a constraint that forbids is

        low <= sum_i l_i <= high,

    which together with the bounds of l has whole vertices only. One that costs w has a column z for "violated", of
    score w, and columns b_i for the part of l_i in violated states; what is left satisfies the constraint:

        0 <= b_i <= z,   0 <= l_i - b_i <= 1 - z,   low (1 - z) <= sum_i (l_i - b_i) <= high (1 - z).

    Parameters
    ----------
    graph, theta : FactorGraph and float array
        In normal form, constraints kept.
    factors : int array
        Its constraints.
    row, column : int
        Where the rows and columns of the rest end.

    Attributes
    ----------
    rows, columns, values : arrays
        Entries of the matrix.
    lower, upper, factor : arrays
        Bounds and factor of each row.
    source, coef : arrays
        Position in theta of each further column, and what multiplies it.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray, factors: IntArray, row: int, column: int) -> None:
        self._entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self._bounds: list[tuple[FloatArray, FloatArray, int]] = []
        self._soft: list[tuple[IntArray, int, int, int, int]] = []
        self._source: list[IntArray] = []
        self._coef: list[FloatArray] = []
        self.n_rows, self.n_columns = row, column
        for c in factors.tolist():
            self._write(graph, theta, c)
        nothing = np.empty(0, np.int64)
        self.rows: IntArray = np.concatenate([nothing, *(entry[0] for entry in self._entries)])
        self.columns: IntArray = np.concatenate([nothing, *(entry[1] for entry in self._entries)])
        self.values: FloatArray = np.concatenate([np.empty(0), *(entry[2] for entry in self._entries)])
        self.lower: FloatArray = np.concatenate([np.empty(0), *(bound[0] for bound in self._bounds)])
        self.upper: FloatArray = np.concatenate([np.empty(0), *(bound[1] for bound in self._bounds)])
        self.factor: IntArray = np.concatenate([nothing, *(np.full(b[0].size, b[2]) for b in self._bounds)])
        self.source: IntArray = np.concatenate([nothing, *self._source])
        self.coef: FloatArray = np.concatenate([np.empty(0), *self._coef])

    def _write(self, graph: FactorGraph, theta: FloatArray, c: int) -> None:
        scope, table = graph.scope(c), int(graph.table_of_factor[c])
        kind, n = int(graph.table_kind[table]), scope.size
        literal = graph.variable_ptr[scope] + 1
        if counts_off(kind):
            literal[-1] -= 1
        low, high = count_range(kind, float(graph.table_truncation[table]), n)
        position = int(graph.table_ptr[table])
        if theta[position] == -np.inf:
            self._add_rows(c, [float(low)], [float(high)])
            self._add(np.full(n, self.n_rows - 1), literal, 1.0)
            return
        z = self.n_columns
        b = z + 1 + np.arange(n)
        self.n_columns += n + 1
        self._source.append(np.full(n + 1, position))
        self._coef.append(np.concatenate([[1.0], np.zeros(n)]))
        self._soft.append((literal, z, low, high, n))
        first = self.n_rows
        below, inside, above = first + np.arange(n), first + n + np.arange(n), first + 2 * n + np.arange(n)
        self._add_rows(c, np.full(n, -np.inf), np.zeros(n))  # b_i - z <= 0
        self._add(below, b, 1.0)
        self._add(below, np.full(n, z), -1.0)
        self._add_rows(c, np.zeros(n), np.full(n, np.inf))  # l_i - b_i >= 0
        self._add(inside, literal, 1.0)
        self._add(inside, b, -1.0)
        self._add_rows(c, np.full(n, -np.inf), np.ones(n))  # l_i - b_i + z <= 1
        self._add(above, literal, 1.0)
        self._add(above, b, -1.0)
        self._add(above, np.full(n, z), 1.0)
        self._add_rows(c, [float(low), -np.inf], [np.inf, float(high)])  # sum (l_i - b_i) + low z, + high z
        for row, side in ((self.n_rows - 2, low), (self.n_rows - 1, high)):
            self._add(np.full(n, row), literal, 1.0)
            self._add(np.full(n, row), b, -1.0)
            self._add(np.array([row]), np.array([z]), float(side))

    def _add(self, rows: IntArray, columns: IntArray, value: float) -> None:
        self._entries.append((rows, columns, np.full(rows.size, value)))

    def _add_rows(self, c: int, lower: FloatArray | list[float], upper: FloatArray | list[float]) -> None:
        self._bounds.append((np.asarray(lower), np.asarray(upper), c))
        self.n_rows += len(lower)

    def put(self, full: FloatArray) -> None:
        """Set the further columns to their values at the labelling that the variables' columns hold."""
        for literal, z, low, high, n in self._soft:
            on = full[literal]
            if not low <= on.sum() <= high:
                full[z] = 1.0
                full[z + 1 : z + 1 + n] = on
