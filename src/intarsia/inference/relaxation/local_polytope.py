"""The local polytope of a factor graph, constraints on counts included, as sparse rows of a linear program."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csc_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_checks import scopes_by_width
from intarsia.graph.factor_kinds import count_range, counts_off, is_constraint, pair_statistic


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


# Wider factors are constraints, which have no joint states here.
_WIDEST = 40


class LocalPolytope:
    """Columns, rows and costs of `max <theta, mu>` over the local polytope.

    Columns are the states of the variables, then the joint states of every factor, in C order of its scope; factors
    that share a table or have one weight still have columns of their own. Rows say that a variable's column block sums
    to one, and that each factor's block, summed over all but one variable, is that variable's block:

        sum_x mu_v(x) = 1,        sum over x_c with x_v = x of mu_c(x_c) = mu_v(x).

    Columns of score -inf are left out. Constraints on counts have no joint states but rows of their own, see
    `ConstraintRows`.

    Parameters
    ----------
    graph : FactorGraph
        In normal form.
    theta : float array
        Its scores.

    Attributes
    ----------
    cost : float array
        Score of each column that is left.
    matrix : sparse array (rows, columns)
        Coefficients of the rows.
    lower, upper : float arrays
        Bounds of the rows.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray) -> None:
        self.graph = graph
        split = int(graph.variable_ptr[-1])
        self._counted = is_constraint(graph.table_kind[graph.table_of_factor])
        pair_states = np.where(self._counted[graph.factor_of_pair], 0, graph.n_states[graph.scope_idx])
        pair_row = graph.n_variables + np.concatenate([[0], np.cumsum(pair_states)]).astype(np.int64)
        sizes = np.where(self._counted, 0, _table_sizes(graph))
        self.factor_ptr: IntArray = split + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        extra = ConstraintRows(graph, theta, np.flatnonzero(self._counted), int(pair_row[-1]), int(self.factor_ptr[-1]))
        n_rows, n_columns = extra.n_rows, extra.n_columns
        self._extra = extra
        self._source = np.concatenate([np.arange(self.factor_ptr[-1]), extra.source])
        self._coef = np.concatenate([np.ones(self.factor_ptr[-1]), extra.coef])
        rows = [np.repeat(np.arange(graph.n_variables), graph.n_states)]
        columns = [np.arange(split)]
        values = [np.ones(split)]
        # The variables' side of the second kind of row.
        of_pair = np.repeat(np.arange(graph.scope_idx.size), pair_states)
        state = np.arange(of_pair.size) + graph.n_variables - pair_row[of_pair]
        rows.append(pair_row[of_pair] + state)
        columns.append(graph.variable_ptr[graph.scope_idx[of_pair]] + state)
        values.append(np.full(of_pair.size, -1.0))
        rows.append(extra.rows)
        columns.append(extra.columns)
        values.append(extra.values)
        for _, factors, scopes in self._tables_by_width():
            row, column = self._joint_states(factors, scopes, sizes, pair_row)
            rows.append(row)
            columns.append(column)
            values.append(np.ones(row.size))
        weights = theta[self._source]
        with np.errstate(invalid="ignore"):  # 0 * inf, replaced at once
            cost = np.where(self._coef == 0.0, 0.0, weights * self._coef)
        self._kept: IntArray = np.flatnonzero(cost > -np.inf)
        self.cost: FloatArray = cost[self._kept]
        row, column = np.concatenate(rows), np.concatenate(columns)
        matrix = csc_array((np.concatenate(values), (row, column)), shape=(n_rows, n_columns))
        self.matrix = matrix if self._kept.size == n_columns else matrix[:, self._kept]
        equal = np.zeros(int(pair_row[-1]))
        equal[: graph.n_variables] = 1.0
        self.lower: FloatArray = np.concatenate([equal, extra.lower])
        self.upper: FloatArray = np.concatenate([equal, extra.upper])
        self._factor_of_row = np.concatenate([np.repeat(graph.factor_of_pair, pair_states), extra.factor])
        self.n_columns = n_columns

    def _tables_by_width(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        for width, factors, scopes in scopes_by_width(self.graph.scope_ptr, self.graph.scope_idx):
            tables = ~self._counted[factors]
            if tables.any():
                yield width, factors[tables], scopes[tables]

    def _joint_states(
        self, factors: IntArray, scopes: IntArray, sizes: IntArray, pair_row: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Rows and columns of the ones that factors of equal width make; notes where their scores come from."""
        graph = self.graph
        counts = sizes[factors]
        which = np.repeat(np.arange(factors.size), counts)
        ends = np.cumsum(counts)
        within = np.arange(which.size) - (ends - counts)[which]
        column = self.factor_ptr[factors][which] + within
        table = graph.table_of_factor[factors][which]
        kind = graph.table_kind[table]
        self._source[column] = graph.table_ptr[table] + np.where(kind == FactorKind.TABLE, within, 0)
        rows, states, rest = [], [], within
        for p in range(scopes.shape[1] - 1, -1, -1):
            rest, state = np.divmod(rest, graph.n_states[scopes[:, p]][which])
            rows.append(pair_row[graph.scope_ptr[factors] + p][which] + state)
            states.append(state)
        if kind.any():
            statistic = pair_statistic(kind, graph.table_truncation[table], states[-1], states[0])
            self._coef[column] = np.where(kind == FactorKind.TABLE, 1.0, statistic)
        return np.concatenate(rows), np.tile(column, scopes.shape[1])

    @property
    def variable_columns(self) -> IntArray:
        """Which of the columns that are left belong to variables."""
        return np.arange(int(np.searchsorted(self._kept, int(self.graph.variable_ptr[-1]))))

    def full(self, x: FloatArray) -> FloatArray:
        """Values of all columns, zero for those of score -inf."""
        values = np.zeros(self.n_columns)
        values[self._kept] = x
        return values

    def statistics(self, full: FloatArray) -> FloatArray:
        """Values of all columns in the layout of theta: shared tables summed up, one-weight kinds their statistic."""
        sums = np.bincount(self._source, full * self._coef, minlength=self.graph.n_theta)
        return sums.astype(np.float64, copy=False)

    def point(self, labelling: IntArray) -> FloatArray:
        """Value of each column at a labelling of finite score."""
        graph = self.graph
        full = np.zeros(self.n_columns)
        full[graph.variable_ptr[:-1] + labelling] = 1.0
        self._extra.put(full)
        for width, factors, scopes in self._tables_by_width():
            at = np.zeros(factors.size, np.int64)
            for p in range(width):
                at = at * graph.n_states[scopes[:, p]] + labelling[scopes[:, p]]
            full[self.factor_ptr[factors] + at] = 1.0
        return full[self._kept]

    def bound(self, dual: FloatArray) -> float:
        """Upper bound on the best score from any multipliers of the rows, right whatever their quality.

        Multipliers move score from factors to variables; what then is best in each block on its own adds up to the
        bound. At the optimum of the dual it is the optimum of the linear program.
        """
        multipliers = dual.copy()
        multipliers[: self.graph.n_variables] = 0.0
        # A multiplier of the wrong sign, by rounding, would count on a side of its row that is open.
        multipliers[(multipliers > 0) & np.isinf(self.upper)] = 0.0
        multipliers[(multipliers < 0) & np.isinf(self.lower)] = 0.0
        reduced = np.full(self.n_columns, -np.inf)
        reduced[self._kept] = self.cost - self.matrix.T @ multipliers
        starts = np.concatenate([self.graph.variable_ptr[:-1], self.factor_ptr[:-1][~self._counted]])
        end = int(self.factor_ptr[-1])
        blocks = np.maximum.reduceat(reduced[:end], starts).sum() + np.maximum(reduced[end:], 0.0).sum()
        sides = np.where(multipliers > 0, self.upper, np.where(multipliers < 0, self.lower, 0.0))
        return float(blocks + multipliers[self.graph.n_variables :] @ sides[self.graph.n_variables :])

    def conflict(self, ray: FloatArray) -> IntArray:
        """Factors that a proof of infeasibility, given as multipliers of the rows, makes use of."""
        used = np.abs(ray[self.graph.n_variables :]) > 1e-9 * np.abs(ray).max(initial=0.0)
        return np.unique(self._factor_of_row[used])


def _table_sizes(graph: FactorGraph) -> IntArray:
    """Number of joint states of each factor."""
    sizes = np.ones(graph.n_factors, np.int64)
    for width, factors, scopes in scopes_by_width(graph.scope_ptr, graph.scope_idx):
        for p in range(min(width, _WIDEST)):
            sizes[factors] *= graph.n_states[scopes[:, p]]
    return sizes
