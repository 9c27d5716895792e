"""Objective, proven bound, violation and residuals of each block after some iterations.

Rows are those of `hinge_admm`, whose docstring derives the bound.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel, prefetch

SQUARED, INEQUALITY, EQUALITY = 1, 2, 3  # kinds of rows, as in `hinge_admm`
RUNNING, CONVERGED, SUSPECT = 0, 1, 2
OBJECTIVE, BOUND, VIOLATION, PRIMAL, DUAL, PENALTY = 0, 1, 2, 3, 4, 5  # columns of `figures`
N_FIGURES = 6

_FEASIBLE = 1e-12  # tolerance of the projection, per unit of a row's coefficients and constant
_ROUNDING = 2.0**-52  # twice the largest relative error of an operation
_FORWARD = np.uint64(40)  # distance in entries at which variables are prefetched
# Largest gap of a row or variable, and of all together: in all and per variable, in units of the tolerance and the
# lightest force. With the default tolerance this kept atoms within 1e-3 of interior-point solutions.
_SQUARE, _WIDEST, _TOTAL, _MEAN = 3000.0, 30.0, 0.1, 0.05
_FINEST = 1e-6
_PROOF = 1e-7  # a proof of infeasibility must hold by this much, per unit of its multipliers


@kernel
def _project_row(e0, e1, idx, coef, const, equality, x):
    """Move x, a point of the box, to its nearest point with `coef.x + const = 0` (or <= 0); return whether x was one.

    The value falls with the multiplier, piecewise linearly: Newton steps between the two ends of a bracket.
    """
    value, size = const, abs(const)
    for e in range(e0, e1):
        value += coef[e] * x[idx[e]]
        size += abs(coef[e])
    if (abs(value) if equality else value) <= _FEASIBLE * size:
        return True
    low, high = -np.inf, np.inf
    shift = 0.0
    for _ in range(200):
        total, slope_up, slope_down = const, 0.0, 0.0  # slopes for a larger and for a smaller multiplier
        for e in range(e0, e1):
            coordinate = x[idx[e]] - shift * coef[e]
            # A variable that is exactly at an end of the box moves in one direction only.
            if 0.0 < coordinate < 1.0 or (coordinate == 1.0 and coef[e] > 0.0) or (coordinate == 0.0 and coef[e] < 0.0):
                slope_up += coef[e] * coef[e]
            if 0.0 < coordinate < 1.0 or (coordinate == 1.0 and coef[e] < 0.0) or (coordinate == 0.0 and coef[e] > 0.0):
                slope_down += coef[e] * coef[e]
            total += coef[e] * min(max(coordinate, 0.0), 1.0)
        if abs(total) <= 0.1 * _FEASIBLE * size:
            break
        if total > 0.0:
            low, slope = shift, slope_up
        else:
            high, slope = shift, slope_down
        if slope > 0.0 and low < shift + total / slope < high:
            shift += total / slope
        elif low > -np.inf and high < np.inf:
            shift = 0.5 * (low + high)
        else:
            break  # no point of the box satisfies this row
    for e in range(e0, e1):
        x[idx[e]] = min(max(x[idx[e]] - shift * coef[e], 0.0), 1.0)
    return False


@kernel
def polish_block(c0, c1, constraints, rows, x, n_sweeps):
    """Project x onto the constraints of a block in turns; exact at once where they share no variable."""
    ptr, idx, coef, const, _, _, kind = rows
    for _ in range(n_sweeps):
        all_satisfied = True
        for c in range(c0, c1):
            j = constraints[c]
            satisfied = _project_row(ptr[j], ptr[j + 1], idx, coef, const[j], kind[j] == EQUALITY, x)
            all_satisfied = all_satisfied and satisfied
        if all_satisfied:
            break


@kernel
def measure_rows(r0, r1, rows, z, x, ahead, change, y, inverse, force):
    """Measure some rows in one pass; `force` receives the terms that their multipliers add to the dual.

    Returns the sum of the squared distances of the local copies from z; the sum of the hinges, the largest violation,
    and the sum of violations times multipliers at x; the sum that the rows add to the dual, with multipliers clipped to
    their bounds, and the sum of the absolute values of all terms of the dual, forces included; and the sum and the
    largest of the gaps of the rows, their parts of objective minus dual, which are never negative and do not cancel.
    Only in the largest, squared errors count `_SQUARE` times, since an error of e costs a linear hinge e, not e^2.
    """
    ptr, idx, coef, const, curve, top, kind = rows
    prefetch_end = np.uint64(max(idx.size - 64, 0))
    squares, objective, worst, penalty, dual, size = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    total, widest = 0.0, 0.0
    for j in range(r0, r1):
        s = const[j]
        push = change[j] * inverse
        t = y[j] if y[j] > 0.0 or kind[j] == EQUALITY else 0.0
        t = min(t, top[j]) if curve[j] < np.inf else 0.0
        length = abs(const[j])
        for e in range(ptr[j], ptr[j + 1]):
            i = idx[e]
            if e < prefetch_end:
                upcoming = idx[e + _FORWARD]
                prefetch(ahead, upcoming)
                prefetch(z, upcoming)
                prefetch(x, upcoming)
                prefetch(force, upcoming)
            distance = ahead[i] + push * coef[e] - z[i]
            squares += distance * distance
            s += coef[e] * x[i]
            force[i] += coef[e] * t
            length += abs(coef[e])
        if t != 0.0:
            bend = 0.5 * curve[j] * t * t
            dual += t * const[j] - bend
            size += abs(t) * length + bend
        above, square = max(s, 0.0), 0.0
        slack = abs(s) if abs(s) > 4.0 * _ROUNDING * length else 0.0
        if kind[j] == SQUARED:
            objective += 0.5 * above**2 / curve[j]
            if curve[j] < np.inf:
                square = 0.5 * (above - curve[j] * t) ** 2 / curve[j]
            gap = 0.0 if s > 0.0 else t * slack
        elif kind[j] < INEQUALITY:
            objective += above * top[j]
            gap = (top[j] - t if s > 0.0 else t) * slack
        else:
            broken = abs(s) if kind[j] == EQUALITY else above
            worst = max(worst, broken)
            penalty += abs(t) * broken
            gap = 0.0 if broken > 0.0 else t * slack
        total += gap + square
        widest = max(widest, gap + _SQUARE * square)
    return squares, objective, worst, penalty, dual, size, total, widest


@kernel
def proves_infeasible(c0, c1, constraints, v0, v1, rows, y, work):
    """Return whether the multipliers of the constraints prove that no point of the box satisfies them (Farkas)."""
    ptr, idx, coef, const, _, _, kind = rows
    for i in range(v0, v1):
        work[i] = 0.0
    total, size = 0.0, 0.0
    for c in range(c0, c1):
        j = constraints[c]
        t = y[j]
        if t < 0.0 and kind[j] != EQUALITY:
            t = 0.0
        total += t * const[j]
        square = 0.0
        for e in range(ptr[j], ptr[j + 1]):
            work[idx[e]] += coef[e] * t
            square += coef[e] * coef[e]
        size += abs(t) * np.sqrt(square)
    for i in range(v0, v1):
        total += min(work[i], 0.0)
    return size > 0.0 and total > _PROOF * size


@kernel
def is_tight(v0, v1, x, force, total, widest, tol, light):
    """Return whether the gaps of rows and variables allow errors of about sqrt(tol) / 3 at the lightest hinges only.

    The gap of a variable is the force on it times the distance that the box leaves it. `light` is the force of the
    lightest hinge: beside heavy hinges, a small gap of the whole says nothing about variables that only light hinges
    determine. Tolerances below `_FINEST` would ask for less than the rounding errors of ordinary models.
    """
    limit = max(tol, _FINEST) * light
    for i in range(v0, v1):
        gap = max(force[i] * x[i], -force[i] * (1.0 - x[i]))
        total += gap
        widest = max(widest, gap)
    return widest <= _WIDEST * limit and total <= max(_TOTAL, _MEAN * (v1 - v0)) * limit


@kernel
def keep_if_better(b, v0, v1, x, objective, violation, penalty, feasible, figures, best):
    """Store x if it satisfies the constraints at a lower objective, or if no point did and it violates them less.

    `penalty` estimates how much the objective rises when x is projected onto the constraints, and is added to it.
    """
    best_violation = figures[b, VIOLATION]
    better = violation < best_violation
    if best_violation <= feasible:
        better = violation <= feasible and objective + penalty < figures[b, OBJECTIVE] + figures[b, PENALTY]
    if better:
        figures[b, OBJECTIVE] = objective
        figures[b, VIOLATION] = violation
        figures[b, PENALTY] = penalty
        for i in range(v0, v1):
            best[i] = x[i]


@kernel
def conclude_block(b, measures, tol, floor, blocks, rows, y, control, best, x, force):
    """Store the measures of a block, and set its code when it has converged or seems infeasible.

    It has converged when its gap is at most `tol` times its objective plus its fraction of `light`, the smallest force
    of a hinge, at a point that satisfies its constraints to the block's entry of `feasible` and is tight (`is_tight`).
    The gap is that of the Lagrangian: violations count, times their multipliers.

    The dual is a sum of at most a number per row and one per variable, which is a sum over rows itself. So the rounding
    error of no sum is larger than (rows + variables + 8) 2^-53 times the sum of the absolute values of its terms
    (Higham2002, section 4.2; 8 for the operations within a term). Twice this is subtracted, so that the bound holds for
    the numbers as they are stored.
    """
    variable_start, row_start, constraint_start, constraints = blocks
    step, code, z_change, figures, cleared, feasible, light = control
    squares, objective, violation, penalty, dual, size, total, widest = measures
    v0, v1, r0, r1 = variable_start[b], variable_start[b + 1], row_start[b], row_start[b + 1]
    c0, c1 = constraint_start[b], constraint_start[b + 1]
    n_copies = np.float64(rows[0][r1] - rows[0][r0])
    for i in range(v0, v1):
        dual += min(force[i], 0.0)
    dual -= _ROUNDING * (r1 - r0 + v1 - v0 + 8) * size
    figures[b, PRIMAL] = np.sqrt(squares / n_copies)
    figures[b, DUAL] = step[b] * np.sqrt(z_change[b] / n_copies)
    keep_if_better(b, v0, v1, x, objective, violation, penalty, feasible[b], figures, best)
    figures[b, BOUND] = max(figures[b, BOUND], dual)
    if violation <= feasible[b]:
        tight = is_tight(v0, v1, x, force, total, widest, tol, light[b])
        if not tight and objective <= figures[b, BOUND]:  # constraints that contradict each other within the tolerance
            tight = proves_infeasible(c0, c1, constraints, v0, v1, rows, y, force)
        if tight and objective + penalty - figures[b, BOUND] <= tol * (abs(objective) + floor * light[b] * (r1 - r0)):
            code[b] = CONVERGED
            figures[b, OBJECTIVE], figures[b, VIOLATION], figures[b, PENALTY] = objective, violation, penalty
            best[v0:v1] = x[v0:v1]
    elif not cleared[b] and proves_infeasible(c0, c1, constraints, v0, v1, rows, y, force):
        code[b] = SUSPECT


@kernel
def judge_blocks(first, last, n_sweeps, tol, floor, blocks, rows, state, control, best, x, force):
    """Compare objective and bound of every running block, at a point projected onto its constraints."""
    variable_start, row_start, constraint_start, constraints = blocks
    z, _, y, ahead, change = state
    step, code, _, _, _, _, _ = control
    for b in range(first, last):
        if code[b] != RUNNING:
            continue
        v0, v1, r0, r1 = variable_start[b], variable_start[b + 1], row_start[b], row_start[b + 1]
        c0, c1 = constraint_start[b], constraint_start[b + 1]
        for i in range(v0, v1):
            x[i] = z[i]
            force[i] = 0.0
        polish_block(c0, c1, constraints, rows, x, n_sweeps)
        measures = measure_rows(r0, r1, rows, z, x, ahead, change, y, 1.0 / step[b], force)
        conclude_block(b, measures, tol, floor, blocks, rows, y, control, best, x, force)
