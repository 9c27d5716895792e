"""Linear constraints over the unit box: which contradict each other, and the nearest point that satisfies all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array, eye_array, hstack, vstack

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import EQUALITY
from intarsia.inference.method import Clock
from intarsia.inference.relaxation.highs import Program, solve_program
from intarsia.softlogic.admm.plan import AdmmPlan
from intarsia.softlogic.hinge.linear_rows import Index32
from intarsia.softlogic.hinge.mrf import HingeLossMRF

_NAMED = 5  # constraints that a message names
_SURE = 1e-9  # a smaller contradiction is taken for rounding


class BlockConstraints:
    """The constraints of one independent block: `matrix @ x + const`, = 0 where `equality`, else <= 0.

    Attributes
    ----------
    rows : int array
        Their places in the plan.
    variables : int array
        Places of the variables that they mention.
    """

    def __init__(self, plan: AdmmPlan, block: int) -> None:
        start, end = plan.constraint_start[block : block + 2]
        self.rows: IntArray = plan.constraints[start:end]
        whole = plan.block_matrix(block)[self.rows - plan.row_start[block]]
        columns = np.unique(whole.indices)
        self.variables: IntArray = plan.variable_start[block] + columns.astype(np.int64)
        self.matrix = csc_array(whole[:, columns])
        self.const: FloatArray = plan.const[self.rows]
        self.equality = plan.kind[self.rows] == EQUALITY

    def violation(self, x: FloatArray) -> float:
        """By how much the worst of them is broken at x, values of `variables`."""
        values = self.matrix @ x + self.const
        return float(np.where(self.equality, np.abs(values), values).max(initial=0.0))

    def contradiction(self, clock: Clock) -> tuple[IntArray, float] | None:
        """Places of constraints that contradict each other, and by how much; None if there are none (or no time).

        Every point of the box breaks one of these constraints by at least the number returned. It is the solution of
        the linear program for the smallest worst violation. The multipliers of its optimal vertex name few rows, and
        their proof is computed again here before it is believed.
        """
        n, equal = self.variables.size, np.flatnonzero(self.equality)
        most, least = np.full((self.rows.size, 1), -1.0), np.ones((equal.size, 1))
        parts: list[Any] = [[self.matrix, most], [self.matrix[equal], least], [eye_array(n), csc_array((n, 1))]]
        matrix = csc_array(vstack([hstack(part) for part in parts]))
        lower = np.concatenate([np.full(self.rows.size, -np.inf), -self.const[equal], np.zeros(n)])
        upper = np.concatenate([-self.const, np.full(equal.size, np.inf), np.ones(n)])
        worst = np.append(np.zeros(n), -1.0)
        solution = solve_program(Program(worst, matrix, lower, upper), clock)
        if solution.dual is None:
            return None
        multipliers = solution.dual[: self.rows.size].copy()
        multipliers[equal] += solution.dual[self.rows.size : self.rows.size + equal.size]
        multipliers = np.where(self.equality, multipliers, np.maximum(multipliers, 0.0))
        margin = self._proven_violation(multipliers)
        if margin <= _SURE:
            return None
        return self.rows[np.abs(multipliers) > 1e-9 * np.abs(multipliers).max()], margin

    def nearest(self, x: FloatArray, clock: Clock) -> FloatArray | None:
        """The point of the box that satisfies all constraints and is nearest to x by the sum of distances, or None."""
        n = self.variables.size
        both = hstack([self.matrix, -self.matrix])
        at = -self.const - self.matrix @ x
        program = Program(
            np.full(2 * n, -1.0),
            csc_array(vstack([both, eye_array(2 * n)])),
            np.concatenate([np.where(self.equality, at, -np.inf), np.zeros(2 * n)]),
            np.concatenate([at, 1.0 - x, x]),
        )
        solution = solve_program(program, clock)
        if solution.status is not Status.CONVERGED or solution.x is None:
            return None
        return np.clip(x + solution.x[:n] - solution.x[n:], 0.0, 1.0)

    def _proven_violation(self, multipliers: FloatArray) -> float:
        """The least weighted mean of the violations in the box (Farkas), which the largest violation is not below.

        Rounding errors are taken off as in `intarsia._kernels.hinge_checks`.
        """
        sizes = np.abs(multipliers)
        if not sizes.any():
            return 0.0
        slopes = np.asarray(self.matrix.T @ multipliers)
        least = multipliers @ self.const + np.minimum(slopes, 0.0).sum()
        parts = sizes @ np.abs(self.const) + float((abs(self.matrix).T @ sizes).sum())
        rounding = np.finfo(np.float64).eps * (self.rows.size + self.variables.size + 8) * parts
        return float((least - rounding) / sizes.sum())


def describe_constraints(model: HingeLossMRF, rows: IntArray | Index32) -> str:
    """Names of constraints, given by their rows in the order terms, equalities, inequalities.

    Examples
    --------
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> one = LinearRows([0, 1], [0], [1.0], [-2.0])
    >>> model = HingeLossMRF(1, LinearRows.empty(), [], [], equalities=one, equality_group=[0], group_names=["is two"])
    >>> describe_constraints(model, np.array([0]))
    "equality 0 of 'is two'"
    """
    n_equalities = 0 if model.equalities is None else model.equalities.n_rows
    words = []
    for row in sorted(int(row) - model.n_terms for row in rows)[:_NAMED]:
        equal = row < n_equalities
        kind, number = ("equality", row) if equal else ("inequality", row - n_equalities)
        group = model.equality_group if equal else model.inequality_group
        of = "" if group is None else f" of {model.name_of_group(int(group[number]))!r}"
        words.append(f"{kind} {number}{of}")
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(words) + more
