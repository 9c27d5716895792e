"""Checks of the arrays, scores and labellings of a factor graph; each error names the first invalid value."""

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
    """Raise if the CSR scopes are malformed, name a variable that does not exist, or repeat one within a factor."""
    if scope_ptr.ndim != 1 or scope_ptr.size < 1 or scope_ptr[0] != 0 or scope_ptr[-1] != scope_idx.size:
        raise InvalidInputError(f"FactorGraph: scope_ptr must start at 0 and end at len(scope_idx)={scope_idx.size}.")
    widths = np.diff(scope_ptr)
    if widths.size and widths.min() < 0:
        raise InvalidInputError("FactorGraph: scope_ptr must not decrease.")
    outside = (scope_idx < 0) | (scope_idx >= n_variables)
    if outside.any():
        position = int(np.argmax(outside))
        c = int(np.searchsorted(scope_ptr, position, side="right")) - 1
        raise InvalidInputError(
            f"FactorGraph: factor {c} names variable {scope_idx[position]}, but there are {n_variables} variables "
            f"(0..{n_variables - 1}). Pass indices of existing variables in scope_idx."
        )
    for width, factors, rows in scopes_by_width(scope_ptr, scope_idx):
        if width < 2:
            continue
        if width == 2:
            has_repeat = rows[:, 0] == rows[:, 1]
        else:
            sorted_rows = np.sort(rows, axis=1)
            has_repeat = (sorted_rows[:, 1:] == sorted_rows[:, :-1]).any(axis=1)
        if has_repeat.any():
            c = int(factors[np.argmax(has_repeat)])
            scope = scope_idx[scope_ptr[c] : scope_ptr[c + 1]].tolist()
            raise InvalidInputError(
                f"FactorGraph: factor {c} names a variable twice: {scope}. Use each variable once per factor."
            )


def scopes_by_width(scope_ptr: IntArray, scope_idx: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Group factors by their number of variables; yield width, factors, and their scopes as rows."""
    widths = np.diff(scope_ptr)
    if widths.size == 0:
        return
    low, high = int(widths.min()), int(widths.max())
    if low == high:  # the common case needs no copy
        yield low, np.arange(widths.size), scope_idx.reshape(widths.size, low)
        return
    for width in np.flatnonzero(np.bincount(widths)).tolist():
        factors = np.flatnonzero(widths == width)
        yield width, factors, scope_idx[scope_ptr[factors][:, None] + np.arange(width)]


def check_tables(table_of_factor: IntArray, n_factors: int) -> int:
    """Return the number of tables, or raise if the tables are not numbered without gaps."""
    if table_of_factor.shape != (n_factors,):
        raise InvalidInputError(
            f"FactorGraph: table_of_factor has shape {table_of_factor.shape}, but there are {n_factors} factors. "
            f"Pass one table index per factor."
        )
    if n_factors == 0:
        return 0
    n_tables = int(table_of_factor.max()) + 1
    if table_of_factor.min() < 0 or n_tables > n_factors:
        raise InvalidInputError("FactorGraph: table_of_factor must number the tables 0, 1, 2, ... without gaps.")
    unused = np.bincount(table_of_factor, minlength=n_tables) == 0
    if unused.any():
        raise InvalidInputError(
            f"FactorGraph: no factor uses table {int(np.argmax(unused))}. Tables must be numbered without gaps."
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
    """Return the number of entries of each table, or raise if factors that share a table differ in shape."""
    widths = np.diff(scope_ptr)
    n_factors = widths.size
    first = np.zeros(n_tables, dtype=np.int64)
    first[table_of_factor[::-1]] = np.arange(n_factors - 1, -1, -1)
    size = np.ones(n_tables, dtype=np.int64)
    for width, factors, scopes in scopes_by_width(scope_ptr, scope_idx):
        shapes = n_states[scopes]
        tables = table_of_factor[factors]
        first_factors = first[tables]
        same_shape = widths[first_factors] == width
        if same_shape.all() and (first_factors != factors).any():
            model_shapes = n_states[scope_idx[scope_ptr[first_factors][:, None] + np.arange(width)]]
            same_shape = (shapes == model_shapes).all(axis=1)
        if not same_shape.all():
            position = int(np.argmin(same_shape))
            raise InvalidInputError(
                f"FactorGraph: factors {first_factors[position]} and {factors[position]} share table "
                f"{tables[position]} but differ in shape. Use separate tables for them."
            )
        # Multiply column by column, because NumPy's reductions along a short axis are slow. Exact up to 2**53.
        entries = np.ones(factors.size)
        equal = np.full(factors.size, width == 2)
        for k in range(width):
            with np.errstate(over="ignore"):
                entries *= shapes[:, k]
            equal &= shapes[:, k] == shapes[:, 0]
        constraint = is_constraint(kind[tables])
        not_binary = constraint & (shapes != 2).any(axis=1)
        if not_binary.any():
            raise InvalidInputError(
                f"FactorGraph: factor {int(factors[np.argmax(not_binary)])} is a constraint, but not all its variables "
                f"have two states. Use only binary variables in a constraint."
            )
        entries[constraint] = 1.0
        if entries.max() > 2.0**40:
            c = int(np.argmax(entries))
            raise InvalidInputError(
                f"FactorGraph: the table of factor {factors[c]} would have 2**{np.log2(shapes[c]).sum():.0f} entries. "
                f"Use smaller scopes."
            )
        size[tables] = entries
        bad = (kind[tables] != FactorKind.TABLE) & ~constraint & ~equal
        if bad.any():
            raise InvalidInputError(
                f"FactorGraph: factor {int(factors[np.argmax(bad)])} is parametric (Potts or truncated), which needs "
                f"exactly two variables with equally many states. Use FactorKind.TABLE."
            )
    unknown = (kind < 0) | (kind > max(FactorKind))
    if unknown.any():
        t = int(np.argmax(unknown))
        raise InvalidInputError(f"FactorGraph: table {t} has the unknown kind {kind[t]}. Use a value of FactorKind.")
    size[kind != FactorKind.TABLE] = 1
    return size


def check_index(index: int, count: int, element: str) -> None:
    """Raise if a variable, factor or table with this index does not exist."""
    if not 0 <= index < count:
        raise InvalidInputError(f"FactorGraph: there is no {element} {index}. The index must be in 0..{count - 1}.")


def check_names(names: Sequence[str], n_variables: int) -> None:
    """Raise unless there is one unique name per variable."""
    if len(names) != n_variables:
        raise InvalidInputError(
            f"FactorGraph: there are {len(names)} names for {n_variables} variables. Pass one name per variable."
        )
    if len(set(names)) != n_variables:
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        raise InvalidInputError(f"FactorGraph: the name {repeated!r} occurs twice. Names must be unique.")


def check_theta(graph: FactorGraph, theta: ArrayLike) -> FloatArray:
    """Return theta as a float64 vector, or raise an error that names the first invalid entry."""
    flat = as_float_array(theta, "theta")
    if flat.shape != (graph.n_theta,):
        raise InvalidInputError(
            f"theta has shape {flat.shape}, but this graph needs ({graph.n_theta},): "
            f"{int(graph.variable_ptr[-1])} entries for {graph.n_variables} variables, then "
            f"{graph.n_theta - int(graph.variable_ptr[-1])} for {graph.n_tables} tables. Use graph.pack(...)."
        )
    # Two passes without a temporary array cover the common case; a NaN makes the maximum NaN.
    if flat.size and not (flat.max() <= LARGEST_SCORE and flat.min() >= -LARGEST_SCORE):
        bad = np.isnan(flat) | ((np.abs(flat) > LARGEST_SCORE) & (flat > -np.inf))
        if bad.any():
            position = int(np.argmax(bad))
            large = f" and at most {LARGEST_SCORE:g}" if np.isfinite(flat[position]) else ""
            raise InvalidInputError(
                f"theta[{position}] ({graph.locate(position)}) is {flat[position]}. Scores must be finite{large}, or "
                f"-inf for impossible states."
            )
    if not graph.table_kind.any():  # the other checks are of parametric factors
        return flat
    truncated = (graph.table_kind >= FactorKind.TRUNCATED_LINEAR) & ~is_constraint(graph.table_kind)
    if truncated.any() and not np.isfinite(flat[graph.table_ptr[:-1][truncated]]).all():
        position = int(graph.table_ptr[:-1][truncated][~np.isfinite(flat[graph.table_ptr[:-1][truncated]])][0])
        raise InvalidInputError(
            f"theta[{position}] ({graph.locate(position)}) is -inf, but the weight of a truncated factor must be "
            f"finite."
        )
    constraints = np.flatnonzero(is_constraint(graph.table_kind))
    if constraints.size and flat[graph.table_ptr[constraints]].max() > 0:
        position = int(graph.table_ptr[constraints[np.argmax(flat[graph.table_ptr[constraints]] > 0)]])
        raise InvalidInputError(
            f"theta[{position}] ({graph.locate(position)}) is {flat[position]}, but the weight of a constraint is a "
            f"penalty. Use -inf to forbid violations, or a finite score of at most 0."
        )
    return flat


def check_labelling(graph: FactorGraph, y: ArrayLike) -> IntArray:
    """Return labellings as an int array (..., n_variables), or raise naming the first invalid label."""
    labels = as_int_array(y, "y")
    if labels.ndim == 0 or labels.shape[-1] != graph.n_variables:
        raise InvalidInputError(
            f"y has shape {labels.shape}, but the last axis must hold one label for each of the "
            f"{graph.n_variables} variables."
        )
    bad = (labels < 0) | (labels >= graph.n_states)
    if bad.any():
        position = tuple(int(i) for i in np.argwhere(bad)[0])
        v = position[-1]
        raise InvalidInputError(
            f"y{list(position)} is {labels[position]}, but the label of variable {v} must be in "
            f"0..{graph.n_states[v] - 1}."
        )
    return labels


def check_axes(graph: FactorGraph, shape: tuple[int, ...], name: str) -> None:
    """Raise if the last axes of an array of scores differ from those of a block, as in a transposed array."""
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
