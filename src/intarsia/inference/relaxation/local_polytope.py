"""The local polytope of a factor graph, including count constraints, as sparse rows of a linear program."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csc_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_checks import scopes_by_width
from intarsia.graph.factor_kinds import count_range, counts_off, is_constraint, pair_statistic


class ConstraintRows:
    """Additional rows and columns of the linear program for the count constraints of a graph.

    Let l_i = mu_i(1), or mu_i(0) for a variable that is counted when it is off. A hard constraint is the row

        low <= sum_i l_i <= high,

    which together with the bounds of l has only integral vertices. A soft constraint with score w has a column z for
    "violated", of score w, and columns b_i for the fraction of l_i in violated states; l_i - b_i satisfies it:

        0 <= b_i <= z,   0 <= l_i - b_i <= 1 - z,   low (1 - z) <= sum_i (l_i - b_i) <= high (1 - z).

    Parameters
    ----------
    graph, theta : FactorGraph and float array
        Graph in normal form with its constraints, and its scores.
    factors : int array
        Indices of the constraint factors.
    row, column : int
        Number of rows and columns before the additional ones.

    Attributes
    ----------
    rows, columns, values : arrays
        Entries of the matrix.
    lower, upper, factor : arrays
        Bounds and factor of each row.
    source, coef : arrays
        Position in theta of the score of each additional column, and the coefficient of this score.
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
        empty = np.empty(0, np.int64)
        self.rows: IntArray = np.concatenate([empty, *(entry[0] for entry in self._entries)])
        self.columns: IntArray = np.concatenate([empty, *(entry[1] for entry in self._entries)])
        self.values: FloatArray = np.concatenate([np.empty(0), *(entry[2] for entry in self._entries)])
        self.lower: FloatArray = np.concatenate([np.empty(0), *(bound[0] for bound in self._bounds)])
        self.upper: FloatArray = np.concatenate([np.empty(0), *(bound[1] for bound in self._bounds)])
        self.factor: IntArray = np.concatenate([empty, *(np.full(b[0].size, b[2]) for b in self._bounds)])
        self.source: IntArray = np.concatenate([empty, *self._source])
        self.coef: FloatArray = np.concatenate([np.empty(0), *self._coef])

    def _write(self, graph: FactorGraph, theta: FloatArray, c: int) -> None:
        """Append the rows and columns of constraint factor `c`."""
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
        """Append entries of the matrix that have the same value."""
        self._entries.append((rows, columns, np.full(rows.size, value)))

    def _add_rows(self, c: int, lower: FloatArray | list[float], upper: FloatArray | list[float]) -> None:
        """Append rows of factor `c` with these bounds."""
        self._bounds.append((np.asarray(lower), np.asarray(upper), c))
        self.n_rows += len(lower)

    def set_columns(self, full: FloatArray) -> None:
        """Set the additional columns to their values at the labelling in the columns of the variables."""
        for literal, z, low, high, n in self._soft:
            literal_values = full[literal]
            if not low <= literal_values.sum() <= high:
                full[z] = 1.0
                full[z + 1 : z + 1 + n] = literal_values


# Factors over more variables are constraints, which have no columns for joint states.
_MAX_WIDTH = 40


class LocalPolytope:
    """Linear program `max <theta, mu>` over the local polytope: columns, rows and costs.

    Columns are the states of the variables, then the joint states of every factor, in C order of its scope; factors
    that share a table or are parametric have separate columns as well. The rows require that the columns of a variable
    sum to one, and that the columns of a factor, summed over all variables but one, equal the columns of that variable:

        sum_x mu_v(x) = 1,        sum over x_c with x_v = x of mu_c(x_c) = mu_v(x).

    Columns of score -inf are omitted. Count constraints have no joint states; `ConstraintRows` describes their rows.

    Parameters
    ----------
    graph : FactorGraph
        Graph in normal form.
    theta : float array
        Scores in the layout of the graph.

    Attributes
    ----------
    cost : float array
        Score of each column that is not omitted.
    matrix : sparse array (rows, columns)
        Coefficients of the rows.
    lower, upper : float arrays
        Bounds of the rows.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray) -> None:
        self.graph = graph
        split = int(graph.variable_ptr[-1])
        self._is_constraint = is_constraint(graph.table_kind[graph.table_of_factor])
        pair_states = np.where(self._is_constraint[graph.factor_of_pair], 0, graph.n_states[graph.scope_idx])
        pair_row = graph.n_variables + np.concatenate([[0], np.cumsum(pair_states)]).astype(np.int64)
        sizes = np.where(self._is_constraint, 0, _table_sizes(graph))
        self.factor_ptr: IntArray = split + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        extra = ConstraintRows(
            graph, theta, np.flatnonzero(self._is_constraint), int(pair_row[-1]), int(self.factor_ptr[-1])
        )
        n_rows, n_columns = extra.n_rows, extra.n_columns
        self._extra = extra
        self._source = np.concatenate([np.arange(self.factor_ptr[-1]), extra.source])
        self._coef = np.concatenate([np.ones(self.factor_ptr[-1]), extra.coef])
        rows = [np.repeat(np.arange(graph.n_variables), graph.n_states)]
        columns = [np.arange(split)]
        values = [np.ones(split)]
        # Entries of the variables in the rows of the second kind.
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
        with np.errstate(invalid="ignore"):  # 0 * inf is replaced by 0
            cost = np.where(self._coef == 0.0, 0.0, weights * self._coef)
        self._finite_columns: IntArray = np.flatnonzero(cost > -np.inf)
        self.cost: FloatArray = cost[self._finite_columns]
        row, column = np.concatenate(rows), np.concatenate(columns)
        matrix = csc_array((np.concatenate(values), (row, column)), shape=(n_rows, n_columns))
        self.matrix = matrix if self._finite_columns.size == n_columns else matrix[:, self._finite_columns]
        equal = np.zeros(int(pair_row[-1]))
        equal[: graph.n_variables] = 1.0
        self.lower: FloatArray = np.concatenate([equal, extra.lower])
        self.upper: FloatArray = np.concatenate([equal, extra.upper])
        self._factor_of_row = np.concatenate([np.repeat(graph.factor_of_pair, pair_states), extra.factor])
        self.n_columns = n_columns

    def _tables_by_width(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield number of variables, indices and scopes of the factors that are not constraints, by number."""
        for width, factors, scopes in scopes_by_width(self.graph.scope_ptr, self.graph.scope_idx):
            tables = ~self._is_constraint[factors]
            if tables.any():
                yield width, factors[tables], scopes[tables]

    def _joint_states(
        self, factors: IntArray, scopes: IntArray, sizes: IntArray, pair_row: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return rows and columns of the unit entries of factors of equal width; set the source of their scores."""
        graph = self.graph
        counts = sizes[factors]
        repeat_of_factor = np.repeat(np.arange(factors.size), counts)
        ends = np.cumsum(counts)
        within = np.arange(repeat_of_factor.size) - (ends - counts)[repeat_of_factor]
        column = self.factor_ptr[factors][repeat_of_factor] + within
        table = graph.table_of_factor[factors][repeat_of_factor]
        kind = graph.table_kind[table]
        self._source[column] = graph.table_ptr[table] + np.where(kind == FactorKind.TABLE, within, 0)
        rows, states, quotient = [], [], within
        for p in range(scopes.shape[1] - 1, -1, -1):
            quotient, state = np.divmod(quotient, graph.n_states[scopes[:, p]][repeat_of_factor])
            rows.append(pair_row[graph.scope_ptr[factors] + p][repeat_of_factor] + state)
            states.append(state)
        if kind.any():
            statistic = pair_statistic(kind, graph.table_truncation[table], states[-1], states[0])
            self._coef[column] = np.where(kind == FactorKind.TABLE, 1.0, statistic)
        return np.concatenate(rows), np.tile(column, scopes.shape[1])

    @property
    def variable_columns(self) -> IntArray:
        """Indices of the columns of variables, among the columns that are not omitted."""
        return np.arange(int(np.searchsorted(self._finite_columns, int(self.graph.variable_ptr[-1]))))

    def full(self, x: FloatArray) -> FloatArray:
        """Return the values of all columns, with zero for omitted columns."""
        values = np.zeros(self.n_columns)
        values[self._finite_columns] = x
        return values

    def statistics(self, full: FloatArray) -> FloatArray:
        """Return the statistics in the layout of theta, summed over factors that share a table."""
        sums = np.bincount(self._source, full * self._coef, minlength=self.graph.n_theta)
        return sums.astype(np.float64, copy=False)

    def point(self, labelling: IntArray) -> FloatArray:
        """Return the value of each column at a labelling of finite score."""
        graph = self.graph
        full = np.zeros(self.n_columns)
        full[graph.variable_ptr[:-1] + labelling] = 1.0
        self._extra.set_columns(full)
        for width, factors, scopes in self._tables_by_width():
            joint_state = np.zeros(factors.size, np.int64)
            for p in range(width):
                joint_state = joint_state * graph.n_states[scopes[:, p]] + labelling[scopes[:, p]]
            full[self.factor_ptr[factors] + joint_state] = 1.0
        return full[self._finite_columns]

    def bound(self, dual: FloatArray) -> float:
        """Return the upper bound on the best score that follows from multipliers of the rows, optimal or not.

        Multipliers move scores from factors to variables; the bound is the sum of the largest score of each block. At
        the optimum of the dual it equals the optimum of the linear program.
        """
        multipliers = dual.copy()
        multipliers[: self.graph.n_variables] = 0.0
        # A multiplier with the wrong sign, due to rounding, would multiply an infinite bound of its row.
        multipliers[(multipliers > 0) & np.isinf(self.upper)] = 0.0
        multipliers[(multipliers < 0) & np.isinf(self.lower)] = 0.0
        reduced_cost = np.full(self.n_columns, -np.inf)
        reduced_cost[self._finite_columns] = self.cost - self.matrix.T @ multipliers
        starts = np.concatenate([self.graph.variable_ptr[:-1], self.factor_ptr[:-1][~self._is_constraint]])
        end = int(self.factor_ptr[-1])
        blocks = np.maximum.reduceat(reduced_cost[:end], starts).sum() + np.maximum(reduced_cost[end:], 0.0).sum()
        sides = np.where(multipliers > 0, self.upper, np.where(multipliers < 0, self.lower, 0.0))
        return float(blocks + multipliers[self.graph.n_variables :] @ sides[self.graph.n_variables :])

    def conflict(self, ray: FloatArray) -> IntArray:
        """Return the factors with a nonzero multiplier in a proof of infeasibility (a dual ray)."""
        is_nonzero = np.abs(ray[self.graph.n_variables :]) > 1e-9 * np.abs(ray).max(initial=0.0)
        return np.unique(self._factor_of_row[is_nonzero])


def _table_sizes(graph: FactorGraph) -> IntArray:
    """Return the number of joint states of each factor."""
    sizes = np.ones(graph.n_factors, np.int64)
    for width, factors, scopes in scopes_by_width(graph.scope_ptr, graph.scope_idx):
        for p in range(min(width, _MAX_WIDTH)):
            sizes[factors] *= graph.n_states[scopes[:, p]]
    return sizes
