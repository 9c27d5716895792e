"""Linear constraints over the unit box: which contradict each other, and the nearest point that satisfies all."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack, vstack

from intarsia._kernels.hinge_admm import EQUALITY
from intarsia._validation import FloatArray, IntArray
from intarsia.inference.highs import Program, prove_infeasible, solve_program
from intarsia.inference.method import Clock
from intarsia.inference.result import Status
from intarsia.softlogic.admm_plan import AdmmPlan
from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.linear_rows import Index32

_NAMED = 5  # constraints that a message names
_SURE = 1e-7  # by how much a proof must hold, per unit of its multipliers


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
        whole = csr_array(
            (plan.coef, plan.idx.astype(np.int64), plan.ptr.astype(np.int64)),
            shape=(plan.const.size, plan.variables.size),
        )[self.rows]
        self.variables: IntArray = np.unique(whole.indices).astype(np.int64)
        self.matrix = csc_array(whole[:, self.variables])
        self.const: FloatArray = plan.const[self.rows]
        self.equality = plan.kind[self.rows] == EQUALITY

    def violation(self, x: FloatArray) -> float:
        """By how much the worst of them is broken at x, values of `variables`."""
        values = self.matrix @ x + self.const
        return float(np.where(self.equality, np.abs(values), values).max(initial=0.0))

    def contradiction(self, clock: Clock) -> IntArray | None:
        """Places of constraints that no point of the box satisfies together; None if there are none (or no time).

        By the simplex method, whose proofs name few rows; each proof is recomputed here before it is believed.
        """
        n = self.variables.size
        matrix = csc_array(vstack([self.matrix, eye_array(n)]))
        lower = np.concatenate([np.where(self.equality, -self.const, -np.inf), np.zeros(n)])
        upper = np.concatenate([-self.const, np.ones(n)])
        ray = prove_infeasible(Program(np.zeros(n), matrix, lower, upper), clock)
        if ray is None:
            return None
        for sign in (1.0, -1.0):
            multipliers = sign * ray[: self.rows.size]
            if self._proves(np.where(self.equality, multipliers, np.maximum(multipliers, 0.0))):
                return self.rows[np.abs(multipliers) > 1e-9 * np.abs(multipliers).max()]
        return None

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

    def _proves(self, multipliers: FloatArray) -> bool:
        """Farkas: the weighted sum of the constraints is positive at every point of the box."""
        slopes = np.asarray(self.matrix.T @ multipliers)
        least = multipliers @ self.const + np.minimum(slopes, 0.0).sum()
        return bool(least > _SURE * np.abs(multipliers).sum())


def describe_constraints(model: HingeLossMRF, rows: IntArray | Index32) -> str:
    """Names of constraints, given by their rows in the order terms, equalities, inequalities.

    Examples
    --------
    >>> from intarsia.softlogic import LinearRows
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
