"""Exact minimum of a small hinge-loss MRF in rational arithmetic by Lemke's method."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np


def solve_exactly(model):
    """Return (minimum, x, multipliers of the constraints) in fractions, or None if the constraints are infeasible.

    The optimality conditions, with a multiplier t per row, v per linear hinge and u per variable, are the linear
    complementarity problem (everything >= 0, each line times its variable = 0)

        x:  A' t + u,     u:  1 - x,     t of a squared hinge:  t - 2 w l(x),     t of a linear hinge:  v - l(x),
        v:  w - t,        t of an inequality:  -g(x),     an equality is two inequalities.
    """
    n = model.n_variables
    columns, right, kinds = _rows(model)
    linear = [k for k, (kind, _) in enumerate(kinds) if kind == "linear"]
    n_rows = len(kinds)
    size = 2 * n + n_rows + len(linear)
    matrix = [[Fraction(0)] * size for _ in range(size)]
    constant = [Fraction(0)] * size
    for i in range(n):
        for k in range(n_rows):
            matrix[i][2 * n + k] = columns[k][i]
        matrix[i][n + i] = Fraction(1)
        matrix[n + i][i], constant[n + i] = Fraction(-1), Fraction(1)
    for k, (kind, weight) in enumerate(kinds):
        scale = 2 * weight if kind == "squared" else 1
        for i in range(n):
            matrix[2 * n + k][i] = -scale * columns[k][i]
        constant[2 * n + k] = -scale * right[k]
        if kind == "squared":
            matrix[2 * n + k][2 * n + k] = Fraction(1)
    for place, k in enumerate(linear):
        at = 2 * n + n_rows + place
        matrix[2 * n + k][at] = Fraction(1)
        matrix[at][2 * n + k], constant[at] = Fraction(-1), kinds[k][1]
    answer = lemke(matrix, constant)
    if answer is None:
        return None
    x = answer[:n]
    pulls = [answer[2 * n + k] for k, (kind, _) in enumerate(kinds) if kind == "constraint"]
    return exact_objective(model, x), x, pulls


def exact_objective(model, x):
    """Return the weighted sum of hinges at x, as a fraction."""
    total = Fraction(0)
    for j in range(model.n_terms):
        value = max(_value(model.terms, j, x), Fraction(0))
        total += Fraction(float(model.weight[j])) * value ** int(model.power[j])
    return total


def lemke(matrix, constant):
    """Return z >= 0 with w = matrix z + constant >= 0 and w z = 0, or None; `matrix` is positive semidefinite.

    Uses complementary pivoting (Cottle and Dantzig) with the lexicographic rule against cycles, on integers (Edmonds).
    """
    size = len(constant)
    if min(constant, default=Fraction(0)) >= 0:
        return [Fraction(0)] * size
    scale = [lcm(*(v.denominator for v in (*row, c))) for row, c in zip(matrix, constant, strict=True)]
    # Columns: w, z, the artificial variable, the right-hand side. Rows may be scaled, which scales w.
    table = np.zeros((size, 2 * size + 2), dtype=object)
    for i in range(size):
        table[i, i] = 1
        table[i, size : 2 * size] = [-int(v * scale[i]) for v in matrix[i]]
        table[i, 2 * size] = -1
        table[i, -1] = int(constant[i] * scale[i])
    basis, denominator = list(range(size)), 1
    row, entering = _least(table, [(i, 1) for i in range(size)], size), 2 * size
    while True:
        denominator = _pivot(table, row, entering, denominator)
        leaving, basis[row] = basis[row], entering
        if leaving == 2 * size:
            break
        entering = leaving + size if leaving < size else leaving - size
        rows = [(i, table[i, entering]) for i in range(size) if table[i, entering] > 0]
        if not rows:
            return None
        row = _least(table, rows, size)
        ratio = Fraction(table[row, -1], table[row, entering])
        ties = [i for i, v in rows if basis[i] == 2 * size and Fraction(table[i, -1], v) == ratio]
        row = ties[0] if ties else row
    z = [Fraction(0)] * size
    for i, variable in enumerate(basis):
        if size <= variable < 2 * size:
            z[variable - size] = Fraction(table[i, -1], denominator)
    return z


def _pivot(table, row, column, denominator):
    pivot = table[row, column]
    multiples = table[:, column].copy()
    old = table[row].copy()
    changed = table * pivot
    used = np.flatnonzero(multiples != 0)
    changed[used] -= np.outer(multiples[used], old)
    table[:] = changed // denominator
    table[row] = old
    if pivot < 0:  # the values are the entries divided by the denominator
        table *= -1
    return abs(pivot)


def _least(table, rows, size):
    """Return the row whose right-hand side and columns of w, divided by its entry, are lexicographically smallest."""
    order = [-1, *range(size)]
    for column in order:
        if len(rows) == 1:
            break
        best = min(Fraction(table[i, column], v) for i, v in rows)
        rows = [(i, v) for i, v in rows if Fraction(table[i, column], v) == best]
    return rows[0][0]


def _rows(model):
    """Return coefficients, constants, kinds and weights of the constraints and of the terms with positive weight."""
    columns, right, kinds = [], [], []

    def add(rows, j, sign, kind, weight):
        dense = [Fraction(0)] * model.n_variables
        for e in range(rows.ptr[j], rows.ptr[j + 1]):
            dense[rows.idx[e]] = sign * Fraction(float(rows.coef[e]))
        columns.append(dense)
        right.append(sign * Fraction(float(rows.const[j])))
        kinds.append((kind, weight))

    for j in range(model.n_terms):
        if model.weight[j] > 0 and model.terms.ptr[j] < model.terms.ptr[j + 1]:
            add(model.terms, j, 1, "squared" if model.power[j] == 2 else "linear", Fraction(float(model.weight[j])))
    for rows, signs in ((model.equalities, (1, -1)), (model.inequalities, (1,))):
        for j in range(0 if rows is None else rows.n_rows):
            for sign in signs:
                add(rows, j, sign, "constraint", None)
    return columns, right, kinds


def _value(rows, j, x):
    return Fraction(float(rows.const[j])) + sum(
        (Fraction(float(rows.coef[e])) * x[rows.idx[e]] for e in range(rows.ptr[j], rows.ptr[j + 1])), Fraction(0)
    )
