"""Feasibility of linear constraints over the unit box: proofs of contradiction, and the nearest feasible point."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array, eye_array, hstack, vstack

from intarsia._core.clock import Clock
from intarsia._core.highs import Program, solve_program
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import EQUALITY
from intarsia.softlogic.admm.plan import AdmmPlan
from intarsia.softlogic.hinge.linear_rows import Index32
from intarsia.softlogic.hinge.mrf import HingeLossMRF

_MAX_LISTED = 5  # number of constraints listed in a message
_MIN_CONTRADICTION = 1e-9  # smaller contradictions can be rounding errors


class BlockConstraints:
    """Constraints of an independent block: `matrix @ x + const`, = 0 where `equality`, else <= 0.

    Attributes
    ----------
    rows : int array
        Positions of the constraints in the plan.
    variables : int array
        Positions of their variables in the plan.
    """

    def __init__(self, plan: AdmmPlan, block: int) -> None:
        start, end = plan.constraint_start[block : block + 2]
        self.rows: IntArray = plan.constraints[start:end]
        block_rows = plan.block_matrix(block)[self.rows - plan.row_start[block]]
        columns = np.unique(block_rows.indices)
        self.variables: IntArray = plan.variable_start[block] + columns.astype(np.int64)
        self.matrix = csc_array(block_rows[:, columns])
        self.const: FloatArray = plan.const[self.rows]
        self.equality = plan.kind[self.rows] == EQUALITY

    def violation(self, x: FloatArray) -> float:
        """Return the largest violation at x, the values of `variables`."""
        values = self.matrix @ x + self.const
        return float(np.where(self.equality, np.abs(values), values).max(initial=0.0))

    def contradiction(self, clock: Clock) -> tuple[IntArray, float] | None:
        """Return the positions of contradictory constraints and their margin; None if there are none (or no time).

        Every point of the box violates one of these constraints by at least the margin. It is the solution of a linear
        program that minimizes the largest violation. The multipliers of the optimal vertex select few rows; their
        proof is verified independently of the solver.
        """
        n, equal = self.variables.size, np.flatnonzero(self.equality)
        minus_bound, plus_bound = np.full((self.rows.size, 1), -1.0), np.ones((equal.size, 1))
        row_blocks: list[Any] = [
            [self.matrix, minus_bound],
            [self.matrix[equal], plus_bound],
            [eye_array(n), csc_array((n, 1))],
        ]
        matrix = csc_array(vstack([hstack(row_block) for row_block in row_blocks]))
        lower = np.concatenate([np.full(self.rows.size, -np.inf), -self.const[equal], np.zeros(n)])
        upper = np.concatenate([-self.const, np.full(equal.size, np.inf), np.ones(n)])
        objective = np.append(np.zeros(n), -1.0)
        solution = solve_program(Program(objective, matrix, lower, upper), clock)
        if solution.dual is None:
            return None
        multipliers = solution.dual[: self.rows.size].copy()
        multipliers[equal] += solution.dual[self.rows.size : self.rows.size + equal.size]
        multipliers = np.where(self.equality, multipliers, np.maximum(multipliers, 0.0))
        margin = self._proven_violation(multipliers)
        if margin <= _MIN_CONTRADICTION:
            return None
        return self.rows[np.abs(multipliers) > 1e-9 * np.abs(multipliers).max()], margin

    def nearest(self, x: FloatArray, clock: Clock) -> FloatArray | None:
        """Return the feasible point of the box that is nearest to x in the l1 norm, or None."""
        n = self.variables.size
        up_and_down = hstack([self.matrix, -self.matrix])
        slack = -self.const - self.matrix @ x
        program = Program(
            np.full(2 * n, -1.0),
            csc_array(vstack([up_and_down, eye_array(2 * n)])),
            np.concatenate([np.where(self.equality, slack, -np.inf), np.zeros(2 * n)]),
            np.concatenate([slack, 1.0 - x, x]),
        )
        solution = solve_program(program, clock)
        if solution.status is not Status.CONVERGED or solution.x is None:
            return None
        return np.clip(x + solution.x[:n] - solution.x[n:], 0.0, 1.0)

    def _proven_violation(self, multipliers: FloatArray) -> float:
        """Return a lower bound on the largest violation in the box: the smallest weighted mean violation (Farkas).

        Rounding errors are subtracted as in `intarsia._kernels.hinge_checks`.
        """
        sizes = np.abs(multipliers)
        if not sizes.any():
            return 0.0
        slopes = np.asarray(self.matrix.T @ multipliers)
        smallest = multipliers @ self.const + np.minimum(slopes, 0.0).sum()
        magnitude = sizes @ np.abs(self.const) + float((abs(self.matrix).T @ sizes).sum())
        rounding = np.finfo(np.float64).eps * (self.rows.size + self.variables.size + 8) * magnitude
        return float((smallest - rounding) / sizes.sum())


def describe_constraints(model: HingeLossMRF, rows: IntArray | Index32) -> str:
    """Return a description of constraints; rows are numbered terms first, then equalities, then inequalities.

    Examples
    --------
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> row = LinearRows([0, 1], [0], [1.0], [-2.0])
    >>> model = HingeLossMRF(1, LinearRows.empty(), [], [], equalities=row, equality_group=[0], group_names=["is two"])
    >>> describe_constraints(model, np.array([0]))
    "equality 0 of 'is two'"
    """
    n_equalities = 0 if model.equalities is None else model.equalities.n_rows
    descriptions = []
    for row in sorted(int(row) - model.n_terms for row in rows)[:_MAX_LISTED]:
        equal = row < n_equalities
        kind, number = ("equality", row) if equal else ("inequality", row - n_equalities)
        group = model.equality_group if equal else model.inequality_group
        rule = "" if group is None else f" of {model.name_of_group(int(group[number]))!r}"
        descriptions.append(f"{kind} {number}{rule}")
    ending = f" and {len(rows) - _MAX_LISTED} more" if len(rows) > _MAX_LISTED else ""
    return ", ".join(descriptions) + ending
