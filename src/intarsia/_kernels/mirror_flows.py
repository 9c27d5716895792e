"""Mirror descent on squared errors of cells and moves of a chain, fused so that tables are read while in the cache.

Flat vectors hold the cells (T, s), then the moves (T - 1, s, s).
"""

import math

import numpy as np

from intarsia._core.jit import fast_kernel, kernel

# Below 2 to this power, exponentials are 0; see `collective.NEGLIGIBLE`.
_LEAST_POWER = np.log2(1e-250)
_PER_LOG_2 = 1.0 / np.log(2.0)
# Coefficients of the Taylor series of 2^r; twelve reach double precision for |r| <= 1/2.
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (
    math.log(2.0) ** k / math.factorial(k) for k in range(1, 13)
)


@fast_kernel
def exponential(x):
    """Return exp(x) without a function call, so that loops around it vectorise.

    The relative error is about 1e-16 (1 + |x|). Constant beyond +-690; 0 below 1e-250.
    """
    z = min(max(x * _PER_LOG_2, -1000.0), 1000.0)
    k = np.floor(z + 0.5)
    r = z - k
    y = _C9 + r * (_C10 + r * (_C11 + r * _C12))
    y = _C5 + r * (_C6 + r * (_C7 + r * (_C8 + r * y)))
    y = 1.0 + r * (_C1 + r * (_C2 + r * (_C3 + r * (_C4 + r * y))))
    power = (np.int64(np.int32(k)) + 1023) << 52  # the bits of 2^k
    return y * np.int64(power).view(np.float64) if z >= _LEAST_POWER else 0.0


@kernel
def _scale_largest(row):
    """Divide a row by its largest entry, and return that entry."""
    largest = 0.0
    for i in range(row.size):
        largest = max(largest, row[i])
    if largest > 0.0:
        for i in range(row.size):
            row[i] /= largest
    return largest


@fast_kernel
def _move_and_pass(scores, slope, step, shift, source, table, target):
    """Move the scores of one table against the slope; compute their exponentials and the message through them."""
    s = source.size
    target[:] = 0.0
    for i in range(s):
        x = source[i]
        for j in range(s):
            score = scores[i, j] - step * slope[i, j]
            scores[i, j] = score
            e = exponential(score - shift)
            table[i, j] = e
            target[j] += x * e


@fast_kernel
def _pass_back(table, entering, target):
    """Compute table @ entering in `target`."""
    s = entering.size
    for i in range(s):
        total = 0.0
        for j in range(s):
            total += table[i, j] * entering[j]
        target[i] = total


@fast_kernel
def _slope_of_moves(table, leaving, entering, y, slope, rate, precision, new_slope):
    """Compute the slope of the squared errors at the expected moves of one table.

    Returns the sums of squared errors, of the old slope times the moves, and of the squared changes of the slope.
    """
    s = entering.size
    squares, product, changes = 0.0, 0.0, 0.0
    scale = rate * precision
    for i in range(s):
        x = leaving[i]
        for j in range(s):
            n = x * table[i, j] * entering[j]
            error = rate * n - y[i, j]
            d, old = scale * error, slope[i, j]
            new_slope[i, j] = d
            squares += error * error
            product += old * n
            changes += (d - old) * (d - old)
    return squares, product, changes


@kernel
def _try_step(cells, moves, slope, new_slope, step, errors, scratch):
    """Move all scores by step x slope, and compute the slope there.

    Returns the log-partition function, the smallest inner product of scaled messages (0 where a number overflowed), the
    squared errors, the old slope times the expected counts, and its squared changes. `shift` is subtracted from the
    scores of each table and updated, so that the next exponentials are of moderate size without a search for the
    maximum.
    """
    y, rate, precision, n_walkers = errors.y, errors.rate, errors.precision, errors.n_walkers
    shift, tables, weights = scratch.shift, scratch.tables, scratch.weights
    forward, backward = scratch.forward, scratch.backward
    n_steps, s = cells.shape
    first = n_steps * s
    shape = (n_steps - 1, s, s)  # of the moves, which follow the cells
    slope_of, y_of = slope[first:].reshape(shape), y[first:].reshape(shape)
    new_slope_of = new_slope[first:].reshape(shape)
    log_z = 0.0
    smallest = 1.0
    for t in range(n_steps):
        for i in range(s):
            cells[t, i] -= step * slope[t * s + i]
        maximum = np.max(cells[t])
        log_z += maximum
        for i in range(s):
            weights[t, i] = exponential(cells[t, i] - maximum)
    forward[0] = weights[0]
    for t in range(1, n_steps):
        k = t - 1
        _move_and_pass(moves[k], slope_of[k], step, shift[k], forward[k], tables[k], forward[t])
        for j in range(s):
            forward[t, j] *= weights[t, j]
        scale = _scale_largest(forward[t])
        if not (scale > 0.0 and scale < 1e150):
            smallest = 0.0  # continue, so that all scores have moved
            continue
        smallest = min(smallest, scale)
        log_z += shift[t - 1] + np.log(scale)
        shift[t - 1] += np.log(scale)
    if smallest == 0.0:
        return log_z, 0.0, 0.0, 0.0, 0.0
    log_z += np.log(np.sum(forward[n_steps - 1]))
    backward[n_steps - 1] = 1.0
    squares, product, changes = 0.0, 0.0, 0.0
    for t in range(n_steps - 1, -1, -1):
        unscaled = 1.0
        if t < n_steps - 1:
            weights[t + 1] *= backward[t + 1]
            _pass_back(tables[t], weights[t + 1], backward[t])
            unscaled = _scale_largest(backward[t])
        shared = np.sum(forward[t] * backward[t])
        smallest = min(smallest, unscaled, shared)
        if not smallest > 0.0:
            return log_z, 0.0, 0.0, 0.0, 0.0
        if t < n_steps - 1:
            sums = _slope_of_moves(
                tables[t], forward[t] * (n_walkers / (shared * unscaled)), weights[t + 1], y_of[t], slope_of[t], rate,
                precision, new_slope_of[t],
            )  # fmt: skip
            squares += sums[0]
            product += sums[1]
            changes += sums[2]
        for i in range(s):
            p = t * s + i
            n = n_walkers * forward[t, i] * backward[t, i] / shared
            error = rate * n - y[p]
            new_slope[p] = rate * precision * error
            squares += error * error
            product += slope[p] * n
            changes += (new_slope[p] - slope[p]) ** 2
    return log_z, smallest, squares, product, changes


@kernel
def _move_back(cells, moves, slope, step):
    """Undo a step: add step x slope to all scores."""
    cells += step * slope[: cells.size].reshape(cells.shape)
    moves += step * slope[cells.size :].reshape(moves.shape)


ALL_MADE, CONVERGED, STUCK, UNSAFE = 0, 1, 2, 3


@kernel
def descend_mirror_flows(n_iter, tol, safe, cells, moves, slopes, numbers, errors, scratch, history):
    """Make up to `n_iter` steps of mirror descent with backtracking; return their number and why they ended.

    `cells` and `moves` are the scores, which change in place. `numbers` holds the log partition function, the value,
    the steepness, its factor after a step, its factor once a step had to be repeated, the number of calls, and the
    index of the slope at these scores among the two `slopes`. A row of `history` receives the value, the relative
    decrease, and the calls so far. UNSAFE means that the next step would leave the safe range of doubles; nothing has
    moved then.
    """
    rate, precision, constant, n_walkers = errors.rate, errors.precision, errors.constant, errors.n_walkers
    for n_made in range(n_iter):
        log_z, value = numbers[0], numbers[1]
        current = np.int64(numbers[6])
        slope, new_slope = slopes[current], slopes[1 - current]
        while True:
            step = 1.0 / numbers[2]
            new_log_z, smallest, squares, product, changes = _try_step(
                cells, moves, slope, new_slope, step, errors, scratch
            )
            if not smallest > safe:
                _move_back(cells, moves, slope, step)
                return n_made, UNSAFE
            numbers[5] += 1.0
            # The rise of f above its tangent, and N times the relative entropy of the new distribution to the old.
            rise = 0.5 * changes / (rate * rate * precision)
            away = -step * product - n_walkers * (new_log_z - log_z)
            slack = 1e-13 * (1.0 + abs(value) + n_walkers * abs(new_log_z))
            if rise <= numbers[2] * away + slack:
                break
            _move_back(cells, moves, slope, step)
            if numbers[2] > 1e15:
                return n_made, STUCK
            numbers[2] *= 2.0
            numbers[3] = numbers[4]
        numbers[0], numbers[1] = new_log_z, 0.5 * squares * precision + constant
        numbers[2] = max(numbers[3] * numbers[2], 1e-12)
        numbers[6] = 1 - current
        history[n_made, 0] = numbers[1]
        history[n_made, 1] = max(value - numbers[1], 0.0) / (1.0 + abs(numbers[1]))
        history[n_made, 2] = numbers[5]
        if history[n_made, 1] <= tol:
            return n_made + 1, CONVERGED
    return n_iter, ALL_MADE
