"""One step of mirror descent on squared errors of cells and moves of a chain, fused: a table is read while it is hot.

Flat vectors hold the cells (T, s), then the moves (T - 1, s, s).
"""

import math

import numpy as np

from intarsia._jit import fast_kernel, kernel

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
def _tilt_and_pass(theta, tilt, slope, step, shift, source, new_tilt, table, target):
    """New scores of one table, their exponentials, and the message through them."""
    s = source.size
    target[:] = 0.0
    for i in range(s):
        for j in range(s):
            x = tilt[i, j] + step * slope[i, j]
            new_tilt[i, j] = x
            e = exponential(theta[i, j] - x - shift)
            table[i, j] = e
            target[j] += source[i] * e


@fast_kernel
def _pass_back(table, entering, target):
    s = entering.size
    for i in range(s):
        total = 0.0
        for j in range(s):
            total += table[i, j] * entering[j]
        target[i] = total


@fast_kernel
def _judge(table, leaving, entering, y, slope, rate, precision, walkers, new_slope):
    """Walkers on moves, their squared errors, and both slopes times them."""
    s = entering.size
    squares, along, along_new = 0.0, 0.0, 0.0
    for i in range(s):
        x = leaving[i]
        for j in range(s):
            n = x * table[i, j] * entering[j]
            error = rate * n - y[i, j]
            d = rate * precision * error
            walkers[i, j] = n
            new_slope[i, j] = d
            squares += error * error
            along += slope[i, j] * n
            along_new += d * n
    return squares, along, along_new


@kernel
def step_mirror_flows(
    theta, scores, tilt, slope, step, shift, y, rate, precision, n_walkers, new_tilt, tables, forward, backward,
    walkers, new_slope,
):  # fmt: skip
    """The tilt moves by step x slope; walkers and slope there.

    Returns the log-partition function, the least share that scaled messages have in common (0 where a number
    overflowed), the squared errors, and the old and the new slope times the walkers. `shift` is taken from the scores
    of each table and moves on, so that next time exponentials are of middling size without a search for the largest.
    """
    n_steps, s = scores.shape
    first = n_steps * s
    shape = (n_steps - 1, s, s)  # of what follows the cells
    tilt_of, slope_of, y_of = tilt[first:].reshape(shape), slope[first:].reshape(shape), y[first:].reshape(shape)
    new_tilt_of, new_slope_of = new_tilt[first:].reshape(shape), new_slope[first:].reshape(shape)
    walkers_of = walkers[first:].reshape(shape)
    weights = np.empty((n_steps, s))
    log_z = 0.0
    least = 1.0
    for t in range(n_steps):
        for i in range(s):
            p = t * s + i
            new_tilt[p] = tilt[p] + step * slope[p]
            weights[t, i] = scores[t, i] - new_tilt[p]
        top = np.max(weights[t])
        log_z += top
        for i in range(s):
            weights[t, i] = exponential(weights[t, i] - top)
    forward[0] = weights[0]
    for t in range(1, n_steps):
        k = t - 1
        _tilt_and_pass(
            theta[k], tilt_of[k], slope_of[k], step, shift[k], forward[k], new_tilt_of[k], tables[k], forward[t]
        )
        for j in range(s):
            forward[t, j] *= weights[t, j]
        scale = _scale_largest(forward[t])
        if not (scale > 0.0 and scale < 1e150):
            return log_z, 0.0, 0.0, 0.0, 0.0
        least = min(least, scale)
        log_z += shift[t - 1] + np.log(scale)
        shift[t - 1] += np.log(scale)
    log_z += np.log(np.sum(forward[n_steps - 1]))
    backward[n_steps - 1] = 1.0
    squares, along, along_new = 0.0, 0.0, 0.0
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
                precision, walkers_of[t], new_slope_of[t],
            )  # fmt: skip
            squares += found[0]
            along += found[1]
            along_new += found[2]
        for i in range(s):
            p = t * s + i
            n = n_walkers * forward[t, i] * backward[t, i] / shared
            error = rate * n - y[p]
            walkers[p] = n
            new_slope[p] = rate * precision * error
            squares += error * error
            along += slope[p] * n
            along_new += new_slope[p] * n
    return log_z, least, squares, along, along_new
