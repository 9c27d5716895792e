"""Products of the covariance of label indicators in chains with a vector: derivatives of marginals in the scores."""

from __future__ import annotations

from intarsia._core.jit import kernel


@kernel
def multiply_covariances(ptr, marginals, joint, node_vector, step_vector, prefix, suffix, nodes, steps):
    """Compute the covariance of F with the indicator of every label and transition; F adds up the two vectors.

    With expectations of the chain, f_t(x) = E[F up to position t | label x at t] and b_t(x) = E[F after t | x at t],
    the covariance with a label is mu_t(x) (f_t(x) + b_t(x)), because all terms of F are centred first. `joint` holds
    the marginals of every step. There is a matrix in `step_vector` for every step, or one for all; results for steps
    are added to `steps`, which likewise has a matrix for every step, or one for all. `prefix` and `suffix` are work
    space for the longest sequence.
    """
    k = marginals.shape[1]
    vector_stride = 1 if step_vector.shape[0] > 1 else 0
    step_stride = 1 if steps.shape[0] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        a, b = ptr[s], ptr[s + 1]
        for t in range(a, b):
            mean = 0.0
            for x in range(k):
                mean += marginals[t, x] * node_vector[t, x]
            for x in range(k):
                prefix[t - a, x] = node_vector[t, x] - mean
                suffix[t - a, x] = prefix[t - a, x]
        for t in range(a + 1, b):
            joint_table, table = joint[t - 1 - s], step_vector[(t - 1 - s) * vector_stride]
            mean = 0.0
            for x in range(k):
                for y in range(k):
                    mean += joint_table[x, y] * table[x, y]
            for y in range(k):
                total = 0.0
                for x in range(k):
                    total += joint_table[x, y] * (prefix[t - 1 - a, x] + table[x, y] - mean)
                if marginals[t, y] > 0.0:
                    prefix[t - a, y] += total / marginals[t, y]
        # From here on, row t of `suffix` is the centred vector at t plus b_t.
        for t in range(b - 1, a - 1, -1):
            for x in range(k):
                after = 0.0
                if t < b - 1 and marginals[t, x] > 0.0:
                    joint_table, table = joint[t - s], step_vector[(t - s) * vector_stride]
                    for y in range(k):
                        after += joint_table[x, y] * (table[x, y] + suffix[t + 1 - a, y])
                    after /= marginals[t, x]
                suffix[t - a, x] += after
                nodes[t, x] = prefix[t - a, x] + after
            mean = 0.0  # the mean of the steps' vector, which has not been subtracted from the suffix
            for x in range(k):
                mean += marginals[t, x] * nodes[t, x]
            for x in range(k):
                nodes[t, x] = marginals[t, x] * (nodes[t, x] - mean)
        for t in range(a, b - 1):
            joint_table, table = joint[t - s], step_vector[(t - s) * vector_stride]
            out = steps[(t - s) * step_stride]
            mean = 0.0
            for x in range(k):
                for y in range(k):
                    mean += joint_table[x, y] * (prefix[t - a, x] + table[x, y] + suffix[t + 1 - a, y])
            for x in range(k):
                for y in range(k):
                    value = prefix[t - a, x] + table[x, y] + suffix[t + 1 - a, y] - mean
                    out[x, y] += joint_table[x, y] * value
