"""Hinge-loss Markov random fields, stored as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, as_float_array, as_int_array, check_number, frozen, read_only
from intarsia._kernels.linear_rows import hinge_features, hinge_objective
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows


@dataclass(frozen=True, eq=False, repr=False)
class HingeLossMRF:
    r"""Hinge-loss Markov random field: weighted hinges of linear functions over the unit box (Bach2015, Definition 1).

    .. math:: \min_{x \in [0, 1]^n} \sum_j w_j \max(0, \ell_j(x))^{p_j} \quad \text{subject to } e(x) = 0,\; g(x) \le 0

    Build it directly, or from rules with `ground`. Write an absolute value as two hinges. The probability density of x
    is proportional to exp(-objective), so the minimum is the most probable state (MAP). The model is immutable and
    checked when it is created; `with_weights` returns a model that shares all other arrays.

    Parameters
    ----------
    n_variables : int
        Number of variables n.
    terms : LinearRows
        Linear functions l inside the hinges.
    weight : float array (n_terms,) or float
        Weights w, at least 0.
    power : int array (n_terms,) or int
        Powers p: 1 (linear hinge) or 2 (squared hinge).
    term_group : int array (n_terms,), optional
        Group (rule) of each term; the terms of a group share a weight. By default every term is its own group.
    equalities, inequalities : LinearRows, optional
        Linear functions e and g of the constraints.
    equality_group, inequality_group : int arrays, optional
        Group (rule) of each constraint.
    group_names : sequence of str
        Names of the groups, used in messages.

    Raises
    ------
    InvalidInputError
        A number is not finite, a weight is negative, a power is neither 1 nor 2, a variable or group is out of range,
        or the lengths of arrays are mismatched.

    Examples
    --------
    Minimize 2 max(0, 0.8 - x0)^2 subject to x0 = x1:

    >>> model = HingeLossMRF(
    ...     2,
    ...     LinearRows([0, 1], [0], [-1.0], [0.8]),
    ...     weight=2.0,
    ...     power=2,
    ...     equalities=LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]),
    ... )
    >>> model.objective([0.3, 0.0]), model.max_violation([0.3, 0.0])
    (0.5, 0.3)
    """

    n_variables: int
    terms: LinearRows
    weight: FloatArray
    power: NDArray[np.int8]
    term_group: Index32 | None = None
    equalities: LinearRows | None = None
    inequalities: LinearRows | None = None
    equality_group: Index32 | None = None
    inequality_group: Index32 | None = None
    group_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number(self.n_variables, "HingeLossMRF: n_variables", low=0, high=2**31 - 1, integer=True)
        object.__setattr__(self, "n_variables", int(self.n_variables))
        object.__setattr__(self, "group_names", tuple(str(name) for name in self.group_names))
        for name in ("terms", "equalities", "inequalities"):
            self._check_rows(name)
        self._set("weight", _weights(self.weight, self.n_terms))
        self._set("power", _powers(self.power, self.n_terms))
        for name, rows in (("term", self.terms), ("equality", self.equalities), ("inequality", self.inequalities)):
            self._set_group(f"{name}_group", 0 if rows is None else rows.n_rows)

    @property
    def n_terms(self) -> int:
        """Number of hinges."""
        return self.terms.n_rows

    @property
    def n_constraints(self) -> int:
        """Number of equalities and inequalities."""
        return sum(rows.n_rows for rows in (self.equalities, self.inequalities) if rows is not None)

    @property
    def n_groups(self) -> int:
        """Number of groups, which is the number of weights."""
        if self.group_names:
            return len(self.group_names)
        if self.term_group is None:
            return self.n_terms
        return int(self.term_group.max(initial=-1)) + 1

    def objective(self, x: ArrayLike) -> float:
        """Return the weighted sum of the hinges at `x`; constraints are ignored.

        Examples
        --------
        >>> HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 3.0, 1).objective([0.5])
        1.5
        """
        rows = self.terms
        return float(
            hinge_objective(rows.ptr, rows.idx, rows.coef, rows.const, self.weight, self.power, self._point(x))
        )

    def features(self, x: ArrayLike) -> FloatArray:
        """Return the sum of `max(0, l)^p` over the terms of each group; the objective is their weighted sum.

        Examples
        --------
        >>> rows = LinearRows([0, 1, 2, 3], [0, 0, 0], [1.0, 1.0, -1.0], [0.0, 0.5, 1.0])
        >>> HingeLossMRF(1, rows, 1.0, [1, 2, 1], term_group=[0, 0, 1]).features([0.5])
        array([1.5, 0.5])
        """
        point = self._point(x)
        group = read_only(np.arange(self.n_terms, dtype=np.int32)) if self.term_group is None else self.term_group
        out = np.zeros(self.n_groups)
        rows = self.terms
        hinge_features(rows.ptr, rows.idx, rows.coef, rows.const, self.power, group, point, out)
        return out

    def max_violation(self, x: ArrayLike) -> float:
        """Return the largest violation of a constraint or of the bounds 0 and 1 at `x`; 0 if there is none."""
        point = self._point(x)
        worst = max(float(point.max(initial=0.0)) - 1.0, -float(point.min(initial=1.0)), 0.0)
        if self.equalities is not None:
            worst = max(worst, float(np.abs(self.equalities.values(point)).max(initial=0.0)))
        if self.inequalities is not None:
            worst = max(worst, float(self.inequalities.values(point).max(initial=0.0)))
        return worst

    def with_weights(self, group_weights: ArrayLike) -> HingeLossMRF:
        """Return a model with other weights, one per group, that shares all other arrays.

        Examples
        --------
        >>> model = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0, 1]), 1.0, 1, term_group=[0, 1])
        >>> model.with_weights([3.0, 5.0]).weight
        array([3., 5.])
        """
        weights = as_float_array(group_weights, "HingeLossMRF.with_weights: group_weights")
        if weights.shape != (self.n_groups,):
            raise InvalidInputError(
                f"HingeLossMRF.with_weights: group_weights has shape {weights.shape}, but there are {self.n_groups} "
                f"groups. Pass one weight per group."
            )
        if not (weights >= 0).all() or np.isinf(weights).any():
            k = int(np.argmax(~((weights >= 0) & np.isfinite(weights))))
            raise InvalidInputError(
                f"HingeLossMRF.with_weights: group_weights[{k}] is {weights[k]}. Weights must be finite and at least 0."
            )
        per_term = weights.copy() if self.term_group is None else weights[self.term_group]
        return self._with_term_weights(read_only(frozen(per_term)))

    def name_of_group(self, group: int) -> str:
        """Return the name of a group, such as the text of its rule; "group 3" if it has no name."""
        return self.group_names[group] if group < len(self.group_names) else f"group {group}"

    def _with_term_weights(self, weight: FloatArray) -> HingeLossMRF:
        """Return a model with other weights, unchecked: learners call this at every step with checked weights."""
        model = object.__new__(type(self))
        for name in self.__dataclass_fields__:
            object.__setattr__(model, name, getattr(self, name))
        object.__setattr__(model, "weight", weight)
        return model

    def _check_rows(self, name: str) -> None:
        """Raise if a field is not LinearRows or contains a variable that does not exist."""
        rows = getattr(self, name)
        if rows is None and name != "terms":
            return
        if not isinstance(rows, LinearRows):
            raise InvalidInputError(f"HingeLossMRF: {name} must be LinearRows, got {type(rows).__name__}.")
        if rows.n_entries and int(rows.idx.max()) >= self.n_variables:
            e = int(np.argmax(rows.idx >= self.n_variables))
            row = int(np.searchsorted(rows.ptr, e, side="right")) - 1
            raise InvalidInputError(
                f"HingeLossMRF: {name}, row {row}, contains variable {rows.idx[e]}, but there are {self.n_variables} "
                f"variables, numbered from 0. Correct the row, or increase n_variables."
            )

    def _set(self, name: str, array: NDArray[Any]) -> None:
        """Set a field to a read-only array."""
        object.__setattr__(self, name, read_only(frozen(array, getattr(self, name))))

    def _set_group(self, name: str, n_rows: int) -> None:
        """Check the groups of terms or constraints and store them as int32."""
        values = getattr(self, name)
        if values is None:
            return
        array = as_int_array(values, f"HingeLossMRF: {name}")
        if array.shape != (n_rows,):
            raise InvalidInputError(f"HingeLossMRF: {name} has shape {array.shape}, expected ({n_rows},).")
        n_groups = len(self.group_names) or np.iinfo(np.int32).max
        bad = (array < 0) | (array >= n_groups)
        if bad.any():
            j = int(np.argmax(bad))
            last = str(n_groups - 1) if self.group_names else "2**31 - 2"
            raise InvalidInputError(f"HingeLossMRF: {name}[{j}] is {array[j]}, expected a group from 0 to {last}.")
        is_int32 = isinstance(values, np.ndarray) and values.dtype == np.int32
        self._set(name, values if is_int32 else array.astype(np.int32))

    def _point(self, x: ArrayLike) -> FloatArray:
        """Return x as a read-only array after checking its shape."""
        point = as_float_array(x, "HingeLossMRF: x")
        if point.shape != (self.n_variables,):
            raise InvalidInputError(
                f"HingeLossMRF: x has shape {point.shape}, expected ({self.n_variables},): a value per variable."
            )
        return read_only(point)

    def __repr__(self) -> str:
        return (
            f"HingeLossMRF({self.n_variables} variables, {self.n_terms} terms in {self.n_groups} groups, "
            f"{self.n_constraints} constraints)"
        )


def cost_of_constants(model: HingeLossMRF) -> float:
    """Return the objective of the terms without variables."""
    is_constant = np.diff(model.terms.ptr) == 0
    excess = np.maximum(model.terms.const[is_constant], 0.0)
    return float(model.weight[is_constant] @ np.where(model.power[is_constant] == 2, excess * excess, excess))


def _weights(values: ArrayLike, n_terms: int) -> FloatArray:
    """Return a checked weight for each term."""
    weight = as_float_array(values, "HingeLossMRF: weight")
    if weight.ndim == 0:
        weight = np.full(n_terms, float(weight))
    if weight.shape != (n_terms,):
        raise InvalidInputError(f"HingeLossMRF: weight has shape {weight.shape}, expected ({n_terms},): one per term.")
    good = np.isfinite(weight) & (weight >= 0.0)
    if not good.all():
        j = int(np.argmax(~good))
        raise InvalidInputError(f"HingeLossMRF: weight[{j}] is {weight[j]}. Weights must be finite and at least 0.")
    return weight


def _powers(values: ArrayLike, n_terms: int) -> NDArray[np.int8]:
    """Return a checked power for each term."""
    array = np.asarray(values)
    power = np.full(n_terms, array) if array.ndim == 0 else array
    if power.shape != (n_terms,):
        raise InvalidInputError(f"HingeLossMRF: power has shape {power.shape}, expected ({n_terms},): one per term.")
    good = (power == 1) | (power == 2)
    if not good.all():
        j = int(np.argmax(~good))
        raise InvalidInputError(f"HingeLossMRF: power[{j}] is {power[j]}, expected 1 (linear) or 2 (squared).")
    return power if power.dtype == np.int8 else power.astype(np.int8)
