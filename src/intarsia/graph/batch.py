"""Batches: several graphs joined into one disconnected graph, so that one call of a kernel processes all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Several factor graphs joined into one disconnected graph, as returned by `batch_graphs`.

    Attributes
    ----------
    graphs : tuple of FactorGraph
        The member graphs.
    graph : FactorGraph
        The disconnected union of the members.
    variable_start : int array
        First variable of each member in the union, followed by the total number of variables.
    shared : bool
        Whether the members share tables (table t of each member is table t of the union).

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
        """Return the theta of the union from one theta per member; shared tables must have equal scores."""
        if len(thetas) != len(self.graphs):
            raise InvalidInputError(
                f"GraphBatch.pack: got {len(thetas)} thetas for {len(self.graphs)} graphs. Pass one theta per graph."
            )
        checked_thetas = [graph.check_theta(theta) for graph, theta in zip(self.graphs, thetas, strict=True)]
        variables = [
            theta_k[: graph.variable_ptr[-1]] for graph, theta_k in zip(self.graphs, checked_thetas, strict=True)
        ]
        tables = [theta_k[graph.variable_ptr[-1] :] for graph, theta_k in zip(self.graphs, checked_thetas, strict=True)]
        differing = [k for k, table in enumerate(tables) if self.shared and not np.array_equal(table, tables[0])]
        if differing:
            raise InvalidInputError(
                f"GraphBatch.pack: the members share tables, but the table scores of thetas[{differing[0]}] differ "
                f"from those of thetas[0]. Pass equal table scores, or use batch_graphs(..., share_tables=False)."
            )
        return np.concatenate([*variables, *(tables[:1] if self.shared else tables)])

    def unpack(self, mu: FloatArray) -> list[FloatArray]:
        """Return one vector per member from a mu of the union; raises if the members share tables."""
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
        """Return the blocks of the variables of each member as views."""
        if mu.shape != (self.graph.n_theta,):
            raise InvalidInputError(
                f"GraphBatch: the vector has shape {mu.shape}, but the union of the graphs needs "
                f"({self.graph.n_theta},). Pass a mu or theta of batch.graph."
            )
        starts = self.graph.variable_ptr[self.variable_start]
        return [mu[starts[k] : starts[k + 1]] for k in range(len(self.graphs))]

    def unpack_labelling(self, y: IntArray) -> list[IntArray]:
        """Return the labels of each member as views."""
        starts = self.variable_start
        return [y[..., starts[k] : starts[k + 1]] for k in range(len(self.graphs))]


def batch_graphs(graphs: Sequence[FactorGraph], *, share_tables: bool = False) -> GraphBatch:
    """Join several graphs into one disconnected graph.

    Parameters
    ----------
    graphs : sequence of FactorGraph
        The member graphs, at least one.
    share_tables : bool
        Whether all members share their tables, such as chains with one transition table. Then every member must have
        tables of the same sizes and kinds, and mu holds the sum over the members.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> batch = batch_graphs([chain_graph(3, 2, shared=True), chain_graph(5, 2, shared=True)], share_tables=True)
    >>> batch.graph
    FactorGraph(8 variables with 2 states, 6 factors of scope <= 2, 1 tables)
    """
    members = tuple(graphs)
    if not members:
        raise InvalidInputError("batch_graphs: the list of graphs is empty. Pass at least one graph.")
    variable_start = np.concatenate([[0], np.cumsum([g.n_variables for g in members])])
    pair_start = np.concatenate([[0], np.cumsum([g.scope_idx.size for g in members])])
    if share_tables:
        first = members[0]
        sizes = np.diff(first.table_ptr)
        for k, graph in enumerate(members):
            same_tables = (
                np.array_equal(np.diff(graph.table_ptr), sizes)
                and np.array_equal(graph.table_kind, first.table_kind)
                and np.array_equal(graph.table_truncation, first.table_truncation)
            )
            if not same_tables:
                raise InvalidInputError(
                    f"batch_graphs: the tables of graph {k} differ in size or kind from those of graph 0. "
                    f"Use share_tables=False."
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
