"""Learning form of a graph, which losses and gradients use: normal form with a separate full table for every factor.

As in `reduction`, both directions are a sparse matrix. Here every entry of a table is a coefficient times an entry of
the reduced theta, so `theta'' = S M theta` and `mu = M^T S^T mu'' + fixed`. Gradients are mapped back by `M^T S^T`.
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
    """Graph in learning form together with the maps to and from the original graph.

    Attributes
    ----------
    reduction : Reduction
        Map from the original graph to normal form.
    graph : FactorGraph
        Graph in normal form with a separate full table for every factor.
    source, coef : arrays
        Entry of the reduced theta that each entry of a table comes from, and its coefficient. Empty if the reduced
        graph already has this form.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> shared = chain_graph(3, 2, shared=True)
    >>> form = learning_form(shared)
    >>> shared.n_tables, form.graph.n_tables
    (1, 2)
    >>> form.pull_back(form.graph.zeros() + 1.0)[-4:]     # the gradients of both factors are added
    array([2., 2., 2., 2.])
    """

    reduction: Reduction
    graph: FactorGraph
    source: IntArray
    coef: FloatArray

    @property
    def original(self) -> FactorGraph:
        """Original graph, from which this form was computed."""
        return self.reduction.original

    @property
    def is_identity(self) -> bool:
        """Whether the original graph is in learning form, so that nothing changes."""
        return self.graph is self.reduction.original

    @property
    def factor_of(self) -> IntArray:
        """Factor of `graph` that contains each original factor, -1 if it became a constant or part of a variable."""
        return self.reduction.factor_of

    @property
    def _has_expanded_tables(self) -> bool:
        return self.graph is not self.reduction.graph

    def lower(self, theta: FloatArray) -> FloatArray:
        """Return the theta of the learning form from a theta of the original graph."""
        reduced_theta = self.reduction.lower(theta)
        if not self._has_expanded_tables:
            return reduced_theta
        split = int(self.graph.variable_ptr[-1])
        lowered = self.graph.zeros()
        lowered[:split] = reduced_theta[:split]
        # Where the coefficient is 0 the score is 0, even if the weight is -inf.
        np.multiply(reduced_theta[self.source], self.coef, out=lowered[split:], where=self.coef != 0)
        return lowered

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Return the expected statistics in the original layout, summed over factors that share a table."""
        return self.reduction.raise_mu(self._gather(mu))

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient with respect to the original theta from one in learning form (adjoint of `lower`)."""
        return self.reduction.pull_back(self._gather(gradient))

    def _gather(self, values: FloatArray) -> FloatArray:
        if not self._has_expanded_tables:
            return values
        split = int(self.graph.variable_ptr[-1])
        gathered: FloatArray = np.bincount(
            self.source, values[split:] * self.coef, minlength=self.reduction.graph.n_theta
        ).astype(np.float64, copy=False)
        gathered[:split] = values[:split]
        return gathered

    def lower_labels(self, labels: ArrayLike) -> NDArray[np.int64] | NDArray[np.bool_]:
        """Return the labels of the free variables, which are neither observed nor constant.

        Parameters
        ----------
        labels : array
            Integers (n_variables,), -1 for hidden (unlabelled) variables; or booleans for all states of all variables,
            flat or with one row per variable.
        """
        values, original = np.asarray(labels), self.original
        free_variables = self.reduction.free_variables
        if values.dtype == np.bool_:
            if values.size != original.variable_ptr[-1]:
                raise InvalidInputError(
                    f"labels has {values.size} booleans, but the variables have {int(original.variable_ptr[-1])} "
                    f"states in all. Pass one boolean for each state of each variable."
                )
            is_free = np.zeros(original.n_variables, dtype=bool)
            is_free[free_variables] = True
            return np.ascontiguousarray(values.reshape(-1)[np.repeat(is_free, original.n_states)])
        if values.shape != (original.n_variables,):
            raise InvalidInputError(
                f"labels has shape {values.shape}, but the graph has {original.n_variables} variables. Pass one label "
                f"per variable, -1 for a hidden label."
            )
        return values[free_variables].astype(np.int64)


def learning_form(graph: FactorGraph, evidence: Mapping[int | str, int] | None = None) -> LearningForm:
    """Convert a graph to learning form, conditioned on evidence.

    Parameters
    ----------
    graph : FactorGraph
        Any graph, also with shared or parametric tables, factors of one variable, or several factors of equal scope.
    evidence : dict, optional
        Observed state by variable index or name.

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
    return _expand_if_needed(reduce_graph(graph, evidence)) if evidence else _without_evidence(graph)


@OncePerGraph
def _without_evidence(graph: FactorGraph) -> LearningForm:
    return _expand_if_needed(reduce_graph(graph))


def _expand_if_needed(reduction: Reduction) -> LearningForm:
    graph = reduction.graph
    has_separate_tables = np.array_equal(graph.table_of_factor, np.arange(graph.n_tables))
    if has_separate_tables and not graph.table_kind.any():
        return LearningForm(reduction, graph, np.empty(0, np.int64), np.empty(0))
    return _expand(reduction)


def _expand(reduction: Reduction) -> LearningForm:
    reduced_graph = reduction.graph
    sizes = np.multiply.reduceat(
        reduced_graph.n_states[reduced_graph.scope_idx].astype(np.float64), reduced_graph.scope_ptr[:-1]
    )
    if 8.0 * sizes.sum() > MAX_BYTES:
        raise TooLargeError(
            f"A separate table for each of the {reduced_graph.n_factors} factors would need "
            f"{8.0 * sizes.sum() / 2**30:.1f} GiB. Use smaller graphs, or split this graph."
        )
    graph = declare_normal_form(
        FactorGraph(
            reduced_graph.n_states,
            reduced_graph.scope_ptr,
            reduced_graph.scope_idx,
            names=reduced_graph.names,
            grid_shape=reduced_graph.grid_shape,
        )
    )
    factor = np.repeat(np.arange(reduced_graph.n_factors), np.diff(graph.table_ptr))
    offset = np.arange(factor.size) + graph.table_ptr[0] - graph.table_ptr[factor]
    table = reduced_graph.table_of_factor[factor]
    kind = reduced_graph.table_kind[table]
    source = reduced_graph.table_ptr[table] + np.where(kind == FactorKind.TABLE, offset, 0)
    coef = np.ones(factor.size)
    parametric = np.flatnonzero(kind != FactorKind.TABLE)
    n_states = graph.n_states[graph.scope_idx[graph.scope_ptr[factor[parametric]]]]
    states = np.divmod(offset[parametric], n_states)
    coef[parametric] = pair_statistic(kind[parametric], reduced_graph.table_truncation[table[parametric]], *states)
    return LearningForm(reduction, graph, source, coef)
