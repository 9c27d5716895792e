"""Conditioning: substitute known values of variables into a hinge-loss Markov random field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array, frozen, read_only
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF

_VIOLATION_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class ConditionedMRF:
    """A hinge-loss Markov random field over the free variables, after conditioning on the others.

    Attributes
    ----------
    model : HingeLossMRF
        Model over the free variables, renumbered from 0. Terms and constraints without free variables are removed.
    free : int array
        Number of each free variable in the original model.
    fixed : float array (n_groups,)
        Features of the removed terms.

    Examples
    --------
    max(0, z - y) with weight 3, conditioned on y = 1/4, is a hinge of z alone, which was variable 0.

    >>> rows = LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0])
    >>> conditioned = condition(HingeLossMRF(2, rows, 3.0, 1), [np.nan, 0.25])
    >>> conditioned.free.tolist(), conditioned.model.terms.values([1.0]), conditioned.model.weight.tolist()
    ([0], array([0.75]), [3.0])
    """

    model: HingeLossMRF
    free: IntArray
    fixed: FloatArray


def condition(model: HingeLossMRF, values: ArrayLike) -> ConditionedMRF:
    """Substitute known values of variables into a model.

    Parameters
    ----------
    model : HingeLossMRF
        The model.
    values : float array (n_variables,)
        Known values in [0, 1]; NaN for free variables.

    Returns
    -------
    ConditionedMRF
        The model over the free variables.

    Raises
    ------
    InvalidInputError
        A value is outside [0, 1], or the values alone violate a constraint; the message names it.

    Examples
    --------
    With y = 1/2, max(0, z - y)^2 becomes a term of z, and max(0, y)^2 becomes a constant.

    >>> rows = LinearRows([0, 2, 3], [0, 1, 1], [1.0, -1.0, 1.0], [0.0, 0.0])
    >>> conditioned = condition(HingeLossMRF(2, rows, 1.0, 2, term_group=[0, 1]), [np.nan, 0.5])
    >>> conditioned.model.terms.values([0.75]), conditioned.fixed
    (array([0.25]), array([0.  , 0.25]))
    """
    known_values = check_values(values, model.n_variables, "condition: values")
    free = np.flatnonzero(np.isnan(known_values))
    terms, is_open = _substitute(model.terms, known_values, free)
    is_constant = ~is_open
    group = np.arange(model.n_terms, dtype=np.int32) if model.term_group is None else model.term_group
    excess = np.maximum(terms.const[is_constant], 0.0)
    feature = np.where(model.power[is_constant] == 2, excess * excess, excess)
    fixed = np.bincount(group[is_constant], weights=feature, minlength=model.n_groups)
    equalities, equality_group = _constraints(model, True, known_values, free)
    inequalities, inequality_group = _constraints(model, False, known_values, free)
    names = model.group_names or tuple(model.name_of_group(k) for k in range(model.n_groups))
    conditioned = HingeLossMRF(
        free.size,
        _select(terms, is_open),
        model.weight[is_open],
        model.power[is_open],
        group[is_open],
        equalities,
        inequalities,
        equality_group,
        inequality_group,
        names,
    )
    return ConditionedMRF(conditioned, read_only(frozen(free)), read_only(frozen(fixed)))


def check_values(values: ArrayLike, n_variables: int, name: str) -> FloatArray:
    """Check known values of variables, NaN where unknown, and return them as a new array.

    Examples
    --------
    >>> check_values([1, np.nan], 2, "labels")
    array([ 1., nan])
    """
    array = as_float_array(values, name).copy()
    if array.shape != (n_variables,):
        raise InvalidInputError(
            f"{name} has shape {array.shape}, but there are {n_variables} variables. Pass a value for each, NaN "
            f"where it is unknown."
        )
    bad = (array < 0.0) | (array > 1.0)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidInputError(f"{name}[{i}] is {array[i]}. Pass values in [0, 1], NaN where unknown.")
    return array


def _constraints(
    model: HingeLossMRF, equal: bool, values: FloatArray, free: IntArray
) -> tuple[LinearRows | None, Index32 | None]:
    """Substitute known values into the equalities or inequalities; raise if the values alone violate one."""
    name = "equality" if equal else "inequality"
    rows, group = (model.equalities, model.equality_group) if equal else (model.inequalities, model.inequality_group)
    if rows is None:
        return None, None
    substituted, is_open = _substitute(rows, values, free)
    violation = np.abs(substituted.const) if equal else np.maximum(substituted.const, 0.0)
    violation = np.where(is_open, 0.0, violation)
    if violation.size and violation.max() > _VIOLATION_TOL:
        j = int(np.argmax(violation))
        rule = "" if group is None else f" of {model.name_of_group(int(group[j]))!r}"
        raise InvalidInputError(
            f"condition: the known values alone violate {name} {j}{rule} by {violation[j]:.3g}. Correct the values, "
            f"leave some of them unknown, or give the rule a weight instead of making it hard."
        )
    return _select(substituted, is_open), None if group is None else group[is_open]


def _substitute(rows: LinearRows, values: FloatArray, free: IntArray) -> tuple[LinearRows, NDArray[np.bool_]]:
    """Return the rows as functions of the renumbered free variables, and which rows contain a free variable."""
    matrix = rows.to_scipy(values.size)
    free_columns = matrix[:, free]
    const = rows.const + matrix @ np.nan_to_num(values)
    substituted = LinearRows(
        free_columns.indptr.astype(np.int64), free_columns.indices.astype(np.int32), free_columns.data, const
    )
    return substituted, np.diff(substituted.ptr) > 0


def _select(rows: LinearRows, mask: NDArray[np.bool_]) -> LinearRows:
    """Return the rows in the mask; the other rows must have no entries."""
    return LinearRows(np.append(rows.ptr[:-1][mask], rows.n_entries), rows.idx, rows.coef, rows.const[mask])
