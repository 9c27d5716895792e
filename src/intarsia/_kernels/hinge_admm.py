"""Consensus ADMM for hinge-loss Markov random fields, block by block.

Every row j (a hinge or a constraint) has its own copy x_e of each of its variables, with a multiplier; the copies of
variable i must agree with z_i. With step rho, scaled multipliers u and over-relaxation alpha, one iteration is
(Boyd2011 sections 3.4.3 and 7.1)

    x <- argmin f_j(x) + rho/2 |x - (z - u)|^2,      xh = alpha x + (1 - alpha) z,
    z <- clip(mean of xh + u over the copies),       u <- u + xh - z.

The first line moves the copies of a row along its coefficients only: x = z - u - t a / rho with one number t per row.
So by induction u_e = base_i - z_i - y_j a_e / rho for all entries, and neither copies nor multipliers need to be
stored: y_j of each row and base_i of each variable are the complete state. In these terms, with q = |a|^2 / rho,

    ahead = 2 z - base,      t = (a.ahead + b + y q) / (q + curve) within [0, top],
    y <- y + alpha (t - y),      base <- base + alpha (z - base),      z = clip(base - sum_j y_j a_e / (rho degree))

where a linear hinge of weight w has curve 0 and top w, a squared one curve 1 / 2w and top inf, an inequality curve 0
and top inf, and for an equality t may also be negative. The copies are x_e = ahead_i + (y_j - t_j) a_e / rho.

One iteration maps (base, y) to a point that is no farther from any solution, in the metric in which the residual is rho
times the squared distance of the copies from z. Such a map may be anchored (Halpern): the k-th point since a restart is
moved towards the point of the restart by a fraction 1 / (k + 2), and a restart follows when the residual has fallen
enough. On models of linear hinges this takes far fewer iterations (Lu2024).

Every y within its bounds is a point of the Lagrangian dual, whatever its origin (a warm start, other weights). For a
hinge of l and 0 <= y <= top,

    hinge(l) = max over 0 <= t <= top of (t l - curve t^2 / 2)  >=  y l - curve y^2 / 2,

and for a constraint that holds 0 >= y l, if y >= 0 or the constraint is an equality. The sum over all rows is linear in
x, and smallest over the box where x_i is 1 for a negative slope and otherwise 0:

    sum_j hinge_j(x)  >=  sum_j (y_j b_j - curve_j y_j^2 / 2) + sum_i min(0, (A^T y)_i)   for all feasible x.

So every check has a proven lower bound beside the objective; `hinge_checks` subtracts the possible rounding error.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import inline_kernel, kernel, prefetch

LINEAR, SQUARED, INEQUALITY, EQUALITY = 0, 1, 2, 3  # kinds of rows
RUNNING = 0  # as in `hinge_checks`

_FORWARD = np.uint64(40)  # distance in entries at which variables are prefetched
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)  # with a signed number an unsigned index becomes a float


@kernel
def weigh_rows(weight_index, kind, weight, curve, top):
    """Compute `curve` and `top` of every row, whose weight is `weight[weight_index]`; constraints have none."""
    for j in range(kind.size):
        curve[j], top[j] = 0.0, np.inf
        if kind[j] == LINEAR:
            top[j] = weight[weight_index[j]]
        elif kind[j] == SQUARED:
            curve[j] = 0.5 / weight[weight_index[j]]  # infinite for a weight of 0: no force


@inline_kernel
def _multiplier(s, q, old, curve, top, equality):
    """Return the t of a row whose value at `ahead` is s, without branches.

    Helpers inside loops take numbers: passing an array there would count its references in every iteration.
    """
    t = (s + old * q) / (q + curve)
    t = t if t > 0.0 or equality else 0.0
    return min(t, top)


@kernel
def advance_rows(r0, r1, rows, y, y_anchor, ahead, change, force, inverse, alpha, pull, last):
    """Update the multipliers of some rows, and add them to the force on their variables.

    Rows of a block are sorted by length. Those of one to three variables are written out: the processor mispredicts the
    end of so short a loop half of the time, which would cost more than the arithmetic. Variables of later rows are
    prefetched, since those of a large model are far apart: without it four million rows take twice as long.
    """
    ptr, idx, coef, const, curve, top, kind = rows
    j, r1 = np.uint64(r0), np.uint64(r1)
    prefetch_end = np.uint64(max(idx.size - 64, 0))
    while j < r1 and ptr[j + ONE] - ptr[j] == ONE:
        e = ptr[j]
        a, i, old = coef[e], idx[e], y[j]
        t = _multiplier(const[j] + a * ahead[i], a * a * inverse, old, curve[j], top[j], kind[j] == EQUALITY)
        new = old + alpha * (t - old)
        if pull > 0.0:
            new += pull * (y_anchor[j] - new)
        y[j] = new
        if last:
            change[j] = old - t
        force[i] += a * new
        j += ONE
    while j < r1 and ptr[j + ONE] - ptr[j] == TWO:
        e = ptr[j]
        f = e + ONE
        if e < prefetch_end:
            prefetch(ahead, idx[e + _FORWARD])
            prefetch(ahead, idx[f + _FORWARD])
            prefetch(force, idx[e + _FORWARD])
            prefetch(force, idx[f + _FORWARD])
        a, b, i, k, old = coef[e], coef[f], idx[e], idx[f], y[j]
        s = const[j] + a * ahead[i] + b * ahead[k]
        t = _multiplier(s, (a * a + b * b) * inverse, old, curve[j], top[j], kind[j] == EQUALITY)
        new = old + alpha * (t - old)
        if pull > 0.0:
            new += pull * (y_anchor[j] - new)
        y[j] = new
        if last:
            change[j] = old - t
        force[i] += a * new
        force[k] += b * new
        j += ONE
    while j < r1 and ptr[j + ONE] - ptr[j] == THREE:
        e = ptr[j]
        f, g = e + ONE, e + TWO
        if e < prefetch_end:
            prefetch(ahead, idx[e + _FORWARD])
            prefetch(ahead, idx[f + _FORWARD])
            prefetch(ahead, idx[g + _FORWARD])
            prefetch(force, idx[e + _FORWARD])
            prefetch(force, idx[f + _FORWARD])
            prefetch(force, idx[g + _FORWARD])
        a, b, c, i, k, h, old = coef[e], coef[f], coef[g], idx[e], idx[f], idx[g], y[j]
        s = const[j] + a * ahead[i] + b * ahead[k] + c * ahead[h]
        t = _multiplier(s, (a * a + b * b + c * c) * inverse, old, curve[j], top[j], kind[j] == EQUALITY)
        new = old + alpha * (t - old)
        if pull > 0.0:
            new += pull * (y_anchor[j] - new)
        y[j] = new
        if last:
            change[j] = old - t
        force[i] += a * new
        force[k] += b * new
        force[h] += c * new
        j += ONE
    while j < r1:
        s, q, old = const[j], 0.0, y[j]
        for e in range(ptr[j], ptr[j + ONE]):
            s += coef[e] * ahead[idx[e]]
            q += coef[e] * coef[e]
        t = _multiplier(s, q * inverse, old, curve[j], top[j], kind[j] == EQUALITY)
        new = old + alpha * (t - old)
        if pull > 0.0:
            new += pull * (y_anchor[j] - new)
        y[j] = new
        if last:
            change[j] = old - t
        for e in range(ptr[j], ptr[j + ONE]):
            force[idx[e]] += coef[e] * new
        j += ONE


@kernel
def look_ahead(v0, v1, z, base, ahead):
    """Compute ahead = 2 z - base, the values of variables that the rows read."""
    for i in range(v0, v1):
        ahead[i] = 2.0 * z[i] - base[i]


@kernel
def advance_variables(v0, v1, forces, degree, z, base, base_anchor, inverse, alpha, pull):
    """Update base and z of some variables, on which the forces are the sums over the first axis.

    Returns the sum over their copies of the squared change of z.
    """
    z_change = 0.0
    for i in range(v0, v1):
        force = 0.0
        for p in range(forces.shape[0]):
            force += forces[p, i]
        new_base = base[i] + alpha * (z[i] - base[i])
        if pull > 0.0:
            new_base += pull * (base_anchor[i] - new_base)
        new_z = min(max(new_base - force * inverse / degree[i], 0.0), 1.0)
        z_change += degree[i] * (new_z - z[i]) ** 2
        base[i] = new_base
        z[i] = new_z
    return z_change


@kernel
def advance_block(v0, v1, r0, r1, rows, degree, state, anchor, work, rho, alpha, age, n_iter):
    """Make `n_iter` iterations; `ahead` and `change` of the last one determine its local copies.

    `age` counts the iterations since the last restart; -1 means that nothing is anchored. Returns the sum over the
    copies of the squared last change of z.
    """
    z, base, y, ahead, change = state
    base_anchor, y_anchor = anchor
    forces = work.reshape(1, -1)
    inverse = 1.0 / rho
    z_change = 0.0
    for k in range(n_iter):
        pull = 0.0 if age < 0 else 1.0 / (age + k + 2.0)
        look_ahead(v0, v1, z, base, ahead)
        work[v0:v1] = 0.0
        advance_rows(r0, r1, rows, y, y_anchor, ahead, change, work, inverse, alpha, pull, k == n_iter - 1)
        z_change = advance_variables(v0, v1, forces, degree, z, base, base_anchor, inverse, alpha, pull)
    return z_change


@kernel
def advance_blocks(first, last, n_iter, max_iter, alpha, blocks, rows, degree, state, anchor, work, control):
    """Advance every running block by `n_iter` iterations; by one where it was just restarted."""
    step, n_done, age, code, anchored, z_change = control
    variable_start, row_start, _, _ = blocks
    for b in range(first, last):
        if code[b] != RUNNING:
            continue
        n_steps = min(1 if age[b] == 0 else n_iter, max_iter - n_done[b])
        if n_steps <= 0:
            continue
        z_change[b] = advance_block(
            variable_start[b], variable_start[b + 1], row_start[b], row_start[b + 1], rows, degree, state, anchor, work,
            step[b], alpha, age[b] if anchored[b] else -1, n_steps,
        )  # fmt: skip
        n_done[b] += n_steps
        age[b] += n_steps


@kernel
def distance_of_copies(blocks, rows, z, ahead, change, step):
    """Return the root mean square over all copies of their distance from z."""
    ptr, idx, coef, _, _, _, _ = rows
    row_start = blocks[1]
    squares = 0.0
    for b in range(step.size):
        for j in range(row_start[b], row_start[b + 1]):
            push = change[j] / step[b]
            for e in range(ptr[j], ptr[j + 1]):
                distance = ahead[idx[e]] + push * coef[e] - z[idx[e]]
                squares += distance * distance
    return np.sqrt(squares / max(coef.size, 1))


@kernel
def advance_plainly(n_iter, tol, alpha, blocks, rows, degree, state, work, step):
    """Make `n_iter` iterations of all blocks without an anchor, fewer where both residuals have fallen to `tol`.

    The primal residual costs a pass over the rows, and is computed only if the dual one is small enough. Returns the
    number of iterations and the dual residual.
    """
    z, base, y, ahead, change = state
    variable_start, row_start, _, _ = blocks
    n_made, dual = 0, 0.0
    while n_made < n_iter:
        force = 0.0
        for b in range(step.size):
            z_change = advance_block(
                variable_start[b], variable_start[b + 1], row_start[b], row_start[b + 1], rows, degree, state,
                (base, y), work, step[b], alpha, -1, 1,
            )  # fmt: skip
            force += step[b] * step[b] * z_change
        n_made += 1
        dual = np.sqrt(force / max(rows[2].size, 1))
        if n_made < n_iter and dual <= tol and distance_of_copies(blocks, rows, z, ahead, change, step) <= tol:
            break
    return n_made, dual


@kernel
def local_rows(blocks, rows, ahead, change, step, row_of, out):
    """Compute the value of each row at its own copies, in the order of the model's rows."""
    ptr, idx, coef, const, _, _, _ = rows
    row_start = blocks[1]
    for b in range(step.size):
        for j in range(row_start[b], row_start[b + 1]):
            push = change[j] / step[b]
            value = const[j]
            for e in range(ptr[j], ptr[j + 1]):
                value += coef[e] * (ahead[idx[e]] + push * coef[e])
            out[row_of[j]] = value


@kernel
def sum_local_hinges(blocks, rows, y, ahead, change, step, alpha, group, out):
    """Add max(0, value)^power of every hinge at its own copies to `out` at its group, after an iteration.

    The force t of the iteration is y + (alpha - 1) change. The value of a squared hinge with a positive weight is t
    curve; a linear hinge without force is 0. So most rows need not read their variables.
    """
    ptr, idx, coef, const, curve, top, kind = rows
    row_start = blocks[1]
    for b in range(step.size):
        for j in range(row_start[b], row_start[b + 1]):
            t = y[j] + (alpha - 1.0) * change[j]
            if kind[j] == SQUARED and curve[j] < np.inf:
                out[group[j]] += (t * curve[j]) ** 2
            elif kind[j] < INEQUALITY and (t > 0.0 or top[j] == 0.0 or kind[j] == SQUARED):
                push = change[j] / step[b]
                value = const[j]
                for e in range(ptr[j], ptr[j + 1]):
                    value += coef[e] * (ahead[idx[e]] + push * coef[e])
                value = max(value, 0.0)
                out[group[j]] += value * value if kind[j] == SQUARED else value
