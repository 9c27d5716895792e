"""Forward-backward along a chain of cells whose steps share tables (dense, banded, sparse), and along a tree of steps.

`weights` (T, s) are the cells' weights, at most 1 in each step; `forward[t]` includes the weights of step t, and
`backward[t]` does not, both scaled to a largest entry of 1. `table_of_step` (T - 1) is the table that leads from t to t
+ 1, in a tree from `parents[t + 1]` to t + 1. Each kernel returns log Z, the logarithm of all scales, and the smallest
inner product of scaled messages, which bounds the effect of underflow: entries below `NEGLIGIBLE` were set to 0.
"""

import numpy as np

from intarsia._core.jit import fast_kernel, kernel

# Entries below this are set to 0: numbers near the end of the double range are slow and inexact.
NEGLIGIBLE = 1e-250


@kernel
def _scale_largest(row):
    """Divide by the largest entry, which is returned; negligible entries become 0."""
    largest = 0.0
    for i in range(row.size):
        largest = max(largest, row[i])
    if largest > 0.0:
        for i in range(row.size):
            x = row[i] / largest
            row[i] = x if x >= NEGLIGIBLE else 0.0
    return largest


@kernel
def _begin_forward(weights, forward):
    """Start the forward pass with the weights of the first step; return the logarithm of their scale."""
    forward[0] = weights[0]
    return np.log(_scale_largest(forward[0]))


@kernel
def _end_forward(weights, forward, t):
    """Multiply a passed message by the weights of step t and scale it; return the scale."""
    for j in range(weights.shape[1]):
        forward[t, j] *= weights[t, j]
    return _scale_largest(forward[t])


@kernel
def _overlap(forward, backward, t):
    """Return the inner product of the scaled forward and backward messages of step t."""
    total = 0.0
    for i in range(forward.shape[1]):
        total += forward[t, i] * backward[t, i]
    return total


@kernel
def pass_dense(tables, table_of_step, weights, forward, backward):
    """Run forward-backward with dense tables (n, s, s)."""
    n_steps, s = weights.shape
    message = np.empty(s)
    smallest = 1.0
    log_scale = _begin_forward(weights, forward)
    for t in range(1, n_steps):
        np.dot(forward[t - 1], tables[table_of_step[t - 1]], message)
        forward[t] = message
        scale = _end_forward(weights, forward, t)
        smallest = min(smallest, scale)
        log_scale += np.log(scale)
    backward[n_steps - 1] = 1.0
    for t in range(n_steps - 2, -1, -1):
        np.dot(tables[table_of_step[t]], weights[t + 1] * backward[t + 1], message)
        backward[t] = message
        smallest = min(smallest, _scale_largest(backward[t]))
    for t in range(n_steps):
        smallest = min(smallest, _overlap(forward, backward, t))
    return log_scale + np.log(np.sum(forward[n_steps - 1])), smallest


@fast_kernel
def _banded_forward(diagonals, source, target):
    """Compute source @ table for a banded table."""
    width, s = diagonals.shape
    reach = width // 2
    target[:] = 0.0
    for d in range(width):
        shift = d - reach
        for i in range(max(0, -shift), min(s, s - shift)):
            target[i + shift] += source[i] * diagonals[d, i]


@fast_kernel
def _banded_backward(diagonals, source, target):
    """Compute table @ source for a banded table."""
    width, s = diagonals.shape
    reach = width // 2
    target[:] = 0.0
    for d in range(width):
        shift = d - reach
        for i in range(max(0, -shift), min(s, s - shift)):
            target[i] += source[i + shift] * diagonals[d, i]


@kernel
def pass_banded(tables, table_of_step, weights, forward, backward):
    """Run forward-backward with banded tables (n, 2 reach + 1, s): [d, i] leads from cell i to cell i + d - reach."""
    n_steps = weights.shape[0]
    smallest = 1.0
    log_scale = _begin_forward(weights, forward)
    for t in range(1, n_steps):
        _banded_forward(tables[table_of_step[t - 1]], forward[t - 1], forward[t])
        scale = _end_forward(weights, forward, t)
        smallest = min(smallest, scale)
        log_scale += np.log(scale)
    backward[n_steps - 1] = 1.0
    for t in range(n_steps - 2, -1, -1):
        _banded_backward(tables[table_of_step[t]], weights[t + 1] * backward[t + 1], backward[t])
        smallest = min(smallest, _scale_largest(backward[t]))
    for t in range(n_steps):
        smallest = min(smallest, _overlap(forward, backward, t))
    return log_scale + np.log(np.sum(forward[n_steps - 1])), smallest


@fast_kernel
def _sparse_forward(ptr, idx, values, source, target):
    """Compute source @ table for a sparse table."""
    target[:] = 0.0
    for i in range(source.size):
        x = source[i]
        if x > 0.0:
            for p in range(ptr[i], ptr[i + 1]):
                target[idx[p]] += x * values[p]


@fast_kernel
def _sparse_backward(ptr, idx, values, source, target):
    """Compute table @ source for a sparse table."""
    for i in range(target.size):
        total = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            total += values[p] * source[idx[p]]
        target[i] = total


@kernel
def pass_sparse(ptr, idx, tables, table_of_step, weights, forward, backward):
    """Run forward-backward with sparse tables (n, moves): entries ptr[i] <= p < ptr[i + 1] lead from i to idx[p]."""
    n_steps = weights.shape[0]
    smallest = 1.0
    log_scale = _begin_forward(weights, forward)
    for t in range(1, n_steps):
        _sparse_forward(ptr, idx, tables[table_of_step[t - 1]], forward[t - 1], forward[t])
        scale = _end_forward(weights, forward, t)
        smallest = min(smallest, scale)
        log_scale += np.log(scale)
    backward[n_steps - 1] = 1.0
    for t in range(n_steps - 2, -1, -1):
        _sparse_backward(ptr, idx, tables[table_of_step[t]], weights[t + 1] * backward[t + 1], backward[t])
        smallest = min(smallest, _scale_largest(backward[t]))
    for t in range(n_steps):
        smallest = min(smallest, _overlap(forward, backward, t))
    return log_scale + np.log(np.sum(forward[n_steps - 1])), smallest


@kernel
def _multiply(row, factors):
    """Multiply a row by `factors` in place and scale it; return the scale."""
    for i in range(row.size):
        row[i] *= factors[i]
    return _scale_largest(row)


@kernel
def pass_tree(ptr, idx, tables, table_of_step, parents, weights, forward, backward, leaving):
    """Run belief propagation over a tree of steps, parents before children.

    Row t - 1 of `leaving` becomes the product of all messages at the parent of t but that of t. The pass goes up from
    the leaves, then down. Products over siblings are those of earlier ones times those of later ones, so that nothing
    is divided.
    """
    n_steps, s = weights.shape
    upward = np.empty((n_steps, s))
    later_siblings = np.empty((n_steps, s))
    earlier_siblings = np.ones((n_steps, s))
    backward[:] = 1.0
    smallest = 1.0
    log_scale = 0.0
    for t in range(n_steps - 1, 0, -1):
        p = parents[t]
        later_siblings[t] = backward[p]
        _sparse_backward(ptr, idx, tables[table_of_step[t - 1]], weights[t] * backward[t], upward[t])
        scale = _scale_largest(upward[t])
        log_scale += np.log(scale)
        smallest = min(smallest, scale)
        scale = _multiply(backward[p], upward[t])
        log_scale += np.log(scale)
        smallest = min(smallest, scale)
    forward[0] = weights[0]
    log_scale += np.log(_scale_largest(forward[0]) * _overlap(forward, backward, 0))
    for t in range(1, n_steps):
        p = parents[t]
        leaving[t - 1] = forward[p]
        smallest = min(
            smallest, _multiply(leaving[t - 1], earlier_siblings[p]), _multiply(leaving[t - 1], later_siblings[t])
        )
        smallest = min(smallest, _multiply(earlier_siblings[p], upward[t]))
        _sparse_forward(ptr, idx, tables[table_of_step[t - 1]], leaving[t - 1], forward[t])
        smallest = min(smallest, _end_forward(weights, forward, t))
    for t in range(n_steps):
        smallest = min(smallest, _overlap(forward, backward, t))
    return log_scale, smallest


@kernel
def _finish_log(maximum, total):
    """Replace maxima `maximum` by log-sum-exp, given the sums of exponentials relative to them."""
    for i in range(maximum.size):
        maximum[i] = maximum[i] + np.log(total[i]) if maximum[i] > -np.inf else -np.inf


@kernel
def _log_forward(ptr, idx, values, source, target, total):
    """Compute the logarithm of exp(source) @ exp(table) for a sparse table."""
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
    """Compute the logarithm of exp(table) @ exp(source) for a sparse table."""
    for i in range(target.size):
        maximum = -np.inf
        for p in range(ptr[i], ptr[i + 1]):
            maximum = max(maximum, values[p] + source[idx[p]])
        target[i] = maximum
        total[i] = 0.0
        if maximum > -np.inf:
            for p in range(ptr[i], ptr[i + 1]):
                total[i] += np.exp(values[p] + source[idx[p]] - maximum)
    _finish_log(target, total)


@kernel
def pass_logarithms(ptr, idx, tables, table_of_step, parents, scores, forward, backward, leaving):
    """Run `pass_tree` in logarithms, without scaling and without underflow; return the log-partition function."""
    n_steps, s = scores.shape
    total = np.empty(s)
    upward = np.empty((n_steps, s))
    later_siblings = np.empty((n_steps, s))
    earlier_siblings = np.zeros((n_steps, s))
    backward[:] = 0.0
    for t in range(n_steps - 1, 0, -1):
        p = parents[t]
        later_siblings[t] = backward[p]
        _log_backward(ptr, idx, tables[table_of_step[t - 1]], scores[t] + backward[t], upward[t], total)
        backward[p] += upward[t]
    forward[0] = scores[0]
    for t in range(1, n_steps):
        p = parents[t]
        leaving[t - 1] = forward[p] + earlier_siblings[p] + later_siblings[t]
        earlier_siblings[p] += upward[t]
        _log_forward(ptr, idx, tables[table_of_step[t - 1]], leaving[t - 1], forward[t], total)
        forward[t] += scores[t]
    log_beliefs = forward[0] + backward[0]
    maximum = np.max(log_beliefs)
    if maximum == -np.inf:
        return maximum
    return maximum + np.log(np.sum(np.exp(log_beliefs - maximum)))


@fast_kernel
def subtract_tilt(theta, tilt, scores):
    """Compute theta - tilt less the largest score of each table; return the sum of these maxima.

    Negligible scores become -inf.
    """
    n_tables, size = theta.shape
    lowest = np.log(NEGLIGIBLE)
    offset = 0.0
    for t in range(n_tables):
        maximum = -np.inf
        for p in range(size):
            x = theta[t, p] - tilt[t, p]
            scores[t, p] = x
            maximum = max(maximum, x)
        if maximum > -np.inf:
            offset += maximum
            for p in range(size):
                x = scores[t, p] - maximum
                scores[t, p] = x if x >= lowest else -np.inf
    return offset


@fast_kernel
def multiply_flows(tables, leaving, entering, n_walkers, flows):
    """Compute flows[t, i, j] = leaving[t, i] tables[t, i, j] entering[t, j], scaled to the number of walkers."""
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
    """Compute flows[p] = values[p] sum_t leaving[i, t] entering[idx[p], t], a sum over the steps for each move."""
    n_steps = leaving.shape[1]
    for i in range(ptr.size - 1):
        for p in range(ptr[i], ptr[i + 1]):
            j = idx[p]
            total = 0.0
            for t in range(n_steps):
                total += leaving[i, t] * entering[j, t]
            flows[p] = total * values[p]
