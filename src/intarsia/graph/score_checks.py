"""What scores and labellings of a factor graph must fulfil; each check names the first offender."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from intarsia._validation import LARGEST_SCORE, FloatArray, IntArray, as_float_array, as_int_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_kinds import FactorKind, is_constraint

if TYPE_CHECKING:  # it calls these
    from intarsia.graph.factor_graph import FactorGraph


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
