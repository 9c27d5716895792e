"""Checks of a factor graph's arrays, scores and labellings; each error names the first offender."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import LARGEST_SCORE, FloatArray, IntArray, as_float_array, as_int_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_kinds import FactorKind, is_constraint

if TYPE_CHECKING:
    from intarsia.graph.factor_graph import FactorGraph


def check_scopes(scope_ptr: IntArray, scope_idx: IntArray, n_variables: int) -> None:
    """Refuse CSR lists that are broken, name a missing variable, or name one twice in a factor."""
    if scope_ptr.ndim != 1 or scope_ptr.size < 1 or scope_ptr[0] != 0 or scope_ptr[-1] != scope_idx.size:
        raise InvalidInputError(f"FactorGraph: scope_ptr must start at 0 and end at len(scope_idx)={scope_idx.size}.")
    widths = np.diff(scope_ptr)
    if widths.size and widths.min() < 0:
        raise InvalidInputError("FactorGraph: scope_ptr must not decrease.")
    outside = (scope_idx < 0) | (scope_idx >= n_variables)
    if outside.any():
        at = int(np.argmax(outside))
        c = int(np.searchsorted(scope_ptr, at, side="right")) - 1
        raise InvalidInputError(
            f"FactorGraph: factor {c} names variable {scope_idx[at]}, but there are {n_variables} variables "
            f"(0..{n_variables - 1})."
        )
    for width, factors, rows in scopes_by_width(scope_ptr, scope_idx):
        if width < 2:
            continue
        if width == 2:
            twice = rows[:, 0] == rows[:, 1]
        else:
            ordered = np.sort(rows, axis=1)
            twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if twice.any():
            c = int(factors[np.argmax(twice)])
            scope = scope_idx[scope_ptr[c] : scope_ptr[c + 1]].tolist()
            raise InvalidInputError(
                f"FactorGraph: factor {c} names a variable twice: {scope}. Name each variable of a factor once."
            )


def scopes_by_width(scope_ptr: IntArray, scope_idx: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Factors grouped by the number of their variables: width, factors, their scopes as rows."""
    widths = np.diff(scope_ptr)
    if widths.size == 0:
        return
    low, high = int(widths.min()), int(widths.max())
    if low == high:  # the usual case, without a copy
        yield low, np.arange(widths.size), scope_idx.reshape(widths.size, low)
        return
    for width in np.flatnonzero(np.bincount(widths)).tolist():
        factors = np.flatnonzero(widths == width)
        yield width, factors, scope_idx[scope_ptr[factors][:, None] + np.arange(width)]


def check_tables(table_of_factor: IntArray, n_factors: int) -> int:
    """Return the number of tables; refuse numbers that leave gaps."""
    if table_of_factor.shape != (n_factors,):
        raise InvalidInputError(
            f"FactorGraph: table_of_factor has shape {table_of_factor.shape}, but there are {n_factors} factors."
        )
    if n_factors == 0:
        return 0
    n_tables = int(table_of_factor.max()) + 1
    if table_of_factor.min() < 0 or n_tables > n_factors:
        raise InvalidInputError("FactorGraph: table_of_factor must number the tables 0, 1, 2, ... without gaps.")
    unused = np.bincount(table_of_factor, minlength=n_tables) == 0
    if unused.any():
        raise InvalidInputError(
            f"FactorGraph: no factor uses table {int(np.argmax(unused))}. Number the tables without gaps."
        )
    return n_tables


def table_sizes(
    n_states: IntArray,
    scope_ptr: IntArray,
    scope_idx: IntArray,
    table_of_factor: IntArray,
    kind: IntArray,
    n_tables: int,
) -> IntArray:
    """Entries of each table; factors that share one must agree in shape."""
    widths = np.diff(scope_ptr)
    n_factors = widths.size
    first = np.zeros(n_tables, dtype=np.int64)
    first[table_of_factor[::-1]] = np.arange(n_factors - 1, -1, -1)
    size = np.ones(n_tables, dtype=np.int64)
    for width, factors, scopes in scopes_by_width(scope_ptr, scope_idx):
        shapes = n_states[scopes]
        own = table_of_factor[factors]
        model = first[own]
        same = widths[model] == width
        if same.all() and (model != factors).any():
            model_shapes = n_states[scope_idx[scope_ptr[model][:, None] + np.arange(width)]]
            same = (shapes == model_shapes).all(axis=1)
        if not same.all():
            at = int(np.argmin(same))
            raise InvalidInputError(
                f"FactorGraph: factors {model[at]} and {factors[at]} share table {own[at]} but "
                f"differ in shape. Give them tables of their own."
            )
        # Column by column: NumPy's reductions along a short axis are slow. Products are exact as far as 2**53.
        entries = np.ones(factors.size)
        equal = np.full(factors.size, width == 2)
        for k in range(width):
            with np.errstate(over="ignore"):
                entries *= shapes[:, k]
            equal &= shapes[:, k] == shapes[:, 0]
        counted = is_constraint(kind[own])
        not_binary = counted & (shapes != 2).any(axis=1)
        if not_binary.any():
            raise InvalidInputError(
                f"FactorGraph: factor {int(factors[np.argmax(not_binary)])} is a constraint, but not all its variables "
                f"have two states. Constraints count binary variables in state 1."
            )
        entries[counted] = 1.0
        if entries.max() > 2.0**40:
            c = int(np.argmax(entries))
            raise InvalidInputError(
                f"FactorGraph: the table of factor {factors[c]} would have 2**{np.log2(shapes[c]).sum():.0f} entries. "
                f"Use smaller scopes."
            )
        size[own] = entries
        bad = (kind[own] != FactorKind.TABLE) & ~counted & ~equal
        if bad.any():
            raise InvalidInputError(
                f"FactorGraph: factor {int(factors[np.argmax(bad)])} is parametric (Potts or truncated), which needs "
                f"exactly two variables with equally many states. Use FactorKind.TABLE."
            )
    unknown = (kind < 0) | (kind > max(FactorKind))
    if unknown.any():
        raise InvalidInputError(f"FactorGraph: table {int(np.argmax(unknown))} has no known kind. See FactorKind.")
    size[kind != FactorKind.TABLE] = 1
    return size


def check_index(index: int, count: int, what: str) -> None:
    """Refuse the index of a variable, factor or table that does not exist."""
    if not 0 <= index < count:
        raise InvalidInputError(f"FactorGraph: there is no {what} {index}; they are numbered 0..{count - 1}.")


def check_names(names: Sequence[str], n_variables: int) -> None:
    """Refuse names that are not one for each variable, or not unique."""
    if len(names) != n_variables:
        raise InvalidInputError(f"FactorGraph: {len(names)} names for {n_variables} variables.")
    if len(set(names)) != n_variables:
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InvalidInputError(f"FactorGraph: the name {twice!r} is given twice. Names must be unique.")


def check_theta(graph: FactorGraph, theta: ArrayLike) -> FloatArray:
    """Return theta as a float64 vector, or raise naming the first entry that cannot be meant."""
    flat = as_float_array(theta, "theta")
    if flat.shape != (graph.n_theta,):
        raise InvalidInputError(
            f"theta has shape {flat.shape}, but this graph needs ({graph.n_theta},): "
            f"{int(graph.variable_ptr[-1])} entries for {graph.n_variables} variables, then "
            f"{graph.n_theta - int(graph.variable_ptr[-1])} for {graph.n_tables} tables. Use graph.pack(...)."
        )
    # Two passes without a temporary settle the usual case; a NaN makes the largest one NaN.
    if flat.size and not (flat.max() <= LARGEST_SCORE and flat.min() >= -LARGEST_SCORE):
        bad = np.isnan(flat) | ((np.abs(flat) > LARGEST_SCORE) & (flat > -np.inf))
        if bad.any():
            at = int(np.argmax(bad))
            large = f" and at most {LARGEST_SCORE:g}" if np.isfinite(flat[at]) else ""
            raise InvalidInputError(
                f"theta[{at}] ({graph.locate(at)}) is {flat[at]}. Scores are finite{large}, or -inf for the impossible."
            )
    smooth = (graph.table_kind >= FactorKind.TRUNCATED_LINEAR) & ~is_constraint(graph.table_kind)
    if smooth.any() and not np.isfinite(flat[graph.table_ptr[:-1][smooth]]).all():
        at = int(graph.table_ptr[:-1][smooth][~np.isfinite(flat[graph.table_ptr[:-1][smooth]])][0])
        raise InvalidInputError(f"theta[{at}] ({graph.locate(at)}) is -inf; a truncated weight must be finite.")
    prices = np.flatnonzero(is_constraint(graph.table_kind))
    if prices.size and flat[graph.table_ptr[prices]].max() > 0:
        at = int(graph.table_ptr[prices[np.argmax(flat[graph.table_ptr[prices]] > 0)]])
        raise InvalidInputError(
            f"theta[{at}] ({graph.locate(at)}) is {flat[at]}. The weight of a constraint is what it costs to "
            f"violate it: -inf to forbid it, or a finite score of at most 0."
        )
    return flat


def check_labelling(graph: FactorGraph, y: ArrayLike) -> IntArray:
    """Return labellings as an int array (..., n_variables), or raise naming the first bad label."""
    labels = as_int_array(y, "y")
    if labels.ndim == 0 or labels.shape[-1] != graph.n_variables:
        raise InvalidInputError(
            f"y has shape {labels.shape}, but the last axis must hold one label for each of the "
            f"{graph.n_variables} variables."
        )
    bad = (labels < 0) | (labels >= graph.n_states)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        v = where[-1]
        raise InvalidInputError(
            f"y{list(where)} is {labels[where]}, but variable {v} has states 0..{graph.n_states[v] - 1}."
        )
    return labels


def check_axes(graph: FactorGraph, shape: tuple[int, ...], name: str) -> None:
    """Refuse scores whose last axes are not those of a block, such as a transposed array."""
    if name == "variables":
        blocks = {(int(k),) for k in np.unique(graph.n_states)}
    else:
        blocks = {graph.table(graph.zeros(), t).shape for t in range(min(graph.n_tables, 1))}
        if np.unique(np.diff(graph.table_ptr)).size > 1:
            blocks = set()
    if len(shape) > 1 and len(blocks) == 1:
        block = next(iter(blocks))
        if shape[len(shape) - len(block) :] != block and not (block == (1,) and np.prod(shape) == graph.n_tables):
            raise InvalidInputError(
                f"FactorGraph.pack: {name} has shape {shape}, but its last axes must be those of a block, {block}."
            )
