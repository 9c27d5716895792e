"""The form of a graph that losses and gradients work on: normal form, and a full table for every single factor.

As in `reduction`, both directions are one sparse matrix: here every entry of a table comes from one entry of the
reduced theta with one coefficient, so `theta'' = S M theta`, `mu = M^T S^T mu'' + fixed`, and a gradient comes back by
`M^T S^T`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError, TooLargeError
from intarsia.graph.expansion import MAX_BYTES
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind, pair_statistic
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.graph.reduction import Reduction, declare_normal_form, reduce_graph


@dataclass(frozen=True, eq=False)
class LearningForm:
    """A graph in learning form together with the maps to and from the graph it was made of.

    Attributes
    ----------
    reduction : Reduction
        From the given graph to normal form.
    graph : FactorGraph
        Normal form, and a full table of its own for every factor.
    source, coef : arrays
        Entry of the reduced theta that each entry of a table comes from, and its coefficient. Empty when there was
        nothing to do.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> shared = chain_graph(3, 2, shared=True)
    >>> form = learning_form(shared)
    >>> shared.n_tables, form.graph.n_tables
    (1, 2)
    >>> form.pull_back(form.graph.zeros() + 1.0)[-4:]     # both factors' gradients add up in the shared table
    array([2., 2., 2., 2.])
    """

    reduction: Reduction
    graph: FactorGraph
    source: IntArray
    coef: FloatArray

    @property
    def original(self) -> FactorGraph:
        """The graph that was given."""
        return self.reduction.original

    @property
    def is_identity(self) -> bool:
        """Whether the graph was in learning form already."""
        return self.graph is self.reduction.original

    @property
    def factor_of(self) -> IntArray:
        """Factor of `graph` that each original factor went into, -1 if it is decided or part of a variable."""
        return self.reduction.factor_of

    @property
    def _unshares(self) -> bool:
        return self.graph is not self.reduction.graph

    def lower(self, theta: FloatArray) -> FloatArray:
        """Scores in learning form."""
        reduced = self.reduction.lower(theta)
        if not self._unshares:
            return reduced
        split = int(self.graph.variable_ptr[-1])
        lowered = self.graph.zeros()
        lowered[:split] = reduced[:split]
        # A coefficient of 0 means that the weight does not count there, even one of -inf.
        np.multiply(reduced[self.source], self.coef, out=lowered[split:], where=self.coef != 0)
        return lowered

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Expected statistics in the layout of the given graph, summed where factors share a table."""
        return self.reduction.raise_mu(self._gather(mu))

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the given graph's theta from one in learning form: the adjoint of `lower`."""
        return self.reduction.pull_back(self._gather(gradient))

    def _gather(self, values: FloatArray) -> FloatArray:
        if not self._unshares:
            return values
        split = int(self.graph.variable_ptr[-1])
        gathered: FloatArray = np.bincount(
            self.source, values[split:] * self.coef, minlength=self.reduction.graph.n_theta
        ).astype(np.float64, copy=False)
        gathered[:split] = values[:split]
        return gathered

    def lower_labels(self, labels: ArrayLike) -> NDArray[np.int64] | NDArray[np.bool_]:
        """Labels of the free variables.

        Parameters
        ----------
        labels : array
            Integers (n_variables,), -1 for hidden; or booleans over all states of all variables, flat or one row for
            each variable.
        """
        given, original = np.asarray(labels), self.original
        kept = self.reduction.kept
        if given.dtype == np.bool_:
            if given.size != original.variable_ptr[-1]:
                raise InvalidInputError(
                    f"labels: {given.size} booleans, but the variables have {int(original.variable_ptr[-1])} states "
                    f"in all. Give one for each state of each variable."
                )
            free = np.zeros(original.n_variables, dtype=bool)
            free[kept] = True
            return np.ascontiguousarray(given.reshape(-1)[np.repeat(free, original.n_states)])
        if given.shape != (original.n_variables,):
            raise InvalidInputError(
                f"labels have shape {given.shape}, but the graph has {original.n_variables} variables. Give one label "
                f"for each, -1 for a hidden one."
            )
        return given[kept].astype(np.int64)


def learning_form(graph: FactorGraph, evidence: Mapping[int | str, int] | None = None) -> LearningForm:
    """Bring a graph into learning form, with the evidence put in.

    Parameters
    ----------
    graph : FactorGraph
        Any graph: shared and parametric tables, small and equal scopes.
    evidence : dict, optional
        Known states by variable index or name.

    Raises
    ------
    TooLargeError
        If the full tables would not fit in memory.

    Examples
    --------
    >>> from intarsia.graph.shapes import grid_graph
    >>> form = learning_form(grid_graph(2, 2, 3, kind="potts"))
    >>> form.graph.n_theta                      # 4 variables of 3 states, 4 tables of 3 x 3
    48
    """
    return _written_out(reduce_graph(graph, evidence)) if evidence else _without_evidence(graph)


@OncePerGraph
def _without_evidence(graph: FactorGraph) -> LearningForm:
    return _written_out(reduce_graph(graph))


def _written_out(reduction: Reduction) -> LearningForm:
    reduced = reduction.graph
    own_tables = np.array_equal(reduced.table_of_factor, np.arange(reduced.n_tables))
    if own_tables and not reduced.table_kind.any():
        return LearningForm(reduction, reduced, np.empty(0, np.int64), np.empty(0))
    return _write_tables(reduction)


def _write_tables(reduction: Reduction) -> LearningForm:
    reduced = reduction.graph
    sizes = np.multiply.reduceat(reduced.n_states[reduced.scope_idx].astype(np.float64), reduced.scope_ptr[:-1])
    if 8.0 * sizes.sum() > MAX_BYTES:
        raise TooLargeError(
            f"{8.0 * sizes.sum() / 2**30:.1f} GiB would be needed for a table of each of the {reduced.n_factors} "
            f"factors. Learn from smaller graphs, or from parts of this one."
        )
    graph = declare_normal_form(
        FactorGraph(
            reduced.n_states, reduced.scope_ptr, reduced.scope_idx, names=reduced.names, grid_shape=reduced.grid_shape
        )
    )
    factor = np.repeat(np.arange(reduced.n_factors), np.diff(graph.table_ptr))
    within = np.arange(factor.size) + graph.table_ptr[0] - graph.table_ptr[factor]
    table = reduced.table_of_factor[factor]
    kind = reduced.table_kind[table]
    source = reduced.table_ptr[table] + np.where(kind == FactorKind.TABLE, within, 0)
    coef = np.ones(factor.size)
    some = np.flatnonzero(kind != FactorKind.TABLE)
    side = graph.n_states[graph.scope_idx[graph.scope_ptr[factor[some]]]]
    states = np.divmod(within[some], side)
    coef[some] = pair_statistic(kind[some], reduced.table_truncation[table[some]], *states)
    return LearningForm(reduction, graph, source, coef)
