"""Sweeps over the messages of `dual_decomposition`, unsmoothed or smoothed."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.dual_decomposition import decode_dual, sweep_dual
from intarsia._kernels.dual_smoothing import fill_exponentials
from intarsia._kernels.graph_arguments import DualGraph
from intarsia.graph import FactorGraph

# Tables whose range divided by the temperature is larger than this are summed in the log domain.
_LINEAR_RANGE = 1000.0


class DualSweeps:
    """Arrays and kernels for sweeps over one model; the caller passes the messages `delta`.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> sweeps = DualSweeps(graph, graph.pack([[0, 1], [0, 0]], [[[2, 0], [0, 2]]]))
    >>> sweeps.run(0.0, sweeps.delta), sweeps.decode(sweeps.delta)     # on a tree, the bound is the best score
    (3.0, array([1, 1]))
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray) -> None:
        self.theta = theta
        sizes = graph.n_states[graph.scope_idx]
        message_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        has_factors = graph.n_factors > 0
        starts = graph.scope_ptr[:-1]
        first = np.minimum.reduceat(graph.scope_idx, starts) if has_factors else np.empty(0, np.int64)
        last = np.maximum.reduceat(graph.scope_idx, starts) if has_factors else np.empty(0, np.int64)
        table = graph.table_of_factor
        self._graph = DualGraph(
            graph.n_states, graph.variable_ptr, *graph.pairs_by_variable, graph.factor_of_pair, graph.scope_ptr,
            graph.scope_idx, first, last, graph.table_ptr[:-1][table], graph.table_kind[table],
            graph.table_truncation[table], message_ptr,
        )  # fmt: skip
        split, k = int(graph.variable_ptr[-1]), int(graph.n_states.max(initial=1))
        self.unary, self.beliefs = theta[:split].copy(), np.empty(split)
        self.delta = np.zeros(int(message_ptr[-1]))
        # Position of each entry of the messages in the layout of the variables.
        self._entries = np.arange(self.delta.size) + np.repeat(
            graph.variable_ptr[graph.scope_idx] - message_ptr[:-1], sizes
        )
        self._free = np.full(graph.n_variables, -1)
        self._work = np.empty(max(graph.max_scope, 2), np.int64), np.empty(k), np.empty(k)
        self._tables = graph.table_ptr, graph.table_kind
        self._tops, self._range = np.zeros(graph.n_tables), np.inf
        pairwise = bool((graph.table_kind[table] == 0)[np.diff(graph.scope_ptr) == 2].any())
        if pairwise:
            highest = np.maximum.reduceat(theta, graph.table_ptr[:-1])
            lowest = np.minimum.reduceat(np.where(theta > -np.inf, theta, np.inf), graph.table_ptr[:-1])
            self._tops = np.where(highest > -np.inf, highest, 0.0)
            self._range = float((highest - lowest).max())
        self._top_of_factor, self._exps, self._t = self._tops[table], np.empty(0), 0.0

    def start(self, delta: FloatArray | None) -> None:
        """Set the initial messages; None sets all to zero."""
        self.delta[:] = 0.0 if delta is None else delta
        self.delta[(self.unary == -np.inf)[self._entries]] = np.inf

    def run(self, t: float, delta: FloatArray) -> float:
        """Sweep forward and backward at temperature t; return the dual value, a bound if t is 0, NaN if infeasible."""
        linear = 0.0 < self._range <= _LINEAR_RANGE * t
        if linear and t != self._t:
            if self._exps.size == 0:
                self._exps = np.empty_like(self.theta)
            fill_exponentials(self.theta, t, *self._tables, self._tops, self._exps)
            self._t = t
        exps = self._exps if linear else self._exps[:0]
        value = np.nan
        for forward in (True, False):
            value = sweep_dual(
                forward, t, self.theta, exps, self._top_of_factor, self.unary, delta, self.beliefs, self._free,
                *self._work, self._graph,
            )  # fmt: skip
            if np.isnan(value):
                break
        return float(value)

    def decode(self, delta: FloatArray) -> IntArray:
        """Return a labelling decoded from the messages."""
        labels = np.full(self._free.size, -1)
        decode_dual(True, self.theta, self.unary, delta, labels, *self._work, self._graph)
        return labels
