"""Forward-backward along one chain of cells whose steps share tables: dense, banded, sparse; and in logarithms.

`weights` (T, s) are the cells' weights, at most 1 in each step; `forward[t]` includes the weights of step t, and
`backward[t]` does not, both scaled to a largest entry of 1. `table_of_step` (T - 1) says which table leads from t to
t + 1. Each kernel returns the logarithm of all scales taken out on the way forward, and the least share that the scaled
messages have in common, which tells how far underflow can matter: what fell below `NEGLIGIBLE` is at most that small
beside it.
"""

import numpy as np

from intarsia._jit import fast_kernel, kernel

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
def _finish_log(top, total):
    for i in range(top.size):
        top[i] = top[i] + np.log(total[i]) if top[i] > -np.inf else -np.inf


@kernel
def pass_logarithms(ptr, idx, tables, table_of_step, scores, forward, backward):
    """The same in logarithms, nothing scaled and nothing lost; the log-partition function."""
    n_steps, s = scores.shape
    total = np.empty(s)
    forward[0] = scores[0]
    for t in range(1, n_steps):
        values, source, target = tables[table_of_step[t - 1]], forward[t - 1], forward[t]
        target[:] = -np.inf
        total[:] = 0.0
        for i in range(s):
            for p in range(ptr[i], ptr[i + 1]):
                target[idx[p]] = max(target[idx[p]], source[i] + values[p])
        for i in range(s):
            if source[i] > -np.inf:
                for p in range(ptr[i], ptr[i + 1]):
                    if values[p] > -np.inf:
                        total[idx[p]] += np.exp(source[i] + values[p] - target[idx[p]])
        _finish_log(target, total)
        for j in range(s):
            target[j] += scores[t, j]
    backward[n_steps - 1] = 0.0
    for t in range(n_steps - 2, -1, -1):
        values, source, target = tables[table_of_step[t]], scores[t + 1] + backward[t + 1], backward[t]
        for i in range(s):
            top = -np.inf
            for p in range(ptr[i], ptr[i + 1]):
                top = max(top, values[p] + source[idx[p]])
            target[i] = top
            total[i] = 0.0
            if top > -np.inf:
                for p in range(ptr[i], ptr[i + 1]):
                    total[i] += np.exp(values[p] + source[idx[p]] - top)
        _finish_log(target, total)
    top = np.max(forward[n_steps - 1])
    if top == -np.inf:
        return top
    return top + np.log(np.sum(np.exp(forward[n_steps - 1] - top)))


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
