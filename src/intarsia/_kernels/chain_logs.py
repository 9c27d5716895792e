"""Sums over the labellings of sequences whose scores span more than double precision: all messages in logarithms.

Many times slower than `chains`, whose layout this shares; only sequences that need it are computed here.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _log_sum(values):
    """Return the logarithm of the sum of exponentials; -inf if all values are -inf."""
    maximum = -np.inf
    for x in range(values.shape[0]):
        maximum = max(maximum, values[x])
    if maximum == -np.inf:
        return maximum
    total = 0.0
    for x in range(values.shape[0]):
        total += np.exp(values[x] - maximum)
    return maximum + np.log(total)


@kernel
def _forward_logs(rows, tables, first_step, alpha, message, log_totals):
    """Compute log forward messages with largest entry 0 in `alpha`; return False if no labelling is possible.

    alpha_t(y) = rows_t(y) + log sum_x exp(alpha_(t-1)(x) + table(x, y)) - log_totals_t; log Z is the sum of
    `log_totals`.
    """
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    for t in range(length):
        maximum = -np.inf
        for y in range(k):
            value = rows[t, y]
            if t > 0:
                table = tables[(first_step + t - 1) * stride]
                for x in range(k):
                    message[x] = alpha[t - 1, x] + table[x, y]
                value += _log_sum(message)
            alpha[t, y] = value
            maximum = max(maximum, value)
        log_totals[t] = maximum
        if maximum == -np.inf:
            return False
        for y in range(k):
            alpha[t, y] -= maximum
    log_totals[length - 1] += _log_sum(alpha[length - 1])
    return True


@kernel
def forward_chains_logs(ptr, sequences, nodes, tables, message, log_totals, log_z):
    """Replace the scores of some sequences by the logarithms of their forward messages, and compute log Z."""
    for s in sequences:
        a, b = ptr[s], ptr[s + 1]
        possible = _forward_logs(nodes[a:b], tables, a - s, nodes[a:b], message, log_totals)
        log_z[s] = np.sum(log_totals[: b - a]) if possible else -np.inf


@kernel
def pass_chains_logs(
    ptr, sequences, nodes, tables, sequence_weights, with_counts, counts, alpha, message, onward, backward, log_totals,
    log_z,
):  # fmt: skip
    """Replace the scores of some sequences by their marginals; compute log Z and expected transitions.

    The arguments are those of `chains.pass_chains`, with `nodes` and `tables` as scores.
    """
    k = nodes.shape[1]
    table_stride = 1 if tables.shape[0] > 1 else 0
    count_stride = 1 if counts.shape[0] > 1 else 0
    for s in sequences:
        a, b = ptr[s], ptr[s + 1]
        possible = _forward_logs(nodes[a:b], tables, a - s, alpha, message, log_totals)
        log_z[s] = np.sum(log_totals[: b - a]) if possible else -np.inf
        if not possible:
            for t in range(a, b):
                for x in range(k):
                    nodes[t, x] = 0.0
            continue
        for x in range(k):
            backward[x] = 0.0
        for t in range(b - 1, a - 1, -1):
            table = tables[(t - s) * table_stride] if t < b - 1 else tables[0]
            if t < b - 1:
                for x in range(k):
                    for y in range(k):
                        message[y] = table[x, y] + onward[y]
                    backward[x] = _log_sum(message)
            maximum, total = -np.inf, 0.0
            for x in range(k):
                message[x] = alpha[t - a, x] + backward[x]
                maximum = max(maximum, message[x])
            for x in range(k):
                total += np.exp(message[x] - maximum)
            if with_counts and t < b - 1:
                count_table = counts[(t - s) * count_stride]
                for x in range(k):
                    for y in range(k):
                        # Added in the same order as above, so that rounding cannot make the exponent positive.
                        value = alpha[t - a, x] + (table[x, y] + onward[y])
                        count_table[x, y] += sequence_weights[s] * np.exp(value - maximum) / total
            highest = -np.inf
            for x in range(k):
                onward[x] = nodes[t, x] + backward[x]
                highest = max(highest, onward[x])
                nodes[t, x] = np.exp(message[x] - maximum) / total
            for x in range(k):
                onward[x] -= highest
