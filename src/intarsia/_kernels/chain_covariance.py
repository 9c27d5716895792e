"""Products of the covariance of label indicators in chains with a vector: derivatives of marginals in the scores."""

from __future__ import annotations

from intarsia._core.jit import fast_kernel


@fast_kernel
def _weighted_mean(weights, values):
    """Return the sum of the products of two vectors."""
    total = 0.0
    for x in range(weights.shape[0]):
        total += weights[x] * values[x]
    return total


@fast_kernel
def _spread_prefix(joint_table, table, before, marginal, work, row):
    """Add E[F before | label] of the next position to `row`, from the row of the position before it."""
    k = row.shape[0]
    for x in range(k):
        work[x] = 0.0
    for x in range(k):
        shift, joint_row, table_row = before[x], joint_table[x], table[x]
        for y in range(k):
            work[y] += joint_row[y] * (shift + table_row[y])
    for y in range(k):
        if marginal[y] > 0.0:
            row[y] += work[y] / marginal[y]


@fast_kernel
def _add_step(joint_table, table, before, after, out):
    """Add the covariances of the transitions of one step to `out`."""
    k = before.shape[0]
    mean = 0.0
    for x in range(k):
        joint_row, table_row, shift = joint_table[x], table[x], before[x]
        for y in range(k):
            mean += joint_row[y] * (shift + table_row[y] + after[y])
    for x in range(k):
        joint_row, table_row, out_row, shift = joint_table[x], table[x], out[x], before[x] - mean
        for y in range(k):
            out_row[y] += joint_row[y] * (shift + table_row[y] + after[y])


@fast_kernel
def multiply_covariances(ptr, marginals, joint, node_vector, step_vector, prefix, suffix, nodes, steps):
    """Compute the covariance of F with the indicator of every label and transition; F adds up the two vectors.

    With expectations of the chain, f_t(x) = E[F up to position t | label x at t] and b_t(x) = E[F after t | x at t],
    the covariance with a label is mu_t(x) (f_t(x) + b_t(x) - E[F]). The vector of every position is centred first, so
    that a long sequence of large terms keeps its digits. `joint` holds the marginals of every step. There is a matrix
    in `step_vector` for every step, or one for all; results for steps are added to `steps`, which likewise has a matrix
    for every step, or one for all. `prefix` and `suffix` are work space for the longest sequence, `suffix` with a
    further row.
    """
    k = marginals.shape[1]
    vector_stride = 1 if step_vector.shape[0] > 1 else 0
    step_stride = 1 if steps.shape[0] > 1 else 0
    work = suffix[suffix.shape[0] - 1]
    for s in range(ptr.shape[0] - 1):
        a, b = ptr[s], ptr[s + 1]
        for t in range(a, b):
            mean = _weighted_mean(marginals[t], node_vector[t])
            for x in range(k):
                prefix[t - a, x] = node_vector[t, x] - mean
                suffix[t - a, x] = prefix[t - a, x]
        for t in range(a + 1, b):
            table = step_vector[(t - 1 - s) * vector_stride]
            _spread_prefix(joint[t - 1 - s], table, prefix[t - 1 - a], marginals[t], work, prefix[t - a])
        # From here on, row t of `suffix` is the centred vector of position t plus b_t.
        for t in range(b - 1, a - 1, -1):
            for x in range(k):
                after = 0.0
                if t < b - 1 and marginals[t, x] > 0.0:
                    joint_row, table_row = joint[t - s, x], step_vector[(t - s) * vector_stride, x]
                    for y in range(k):
                        after += joint_row[y] * (table_row[y] + suffix[t + 1 - a, y])
                    after /= marginals[t, x]
                suffix[t - a, x] += after
                nodes[t, x] = prefix[t - a, x] + after
            # The vectors of steps are not centred.
            mean = _weighted_mean(marginals[t], nodes[t])
            for x in range(k):
                nodes[t, x] = marginals[t, x] * (nodes[t, x] - mean)
        for t in range(a, b - 1):
            table, out = step_vector[(t - s) * vector_stride], steps[(t - s) * step_stride]
            _add_step(joint[t - s], table, prefix[t - a], suffix[t + 1 - a], out)
