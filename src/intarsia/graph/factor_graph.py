"""`FactorGraph`: the variables and factors of a model as flat, read-only arrays that every algorithm reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, frozen, read_only
from intarsia.exceptions import InvalidInputError, TooLargeError
from intarsia.graph.factor_checks import (
    check_axes,
    check_index,
    check_labelling,
    check_names,
    check_scopes,
    check_tables,
    check_theta,
    table_sizes,
)
from intarsia.graph.factor_kinds import FactorKind, statistic_table

# Constraints over more variables than this are not expanded to full tables.
MAX_WRITTEN = 20


@dataclass(frozen=True, eq=False, repr=False)
class FactorGraph:
    """Structure of a factor graph (Markov random field); the log-potentials are a separate flat vector theta.

    theta (log-potentials; larger is more probable) and mu (marginals, that is, expected statistics) have the same
    layout: a block per variable, then a block per *table* in C order of the scope. Several factors may share a table.
    Then mu and `statistics` hold the sum over these factors, so that `theta @ statistics(y)` is always the score of a
    labelling y. Build graphs with `GraphBuilder`, `grid_graph`, `chain_graph`, `from_edges` or `read_uai` rather than
    from raw arrays.

    Parameters
    ----------
    n_states : (n_variables,) int array
        Number of states of each variable, at least 1.
    scope_ptr, scope_idx : int arrays
        Scopes in CSR form: factor c joins the variables `scope_idx[scope_ptr[c]:scope_ptr[c + 1]]`.
    table_of_factor : (n_factors,) int array, optional
        Index of the table that each factor uses; by default every factor has a separate table.
    table_kind : (n_tables,) int array, optional
        A `FactorKind` per table; by default all are `TABLE`.
    table_truncation : (n_tables,) float array, optional
        Distance at which truncated linear and quadratic tables level off; for constraints, the number that the count
        of variables in state 1 is compared with.
    names : sequence of str, optional
        Name of each variable.
    grid_shape : tuple of int, optional
        Height and width, when the variables are the pixels of an image in row-major order.

    Raises
    ------
    InvalidInputError
        If a scope names a variable that does not exist or the same variable twice, or if factors that share a table
        differ in shape.

    Examples
    --------
    >>> graph = FactorGraph([2, 3], scope_ptr=[0, 2], scope_idx=[0, 1])
    >>> graph.n_theta                       # 2 + 3 for the variables, 2 x 3 for the table
    11
    >>> theta = graph.zeros()
    >>> graph.table(theta, 0)[1, 2] = 0.5   # a view: writes into theta
    >>> graph.score(theta, [1, 2])
    0.5
    """

    n_states: IntArray
    scope_ptr: IntArray
    scope_idx: IntArray
    table_of_factor: IntArray = None  # type: ignore[assignment]
    table_kind: IntArray = None  # type: ignore[assignment]
    table_truncation: FloatArray = None  # type: ignore[assignment]
    names: tuple[str, ...] | None = None
    grid_shape: tuple[int, int] | None = None
    variable_ptr: IntArray = field(init=False)
    table_ptr: IntArray = field(init=False)
    _computed: dict[object, object] = field(init=False, default_factory=dict)
    # Held while a value for `_computed` is computed, so that threads that share the graph compute it once.
    _lock: Any = field(init=False, default_factory=RLock)

    def __post_init__(self) -> None:
        n_states = as_int_array(self.n_states, "FactorGraph: n_states").reshape(-1)
        if n_states.size and n_states.min() < 1:
            v = int(np.argmax(n_states < 1))
            raise InvalidInputError(
                f"FactorGraph: variable {v} has {n_states[v]} states. Every variable needs at least 1."
            )
        if n_states.sum(dtype=np.float64) > 2.0**40:
            raise InvalidInputError(
                f"FactorGraph: the variables have {n_states.sum(dtype=np.float64):.3g} states in all, up to "
                f"{n_states.max()} each. Use fewer states."
            )
        scope_ptr = as_int_array(self.scope_ptr, "FactorGraph: scope_ptr")
        scope_idx = as_int_array(self.scope_idx, "FactorGraph: scope_idx").reshape(-1)
        check_scopes(scope_ptr, scope_idx, n_states.size)
        n_factors = scope_ptr.size - 1
        if self.table_of_factor is None:
            table_of_factor = np.arange(n_factors, dtype=np.int64)
        else:
            table_of_factor = as_int_array(self.table_of_factor, "FactorGraph: table_of_factor")
        n_tables = check_tables(table_of_factor, n_factors)
        kind = np.zeros(n_tables, np.int64) if self.table_kind is None else as_int_array(self.table_kind, "kind")
        if self.table_truncation is None:
            truncation = np.full(n_tables, np.inf)
        else:
            truncation = as_float_array(self.table_truncation, "FactorGraph: table_truncation")
        if kind.shape != (n_tables,) or truncation.shape != (n_tables,):
            raise InvalidInputError(
                f"FactorGraph: there are {n_tables} tables, but {kind.size} kinds and {truncation.size} truncations. "
                f"Pass one of each per table."
            )
        bad = ~(truncation >= 0)
        if bad.any():
            t = int(np.argmax(bad))
            raise InvalidInputError(
                f"FactorGraph: table {t} has truncation {truncation[t]}. Pass a number of at least 0, or inf for none."
            )
        size = table_sizes(n_states, scope_ptr, scope_idx, table_of_factor, kind, n_tables)
        variable_ptr = np.concatenate([[0], np.cumsum(n_states)])
        table_ptr = variable_ptr[-1] + np.concatenate([[0], np.cumsum(size)])
        if self.names is not None:
            check_names(self.names, n_states.size)
            object.__setattr__(self, "names", tuple(self.names))
        if self.grid_shape is not None:
            height, width = self.grid_shape
            if height * width != n_states.size:
                raise InvalidInputError(
                    f"FactorGraph: grid_shape {(height, width)} has {height * width} pixels, but there are "
                    f"{n_states.size} variables. Pass one variable per pixel, or no grid_shape."
                )
        for name, array in (
            ("n_states", n_states),
            ("scope_ptr", scope_ptr),
            ("scope_idx", scope_idx),
            ("table_of_factor", table_of_factor),
            ("table_kind", kind),
            ("table_truncation", truncation),
            ("variable_ptr", variable_ptr.astype(np.int64)),
            ("table_ptr", table_ptr.astype(np.int64)),
        ):
            object.__setattr__(self, name, frozen(array, getattr(self, name, None)))

    def __getstate__(self) -> dict[str, object]:
        """Return the state for pickles and copies, without the values of `OncePerGraph`, which are recomputed."""
        return {name: value for name, value in vars(self).items() if name not in ("_computed", "_lock")}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state of a pickle or a copy."""
        vars(self).update(state, _computed={}, _lock=RLock())

    # ---------------------------------------------------------------- sizes

    @property
    def n_variables(self) -> int:
        """Number of variables in the graph."""
        return int(self.n_states.size)

    @property
    def n_factors(self) -> int:
        """Number of factors in the graph."""
        return int(self.scope_ptr.size - 1)

    @property
    def n_tables(self) -> int:
        """Number of tables, which is smaller than the number of factors when factors share tables."""
        return int(self.table_kind.size)

    @property
    def n_theta(self) -> int:
        """Length of theta and of mu."""
        return int(self.table_ptr[-1])

    @property
    def max_scope(self) -> int:
        """Number of variables in the largest factor."""
        return int(np.diff(self.scope_ptr).max(initial=0))

    @cached_property
    def shares_tables(self) -> bool:
        """Whether some table serves more than one factor."""
        return self.n_tables < self.n_factors

    @cached_property
    def first_factor_of_table(self) -> IntArray:
        """First factor that uses each table, from which the shape of the table follows."""
        first = np.zeros(self.n_tables, dtype=np.int64)
        first[self.table_of_factor[::-1]] = np.arange(self.n_factors - 1, -1, -1)
        return first

    @cached_property
    def pairs_by_variable(self) -> tuple[IntArray, IntArray]:
        """Pairs (factor, variable) of each variable in CSR form; a pair is its position in `scope_idx`."""
        ptr = np.concatenate([[0], np.cumsum(np.bincount(self.scope_idx, minlength=self.n_variables))])
        return ptr.astype(np.int64), np.argsort(self.scope_idx, kind="stable").astype(np.int64)

    @cached_property
    def factor_of_pair(self) -> IntArray:
        """Factor that each position of `scope_idx` belongs to."""
        return np.repeat(np.arange(self.n_factors, dtype=np.int64), np.diff(self.scope_ptr))

    @cached_property
    def is_forest(self) -> bool:
        """Whether the bipartite graph of variables and factors has no cycle."""
        n_nodes, n_links = self.n_variables + self.n_factors, int(self.scope_idx.size)
        if n_links >= n_nodes > 0:
            return False
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        links = (np.ones(n_links), (self.scope_idx, self.n_variables + self.factor_of_pair))
        n_components = connected_components(coo_array(links, shape=(n_nodes, n_nodes)), directed=False)[0]
        return bool(n_links == n_nodes - n_components)

    # ---------------------------------------------------------------- views

    def scope(self, factor: int) -> IntArray:
        """Return the variables of a factor, in the order of the axes of its table."""
        check_index(factor, self.n_factors, "factor")
        return self.scope_idx[self.scope_ptr[factor] : self.scope_ptr[factor + 1]]

    def factor_shape(self, factor: int) -> tuple[int, ...]:
        """Return the number of states of each variable of a factor."""
        return tuple(self.n_states[self.scope(factor)].tolist())

    def zeros(self) -> FloatArray:
        """Return a theta of zeros, which is the uniform distribution."""
        return np.zeros(self.n_theta)

    def variable(self, theta: FloatArray, variable: int | str) -> FloatArray:
        """Return a view of the block of theta (or mu) that belongs to a variable."""
        v = self.variable_index(variable)
        return theta[self.variable_ptr[v] : self.variable_ptr[v + 1]]

    def table(self, theta: FloatArray, table: int) -> FloatArray:
        """Return a view of the block of a table, shaped like the scope of its factors, or (1,) for parametric kinds."""
        check_index(table, self.n_tables, "table")
        block = theta[self.table_ptr[table] : self.table_ptr[table + 1]]
        if self.table_kind[table] == FactorKind.TABLE:
            return block.reshape(self.factor_shape(int(self.first_factor_of_table[table])))
        return block

    def factor_table(self, theta: FloatArray, factor: int) -> FloatArray:
        """Return the score of every joint state of a factor of any kind."""
        check_index(factor, self.n_factors, "factor")
        table = int(self.table_of_factor[factor])
        block = self.table(theta, table)
        if self.table_kind[table] == FactorKind.TABLE:
            return block
        shape = self.factor_shape(factor)
        if len(shape) > MAX_WRITTEN:
            raise TooLargeError(
                f"FactorGraph: factor {factor} joins {len(shape)} variables, so its table of 2**{len(shape)} scores is "
                f"too large. Read its weight with graph.table."
            )
        statistic = statistic_table(int(self.table_kind[table]), float(self.table_truncation[table]), shape)
        return np.multiply(block[0], statistic, where=statistic != 0, out=np.zeros(statistic.shape))

    def variable_index(self, variable: int | str) -> int:
        """Return the index of a variable that is specified by index or by name."""
        if isinstance(variable, str):
            try:
                return self._index_of_name[variable]
            except KeyError:
                raise InvalidInputError(
                    f"There is no variable named {variable!r} in this graph. Use one of graph.names, or an index."
                ) from None
        is_integer = isinstance(variable, (int, np.integer)) and not isinstance(variable, bool)
        if not is_integer or not -self.n_variables <= variable < self.n_variables:
            raise InvalidInputError(
                f"Variable {variable!r} does not exist; the graph has {self.n_variables} variables, counted from 0. "
                f"Pass an integer below {self.n_variables}, or a name."
            )
        return int(variable) % self.n_variables

    @cached_property
    def _index_of_name(self) -> dict[str, int]:
        return {name: v for v, name in enumerate(self.names or ())}

    def pack(self, variables: ArrayLike | None = None, tables: ArrayLike | None = None) -> FloatArray:
        """Return a flat theta from arrays of log-potentials.

        Parameters
        ----------
        variables : array, optional
            Scores of all variables, flat or of shape (..., k) with n_variables rows in all, such as (height, width, k)
            for an image. Default: zero.
        tables : array, optional
            Scores of all tables, flat or of shape (n_tables, k, k), or the weights of parametric tables. Default: zero.
        """
        theta = self.zeros()
        split = int(self.variable_ptr[-1])
        for block, values, name in (
            (theta[:split], variables, "variables"),
            (theta[split:], tables, "tables"),
        ):
            if values is not None:
                flat = as_float_array(values, f"FactorGraph.pack: {name}").reshape(-1)
                if flat.size != block.size:
                    raise InvalidInputError(
                        f"FactorGraph.pack: {name} holds {flat.size} scores, but the graph needs {block.size}. "
                        f"Pass one score per state, or per joint state of a table."
                    )
                check_axes(self, np.shape(values), name)
                block[:] = flat
        return theta

    # ---------------------------------------------------------------- scores

    def check_theta(self, theta: ArrayLike) -> FloatArray:
        """Return theta as a float64 vector, or raise an error that names the first invalid entry."""
        return check_theta(self, theta)

    def locate(self, position: int) -> str:
        """Describe as a string which variable or table, and which state, an entry of theta belongs to."""
        if position < self.variable_ptr[-1]:
            v = int(np.searchsorted(self.variable_ptr, position, side="right")) - 1
            label = f" {self.names[v]!r}" if self.names else ""
            return f"variable {v}{label}, state {position - int(self.variable_ptr[v])}"
        t = int(np.searchsorted(self.table_ptr, position, side="right")) - 1
        offset = position - int(self.table_ptr[t])
        if self.table_kind[t] != FactorKind.TABLE:
            return f"table {t}, weight"
        shape = self.factor_shape(int(self.first_factor_of_table[t]))
        states = tuple(int(s) for s in np.unravel_index(offset, shape)) if shape else ()
        return f"table {t}, states {states}"

    def check_labelling(self, y: ArrayLike) -> IntArray:
        """Return labellings as an int array (..., n_variables), or raise naming the first invalid label."""
        return check_labelling(self, y)

    def score(self, theta: ArrayLike, y: ArrayLike) -> float | FloatArray:
        """Return the score `theta @ statistics(y)` of a labelling, or of each row of an array of labellings.

        Examples
        --------
        >>> graph = FactorGraph([2, 2], scope_ptr=[0, 2], scope_idx=[0, 1])
        >>> theta = graph.pack(variables=[[0, 1], [0, 2]], tables=[[[3, 0], [0, 3]]])
        >>> graph.score(theta, [1, 1])
        6.0
        >>> graph.score(theta, [[0, 0], [0, 1]])
        array([3., 2.])
        """
        return self.score_checked(self.check_theta(theta), self.check_labelling(y))

    def score_checked(self, theta: FloatArray, labels: IntArray) -> float | FloatArray:
        """Return what `score` returns, for scores and labellings that have been checked."""
        from intarsia._kernels.statistics import score_labellings

        scores: FloatArray = score_labellings(self._as_rows(labels), read_only(theta), *self.statistics_arguments)
        return float(scores[0]) if labels.ndim == 1 else scores.reshape(labels.shape[:-1])

    def statistics(self, y: ArrayLike) -> FloatArray:
        """Return the sufficient statistics of a labelling, summed over rows if there are several, like theta."""
        from intarsia._kernels.statistics import count_statistics

        labels = self._as_rows(self.check_labelling(y))
        counts: FloatArray = count_statistics(labels, self.n_theta, *self.statistics_arguments)
        return counts

    def _as_rows(self, labels: IntArray) -> IntArray:
        return labels.reshape(math.prod(labels.shape[:-1]), self.n_variables)

    @property
    def statistics_arguments(self) -> tuple[FloatArray | IntArray, ...]:
        """Arrays that the kernels for scores and statistics take, in their order of arguments."""
        return (
            self.n_states,
            self.variable_ptr,
            self.scope_ptr,
            self.scope_idx,
            self.table_of_factor,
            self.table_ptr,
            self.table_kind,
            self.table_truncation,
        )

    def __repr__(self) -> str:
        states = np.unique(self.n_states)
        span = f"{states[0]}" if states.size == 1 else f"{states[0]}..{states[-1]}" if states.size else "no"
        shared = f", {self.n_tables} tables" if self.shares_tables else ""
        grid = f", grid {self.grid_shape[0]}x{self.grid_shape[1]}" if self.grid_shape else ""
        return (
            f"FactorGraph({self.n_variables} variables with {span} states, {self.n_factors} factors of scope "
            f"<= {self.max_scope}{shared}{grid})"
        )
