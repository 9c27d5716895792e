"""Many graphs as one disconnected graph, so that one call of a kernel serves them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Several graphs side by side; made by `batch_graphs`.

    Attributes
    ----------
    graphs : tuple of FactorGraph
        The members.
    graph : FactorGraph
        The disconnected union.
    variable_start : int array
        First variable of each member in the union, then their number.
    shared : bool
        Whether the members use the same tables (table t of each is table t of the union).

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> batch = batch_graphs([chain_graph(3, 2), chain_graph(4, 2)])
    >>> batch.graph.n_variables, batch.variable_start
    (7, array([0, 3, 7]))
    """

    graphs: tuple[FactorGraph, ...]
    graph: FactorGraph
    variable_start: IntArray
    shared: bool

    def pack(self, thetas: Sequence[FloatArray]) -> FloatArray:
        """Theta of the union from one theta per member; shared tables must be the same in all."""
        if len(thetas) != len(self.graphs):
            raise InvalidInputError(
                f"GraphBatch.pack: {len(thetas)} thetas for {len(self.graphs)} graphs. Give one per graph."
            )
        parts = [graph.check_theta(theta) for graph, theta in zip(self.graphs, thetas, strict=True)]
        variables = [part[: graph.variable_ptr[-1]] for graph, part in zip(self.graphs, parts, strict=True)]
        tables = [part[graph.variable_ptr[-1] :] for graph, part in zip(self.graphs, parts, strict=True)]
        other = [k for k, table in enumerate(tables) if self.shared and not np.array_equal(table, tables[0])]
        if other:
            raise InvalidInputError(
                f"GraphBatch.pack: the members share tables, but thetas[{other[0]}] has other scores for them than "
                f"thetas[0]."
            )
        return np.concatenate([*variables, *(tables[:1] if self.shared else tables)])

    def unpack(self, mu: FloatArray) -> list[FloatArray]:
        """One vector per member from a mu of the union; refused when tables are shared."""
        if self.shared:
            raise InvalidInputError(
                "GraphBatch.unpack: the members share tables, so their statistics are summed. "
                "Use unpack_variables, or batch_graphs(..., share_tables=False)."
            )
        sizes = [graph.n_theta - int(graph.variable_ptr[-1]) for graph in self.graphs]
        starts = int(self.graph.variable_ptr[-1]) + np.concatenate([[0], np.cumsum(sizes)])
        variables = self.unpack_variables(mu)
        return [np.concatenate([block, mu[starts[k] : starts[k + 1]]]) for k, block in enumerate(variables)]

    def unpack_variables(self, mu: FloatArray) -> list[FloatArray]:
        """The variable blocks of each member, as views."""
        if mu.shape != (self.graph.n_theta,):
            raise InvalidInputError(
                f"GraphBatch: the vector has shape {mu.shape}, but the union of the graphs needs "
                f"({self.graph.n_theta},). Give a mu or theta of batch.graph."
            )
        at = self.graph.variable_ptr[self.variable_start]
        return [mu[at[k] : at[k + 1]] for k in range(len(self.graphs))]

    def unpack_labelling(self, y: IntArray) -> list[IntArray]:
        """The labels of each member, as views."""
        at = self.variable_start
        return [y[..., at[k] : at[k + 1]] for k in range(len(self.graphs))]


def batch_graphs(graphs: Sequence[FactorGraph], *, share_tables: bool = False) -> GraphBatch:
    """Join graphs into one disconnected graph.

    Parameters
    ----------
    graphs : sequence of FactorGraph
        At least one.
    share_tables : bool
        Whether table t is the same in all of them (chains with one transition table); then every member needs the
        same tables, and mu holds their sum.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> batch = batch_graphs([chain_graph(3, 2, shared=True), chain_graph(5, 2, shared=True)], share_tables=True)
    >>> batch.graph
    FactorGraph(8 variables with 2 states, 6 factors of scope <= 2, 1 tables)
    """
    members = tuple(graphs)
    if not members:
        raise InvalidInputError("batch_graphs: the list of graphs is empty. Give at least one.")
    variable_start = np.concatenate([[0], np.cumsum([g.n_variables for g in members])])
    pair_start = np.concatenate([[0], np.cumsum([g.scope_idx.size for g in members])])
    if share_tables:
        first = members[0]
        sizes = np.diff(first.table_ptr)
        for k, graph in enumerate(members):
            same = (
                np.array_equal(np.diff(graph.table_ptr), sizes)
                and np.array_equal(graph.table_kind, first.table_kind)
                and np.array_equal(graph.table_truncation, first.table_truncation)
            )
            if not same:
                raise InvalidInputError(
                    f"batch_graphs: graph {k} has other tables than graph 0. Use share_tables=False."
                )
        table_start = np.zeros(len(members), dtype=np.int64)
        kinds, truncations = first.table_kind, first.table_truncation
    else:
        table_start = np.concatenate([[0], np.cumsum([g.n_tables for g in members])])
        kinds = np.concatenate([g.table_kind for g in members])
        truncations = np.concatenate([g.table_truncation for g in members])
    union = FactorGraph(
        np.concatenate([g.n_states for g in members]),
        np.concatenate([[0], *(g.scope_ptr[1:] + pair_start[k] for k, g in enumerate(members))]).astype(np.int64),
        np.concatenate([g.scope_idx + variable_start[k] for k, g in enumerate(members)]),
        np.concatenate([g.table_of_factor + table_start[k] for k, g in enumerate(members)]),
        kinds.copy(),
        truncations.copy(),
    )
    return GraphBatch(members, union, variable_start, share_tables)
