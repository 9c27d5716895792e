"""Which states the entries of tables belong to."""

from __future__ import annotations

import numpy as np

from intarsia._validation import IntArray
from intarsia.graph import FactorGraph


def state_positions(graph: FactorGraph, factor: IntArray) -> list[IntArray]:
    """For each axis, the last one first: position among the variables' states of every table entry.

    `factor` is the factor of each entry; -1 stands where a factor has no such axis.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> state_positions(chain_graph(2, 2), np.zeros(4, dtype=int))
    [array([2, 3, 2, 3]), array([0, 0, 1, 1])]
    """
    within = np.arange(factor.size) + graph.table_ptr[0] - graph.table_ptr[factor]
    widths = np.diff(graph.scope_ptr)[factor]
    positions = []
    rest = within.copy()
    for back in range(graph.max_scope):  # from the last axis, which runs fastest
        there = widths > back
        variable = graph.scope_idx[np.where(there, graph.scope_ptr[factor + 1] - 1 - back, 0)]
        states = graph.n_states[variable]
        positions.append(np.where(there, graph.variable_ptr[variable] + rest % states, -1))
        rest = np.where(there, rest // states, rest)
    return positions
