"""Expansion of parametric factors to full tables, for algorithms that support only tables.

As in `reduction`, both directions are a sparse matrix E: `theta' = E theta` and `mu = E^T mu'`.
"""

from __future__ import annotations

from dataclasses import dataclass

from intarsia._core.validation import FloatArray
from intarsia.exceptions import TooLargeError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind, parametric_statistic
from intarsia.graph.reduction import declare_normal_form, in_normal_form

MAX_BYTES = 4e9


@dataclass(frozen=True, eq=False)
class Expansion:
    """Graph in which all tables are full, with the variables, factors and scopes of the original graph."""

    original: FactorGraph
    graph: FactorGraph

    @property
    def is_identity(self) -> bool:
        """Whether all tables of the original graph are full, so that nothing changes."""
        return self.graph is self.original

    def lower(self, theta: FloatArray) -> FloatArray:
        """Return the theta of the expanded graph from a theta of the original graph."""
        if self.is_identity:
            return theta
        full = self.graph.zeros()
        split = int(self.graph.variable_ptr[-1])
        full[:split] = theta[:split]
        for t, c in enumerate(self.graph.first_factor_of_table):
            self.graph.table(full, t)[...] = self.original.factor_table(theta, int(c))
        return full

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Return the expected statistics of the original graph from those of the expanded graph."""
        if self.is_identity:
            return mu
        original = self.original
        short = original.zeros()
        split = int(original.variable_ptr[-1])
        short[:split] = mu[:split]
        for t in range(original.n_tables):
            block = self.graph.table(mu, t)
            if original.table_kind[t] == FactorKind.TABLE:
                original.table(short, t)[...] = block
            else:
                kind, truncation = int(original.table_kind[t]), float(original.table_truncation[t])
                short[original.table_ptr[t]] = (block * parametric_statistic(kind, truncation, len(block))).sum()
        return short


def expand_tables(graph: FactorGraph) -> Expansion:
    """Expand every parametric table of a graph to a full table, or raise if they would not fit in memory."""
    parametric = graph.table_kind != FactorKind.TABLE
    if not parametric.any():
        return Expansion(graph, graph)
    states = graph.n_states[graph.scope_idx[graph.scope_ptr[graph.first_factor_of_table[parametric]]]]
    n_bytes = 8.0 * float((states.astype(float) ** 2).sum())
    if n_bytes > MAX_BYTES:
        raise TooLargeError(
            f"Expanding {int(parametric.sum())} parametric tables would need {n_bytes / 2**30:.1f} GiB. Use a pairwise "
            f"graph with equal numbers of states and a single kind of factor, which needs no expansion."
        )
    full = FactorGraph(
        graph.n_states, graph.scope_ptr, graph.scope_idx, graph.table_of_factor, names=graph.names,
        grid_shape=graph.grid_shape,
    )  # fmt: skip
    return Expansion(graph, declare_normal_form(full) if in_normal_form(graph) else full)
