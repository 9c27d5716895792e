"""Forward-backward along a chain of cells whose steps share tables: dense, banded, sparse; and along a tree of steps.

`weights` (T, s) are the cells' weights, at most 1 in each step; `forward[t]` includes the weights of step t, and
`backward[t]` does not, both scaled to a largest entry of 1. `table_of_step` (T - 1) says which table leads from t to
t + 1, in a tree from `parents[t + 1]` to t + 1. Each kernel returns the logarithm of all scales taken out on the way,
and the least share that the scaled messages have in common, which tells how far underflow can matter: what fell below
`NEGLIGIBLE` is at most that small beside it.
"""

import numpy as np

from intarsia._core.jit import fast_kernel, kernel

# Entries below this are set to 0: numbers near the end of the double range are slow and inexact.
NEGLIGIBLE = 1e-250


@kernel
def _scale_largest(row):
    """Divide by the largest entry, which is returned; what is negligible becomes 0."""
    top = 0.0
    for i in range(row.size):
        top = max(top, row[i])
    if top > 0.0:
        for i in range(row.size):
            x = row[i] / top
            row[i] = x if x >= NEGLIGIBLE else 0.0
    return top


@kernel
def _begin_forward(weights, forward):
    forward[0] = weights[0]
    return np.log(_scale_largest(forward[0]))


@kernel
def _end_forward(weights, forward, t):
    """Weigh a passed message and scale it; the scale."""
    for j in range(weights.shape[1]):
        forward[t, j] *= weights[t, j]
    return _scale_largest(forward[t])


@kernel
def _shared(forward, backward, t):
    total = 0.0
    for i in range(forward.shape[1]):
        total += forward[t, i] * backward[t, i]
    return total


@kernel
def pass_dense(tables, table_of_step, weights, forward, backward):
    """Tables (n, s, s)."""
    n_steps, s = weights.shape
    passed = np.empty(s)
    least = 1.0
    log_scale = _begin_forward(weights, forward)
    for t in range(1, n_steps):
        np.dot(forward[t - 1], tables[table_of_step[t - 1]], passed)
        forward[t] = passed
        scale = _end_forward(weights, forward, t)
        least = min(least, scale)
        log_scale += np.log(scale)
    backward[n_steps - 1] = 1.0
    for t in range(n_steps - 2, -1, -1):
        np.dot(tables[table_of_step[t]], weights[t + 1] * backward[t + 1], passed)
        backward[t] = passed
        least = min(least, _scale_largest(backward[t]))
    for t in range(n_steps):
        least = min(least, _shared(forward, backward, t))
    return log_scale + np.log(np.sum(forward[n_steps - 1])), least


@fast_kernel
def _banded_forward(diagonals, source, target):
    width, s = diagonals.shape
    reach = width // 2
    target[:] = 0.0
    for d in range(width):
        shift = d - reach
        for i in range(max(0, -shift), min(s, s - shift)):
            target[i + shift] += source[i] * diagonals[d, i]


@fast_kernel
def _banded_backward(diagonals, source, target):
    width, s = diagonals.shape
    reach = width // 2
    target[:] = 0.0
    for d in range(width):
        shift = d - reach
        for i in range(max(0, -shift), min(s, s - shift)):
            target[i] += source[i + shift] * diagonals[d, i]


@kernel
def pass_banded(tables, table_of_step, weights, forward, backward):
    """Tables (n, 2 reach + 1, s): entry [d, i] leads from cell i to cell i + d - reach."""
    n_steps = weights.shape[0]
    least = 1.0
    log_scale = _begin_forward(weights, forward)
    for t in range(1, n_steps):
        _banded_forward(tables[table_of_step[t - 1]], forward[t - 1], forward[t])
        scale = _end_forward(weights, forward, t)
        least = min(least, scale)
        log_scale += np.log(scale)
    backward[n_steps - 1] = 1.0
    for t in range(n_steps - 2, -1, -1):
        _banded_backward(tables[table_of_step[t]], weights[t + 1] * backward[t + 1], backward[t])
        least = min(least, _scale_largest(backward[t]))
    for t in range(n_steps):
        least = min(least, _shared(forward, backward, t))
    return log_scale + np.log(np.sum(forward[n_steps - 1])), least


@fast_kernel
def _sparse_forward(ptr, idx, values, source, target):
    target[:] = 0.0
    for i in range(source.size):
        x = source[i]
        if x > 0.0:
            for p in range(ptr[i], ptr[i + 1]):
                target[idx[p]] += x * values[p]


@fast_kernel
def _sparse_backward(ptr, idx, values, source, target):
    for i in range(target.size):
        total = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            total += values[p] * source[idx[p]]
        target[i] = total


@kernel
def pass_sparse(ptr, idx, tables, table_of_step, weights, forward, backward):
    """Tables (n, moves): entry p of cell i leads to cell idx[p], ptr[i] <= p < ptr[i + 1]."""
    n_steps = weights.shape[0]
    least = 1.0
    log_scale = _begin_forward(weights, forward)
    for t in range(1, n_steps):
        _sparse_forward(ptr, idx, tables[table_of_step[t - 1]], forward[t - 1], forward[t])
        scale = _end_forward(weights, forward, t)
        least = min(least, scale)
        log_scale += np.log(scale)
    backward[n_steps - 1] = 1.0
    for t in range(n_steps - 2, -1, -1):
        _sparse_backward(ptr, idx, tables[table_of_step[t]], weights[t + 1] * backward[t + 1], backward[t])
        least = min(least, _scale_largest(backward[t]))
    for t in range(n_steps):
        least = min(least, _shared(forward, backward, t))
    return log_scale + np.log(np.sum(forward[n_steps - 1])), least


@kernel
def _multiply(row, factors):
    """Multiply in place and scale; the scale."""
    for i in range(row.size):
        row[i] *= factors[i]
    return _scale_largest(row)


@kernel
def pass_tree(ptr, idx, tables, table_of_step, parents, weights, forward, backward, leaving):
    """Steps form a tree, parents before children; `leaving[t - 1]` is all that parent t has besides the branch of t.

    Up from the leaves, then down: products over siblings are those of earlier ones times those of later ones, so that
    nothing is divided.
    """
    n_steps, s = weights.shape
    upward = np.empty((n_steps, s))
    later = np.empty((n_steps, s))
    earlier = np.ones((n_steps, s))
    backward[:] = 1.0
    least = 1.0
    log_scale = 0.0
    for t in range(n_steps - 1, 0, -1):
        p = parents[t]
        later[t] = backward[p]
        _sparse_backward(ptr, idx, tables[table_of_step[t - 1]], weights[t] * backward[t], upward[t])
        scale = _scale_largest(upward[t])
        log_scale += np.log(scale)
        least = min(least, scale)
        scale = _multiply(backward[p], upward[t])
        log_scale += np.log(scale)
        least = min(least, scale)
    forward[0] = weights[0]
    log_scale += np.log(_scale_largest(forward[0]) * _shared(forward, backward, 0))
    for t in range(1, n_steps):
        p = parents[t]
        leaving[t - 1] = forward[p]
        least = min(least, _multiply(leaving[t - 1], earlier[p]), _multiply(leaving[t - 1], later[t]))
        least = min(least, _multiply(earlier[p], upward[t]))
        _sparse_forward(ptr, idx, tables[table_of_step[t - 1]], leaving[t - 1], forward[t])
        least = min(least, _end_forward(weights, forward, t))
    for t in range(n_steps):
        least = min(least, _shared(forward, backward, t))
    return log_scale, least


@kernel
def _finish_log(top, total):
    for i in range(top.size):
        top[i] = top[i] + np.log(total[i]) if top[i] > -np.inf else -np.inf


@kernel
def _log_forward(ptr, idx, values, source, target, total):
    target[:] = -np.inf
    total[:] = 0.0
    for i in range(source.size):
        for p in range(ptr[i], ptr[i + 1]):
            target[idx[p]] = max(target[idx[p]], source[i] + values[p])
    for i in range(source.size):
        if source[i] > -np.inf:
            for p in range(ptr[i], ptr[i + 1]):
                if values[p] > -np.inf:
                    total[idx[p]] += np.exp(source[i] + values[p] - target[idx[p]])
    _finish_log(target, total)


@kernel
def _log_backward(ptr, idx, values, source, target, total):
    for i in range(target.size):
        top = -np.inf
        for p in range(ptr[i], ptr[i + 1]):
            top = max(top, values[p] + source[idx[p]])
        target[i] = top
        total[i] = 0.0
        if top > -np.inf:
            for p in range(ptr[i], ptr[i + 1]):
                total[i] += np.exp(values[p] + source[idx[p]] - top)
    _finish_log(target, total)


@kernel
def pass_logarithms(ptr, idx, tables, table_of_step, parents, scores, forward, backward, leaving):
    """`pass_tree` in logarithms, nothing scaled and nothing lost; the log-partition function."""
    n_steps, s = scores.shape
    total = np.empty(s)
    upward = np.empty((n_steps, s))
    later = np.empty((n_steps, s))
    earlier = np.zeros((n_steps, s))
    backward[:] = 0.0
    for t in range(n_steps - 1, 0, -1):
        p = parents[t]
        later[t] = backward[p]
        _log_backward(ptr, idx, tables[table_of_step[t - 1]], scores[t] + backward[t], upward[t], total)
        backward[p] += upward[t]
    forward[0] = scores[0]
    for t in range(1, n_steps):
        p = parents[t]
        leaving[t - 1] = forward[p] + earlier[p] + later[t]
        earlier[p] += upward[t]
        _log_forward(ptr, idx, tables[table_of_step[t - 1]], leaving[t - 1], forward[t], total)
        forward[t] += scores[t]
    both = forward[0] + backward[0]
    top = np.max(both)
    if top == -np.inf:
        return top
    return top + np.log(np.sum(np.exp(both - top)))


@fast_kernel
def subtract_tilt(theta, tilt, scores):
    """Theta - tilt, less the largest score of each table; the sum of those. Negligible scores become -inf."""
    n_tables, size = theta.shape
    least = np.log(NEGLIGIBLE)
    offset = 0.0
    for t in range(n_tables):
        top = -np.inf
        for p in range(size):
            x = theta[t, p] - tilt[t, p]
            scores[t, p] = x
            top = max(top, x)
        if top > -np.inf:
            offset += top
            for p in range(size):
                x = scores[t, p] - top
                scores[t, p] = x if x >= least else -np.inf
    return offset


@fast_kernel
def multiply_flows(tables, leaving, entering, n_walkers, flows):
    """flows[t] = tables[t] times what leaves and what enters, scaled to the number of walkers."""
    n_tables, s, _ = tables.shape
    for t in range(n_tables):
        total = 0.0
        for i in range(s):
            x = leaving[t, i]
            for j in range(s):
                y = x * tables[t, i, j] * entering[t, j]
                flows[t, i, j] = y
                total += y
        scale = n_walkers / total
        for i in range(s):
            for j in range(s):
                flows[t, i, j] *= scale


@fast_kernel
def sum_sparse_flows(ptr, idx, values, leaving, entering, flows):
    """flows[p] = values[p] sum_t leaving[i, t] entering[idx[p], t]: a dot product over the steps for each move."""
    n_steps = leaving.shape[1]
    for i in range(ptr.size - 1):
        for p in range(ptr[i], ptr[i + 1]):
            j = idx[p]
            total = 0.0
            for t in range(n_steps):
                total += leaving[i, t] * entering[j, t]
            flows[p] = total * values[p]
