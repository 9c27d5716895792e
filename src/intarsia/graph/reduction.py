"""Reduction of a graph to the normal form that algorithms use, and the map back to the layout of the user's graph.

A graph may have observed variables, variables with one state, factors over one variable or none, and several factors
over the same variables. `reduce_graph` removes all of these: the reduced graph has free variables with at least two
states, and factors over at least two variables, no two over the same set. Kernels rely on this.

Both directions are a sparse matrix M with coefficients `coef`: `theta' = M theta` and `mu = M^T mu' + fixed`. Gradients
are mapped back by `M^T`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError, TooLargeError
from intarsia.graph.factor_checks import scopes_by_width
from intarsia.graph.factor_graph import MAX_WRITTEN, FactorGraph
from intarsia.graph.factor_kinds import FactorKind, condition_constraint, counts_off, is_constraint, statistic_table
from intarsia.graph.once_per_graph import OncePerGraph


@dataclass(frozen=True, eq=False)
class Reduction:
    """Graph in normal form together with the maps to and from the original graph.

    Attributes
    ----------
    original, graph : FactorGraph
        The graph before and after the reduction; the same object if the original is in normal form.
    free_variables : int array
        Original index of each variable of `graph`.
    states : int array
        Observed or only state of each original variable, -1 where it is free.
    rows, columns, coef : arrays
        Entries of M: position in the reduced theta, position in the original theta, coefficient.
    fixed : float array
        Statistics of the observed variables and of factors without free variables, in the original layout.
    factor_of : int array
        Factor of `graph` that contains each original factor, -1 if it became part of a variable or a constant.

    Examples
    --------
    Two variables have a score of 5 for being equal. If the second is observed in state 1, this becomes a score for
    state 1 of the first:

    >>> from intarsia.graph.shapes import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> theta = graph.pack(variables=[[0.0, 1.0], [0.0, 2.0]], tables=[5.0 * np.eye(2)])
    >>> reduction = reduce_graph(graph, {1: 1})
    >>> reduction.free_variables.tolist(), reduction.lower(theta).tolist(), reduction.constant(theta)
    ([0], [0.0, 6.0], 2.0)
    >>> reduction.raise_labelling(np.array([1])).tolist()
    [1, 1]
    """

    original: FactorGraph
    graph: FactorGraph
    free_variables: IntArray
    states: IntArray
    rows: IntArray
    columns: IntArray
    coef: FloatArray
    fixed: FloatArray
    factor_of: IntArray

    @property
    def is_identity(self) -> bool:
        """Whether the original graph is in normal form, so that nothing changes."""
        return self.graph is self.original

    def lower(self, theta: FloatArray) -> FloatArray:
        """Return the theta of the reduced graph, `M theta`."""
        if self.is_identity:
            return theta
        values = theta[self.columns] * self.coef
        return np.bincount(self.rows, values, self.graph.n_theta).astype(np.float64, copy=False)

    def constant(self, theta: FloatArray) -> float:
        """Return the score of the observed variables and constant factors; -inf if the evidence is impossible."""
        if self.is_identity:
            return 0.0
        is_fixed = self.fixed != 0
        return float(theta[is_fixed] @ self.fixed[is_fixed])

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Return the expected statistics in the original layout, `M^T mu + fixed`."""
        if self.is_identity:
            return mu
        values = mu[self.rows] * self.coef
        return self.fixed + np.bincount(self.columns, weights=values, minlength=self.original.n_theta)

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient with respect to the original theta, `M^T gradient`."""
        if self.is_identity:
            return gradient
        values = gradient[self.rows] * self.coef
        return np.bincount(self.columns, values, self.original.n_theta).astype(np.float64, copy=False)

    def raise_labelling(self, y: IntArray) -> IntArray:
        """Return labellings (..., n_variables) of the original graph from labellings of the reduced graph."""
        if self.is_identity:
            return y
        full = np.empty((*y.shape[:-1], self.original.n_variables), dtype=np.int64)
        full[...] = self.states
        full[..., self.free_variables] = y
        return full

    def lower_labelling(self, y: IntArray) -> IntArray:
        """Return labellings of the reduced graph from labellings of the original graph."""
        return y if self.is_identity else np.ascontiguousarray(y[..., self.free_variables])


def check_evidence(graph: FactorGraph, evidence: Mapping[int | str, int] | None) -> dict[int, int]:
    """Return evidence as a dict from variable index to state, or raise if a variable or state does not exist."""
    if evidence is not None and not isinstance(evidence, Mapping):
        raise InvalidInputError(
            f"evidence must be a dict from variable to state, got {type(evidence).__name__}. Example: {{3: 0}}."
        )
    checked_evidence: dict[int, int] = {}
    for variable, state in (evidence or {}).items():
        v = graph.variable_index(variable)
        is_integer = isinstance(state, (int, np.integer)) and not isinstance(state, bool)
        if not is_integer or not 0 <= state < graph.n_states[v]:
            raise InvalidInputError(
                f"evidence[{variable!r}] is {state!r}, but the state of variable {variable!r} must be an integer in "
                f"0..{graph.n_states[v] - 1}."
            )
        if checked_evidence.setdefault(v, int(state)) != int(state):
            raise InvalidInputError(
                f"evidence has two states for variable {v}, {checked_evidence[v]} and {state}. Remove one of them."
            )
    return checked_evidence


def reduce_graph(
    graph: FactorGraph, evidence: Mapping[int | str, int] | None = None, *, keep_constraints: bool = False
) -> Reduction:
    """Reduce a graph to normal form, conditioned on evidence.

    Constraints are converted to tables, unless `keep_constraints` is set. Then they remain constraints on their free
    variables, and may join the same variables as another factor.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> reduction = reduce_graph(graph, {1: 0})
    >>> reduction.graph.n_variables, reduction.graph.n_factors
    (2, 0)
    """
    checked_evidence = check_evidence(graph, evidence)
    if (
        not checked_evidence
        and in_normal_form(graph)
        and (keep_constraints or not is_constraint(graph.table_kind).any())
    ):
        no_entries = np.empty(0, np.int64)
        return Reduction(
            graph, graph, np.arange(graph.n_variables), np.full(graph.n_variables, -1), no_entries, no_entries,
            np.empty(0), np.empty(0), np.arange(graph.n_factors),
        )  # fmt: skip
    states = np.where(graph.n_states == 1, 0, -1)
    for v, state in checked_evidence.items():
        states[v] = state
    return _Reducer(graph, states, keep_constraints).run()


@OncePerGraph
def in_normal_form(graph: FactorGraph) -> bool:
    """Return whether a graph is in normal form, so that there is nothing to reduce."""
    widths = np.diff(graph.scope_ptr)
    return bool(
        (graph.n_states.size == 0 or graph.n_states.min() > 1)
        and (widths.size == 0 or widths.min() > 1)
        and _duplicate_scopes(graph.scope_ptr, graph.scope_idx).size == 0
    )


def declare_normal_form(graph: FactorGraph) -> FactorGraph:
    """Record that a graph is in normal form by construction, which saves a sort on large grids."""
    in_normal_form.store(graph, True)
    return graph


def _duplicate_scopes(scope_ptr: IntArray, scope_idx: IntArray) -> IntArray:
    """Return the factors that have the same set of variables as another factor."""
    duplicates = []
    for width, factors, scopes in scopes_by_width(scope_ptr, scope_idx):
        if width < 2:
            continue
        if width == 2:  # sorting one key per pair is much faster than sorting two columns
            low, high = np.minimum(scopes[:, 0], scopes[:, 1]), np.maximum(scopes[:, 0], scopes[:, 1])
            key = low * (scope_idx.max() + 1) + high
            sorted_key = np.sort(key)
            if not (sorted_key[1:] == sorted_key[:-1]).any():
                continue
            order = np.argsort(key, kind="stable")
            is_equal = key[order[1:]] == key[order[:-1]]
        else:
            rows = np.sort(scopes, axis=1)
            order = np.lexsort(rows.T)
            is_equal = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
        is_duplicate = np.zeros(factors.size, dtype=bool)
        is_duplicate[order[1:][is_equal]] = True
        is_duplicate[order[:-1][is_equal]] = True
        duplicates.append(factors[is_duplicate])
    return np.concatenate(duplicates) if duplicates else np.empty(0, np.int64)


class _Reducer:
    """Builder of a `Reduction`, which collects the entries of M while it builds the reduced graph."""

    def __init__(self, graph: FactorGraph, states: IntArray, keep_constraints: bool) -> None:
        self.graph = graph
        self.is_constraint = is_constraint(graph.table_kind[graph.table_of_factor])
        self.keeps_constraint = self.is_constraint & keep_constraints
        self.states = states
        self.free_variables = np.flatnonzero(states < 0)
        self.new_index = np.full(graph.n_variables, -1)
        self.new_index[self.free_variables] = np.arange(self.free_variables.size)
        self.n_states = graph.n_states[self.free_variables]
        self.variable_ptr = np.concatenate([[0], np.cumsum(self.n_states)])
        self.fixed = np.zeros(graph.n_theta)
        self.entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.factor_of = np.full(graph.n_factors, -1)

    def run(self) -> Reduction:
        graph = self.graph
        self._add_variables()
        free = self.states[graph.scope_idx] < 0
        n_free = np.bincount(graph.factor_of_pair, weights=free, minlength=graph.n_factors).astype(np.int64)
        has_pair = n_free >= 2
        for c in np.flatnonzero(~has_pair).tolist():
            self._fold_factor(c)
        is_changed = ((n_free < np.diff(graph.scope_ptr)) | (self.is_constraint & ~self.keeps_constraint)) & has_pair
        conditioned = np.flatnonzero(is_changed & self.keeps_constraint).tolist()
        if is_changed.any() or not in_normal_form(graph):  # otherwise no two scopes are equal
            is_mergeable = has_pair & ~self.keeps_constraint
            pairs = free & is_mergeable[graph.factor_of_pair]
            mergeable = np.flatnonzero(is_mergeable)
            scope_ptr = np.concatenate([[0], np.cumsum(n_free[mergeable])])
            scope_idx = self.new_index[graph.scope_idx[pairs]]
            is_changed[mergeable[_duplicate_scopes(scope_ptr, scope_idx)]] = True
        unchanged, rewritten = (
            np.flatnonzero(has_pair & ~is_changed),
            np.flatnonzero(is_changed & ~self.keeps_constraint).tolist(),
        )
        self._check_size(rewritten, n_free)
        reduced_graph = self._assemble(unchanged, rewritten, conditioned)
        rows, columns, coef = (
            (np.concatenate([entry[k] for entry in self.entries]) for k in range(3))
            if self.entries
            else (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        )
        return Reduction(
            graph, declare_normal_form(reduced_graph), self.free_variables, self.states, rows, columns, coef,
            self.fixed, self.factor_of,
        )  # fmt: skip

    def _add_entries(self, rows: IntArray, columns: IntArray, coef: FloatArray | None = None) -> None:
        coef = np.ones(rows.size) if coef is None else coef
        self.entries.append((rows, columns, coef))

    def _add_variables(self) -> None:
        graph = self.graph
        positions = _ranges(graph.variable_ptr[self.free_variables], self.n_states)
        self._add_entries(np.arange(positions.size), positions)
        fixed_variables = np.flatnonzero(self.states >= 0)
        self.fixed[graph.variable_ptr[fixed_variables] + self.states[fixed_variables]] = 1.0

    def _free_table(self, c: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the free variables of factor c, and theta position and coefficient of each of their joint states."""
        graph = self.graph
        scope, shape = graph.scope(c), graph.factor_shape(c)
        table = int(graph.table_of_factor[c])
        index = tuple(slice(None) if self.states[v] < 0 else int(self.states[v]) for v in scope)
        start = int(graph.table_ptr[table])
        if graph.table_kind[table] == FactorKind.TABLE:
            positions = np.asarray(start + np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)[index])
            coef = np.ones(positions.shape)
        else:
            if self.is_constraint[c]:
                kind, number = self._conditioned_constraint(c)
                coef = statistic_table(kind, number, tuple(2 for v in scope if self.states[v] < 0))
            else:
                kind, number = int(graph.table_kind[table]), float(graph.table_truncation[table])
                coef = np.asarray(statistic_table(kind, number, shape)[index])
            positions = np.full(coef.shape, start)
        return scope[self.states[scope] < 0], positions, coef

    def _conditioned_constraint(self, c: int) -> tuple[int, float]:
        """Return kind and number of a constraint after conditioning on the observed states."""
        graph, scope = self.graph, self.graph.scope(c)
        table = int(graph.table_of_factor[c])
        kind, states = int(graph.table_kind[table]), self.states[scope]
        counts = states == 1
        if counts_off(kind) and scope.size:
            counts[-1] = states[-1] == 0
        free = states < 0
        return condition_constraint(
            kind, float(graph.table_truncation[table]), int(counts.sum()), int(free.sum()), bool(free[-1:].any())
        )

    def _check_size(self, rewritten: list[int], n_free: IntArray) -> None:
        too_wide = [c for c in rewritten if self.is_constraint[c] and n_free[c] > MAX_WRITTEN]
        if too_wide:
            raise TooLargeError(
                f"Factor {too_wide[0]} is a constraint on {n_free[too_wide[0]]} variables and would need a table of "
                f"2**{n_free[too_wide[0]]} entries. Use an inference method that supports constraints directly."
            )

    def _fold_factor(self, c: int) -> None:
        """Add a factor with at most one free variable to that variable, or to the constant."""
        free, positions, coef = self._free_table(c)
        flat, weights = positions.reshape(-1), coef.reshape(-1)
        if free.size == 0:
            self.fixed[flat[0]] += weights[0]
            return
        rows = self.variable_ptr[self.new_index[free[0]]] + np.arange(flat.size)
        is_nonzero = weights != 0
        self._add_entries(rows[is_nonzero], flat[is_nonzero], weights[is_nonzero])

    def _assemble(self, unchanged: IntArray, rewritten: list[int], conditioned: list[int]) -> FactorGraph:
        """Build the reduced graph.

        Factors in `unchanged` keep their (shared) tables. Those in `rewritten` become tables, one for all factors that
        join the same variables. Those in `conditioned` are constraints that keep only their free variables.
        """
        graph = self.graph
        widths = np.diff(graph.scope_ptr)[unchanged]
        in_use = np.zeros(graph.n_tables, dtype=bool)
        in_use[graph.table_of_factor[unchanged]] = True
        tables = np.flatnonzero(in_use)
        table_of_factor = (np.cumsum(in_use) - 1)[graph.table_of_factor[unchanged]]
        self.factor_of[unchanged] = np.arange(unchanged.size)
        scope_idx = [self.new_index[graph.scope_idx[_ranges(graph.scope_ptr[unchanged], widths)]]]
        groups: dict[tuple[int, ...], list[int]] = {}
        for c in rewritten:
            scope = graph.scope(c)
            groups.setdefault(tuple(sorted(scope[self.states[scope] < 0].tolist())), []).append(c)
        for k, (key, members) in enumerate(groups.items()):
            self.factor_of[members] = unchanged.size + k
            scope_idx.append(self.new_index[np.array(key, dtype=np.int64)])
        free_scopes = [graph.scope(c)[self.states[graph.scope(c)] < 0] for c in conditioned]
        scope_idx += [self.new_index[free] for free in free_scopes]
        self.factor_of[conditioned] = unchanged.size + len(groups) + np.arange(len(conditioned))
        kind_and_number = np.array([self._conditioned_constraint(c) for c in conditioned]).reshape(-1, 2)
        new_widths = [*(len(key) for key in groups), *(free.size for free in free_scopes)]
        scope_ptr = np.concatenate([[0], np.cumsum(np.concatenate([widths, new_widths]))])
        reduced_graph = FactorGraph(
            self.n_states,
            scope_ptr.astype(np.int64),
            np.concatenate(scope_idx),
            np.concatenate([table_of_factor, tables.size + np.arange(len(new_widths))]).astype(np.int64),
            np.concatenate(
                [graph.table_kind[tables], np.zeros(len(groups), np.int64), kind_and_number[:, 0].astype(np.int64)]
            ),
            np.concatenate([graph.table_truncation[tables], np.full(len(groups), np.inf), kind_and_number[:, 1]]),
            names=tuple(graph.names[v] for v in self.free_variables) if graph.names else None,
        )
        sizes = np.diff(graph.table_ptr)[tables]
        self._add_entries(
            _ranges(reduced_graph.table_ptr[: tables.size], sizes), _ranges(graph.table_ptr[tables], sizes)
        )
        for k, (key, members) in enumerate(groups.items()):
            start = int(reduced_graph.table_ptr[tables.size + k])
            for c in members:
                free, positions, coef = self._free_table(c)
                axes = [free.tolist().index(v) for v in key]
                positions, coef = positions.transpose(axes).reshape(-1), coef.transpose(axes).reshape(-1)
                is_nonzero = coef != 0
                self._add_entries(start + np.flatnonzero(is_nonzero), positions[is_nonzero], coef[is_nonzero])
        starts = reduced_graph.table_ptr[tables.size + len(groups) : -1]
        self._add_entries(starts, graph.table_ptr[graph.table_of_factor[conditioned]])
        return reduced_graph


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the concatenation of `arange(start, start + length)` over all pairs of start and length."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
