"""The rows of a hinge-loss MRF laid out for ADMM: independent blocks, neighbours close in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import EQUALITY, INEQUALITY, LINEAR, SQUARED, weigh_rows
from intarsia._kernels.hinge_order import permute_rows, search_blocks, sort_by_length, transpose_rows
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF


@dataclass(frozen=True, eq=False, repr=False)
class AdmmPlan:
    """Everything of a model but its weights, in the order in which ADMM works.

    Rows are numbered terms first, then equalities, then inequalities; those without variables are in no block.

    Attributes
    ----------
    model : HingeLossMRF
        What was laid out; a model that shares its rows can use the same plan.
    variables, row_of : int arrays
        Variable and row of the model at each place here.
    variable_start, row_start, constraint_start : int arrays (n_blocks + 1,)
        Where each block begins among variables, rows and `constraints`.
    constraints : int array
        Places of the rows that are constraints.
    ptr, idx, coef, const, kind : arrays
        The rows in their new order.
    degree : float array
        In how many rows each variable stands.
    constants : float array (n_rows,)
        The constants of all rows, in the order of the model.
    """

    model: HingeLossMRF
    variables: Index32
    row_of: Index32
    variable_start: IntArray
    row_start: IntArray
    constraint_start: IntArray
    constraints: IntArray
    ptr: NDArray[np.uint64]
    idx: NDArray[np.uint32]
    coef: FloatArray
    const: FloatArray
    kind: NDArray[np.int8]
    degree: FloatArray
    constants: FloatArray

    @property
    def n_blocks(self) -> int:
        """How many independent blocks."""
        return int(self.row_start.size) - 1

    @property
    def blocks(self) -> tuple[Any, ...]:
        """What kernels take to find a block."""
        return self.variable_start, self.row_start, self.constraint_start, self.constraints

    def fits(self, model: HingeLossMRF) -> bool:
        """Whether `model` has the same rows, so that only its weights may differ."""
        ours = self.model
        return (
            ours.terms is model.terms
            and ours.power is model.power
            and ours.equalities is model.equalities
            and ours.inequalities is model.inequalities
        )

    @property
    def unweighted_rows(self) -> tuple[Any, ...]:
        """What kernels take as rows, where no weight is needed."""
        nothing = np.empty(0)
        return self.ptr, self.idx, self.coef, self.const, nothing, nothing, self.kind

    def weighted_rows(self, model: HingeLossMRF) -> tuple[Any, ...]:
        """What kernels take as rows: with the weights of `model`, which must fit."""
        curve, top = np.empty(self.kind.size), np.empty(self.kind.size)
        weigh_rows(self.row_of, self.kind, model.weight, curve, top)
        return self.ptr, self.idx, self.coef, self.const, curve, top, self.kind

    def row_of_entry(self) -> IntArray:
        """The row of each entry."""
        counts: IntArray = self.ptr[1:].astype(np.int64) - self.ptr[:-1].astype(np.int64)
        return np.repeat(np.arange(self.const.size), counts)

    def block_matrix(self, block: int) -> csr_array:
        """Coefficients of the rows of a block, a column for each of its variables."""
        r0, r1 = self.row_start[block : block + 2]
        v0, v1 = self.variable_start[block : block + 2]
        start, end = int(self.ptr[r0]), int(self.ptr[r1])
        columns = self.idx[start:end].astype(np.int64) - v0
        return csr_array(
            (self.coef[start:end], columns, self.ptr[r0 : r1 + 1].astype(np.int64) - start), shape=(r1 - r0, v1 - v0)
        )

    def to_model(self, values: FloatArray, fill: float) -> FloatArray:
        """Values of variables in the order of the model."""
        out = np.full(self.model.n_variables, fill)
        out[self.variables] = values
        return out


def plan_admm(model: HingeLossMRF) -> AdmmPlan:
    """Lay a model out for ADMM; linear in its size.

    Examples
    --------
    >>> rows = LinearRows([0, 2, 3, 4], [0, 2, 1, 2], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    >>> plan_admm(HingeLossMRF(3, rows, 1.0, 1)).n_blocks           # x0 with x2, and x1 by itself
    2
    """
    rows, kind = _all_rows(model)
    n = model.n_variables
    col_ptr, col_row = transpose_rows(rows.ptr, rows.idx, n)
    variables, row_of, variable_start, row_start = search_blocks(rows.ptr, rows.idx, col_ptr, col_row)
    row_of = sort_by_length(rows.ptr, row_of, row_start)
    degree = np.diff(col_ptr)[variables].astype(np.float64)
    del col_ptr, col_row
    place = np.zeros(n, dtype=np.uint32)
    place[variables] = np.arange(variables.size, dtype=np.uint32)
    ptr, idx, coef = permute_rows(rows.ptr, rows.idx, rows.coef, row_of, place)
    kind = kind[row_of]
    constraints = np.flatnonzero(kind >= INEQUALITY)
    return AdmmPlan(
        model,
        variables,
        row_of,
        variable_start,
        row_start,
        np.searchsorted(constraints, row_start),
        constraints,
        ptr,
        idx,
        coef,
        rows.const[row_of],
        kind,
        degree,
        rows.const,
    )


def _all_rows(model: HingeLossMRF) -> tuple[LinearRows, NDArray[np.int8]]:
    """Terms and constraints as one set of rows, and the kind of each."""
    kind = np.where(model.power == 2, np.int8(SQUARED), np.int8(LINEAR))
    parts, kinds = [model.terms], [kind]
    for rows, code in ((model.equalities, EQUALITY), (model.inequalities, INEQUALITY)):
        if rows is not None and rows.n_rows:
            parts.append(rows)
            kinds.append(np.full(rows.n_rows, code, dtype=np.int8))
    if len(parts) == 1:
        return model.terms, kind
    starts = np.cumsum([0] + [part.n_entries for part in parts[:-1]])
    joined = LinearRows(
        np.concatenate([parts[0].ptr[:1], *(part.ptr[1:] + start for part, start in zip(parts, starts, strict=True))]),
        np.concatenate([part.idx for part in parts]),
        np.concatenate([part.coef for part in parts]),
        np.concatenate([part.const for part in parts]),
    )
    return joined, np.concatenate(kinds)
