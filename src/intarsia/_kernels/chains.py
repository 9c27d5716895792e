"""Sums over the labellings of sequences: forward and backward passes with normalised messages, or with logarithms.

In the linear domain a sequence of L positions has rows of weights (scores less the row's maximum, exponentiated),
`floors` (the smallest positive weight of a row) and tables of weights with their own floors. Wherever the product of
the smallest factors of a step could be lost, the pass gives up and says so; such sequences are then worked in
logarithms, so that underflow never looks like a hard zero.

A table without zeros brings every label within its own range of every other, whatever came before; only with zeros
do ranges add up from step to step, and only then (`dense` false) are messages measured.

There is a table for all steps (tables.shape[0] == 1) or one per step; likewise for `counts`.
"""

from __future__ import annotations

import numpy as np

from intarsia._jit import fast_kernel, kernel

SMALLEST = np.exp(-600.0)
DONE, INFEASIBLE, NEEDS_LOGS = 1, 0, -1


@fast_kernel
def _combine(weights, rows, out):
    """Put weights @ rows into `out`; four rows at a time, so that `out` is read and written less often."""
    n, width = rows.shape
    for y in range(width):
        out[y] = 0.0
    whole = n - n % 4
    for x in range(0, whole, 4):
        w0, w1, w2, w3 = weights[x], weights[x + 1], weights[x + 2], weights[x + 3]
        r0, r1, r2, r3 = rows[x], rows[x + 1], rows[x + 2], rows[x + 3]
        for y in range(width):
            out[y] += w0 * r0[y] + w1 * r1[y] + w2 * r2[y] + w3 * r3[y]
    for x in range(whole, n):
        w, row = weights[x], rows[x]
        for y in range(width):
            out[y] += w * row[y]


@fast_kernel
def _apply(rows, vector, out):
    """Put rows @ vector into `out`."""
    n, width = rows.shape
    for x in range(n):
        row = rows[x]
        total = 0.0
        for y in range(width):
            total += row[y] * vector[y]
        out[x] = total


@fast_kernel
def _scale(row, factor):
    """Multiply a row; return its smallest positive entry (1 if there is none)."""
    smallest = 1.0
    for x in range(row.shape[0]):
        value = row[x] * factor
        row[x] = value
        if value > 0.0 and value < smallest:
            smallest = value
    return smallest


@fast_kernel
def _forward(rows, floors, tables, first_step, table_floors, dense, alpha, message, totals):
    """Normalised forward messages of one sequence into `alpha`, which may be `rows` itself.

    Its log Z is the sum of the logarithms of `totals`.
    """
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    smallest = 1.0
    for t in range(length):
        own, row = rows[t], alpha[t]
        step = (first_step + t - 1) * stride
        bound = floors[t] * table_floors[step] * smallest if t > 0 else floors[t]
        if bound < SMALLEST:
            return NEEDS_LOGS
        total = 0.0
        if t > 0:
            _combine(alpha[t - 1], tables[step], message)
            for x in range(k):
                value = own[x] * message[x]
                row[x] = value
                total += value
        else:
            for x in range(k):
                row[x] = own[x]
                total += row[x]
        totals[t] = total
        if total == 0.0:
            return INFEASIBLE
        inverse = 1.0 / total
        if dense:
            for x in range(k):
                row[x] *= inverse
        else:
            smallest = _scale(row, inverse)
    return DONE


@fast_kernel
def _backward(rows, floors, tables, turned, first_step, table_floors, dense, weight, alpha, onward, message):
    """Marginals of one sequence in the place of its weights, after `_forward`.

    Row t of `onward` becomes weight * rows[t] * beta_t, scaled so that alpha_(t-1)(x) table(x, y) onward_t(y) are the
    marginals of the step into t, times the weight of the sequence.
    """
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    smallest = 1.0
    for x in range(k):
        message[x] = 1.0
    for t in range(length - 1, -1, -1):
        own, row = rows[t], alpha[t]
        if t < length - 1:
            step = (first_step + t) * stride
            if floors[t] * table_floors[step] * smallest < SMALLEST:
                return NEEDS_LOGS
            if stride == 0:
                _combine(onward[t + 1], turned, message)
            else:
                _apply(tables[step], onward[t + 1], message)
        total = 0.0
        for x in range(k):
            total += row[x] * message[x]
        if total < SMALLEST:  # both messages are small wherever both are possible
            return NEEDS_LOGS
        inverse = 1.0 / total
        if t < length - 1:
            after = onward[t + 1]
            for x in range(k):
                after[x] *= inverse * weight
        coming, total = onward[t], 0.0
        for x in range(k):
            value = own[x] * message[x]
            own[x] = row[x] * message[x] * inverse
            coming[x] = value
            total += value
        inverse = 1.0 / total
        if dense:
            for x in range(k):
                coming[x] *= inverse
        else:
            smallest = _scale(coming, inverse)
    return DONE


@fast_kernel
def _add_products(alpha, onward, counts):
    """Add the sum over steps of alpha_t(x) onward_(t+1)(y), four steps at a time; the table is multiplied in later."""
    steps, k = alpha.shape[0] - 1, alpha.shape[1]
    whole = steps - steps % 4
    for t in range(0, whole, 4):
        a0, a1, a2, a3 = alpha[t], alpha[t + 1], alpha[t + 2], alpha[t + 3]
        o0, o1, o2, o3 = onward[t + 1], onward[t + 2], onward[t + 3], onward[t + 4]
        for x in range(k):
            w0, w1, w2, w3 = a0[x], a1[x], a2[x], a3[x]
            count = counts[x]
            for y in range(k):
                count[y] += w0 * o0[y] + w1 * o1[y] + w2 * o2[y] + w3 * o3[y]
    for t in range(whole, steps):
        a0, o0 = alpha[t], onward[t + 1]
        for x in range(k):
            w0, count = a0[x], counts[x]
            for y in range(k):
                count[y] += w0 * o0[y]


@fast_kernel
def _add_joint(alpha, onward, tables, first_step, counts):
    """Add the marginals of every step to its own table of counts, or to the only one."""
    steps, k = alpha.shape[0] - 1, alpha.shape[1]
    table_stride = 1 if tables.shape[0] > 1 else 0
    count_stride = 1 if counts.shape[0] > 1 else 0
    for t in range(steps):
        table, into = tables[(first_step + t) * table_stride], counts[(first_step + t) * count_stride]
        for x in range(k):
            w, after, row, count = alpha[t, x], onward[t + 1], table[x], into[x]
            for y in range(k):
                count[y] += w * row[y] * after[y]


@fast_kernel
def forward_chains(ptr, weights, floors, tables, table_floors, dense, message, totals, state):
    """Forward messages of all sequences in the place of their weights; `state` says how each ended."""
    for s in range(state.shape[0]):
        a, b = ptr[s], ptr[s + 1]
        rows = weights[a:b]
        state[s] = _forward(rows, floors[a:b], tables, a - s, table_floors, dense, rows, message, totals[a:b])


@fast_kernel
def pass_chains(
    ptr, weights, floors, tables, turned, table_floors, dense, sequence_weights, with_counts, counts, alpha, onward,
    message, totals, state,
):  # fmt: skip
    """Marginals in the place of the weights, and expected transitions into `counts`; `state` says how each ended.

    With one table and one matrix of counts that matrix is still to be multiplied by the table. `alpha` and
    `onward` are room for the longest sequence.
    """
    k = weights.shape[1]
    shared = tables.shape[0] == 1 and counts.shape[0] == 1
    for s in range(state.shape[0]):
        a, b = ptr[s], ptr[s + 1]
        rows, before, after = weights[a:b], alpha[: b - a], onward[: b - a]
        found = _forward(rows, floors[a:b], tables, a - s, table_floors, dense, before, message, totals[a:b])
        if found == DONE:
            found = _backward(
                rows, floors[a:b], tables, turned, a - s, table_floors, dense, sequence_weights[s], before, after,
                message,
            )  # fmt: skip
        state[s] = found
        if found == INFEASIBLE:
            for t in range(b - a):
                for x in range(k):
                    rows[t, x] = 0.0
        elif found == DONE and with_counts:
            if shared:
                _add_products(before, after, counts[0])
            else:
                _add_joint(before, after, tables, a - s, counts)


@kernel
def _log_sum(values):
    """Logarithm of the sum of exponentials; -inf for nothing but -inf."""
    top = -np.inf
    for x in range(values.shape[0]):
        top = max(top, values[x])
    if top == -np.inf:
        return top
    total = 0.0
    for x in range(values.shape[0]):
        total += np.exp(values[x] - top)
    return top + np.log(total)


@kernel
def _forward_logs(rows, tables, first_step, alpha, message, log_totals):
    """Logarithms of the forward messages, largest entry 0, into `alpha`; log Z is the sum of `log_totals`."""
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    for t in range(length):
        top = -np.inf
        for y in range(k):
            value = rows[t, y]
            if t > 0:
                table = tables[(first_step + t - 1) * stride]
                for x in range(k):
                    message[x] = alpha[t - 1, x] + table[x, y]
                value += _log_sum(message)
            alpha[t, y] = value
            top = max(top, value)
        log_totals[t] = top
        if top == -np.inf:
            return False
        for y in range(k):
            alpha[t, y] -= top
    log_totals[length - 1] += _log_sum(alpha[length - 1])
    return True


@kernel
def forward_chains_logs(ptr, chosen, nodes, tables, message, log_totals):
    """Logarithms of the forward messages of the sequences `chosen`, in the place of their scores."""
    for s in chosen:
        a, b = ptr[s], ptr[s + 1]
        _forward_logs(nodes[a:b], tables, a - s, nodes[a:b], message, log_totals[a:b])


@kernel
def pass_chains_logs(
    ptr, chosen, nodes, tables, sequence_weights, with_counts, counts, alpha, message, onward, backward, log_totals
):
    """Marginals of the sequences `chosen` in the place of their scores, and expected transitions into `counts`."""
    k = nodes.shape[1]
    table_stride = 1 if tables.shape[0] > 1 else 0
    count_stride = 1 if counts.shape[0] > 1 else 0
    for s in chosen:
        a, b = ptr[s], ptr[s + 1]
        possible = _forward_logs(nodes[a:b], tables, a - s, alpha, message, log_totals[a:b])
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
            top, total = -np.inf, 0.0
            for x in range(k):
                message[x] = alpha[t - a, x] + backward[x]
                top = max(top, message[x])
            for x in range(k):
                total += np.exp(message[x] - top)
            if with_counts and t < b - 1:
                into = counts[(t - s) * count_stride]
                for x in range(k):
                    for y in range(k):
                        # Summed as above, so that rounding cannot make the exponent positive.
                        value = alpha[t - a, x] + (table[x, y] + onward[y])
                        into[x, y] += sequence_weights[s] * np.exp(value - top) / total
            highest = -np.inf
            for x in range(k):
                onward[x] = nodes[t, x] + backward[x]
                highest = max(highest, onward[x])
                nodes[t, x] = np.exp(message[x] - top) / total
            for x in range(k):
                onward[x] -= highest
