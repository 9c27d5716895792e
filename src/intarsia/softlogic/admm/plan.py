"""Memory layout of a hinge-loss Markov random field for ADMM: independent blocks, neighbours close in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import EQUALITY, INEQUALITY, LINEAR, SQUARED, weigh_rows
from intarsia._kernels.hinge_order import permute_rows, search_blocks, sort_by_length, transpose_rows
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, repr=False)
class AdmmPlan:
    """Rows of a model, without its weights, in the order in which ADMM processes them.

    Rows of the model are numbered terms first, then equalities, then inequalities. Rows without variables belong to no
    block.

    Attributes
    ----------
    model : HingeLossMRF
        The model; models that share its rows can use the same plan.
    variables, row_of : int arrays
        Variable and row of the model at each position of the plan.
    variable_start, row_start, constraint_start : int arrays (n_blocks + 1,)
        Start of each block in variables, rows and `constraints`.
    constraints : int array
        Positions of the rows that are constraints.
    ptr, idx, coef, const, kind : arrays
        The rows in the order of the plan.
    degree : float array
        Number of rows that contain each variable.
    constants : float array (n_rows,)
        Constants of all rows, in the order of the model.
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
        """Number of independent blocks."""
        return int(self.row_start.size) - 1

    @property
    def blocks(self) -> tuple[Any, ...]:
        """Block boundaries, as arguments of kernels."""
        return self.variable_start, self.row_start, self.constraint_start, self.constraints

    def fits(self, model: HingeLossMRF) -> bool:
        """Return whether `model` shares the rows of the plan, so that at most its weights differ."""
        own_model = self.model
        return (
            own_model.terms is model.terms
            and own_model.power is model.power
            and own_model.equalities is model.equalities
            and own_model.inequalities is model.inequalities
        )

    @property
    def unweighted_rows(self) -> tuple[Any, ...]:
        """Rows as arguments of kernels that need no weights."""
        empty = np.empty(0)
        return self.ptr, self.idx, self.coef, self.const, empty, empty, self.kind

    def weighted_rows(self, model: HingeLossMRF) -> tuple[Any, ...]:
        """Return the rows with the weights of `model`, as arguments of kernels; the model must share the rows."""
        curve, top = np.empty(self.kind.size), np.empty(self.kind.size)
        weigh_rows(self.row_of, self.kind, model.weight, curve, top)
        return self.ptr, self.idx, self.coef, self.const, curve, top, self.kind

    def row_of_entry(self) -> IntArray:
        """Return the row of each entry."""
        counts: IntArray = self.ptr[1:].astype(np.int64) - self.ptr[:-1].astype(np.int64)
        return np.repeat(np.arange(self.const.size), counts)

    def block_matrix(self, block: int) -> csr_array:
        """Return the coefficients of a block as a matrix (rows, variables)."""
        from scipy.sparse import csr_array

        r0, r1 = self.row_start[block : block + 2]
        v0, v1 = self.variable_start[block : block + 2]
        start, end = int(self.ptr[r0]), int(self.ptr[r1])
        columns = self.idx[start:end].astype(np.int64) - v0
        return csr_array(
            (self.coef[start:end], columns, self.ptr[r0 : r1 + 1].astype(np.int64) - start), shape=(r1 - r0, v1 - v0)
        )

    def to_model(self, values: FloatArray, fill: float) -> FloatArray:
        """Reorder values of variables to the order of the model; variables outside the plan get `fill`."""
        out = np.full(self.model.n_variables, fill)
        out[self.variables] = values
        return out


def plan_admm(model: HingeLossMRF) -> AdmmPlan:
    """Compute the memory layout of a model for ADMM in linear time.

    Examples
    --------
    >>> rows = LinearRows([0, 2, 3, 4], [0, 2, 1, 2], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    >>> plan_admm(HingeLossMRF(3, rows, 1.0, 1)).n_blocks           # x0 and x2 share a row, x1 is independent
    2
    """
    rows, kind = _all_rows(model)
    n = model.n_variables
    col_ptr, col_row = transpose_rows(rows.ptr, rows.idx, n)
    variables, row_of, variable_start, row_start = search_blocks(rows.ptr, rows.idx, col_ptr, col_row)
    row_of = sort_by_length(rows.ptr, row_of, row_start)
    degree = np.diff(col_ptr)[variables].astype(np.float64)
    del col_ptr, col_row
    position = np.zeros(n, dtype=np.uint32)
    position[variables] = np.arange(variables.size, dtype=np.uint32)
    ptr, idx, coef = permute_rows(rows.ptr, rows.idx, rows.coef, row_of, position)
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
    """Return terms and constraints as one set of rows, and the kind of each row."""
    kind = np.where(model.power == 2, np.int8(SQUARED), np.int8(LINEAR))
    row_sets, kinds = [model.terms], [kind]
    for rows, code in ((model.equalities, EQUALITY), (model.inequalities, INEQUALITY)):
        if rows is not None and rows.n_rows:
            row_sets.append(rows)
            kinds.append(np.full(rows.n_rows, code, dtype=np.int8))
    if len(row_sets) == 1:
        return model.terms, kind
    starts = np.cumsum([0] + [row_set.n_entries for row_set in row_sets[:-1]])
    all_rows = LinearRows(
        np.concatenate(
            [row_sets[0].ptr[:1], *(row_set.ptr[1:] + start for row_set, start in zip(row_sets, starts, strict=True))]
        ),
        np.concatenate([row_set.idx for row_set in row_sets]),
        np.concatenate([row_set.coef for row_set in row_sets]),
        np.concatenate([row_set.const for row_set in row_sets]),
    )
    return all_rows, np.concatenate(kinds)
