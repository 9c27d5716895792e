"""Sums over the labellings of sequences: forward and backward passes with normalised messages.

In the linear domain a sequence of L positions has rows of weights (scores less the row's maximum, exponentiated),
`floors` (the smallest positive weight of a row) and tables of weights with their floors. Wherever the product of the
smallest factors of a step could underflow, the pass stops with NEEDS_LOGS; such sequences are then computed in
logarithms (`chain_logs`), so that underflow never looks like a hard zero.

Scores are exponentiated sequence by sequence, while they are in the cache: batches are far larger than caches, and
every further pass over one costs a good fraction of a forward pass. The gradient of a global energy (`offsets`, a row
per sequence, or one for all) is subtracted from every position at the same time.

A table without zeros keeps the messages of all labels within the table's range, whatever came before. Only with zeros
do ranges add up from step to step, and only then (`dense` false) are messages measured.

There is a table for all steps (tables.shape[0] == 1) or one per step; likewise for `counts`.
"""

from __future__ import annotations

import math

import numpy as np

from intarsia._core.jit import fast_kernel, kernel

SMALLEST = np.exp(-600.0)
DONE, INFEASIBLE, NEEDS_LOGS = 1, 0, -1

_PER_LOG_2 = 1.0 / np.log(2.0)
# Coefficients of the Taylor series of 2^r; twelve reach double precision for |r| <= 1/2.
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (
    math.log(2.0) ** k / math.factorial(k) for k in range(1, 13)
)


@fast_kernel
def _exponential(x):
    """Return exp(x) for x <= 0 without a function call, so that loops around it vectorise; 0 below -690.

    The relative error is about 1e-16 (1 + |x|). Sequences whose finite scores are that far apart are computed in
    logarithms instead.
    """
    z = max(x * _PER_LOG_2, -1000.0)
    k = np.floor(z + 0.5)
    r = z - k
    y = _C9 + r * (_C10 + r * (_C11 + r * _C12))
    y = _C5 + r * (_C6 + r * (_C7 + r * (_C8 + r * y)))
    y = 1.0 + r * (_C1 + r * (_C2 + r * (_C3 + r * (_C4 + r * y))))
    power = (np.int64(np.int32(k)) + 1023) << 52  # the bits of 2^k
    return y * np.int64(power).view(np.float64) if x >= -690.0 else 0.0


@kernel
def _range(row):
    """Return the largest entry and the smallest finite one; four independent comparisons at a time."""
    k = row.shape[0]
    whole = k - k % 4
    h0 = h1 = h2 = h3 = -np.inf
    l0 = l1 = l2 = l3 = np.inf
    for x in range(0, whole, 4):
        a, b, c, d = row[x], row[x + 1], row[x + 2], row[x + 3]
        h0, h1, h2, h3 = a if a > h0 else h0, b if b > h1 else h1, c if c > h2 else h2, d if d > h3 else h3
        a, b = a if a > -np.inf else np.inf, b if b > -np.inf else np.inf
        c, d = c if c > -np.inf else np.inf, d if d > -np.inf else np.inf
        l0, l1, l2, l3 = a if a < l0 else l0, b if b < l1 else l1, c if c < l2 else l2, d if d < l3 else l3
    for x in range(whole, k):
        a = row[x]
        h0 = a if a > h0 else h0
        a = a if a > -np.inf else np.inf
        l0 = a if a < l0 else l0
    return max(max(h0, h1), max(h2, h3)), min(min(l0, l1), min(l2, l3))


@fast_kernel
def _exponentiate_scores(nodes, start, end, offset, rows, tops, floors):
    """Compute the weights of one sequence in `rows`, with the subtracted maxima and the smallest weights."""
    length, k = nodes.shape
    for t in range(length):
        node_row, row = nodes[t], rows[t]
        for x in range(k):
            row[x] = node_row[x] - offset[x]
        if t == 0:
            for x in range(k):
                row[x] += start[x]
        if t == length - 1:
            for x in range(k):
                row[x] += end[x]
        high, low = _range(row)
        if high == -np.inf:
            high = low = 0.0
        tops[t], floors[t] = high, _exponential(low - high)
        for x in range(k):
            row[x] = _exponential(row[x] - high)


@kernel
def _log_partition(totals, tops, table_tops, first_step):
    """Return log Z: the sum of the logarithms of all totals, and of the maxima subtracted from scores and tables.

    Products of totals are gathered first: a logarithm takes longer than the rest of a position's work here. The sum is
    compensated for rounding (Kahan), so that long sequences keep their digits. Kernels that call this must be strict,
    because they pass their permission to reorder sums on.
    """
    stride = 1 if table_tops.shape[0] > 1 else 0
    total, rounding_error, product = 0.0, 0.0, 1.0
    for t in range(totals.shape[0]):
        term = tops[t] - rounding_error
        if t > 0:
            term += table_tops[(first_step + t - 1) * stride]
        if totals[t] > 1e-100 and totals[t] < 1e100:
            product *= totals[t]
            if product < 1e-150 or product > 1e150:
                term += np.log(product)
                product = 1.0
        else:
            term += np.log(totals[t])
        added = total + term
        rounding_error = (added - total) - term
        total = added
    return total + np.log(product)


@fast_kernel
def _combine(weights, rows, out):
    """Compute weights @ rows in `out`; four rows at a time, so that `out` is read and written less often."""
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
    """Compute rows @ vector in `out`."""
    n, width = rows.shape
    for x in range(n):
        row = rows[x]
        total = 0.0
        for y in range(width):
            total += row[y] * vector[y]
        out[x] = total


@fast_kernel
def _scale(row, factor):
    """Multiply a row by a factor; return its smallest positive entry (1 if there is none)."""
    smallest = 1.0
    for x in range(row.shape[0]):
        value = row[x] * factor
        row[x] = value
        if value > 0.0 and value < smallest:
            smallest = value
    return smallest


@fast_kernel
def _forward(rows, floors, tables, first_step, table_floors, dense, alpha, message, totals):
    """Compute the normalised forward messages of one sequence in `alpha`, which may be `rows` itself.

    alpha_t(y) is proportional to rows_t(y) sum_x alpha_(t-1)(x) table(x, y), and `totals` are the normalisers: log Z is
    the sum of their logarithms. Returns DONE, INFEASIBLE or NEEDS_LOGS.
    """
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    smallest = 1.0
    for t in range(length):
        weight_row, row = rows[t], alpha[t]
        step = (first_step + t - 1) * stride
        bound = floors[t] * table_floors[step] * smallest if t > 0 else floors[t]
        if bound < SMALLEST:
            return NEEDS_LOGS
        total = 0.0
        if t > 0:
            _combine(alpha[t - 1], tables[step], message)
            for x in range(k):
                value = weight_row[x] * message[x]
                row[x] = value
                total += value
        else:
            for x in range(k):
                row[x] = weight_row[x]
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
def _backward(rows, floors, tables, transposed, first_step, table_floors, dense, weight, alpha, onward, message):
    """Replace the weights of one sequence by its marginals, after `_forward`; return DONE or NEEDS_LOGS.

    Row t of `onward` becomes weight * rows[t] * beta_t, scaled so that alpha_(t-1)(x) table(x, y) onward_t(y) are the
    marginals of the step into t, times the weight of the sequence.
    """
    length, k = rows.shape
    stride = 1 if tables.shape[0] > 1 else 0
    smallest = 1.0
    for x in range(k):
        message[x] = 1.0
    for t in range(length - 1, -1, -1):
        weight_row, row = rows[t], alpha[t]
        if t < length - 1:
            step = (first_step + t) * stride
            if floors[t] * table_floors[step] * smallest < SMALLEST:
                return NEEDS_LOGS
            if stride == 0:
                _combine(onward[t + 1], transposed, message)
            else:
                _apply(tables[step], onward[t + 1], message)
        total = 0.0
        for x in range(k):
            total += row[x] * message[x]
        if total < SMALLEST:  # forward and backward messages are small wherever both are positive
            return NEEDS_LOGS
        inverse = 1.0 / total
        if t < length - 1:
            after = onward[t + 1]
            for x in range(k):
                after[x] *= inverse * weight
        coming, total = onward[t], 0.0
        for x in range(k):
            value = weight_row[x] * message[x]
            weight_row[x] = row[x] * message[x] * inverse
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
    """Add the sum over steps of alpha_t(x) onward_(t+1)(y) to `counts`; the caller multiplies by the table."""
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
    """Add the marginals of every step to its table of counts, or to the only one."""
    steps, k = alpha.shape[0] - 1, alpha.shape[1]
    table_stride = 1 if tables.shape[0] > 1 else 0
    count_stride = 1 if counts.shape[0] > 1 else 0
    for t in range(steps):
        table, count_table = tables[(first_step + t) * table_stride], counts[(first_step + t) * count_stride]
        for x in range(k):
            w, after, row, count = alpha[t, x], onward[t + 1], table[x], count_table[x]
            for y in range(k):
                count[y] += w * row[y] * after[y]


@kernel
def forward_chains(scores, transitions, keep, weights, scratch, log_z, state):
    """Compute forward messages of all sequences, and log Z; `state` receives the outcome of each.

    Messages are stored in `weights`: a row per position if `keep`, else it is work space for the longest sequence.
    """
    ptr, nodes, start, end, offsets = scores.ptr, scores.nodes, scores.start, scores.end, scores.offsets
    tables, table_tops, table_floors, dense = (
        transitions.tables,
        transitions.tops,
        transitions.floors,
        transitions.dense,
    )
    tops, floors, totals, message = scratch.tops, scratch.floors, scratch.totals, scratch.message
    for s in range(state.shape[0]):
        a, b = ptr[s], ptr[s + 1]
        n, first = b - a, a if keep else 0
        rows = weights[first : first + n]
        _exponentiate_scores(nodes[a:b], start, end, offsets[s if offsets.shape[0] > 1 else 0], rows, tops, floors)
        state[s] = _forward(rows, floors, tables, a - s, table_floors, dense, rows, message, totals)
        if state[s] == DONE:
            log_z[s] = _log_partition(totals[:n], tops, table_tops, a - s)
        else:
            log_z[s] = -np.inf


@kernel
def pass_chains(scores, transitions, keep, weights, scratch, log_z, state, sequence_weights, with_counts, counts, sums):
    """Compute marginals of all sequences, log Z, and expected transitions; `state` receives the outcome of each.

    Marginals are stored in `weights` as messages are in `forward_chains`. If `sums` has rows, row s receives the sum of
    the marginals over the positions of sequence s. With `with_counts`, expected transitions times `sequence_weights`
    are added to `counts`; with one table and one matrix of counts that matrix must still be multiplied by the table.
    """
    ptr, nodes, start, end, offsets = scores.ptr, scores.nodes, scores.start, scores.end, scores.offsets
    tables, table_tops, table_floors, dense = (
        transitions.tables,
        transitions.tops,
        transitions.floors,
        transitions.dense,
    )
    tops, floors, totals, message = scratch.tops, scratch.floors, scratch.totals, scratch.message
    transposed, alpha, onward = transitions.transposed, scratch.alpha, scratch.onward
    k = weights.shape[1]
    shared = tables.shape[0] == 1 and counts.shape[0] == 1
    for s in range(state.shape[0]):
        a, b = ptr[s], ptr[s + 1]
        n, first = b - a, a if keep else 0
        rows, before, after = weights[first : first + n], alpha[:n], onward[:n]
        _exponentiate_scores(nodes[a:b], start, end, offsets[s if offsets.shape[0] > 1 else 0], rows, tops, floors)
        outcome = _forward(rows, floors, tables, a - s, table_floors, dense, before, message, totals)
        log_z[s] = -np.inf
        if outcome == DONE:
            log_z[s] = _log_partition(totals[:n], tops, table_tops, a - s)
            outcome = _backward(
                rows,
                floors,
                tables,
                transposed,
                a - s,
                table_floors,
                dense,
                sequence_weights[s],
                before,
                after,
                message,
            )
        state[s] = outcome
        if outcome == INFEASIBLE:
            for t in range(n):
                for x in range(k):
                    rows[t, x] = 0.0
        elif outcome == DONE and with_counts:
            if shared:
                _add_products(before, after, counts[0])
            else:
                _add_joint(before, after, tables, a - s, counts)
        if sums.shape[0] > 0:
            sum_row = sums[s]
            for x in range(k):
                sum_row[x] = 0.0
            for t in range(n):
                row = rows[t]
                for x in range(k):
                    sum_row[x] += row[x]
