"""Mirror descent on squared errors of cells and moves of a chain, fused: a table is read while it is hot.

Flat vectors hold the cells (T, s), then the moves (T - 1, s, s).
"""

import math

import numpy as np

from intarsia._core.jit import fast_kernel, kernel

# Below 2 to this power, exponentials are 0; see `collective.NEGLIGIBLE`.
_LEAST_POWER = np.log2(1e-250)
_PER_LOG_2 = 1.0 / np.log(2.0)
# Taylor's series of 2^r, which ends below the last digit for |r| <= 1/2.
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (
    math.log(2.0) ** k / math.factorial(k) for k in range(1, 13)
)


@fast_kernel
def exponential(x):
    """Exp without a call, so that loops around it run on vector registers.

    The relative error is about 1e-16 (1 + |x|). Stays where it is beyond +-690; 0 below 1e-250.
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
    top = 0.0
    for i in range(row.size):
        top = max(top, row[i])
    if top > 0.0:
        for i in range(row.size):
            row[i] /= top
    return top


@fast_kernel
def _move_and_pass(scores, slope, step, shift, source, table, target):
    """Move the scores of one table against the slope; their exponentials, and the message through them."""
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
    s = entering.size
    for i in range(s):
        total = 0.0
        for j in range(s):
            total += table[i, j] * entering[j]
        target[i] = total


@fast_kernel
def _judge(table, leaving, entering, y, slope, rate, precision, new_slope):
    """The slope at the walkers on moves; their squared errors, the old slope times them, squared changes of it."""
    s = entering.size
    squares, along, changes = 0.0, 0.0, 0.0
    scale = rate * precision
    for i in range(s):
        x = leaving[i]
        for j in range(s):
            n = x * table[i, j] * entering[j]
            error = rate * n - y[i, j]
            d, old = scale * error, slope[i, j]
            new_slope[i, j] = d
            squares += error * error
            along += old * n
            changes += (d - old) * (d - old)
    return squares, along, changes


@kernel
def _try_step(cells, moves, slope, new_slope, step, errors, scratch):
    """Move all scores by step x slope, and find the slope there.

    Returns the log-partition function, the least share that scaled messages have in common (0 where a number
    overflowed), the squared errors, the old slope times the walkers, and its squared changes. `shift` is taken from the
    scores of each table and moves on, so that next time exponentials are of middling size without a search for the
    largest.
    """
    y, rate, precision, n_walkers = errors.y, errors.rate, errors.precision, errors.n_walkers
    shift, tables, weights = scratch.shift, scratch.tables, scratch.weights
    forward, backward = scratch.forward, scratch.backward
    n_steps, s = cells.shape
    first = n_steps * s
    shape = (n_steps - 1, s, s)  # of what follows the cells
    slope_of, y_of = slope[first:].reshape(shape), y[first:].reshape(shape)
    new_slope_of = new_slope[first:].reshape(shape)
    log_z = 0.0
    least = 1.0
    for t in range(n_steps):
        for i in range(s):
            cells[t, i] -= step * slope[t * s + i]
        top = np.max(cells[t])
        log_z += top
        for i in range(s):
            weights[t, i] = exponential(cells[t, i] - top)
    forward[0] = weights[0]
    for t in range(1, n_steps):
        k = t - 1
        _move_and_pass(moves[k], slope_of[k], step, shift[k], forward[k], tables[k], forward[t])
        for j in range(s):
            forward[t, j] *= weights[t, j]
        scale = _scale_largest(forward[t])
        if not (scale > 0.0 and scale < 1e150):
            least = 0.0  # go on, so that all scores have moved
            continue
        least = min(least, scale)
        log_z += shift[t - 1] + np.log(scale)
        shift[t - 1] += np.log(scale)
    if least == 0.0:
        return log_z, 0.0, 0.0, 0.0, 0.0
    log_z += np.log(np.sum(forward[n_steps - 1]))
    backward[n_steps - 1] = 1.0
    squares, along, changes = 0.0, 0.0, 0.0
    for t in range(n_steps - 1, -1, -1):
        unscaled = 1.0
        if t < n_steps - 1:
            weights[t + 1] *= backward[t + 1]
            _pass_back(tables[t], weights[t + 1], backward[t])
            unscaled = _scale_largest(backward[t])
        shared = np.sum(forward[t] * backward[t])
        least = min(least, unscaled, shared)
        if not least > 0.0:
            return log_z, 0.0, 0.0, 0.0, 0.0
        if t < n_steps - 1:
            found = _judge(
                tables[t], forward[t] * (n_walkers / (shared * unscaled)), weights[t + 1], y_of[t], slope_of[t], rate,
                precision, new_slope_of[t],
            )  # fmt: skip
            squares += found[0]
            along += found[1]
            changes += found[2]
        for i in range(s):
            p = t * s + i
            n = n_walkers * forward[t, i] * backward[t, i] / shared
            error = rate * n - y[p]
            new_slope[p] = rate * precision * error
            squares += error * error
            along += slope[p] * n
            changes += (new_slope[p] - slope[p]) ** 2
    return log_z, least, squares, along, changes


@kernel
def _move_back(cells, moves, slope, step):
    cells += step * slope[: cells.size].reshape(cells.shape)
    moves += step * slope[cells.size :].reshape(moves.shape)


ALL_MADE, CONVERGED, STUCK, UNSAFE = 0, 1, 2, 3


@kernel
def descend_mirror_flows(n_iter, tol, safe, cells, moves, slopes, numbers, errors, scratch, history):
    """Up to `n_iter` steps of mirror descent, each found by backtracking; returns how many were made, and why no more.

    `cells` and `moves` are the scores, which move in place. `numbers` holds the log partition function, the value, the
    steepness, what is left of it after a step, what is left once a step had to be repeated, the number of calls, and
    which of the two `slopes` is that at these scores. A row of `history` gets the value, the relative fall, and the
    calls so far. UNSAFE means that the next step would leave the safe range of doubles; nothing has moved then.
    """
    rate, precision, constant, n_walkers = errors.rate, errors.precision, errors.constant, errors.n_walkers
    for made in range(n_iter):
        log_z, value = numbers[0], numbers[1]
        now = np.int64(numbers[6])
        slope, new_slope = slopes[now], slopes[1 - now]
        while True:
            step = 1.0 / numbers[2]
            new_log_z, least, squares, along, changes = _try_step(cells, moves, slope, new_slope, step, errors, scratch)
            if not least > safe:
                _move_back(cells, moves, slope, step)
                return made, UNSAFE
            numbers[5] += 1.0
            # What f rises above its tangent, and N times the relative entropy of the new distribution to the old.
            rise = 0.5 * changes / (rate * rate * precision)
            away = -step * along - n_walkers * (new_log_z - log_z)
            slack = 1e-13 * (1.0 + abs(value) + n_walkers * abs(new_log_z))
            if rise <= numbers[2] * away + slack:
                break
            _move_back(cells, moves, slope, step)
            if numbers[2] > 1e15:
                return made, STUCK
            numbers[2] *= 2.0
            numbers[3] = numbers[4]
        numbers[0], numbers[1] = new_log_z, 0.5 * squares * precision + constant
        numbers[2] = max(numbers[3] * numbers[2], 1e-12)
        numbers[6] = 1 - now
        history[made, 0] = numbers[1]
        history[made, 1] = max(value - numbers[1], 0.0) / (1.0 + abs(numbers[1]))
        history[made, 2] = numbers[5]
        if history[made, 1] <= tol:
            return made + 1, CONVERGED
    return n_iter, ALL_MADE
