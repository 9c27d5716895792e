"""The local polytope as explicit rows in plain Python, solved by SciPy; shares no code with the library."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog


@dataclass
class WrittenOut:
    cost: np.ndarray
    rows: np.ndarray  # equations: rows @ x == sides
    sides: np.ndarray
    blocks: list[int]  # first column of each factor

    @property
    def value(self) -> float:
        """Optimum of the program, -inf if it is infeasible."""
        allowed = self.cost > -np.inf
        if not allowed.any():
            return 0.0 if not self.cost.size else -np.inf
        found = linprog(
            -self.cost[allowed], A_eq=self.rows[:, allowed], b_eq=self.sides, bounds=(0, None), method="highs-ipm"
        )
        assert found.status in (0, 2), found.message
        return -found.fun if found.status == 0 else -np.inf

    def is_vertex(self, x: np.ndarray, tol: float = 1e-7) -> bool:
        """Return whether x is feasible and determined by its active constraints."""
        feasible = x.min(initial=0.0) >= -tol and np.abs(self.rows @ x - self.sides).max(initial=0.0) <= tol
        free = x > tol
        return bool(feasible and np.linalg.matrix_rank(self.rows[:, free]) == free.sum())


def write_out(graph, theta) -> WrittenOut:
    """Build the program; columns are the states of the variables, then the joint states of each factor."""
    variables = [theta[graph.variable_ptr[v] : graph.variable_ptr[v + 1]] for v in range(graph.n_variables)]
    tables = [graph.factor_table(theta, c).reshape(-1) for c in range(graph.n_factors)]
    cost = np.concatenate([*variables, *tables]) if variables or tables else np.empty(0)
    blocks, at = [], sum(len(block) for block in variables)
    rows, sides = [], []
    for v in range(graph.n_variables):
        row = np.zeros(cost.size)
        row[graph.variable_ptr[v] : graph.variable_ptr[v + 1]] = 1.0
        rows.append(row)
        sides.append(1.0)
    for c in range(graph.n_factors):
        scope, shape = graph.scope(c).tolist(), graph.factor_shape(c)
        blocks.append(at)
        for axis, v in enumerate(scope):
            for state in range(shape[axis]):
                row = np.zeros(cost.size)
                row[graph.variable_ptr[v] + state] = -1.0
                for k, states in enumerate(itertools.product(*map(range, shape))):
                    if states[axis] == state:
                        row[at + k] = 1.0
                rows.append(row)
                sides.append(0.0)
        if not scope:  # the only joint state, of probability 1
            row = np.zeros(cost.size)
            row[at] = 1.0
            rows.append(row)
            sides.append(1.0)
        at += tables[c].size
    return WrittenOut(cost, np.array(rows).reshape(len(rows), cost.size), np.array(sides), blocks)
