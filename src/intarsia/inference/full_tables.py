"""Scores of a graph with every table written out in full, as exact elimination reads them."""

from __future__ import annotations

import numpy as np

from intarsia._validation import FloatArray, IntArray
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_kinds import pair_statistic


class FullTables:
    """Layout of the variables' scores followed by all tables, parametric ones with an entry for each pair of states.

    Parameters
    ----------
    graph : FactorGraph
        In normal form.

    Attributes
    ----------
    size : int
        Number of entries.
    n_blocks : int
        Variables and tables together.
    start : int array
        Where each table begins.
    block_of_factor : int array
        Which block holds the factor's table.
    """

    def __init__(self, graph: FactorGraph) -> None:
        self._graph = graph
        self.n_blocks = graph.n_variables + graph.n_tables
        self.block_of_factor: IntArray = graph.n_variables + graph.table_of_factor
        self._parametric = graph.table_kind != FactorKind.TABLE
        sizes = np.diff(graph.table_ptr)
        sides = np.zeros(0, np.int64)
        if self._parametric.any():
            first = graph.first_factor_of_table[self._parametric]
            sides = graph.n_states[graph.scope_idx[graph.scope_ptr[first]]]
            sizes[self._parametric] = sides**2
        self._bounds: IntArray = np.concatenate([graph.variable_ptr, graph.variable_ptr[-1] + np.cumsum(sizes)])
        self.start = self._bounds[graph.n_variables : -1]
        self.size = int(self._bounds[-1])
        if sides.size:
            self._expand(sizes, sides)

    def _expand(self, sizes: IntArray, sides: IntArray) -> None:
        """For each entry after the variables': whether it is parametric, its entry of theta and statistic."""
        graph, parametric = self._graph, self._parametric
        table = np.repeat(np.arange(graph.n_tables), sizes)
        within = np.arange(table.size) + self.start[0] - self.start[table]
        self._is_parametric = parametric[table]
        self._source = graph.table_ptr[table] + np.where(self._is_parametric, 0, within)
        side = np.zeros(graph.n_tables, np.int64)
        side[parametric] = sides
        table, within = table[self._is_parametric], within[self._is_parametric]
        states = np.divmod(within, side[table])
        self._statistic = pair_statistic(graph.table_kind[table], graph.table_truncation[table], *states)

    def fill(self, theta: FloatArray, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Write all scores to `out`, the maximum of each block taken out.

        Returns these maxima and the range of each block's finite scores.
        """
        if self._parametric.any():
            n_variable = self._bounds[self._graph.n_variables]
            out[:n_variable] = theta[:n_variable]
            tables = theta[self._source]
            weight = tables[self._is_parametric]
            with np.errstate(invalid="ignore"):  # 0 * inf, replaced at once
                tables[self._is_parametric] = np.where(self._statistic == 0.0, 0.0, weight * self._statistic)
            out[n_variable:] = tables
        else:
            out[:] = theta
        return self._take_maxima(out, self.n_blocks)

    @property
    def n_variable(self) -> int:
        """Number of the variables' entries, which come first."""
        return int(self._bounds[self._graph.n_variables])

    def fill_variables(self, theta: FloatArray, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same for the variables alone."""
        out[: self.n_variable] = theta[: self.n_variable]
        return self._take_maxima(out[: self.n_variable], self._graph.n_variables)

    def _take_maxima(self, out: FloatArray, n_blocks: int) -> tuple[FloatArray, FloatArray]:
        bounds = self._bounds[: n_blocks + 1]
        top: FloatArray = np.maximum.reduceat(out, bounds[:-1])
        finite = np.where(top > -np.inf, top, 0.0)
        out -= np.repeat(finite, np.diff(bounds))
        span: FloatArray = -np.minimum.reduceat(np.where(out > -np.inf, out, 0.0), bounds[:-1])
        return top, span

    def contract(self, full: FloatArray) -> FloatArray:
        """Marginals in the layout of mu from those of full tables: expected statistics for parametric kinds."""
        if not self._parametric.any():
            return full
        n_variable = self._bounds[self._graph.n_variables]
        tables = full[n_variable:].copy()
        tables[self._is_parametric] *= self._statistic
        mu = np.bincount(self._source, tables, minlength=self._graph.n_theta).astype(np.float64, copy=False)
        mu[:n_variable] = full[:n_variable]
        return mu
