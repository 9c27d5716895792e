"""The normal form that algorithms work on, and the way back to the user's layout.

A graph may hold evidence, variables with one state, factors over one variable or none, and several factors over
the same variables. `reduce_graph` removes them all: what is left has free variables with at least two states and
factors over at least two variables, no two over the same set. Every kernel may rely on that.

Both directions are one sparse matrix M with coefficients `coef`: `theta' = M theta` going in and
`mu = M^T mu' + fixed` coming back, so the pull-back of a gradient is `M^T` as well.
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
    """A graph in normal form together with the map to and from the graph it was made of.

    Attributes
    ----------
    original, graph : FactorGraph
        Before and after; the same object when there was nothing to do.
    kept : int array
        Original index of each variable of `graph`.
    states : int array
        State of each original variable, -1 where it is free.
    rows, columns, coef : arrays
        Entries of M: reduced position, original position, coefficient.
    fixed : float array
        Statistics of what is fully decided, in the original layout.
    factor_of : int array
        Factor of `graph` that each original factor went into, -1 if it went into a variable or is decided.

    Examples
    --------
    Two variables with a bonus of 5 for being equal; when the second is in state 1, that is a bonus for the first's:

    >>> from intarsia.graph.shapes import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> theta = graph.pack(variables=[[0.0, 1.0], [0.0, 2.0]], tables=[5.0 * np.eye(2)])
    >>> reduction = reduce_graph(graph, {1: 1})
    >>> reduction.kept.tolist(), reduction.lower(theta).tolist(), reduction.constant(theta)
    ([0], [0.0, 6.0], 2.0)
    >>> reduction.raise_labelling(np.array([1])).tolist()
    [1, 1]
    """

    original: FactorGraph
    graph: FactorGraph
    kept: IntArray
    states: IntArray
    rows: IntArray
    columns: IntArray
    coef: FloatArray
    fixed: FloatArray
    factor_of: IntArray

    @property
    def is_identity(self) -> bool:
        """Whether the graph was in normal form already."""
        return self.graph is self.original

    def lower(self, theta: FloatArray) -> FloatArray:
        """Scores of the reduced graph: `M theta`."""
        if self.is_identity:
            return theta
        values = theta[self.columns] * self.coef
        return np.bincount(self.rows, values, self.graph.n_theta).astype(np.float64, copy=False)

    def constant(self, theta: FloatArray) -> float:
        """Score of what is decided; -inf when the evidence itself is impossible."""
        if self.is_identity:
            return 0.0
        decided = self.fixed != 0
        return float(theta[decided] @ self.fixed[decided])

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Expected statistics in the original layout: `M^T mu + fixed`."""
        if self.is_identity:
            return mu
        values = mu[self.rows] * self.coef
        return self.fixed + np.bincount(self.columns, weights=values, minlength=self.original.n_theta)

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the original theta from one in the reduced theta: `M^T gradient`."""
        if self.is_identity:
            return gradient
        values = gradient[self.rows] * self.coef
        return np.bincount(self.columns, values, self.original.n_theta).astype(np.float64, copy=False)

    def raise_labelling(self, y: IntArray) -> IntArray:
        """Labellings (..., n_variables) of the original graph from those of the reduced one."""
        if self.is_identity:
            return y
        full = np.empty((*y.shape[:-1], self.original.n_variables), dtype=np.int64)
        full[...] = self.states
        full[..., self.kept] = y
        return full

    def lower_labelling(self, y: IntArray) -> IntArray:
        """Labellings of the reduced graph from those of the original one."""
        return y if self.is_identity else np.ascontiguousarray(y[..., self.kept])


def check_evidence(graph: FactorGraph, evidence: Mapping[int | str, int] | None) -> dict[int, int]:
    """Return evidence as a dict from variable index to state; refuse what does not exist."""
    if evidence is not None and not isinstance(evidence, Mapping):
        raise InvalidInputError(
            f"evidence must be a dict from variable to state, got {type(evidence).__name__}. Example: {{3: 0}}."
        )
    clean: dict[int, int] = {}
    for variable, state in (evidence or {}).items():
        v = graph.variable_index(variable)
        whole = isinstance(state, (int, np.integer)) and not isinstance(state, bool)
        if not whole or not 0 <= state < graph.n_states[v]:
            raise InvalidInputError(
                f"evidence[{variable!r}] is {state!r}, but variable {variable!r} has states 0..{graph.n_states[v] - 1}."
            )
        if clean.setdefault(v, int(state)) != int(state):
            raise InvalidInputError(f"evidence gives variable {v} two states, {clean[v]} and {state}.")
    return clean


def reduce_graph(
    graph: FactorGraph, evidence: Mapping[int | str, int] | None = None, *, keep_constraints: bool = False
) -> Reduction:
    """Bring a graph into normal form, with the evidence put in.

    Constraints become tables, unless `keep_constraints` is set: then they stay as they are, less the variables that
    are known, and may join the same variables as another factor.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> reduction = reduce_graph(graph, {1: 0})
    >>> reduction.graph.n_variables, reduction.graph.n_factors
    (2, 0)
    """
    decided = check_evidence(graph, evidence)
    if not decided and in_normal_form(graph) and (keep_constraints or not is_constraint(graph.table_kind).any()):
        nothing = np.empty(0, np.int64)
        return Reduction(
            graph, graph, np.arange(graph.n_variables), np.full(graph.n_variables, -1), nothing, nothing,
            np.empty(0), np.empty(0), np.arange(graph.n_factors),
        )  # fmt: skip
    states = np.where(graph.n_states == 1, 0, -1)
    for v, state in decided.items():
        states[v] = state
    return _Reducer(graph, states, keep_constraints).run()


@OncePerGraph
def in_normal_form(graph: FactorGraph) -> bool:
    """Whether there is nothing to reduce."""
    widths = np.diff(graph.scope_ptr)
    return bool(
        (graph.n_states.size == 0 or graph.n_states.min() > 1)
        and (widths.size == 0 or widths.min() > 1)
        and _duplicate_scopes(graph.scope_ptr, graph.scope_idx).size == 0
    )


def declare_normal_form(graph: FactorGraph) -> FactorGraph:
    """Remember that a graph is in normal form by construction; saves a sort on large grids."""
    in_normal_form.store(graph, True)
    return graph


def _duplicate_scopes(scope_ptr: IntArray, scope_idx: IntArray) -> IntArray:
    """Factors whose set of variables is also that of another factor."""
    found = []
    for width, factors, scopes in scopes_by_width(scope_ptr, scope_idx):
        if width < 2:
            continue
        if width == 2:  # one key per pair sorts much faster than two columns
            low, high = np.minimum(scopes[:, 0], scopes[:, 1]), np.maximum(scopes[:, 0], scopes[:, 1])
            key = low * (scope_idx.max() + 1) + high
            ranked = np.sort(key)
            if not (ranked[1:] == ranked[:-1]).any():
                continue
            order = np.argsort(key, kind="stable")
            same = key[order[1:]] == key[order[:-1]]
        else:
            rows = np.sort(scopes, axis=1)
            order = np.lexsort(rows.T)
            same = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
        twin = np.zeros(factors.size, dtype=bool)
        twin[order[1:][same]] = True
        twin[order[:-1][same]] = True
        found.append(factors[twin])
    return np.concatenate(found) if found else np.empty(0, np.int64)


class _Reducer:
    """Collects the entries of M while the reduced graph is put together."""

    def __init__(self, graph: FactorGraph, states: IntArray, keep_constraints: bool) -> None:
        self.graph = graph
        self.counted = is_constraint(graph.table_kind[graph.table_of_factor])
        self.keep = self.counted & keep_constraints
        self.states = states
        self.kept = np.flatnonzero(states < 0)
        self.new_index = np.full(graph.n_variables, -1)
        self.new_index[self.kept] = np.arange(self.kept.size)
        self.n_states = graph.n_states[self.kept]
        self.variable_ptr = np.concatenate([[0], np.cumsum(self.n_states)])
        self.fixed = np.zeros(graph.n_theta)
        self.entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.factor_of = np.full(graph.n_factors, -1)

    def run(self) -> Reduction:
        graph = self.graph
        self._take_variables()
        free = self.states[graph.scope_idx] < 0
        n_free = np.bincount(graph.factor_of_pair, weights=free, minlength=graph.n_factors).astype(np.int64)
        survives = n_free >= 2
        for c in np.flatnonzero(~survives).tolist():
            self._fold_factor(c)
        touched = ((n_free < np.diff(graph.scope_ptr)) | (self.counted & ~self.keep)) & survives
        conditioned = np.flatnonzero(touched & self.keep).tolist()
        if touched.any() or not in_normal_form(graph):  # otherwise no two scopes can have become equal
            alike = survives & ~self.keep
            kept_pairs = free & alike[graph.factor_of_pair]
            survivors = np.flatnonzero(alike)
            scope_ptr = np.concatenate([[0], np.cumsum(n_free[survivors])])
            scope_idx = self.new_index[graph.scope_idx[kept_pairs]]
            touched[survivors[_duplicate_scopes(scope_ptr, scope_idx)]] = True
        untouched, rewritten = np.flatnonzero(survives & ~touched), np.flatnonzero(touched & ~self.keep).tolist()
        self._check_size(rewritten, n_free)
        reduced = self._assemble(untouched, rewritten, conditioned)
        rows, columns, coef = (
            (np.concatenate([entry[k] for entry in self.entries]) for k in range(3))
            if self.entries
            else (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        )
        return Reduction(
            graph, declare_normal_form(reduced), self.kept, self.states, rows, columns, coef, self.fixed,
            self.factor_of,
        )  # fmt: skip

    def _add(self, rows: IntArray, columns: IntArray, coef: FloatArray | None = None) -> None:
        coef = np.ones(rows.size) if coef is None else coef
        self.entries.append((rows, columns, coef))

    def _take_variables(self) -> None:
        graph = self.graph
        origin = _ranges(graph.variable_ptr[self.kept], self.n_states)
        self._add(np.arange(origin.size), origin)
        decided = np.flatnonzero(self.states >= 0)
        self.fixed[graph.variable_ptr[decided] + self.states[decided]] = 1.0

    def _slice(self, c: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Free variables of factor c, and position in theta and coefficient of each of their joint states."""
        graph = self.graph
        scope, shape = graph.scope(c), graph.factor_shape(c)
        table = int(graph.table_of_factor[c])
        pick = tuple(slice(None) if self.states[v] < 0 else int(self.states[v]) for v in scope)
        start = int(graph.table_ptr[table])
        if graph.table_kind[table] == FactorKind.TABLE:
            at = np.asarray(start + np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)[pick])
            coef = np.ones(at.shape)
        else:
            if self.counted[c]:
                kind, number = self._conditioned(c)
                coef = statistic_table(kind, number, tuple(2 for v in scope if self.states[v] < 0))
            else:
                kind, number = int(graph.table_kind[table]), float(graph.table_truncation[table])
                coef = np.asarray(statistic_table(kind, number, shape)[pick])
            at = np.full(coef.shape, start)
        return scope[self.states[scope] < 0], at, coef

    def _conditioned(self, c: int) -> tuple[int, float]:
        """Kind and number of what the known states leave of a constraint."""
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
        wide = [c for c in rewritten if self.counted[c] and n_free[c] > MAX_WRITTEN]
        if wide:
            raise TooLargeError(
                f"Factor {wide[0]} is a constraint on {n_free[wide[0]]} variables, and would need a table of "
                f"2**{n_free[wide[0]]} entries here. Methods that take constraints as they are need none."
            )

    def _fold_factor(self, c: int) -> None:
        """A factor with at most one free variable becomes part of that variable, or of the constant."""
        free, at, coef = self._slice(c)
        flat, weights = at.reshape(-1), coef.reshape(-1)
        if free.size == 0:
            self.fixed[flat[0]] += weights[0]
            return
        rows = self.variable_ptr[self.new_index[free[0]]] + np.arange(flat.size)
        used = weights != 0
        self._add(rows[used], flat[used], weights[used])

    def _assemble(self, untouched: IntArray, touched: list[int], conditioned: list[int]) -> FactorGraph:
        """Build the reduced graph: untouched factors keep their (shared) tables, the others get new ones.

        Those of `touched` are written as tables, one for all that join the same variables; those of `conditioned` are
        constraints that lose the variables that are known.
        """
        graph = self.graph
        widths = np.diff(graph.scope_ptr)[untouched]
        in_use = np.zeros(graph.n_tables, dtype=bool)
        in_use[graph.table_of_factor[untouched]] = True
        tables = np.flatnonzero(in_use)
        table_of_factor = (np.cumsum(in_use) - 1)[graph.table_of_factor[untouched]]
        self.factor_of[untouched] = np.arange(untouched.size)
        scope_idx = [self.new_index[graph.scope_idx[_ranges(graph.scope_ptr[untouched], widths)]]]
        groups: dict[tuple[int, ...], list[int]] = {}
        for c in touched:
            scope = graph.scope(c)
            groups.setdefault(tuple(sorted(scope[self.states[scope] < 0].tolist())), []).append(c)
        for number, (key, members) in enumerate(groups.items()):
            self.factor_of[members] = untouched.size + number
            scope_idx.append(self.new_index[np.array(key, dtype=np.int64)])
        rest = [graph.scope(c)[self.states[graph.scope(c)] < 0] for c in conditioned]
        scope_idx += [self.new_index[free] for free in rest]
        self.factor_of[conditioned] = untouched.size + len(groups) + np.arange(len(conditioned))
        left = np.array([self._conditioned(c) for c in conditioned]).reshape(-1, 2)
        new_widths = [*(len(key) for key in groups), *(free.size for free in rest)]
        scope_ptr = np.concatenate([[0], np.cumsum(np.concatenate([widths, new_widths]))])
        reduced = FactorGraph(
            self.n_states,
            scope_ptr.astype(np.int64),
            np.concatenate(scope_idx),
            np.concatenate([table_of_factor, tables.size + np.arange(len(new_widths))]).astype(np.int64),
            np.concatenate([graph.table_kind[tables], np.zeros(len(groups), np.int64), left[:, 0].astype(np.int64)]),
            np.concatenate([graph.table_truncation[tables], np.full(len(groups), np.inf), left[:, 1]]),
            names=tuple(graph.names[v] for v in self.kept) if graph.names else None,
        )
        sizes = np.diff(graph.table_ptr)[tables]
        self._add(_ranges(reduced.table_ptr[: tables.size], sizes), _ranges(graph.table_ptr[tables], sizes))
        for number, (key, members) in enumerate(groups.items()):
            start = int(reduced.table_ptr[tables.size + number])
            for c in members:
                free, at, coef = self._slice(c)
                axes = [free.tolist().index(v) for v in key]
                at, coef = at.transpose(axes).reshape(-1), coef.transpose(axes).reshape(-1)
                used = coef != 0
                self._add(start + np.flatnonzero(used), at[used], coef[used])
        starts = reduced.table_ptr[tables.size + len(groups) : -1]
        self._add(starts, graph.table_ptr[graph.table_of_factor[conditioned]])
        return reduced


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Concatenation of `arange(start, start + length)` over all rows."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
