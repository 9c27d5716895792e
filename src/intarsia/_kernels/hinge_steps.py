"""Restarts of ADMM, and the choice of its step."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

SQUARED, INEQUALITY = 1, 2  # kinds of rows as in `hinge_admm`; INEQUALITY is the first of the constraints
RUNNING, PRIMAL, DUAL = 0, 3, 4  # as in `hinge_checks`

# A block restarts when its residual has fallen by the first factor since the last restart; or by the second, but rises
# again; or when this fraction of all iterations was made since (Lu2024).
_SUFFICIENT, _NECESSARY, _LONG = 0.2, 0.8, 0.36


@kernel
def usual_steps(blocks, ptr, coef, kind, row_of, weight):
    """Return, per block, the mean over its hinges of the weight times the size of a coefficient; 1 if there are none.

    A hinge pulls a copy with about this force, and a copy moves by about one; the step is the ratio of the two.
    Rescaling the weights rescales the step, and ADMM makes the same iterations.
    """
    _, row_start, _, _ = blocks
    steps = np.ones(row_start.size - 1)
    for b in range(steps.size):
        total, count = 0.0, 0
        for j in range(row_start[b], row_start[b + 1]):
            if kind[j] < INEQUALITY:
                square = 0.0
                for e in range(ptr[j], ptr[j + 1]):
                    square += coef[e] * coef[e]
                total += weight[row_of[j]] * np.sqrt(square / np.float64(ptr[j + 1] - ptr[j]))
                count += 1
        if total > 0.0:
            steps[b] = total / count
    return steps


@kernel
def lightest_forces(blocks, rows):
    """Return, per block, the smallest positive force of a hinge: its weight times at most the length of its row."""
    ptr, _, coef, _, curve, top, kind = rows
    _, row_start, _, _ = blocks
    lightest = np.ones(row_start.size - 1)
    for b in range(lightest.size):
        smallest = np.inf
        for j in range(row_start[b], row_start[b + 1]):
            if kind[j] < INEQUALITY:
                square = 0.0
                for e in range(ptr[j], ptr[j + 1]):
                    square += coef[e] * coef[e]
                force = 0.5 / curve[j] * min(square, 1.0) if kind[j] == SQUARED else top[j] * min(np.sqrt(square), 1.0)
                if force > 0.0:
                    smallest = min(smallest, force)
        if smallest < np.inf:
            lightest[b] = smallest
    return lightest


@kernel
def consensus(v0, v1, r0, r1, rows, degree, z, base, y, work, rho):
    """Compute z again, after base, y or the step were changed: z = clip(base - A^T y / (rho degree))."""
    ptr, idx, coef, _, _, _, _ = rows
    for i in range(v0, v1):
        work[i] = 0.0
    for j in range(r0, r1):
        if y[j] != 0.0:
            for e in range(ptr[j], ptr[j + 1]):
                work[idx[e]] += coef[e] * y[j]
    for i in range(v0, v1):
        z[i] = min(max(base[i] - work[i] / (rho * degree[i]), 0.0), 1.0)


@kernel
def consensus_blocks(blocks, rows, degree, state, work, step):
    """Compute z of all blocks again."""
    variable_start, row_start, _, _ = blocks
    z, base, y, _, _ = state
    for b in range(step.size):
        v0, v1, r0, r1 = variable_start[b], variable_start[b + 1], row_start[b], row_start[b + 1]
        consensus(v0, v1, r0, r1, rows, degree, z, base, y, work, step[b])


@kernel
def balanced_step(v0, v1, r0, r1, rows, degree, base, y, anchor):
    """Return the distance that the multipliers moved since the last restart over that of `base`, over all copies.

    With this step the distance to a solution that bounds the number of iterations is smallest, if the next movement is
    like the last one. Returns 0 if either has not moved.
    """
    ptr, _, coef, _, _, _, _ = rows
    base_anchor, y_anchor = anchor
    force, way = 0.0, 0.0
    for j in range(r0, r1):
        if y[j] != y_anchor[j]:
            q = 0.0
            for e in range(ptr[j], ptr[j + 1]):
                q += coef[e] * coef[e]
            force += (y[j] - y_anchor[j]) ** 2 * q
    for i in range(v0, v1):
        way += degree[i] * (base[i] - base_anchor[i]) ** 2
    return np.sqrt(force / way) if force > 0.0 and way > 0.0 else 0.0


@kernel
def restart_blocks(first, last, adapt_until, low, high, blocks, rows, degree, state, control, anchor, work):
    """Restart the blocks whose residual meets the criteria: their anchor moves, and the step may change."""
    variable_start, row_start, _, _ = blocks
    z, base, y, _, _ = state
    base_anchor, y_anchor = anchor
    step, n_done, age, code, figures, residuals = control
    for b in range(first, last):
        if code[b] != RUNNING:
            continue
        residual = np.sqrt(step[b] * figures[b, PRIMAL] ** 2 + figures[b, DUAL] ** 2 / step[b])
        if age[b] == 1:
            residuals[b, 0] = residuals[b, 1] = residual
            continue
        fallen = residual <= _SUFFICIENT * residuals[b, 0]
        rises = residual <= _NECESSARY * residuals[b, 0] and residual > residuals[b, 1]
        residuals[b, 1] = residual
        if not (fallen or rises or age[b] >= _LONG * n_done[b]):
            continue
        v0, v1, r0, r1 = variable_start[b], variable_start[b + 1], row_start[b], row_start[b + 1]
        if n_done[b] <= adapt_until:
            target = balanced_step(v0, v1, r0, r1, rows, degree, base, y, anchor)
            if target > 0.0:
                step[b] = min(max(np.sqrt(step[b] * target), low[b]), high[b])
                consensus(v0, v1, r0, r1, rows, degree, z, base, y, work, step[b])
        for i in range(v0, v1):
            base_anchor[i] = base[i]
        for j in range(r0, r1):
            y_anchor[j] = y[j]
        age[b] = 0
