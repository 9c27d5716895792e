"""A hinge-loss model in which some variables are known: their values put into the terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array, frozen, read_only
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF

_BROKEN = 1e-6


@dataclass(frozen=True, eq=False)
class ConditionedMRF:
    """What is left of a model when some variables are known.

    Attributes
    ----------
    model : HingeLossMRF
        Over the others, numbered anew; terms and constraints without any of them are gone.
    free : int array
        What each variable of it was in the model given.
    fixed : float array (n_groups,)
        Features of the terms that are gone.

    Examples
    --------
    max(0, z - y) with the weight 3 where y = 1/4: a hinge of z alone, which was variable 0.

    >>> rows = LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0])
    >>> known = condition(HingeLossMRF(2, rows, 3.0, 1), [np.nan, 0.25])
    >>> known.free.tolist(), known.model.terms.values([1.0]), known.model.weight.tolist()
    ([0], array([0.75]), [3.0])
    """

    model: HingeLossMRF
    free: IntArray
    fixed: FloatArray


def condition(model: HingeLossMRF, values: ArrayLike) -> ConditionedMRF:
    """Put known values into a model.

    Parameters
    ----------
    model : HingeLossMRF
        Any.
    values : float array (n_variables,)
        In [0, 1] where known; NaN elsewhere.

    Raises
    ------
    InvalidInputError
        If a value is outside [0, 1], or the values alone break a constraint, which is named.

    Examples
    --------
    max(0, z - y)^2 and max(0, y)^2 with y = 1/2: of the first a term of z is left, of the second a number.

    >>> rows = LinearRows([0, 2, 3], [0, 1, 1], [1.0, -1.0, 1.0], [0.0, 0.0])
    >>> known = condition(HingeLossMRF(2, rows, 1.0, 2, term_group=[0, 1]), [np.nan, 0.5])
    >>> known.model.terms.values([0.75]), known.fixed
    (array([0.25]), array([0.  , 0.25]))
    """
    given = check_values(values, model.n_variables, "condition: values")
    free = np.flatnonzero(np.isnan(given))
    terms, is_open = _put_in(model.terms, given, free)
    closed = ~is_open
    group = np.arange(model.n_terms, dtype=np.int32) if model.term_group is None else model.term_group
    excess = np.maximum(terms.const[closed], 0.0)
    reached = np.where(model.power[closed] == 2, excess * excess, excess)
    fixed = np.bincount(group[closed], weights=reached, minlength=model.n_groups)
    equalities, equality_group = _constraints(model, True, given, free)
    inequalities, inequality_group = _constraints(model, False, given, free)
    names = model.group_names or tuple(model.name_of_group(k) for k in range(model.n_groups))
    left = HingeLossMRF(
        free.size,
        _chosen(terms, is_open),
        model.weight[is_open],
        model.power[is_open],
        group[is_open],
        equalities,
        inequalities,
        equality_group,
        inequality_group,
        names,
    )
    return ConditionedMRF(left, read_only(frozen(free)), read_only(frozen(fixed)))


def check_values(given: ArrayLike, n_variables: int, name: str) -> FloatArray:
    """Known values of variables, NaN where unknown.

    Examples
    --------
    >>> check_values([1, np.nan], 2, "labels")
    array([ 1., nan])
    """
    values = as_float_array(given, name).copy()
    if values.shape != (n_variables,):
        raise InvalidInputError(
            f"{name} has shape {values.shape}, but there are {n_variables} variables. Give a value for each, NaN "
            f"where it is unknown."
        )
    bad = (values < 0.0) | (values > 1.0)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidInputError(f"{name}[{i}] is {values[i]}. Give values in [0, 1], NaN where unknown.")
    return values


def _constraints(
    model: HingeLossMRF, equal: bool, values: FloatArray, free: IntArray
) -> tuple[LinearRows | None, Index32 | None]:
    name = "equality" if equal else "inequality"
    rows, group = (model.equalities, model.equality_group) if equal else (model.inequalities, model.inequality_group)
    if rows is None:
        return None, None
    reduced, is_open = _put_in(rows, values, free)
    broken = np.abs(reduced.const) if equal else np.maximum(reduced.const, 0.0)
    broken = np.where(is_open, 0.0, broken)
    if broken.size and broken.max() > _BROKEN:
        j = int(np.argmax(broken))
        rule = "" if group is None else f" of {model.name_of_group(int(group[j]))!r}"
        raise InvalidInputError(
            f"condition: the known values alone break {name} {j}{rule} by {broken[j]:.3g}. Correct them, leave some of "
            f"them unknown, or give the rule a weight instead of making it hard."
        )
    return _chosen(reduced, is_open), None if group is None else group[is_open]


def _put_in(rows: LinearRows, values: FloatArray, free: IntArray) -> tuple[LinearRows, NDArray[np.bool_]]:
    """The rows as functions of the free variables, numbered anew, and which of them have any."""
    matrix = rows.to_scipy(values.size)
    reduced = matrix[:, free]
    const = rows.const + matrix @ np.nan_to_num(values)
    made = LinearRows(reduced.indptr.astype(np.int64), reduced.indices.astype(np.int32), reduced.data, const)
    return made, np.diff(made.ptr) > 0


def _chosen(rows: LinearRows, which: NDArray[np.bool_]) -> LinearRows:
    """Rows of which only some without entries are left out."""
    return LinearRows(np.append(rows.ptr[:-1][which], rows.n_entries), rows.idx, rows.coef, rows.const[which])
