"""Backward pass of `pairwise_messages.py`, which explains slots and ranks; `back_messages.py` has the equations.

Adjoints are gradients with respect to log messages, by slot. When variable i sends, the messages at it from variables
that sent before it in this sweep are new, the others old. A half-sweep can therefore be reversed from the messages
after and before the sweep alone, and nothing has to be restored. The adjoint of the belief of i is added to theta_i
and, times rho, to all messages at i. A forward half-sweep is reversed in the order of a backward one, level by level,
so that tables are read in rising order within a level.

The gradient of a table is the table times a sum of outer products of a cavity and of nu over the unnormalised message:
`outer` holds that sum, and the tables are multiplied in once, at the end. No table has a hard zero here, so every
message is positive and may be divided by.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel

# Products of a message's two entries below this are scaled first to avoid underflow.
SMALL = 1e-200

ONE = np.uint64(1)  # with a signed 1 an unsigned index becomes a float


@fast_kernel
def _power(value, rho, root):
    """Return value ** rho; `root` is the number of square roots for rho = 1/2 or 1/4, and -1 for rho = 1.

    An integer selects the case because the compiler moves such a test out of the loop; with a test on rho it would
    compute both sides.
    """
    if root == -1:
        return value
    if root == 1:
        return np.sqrt(value)
    if root == 2:
        return np.sqrt(np.sqrt(value))
    return value**rho


@fast_kernel
def back_sweep_binary(forward, model, damping, after, before, adjoints, work, row_sums, states):
    """Propagate adjoints back through a half-sweep for two states; return the sum of squared message adjoints.

    `adjoints.messages` has one number for each message, the gradient with respect to its log odds: the adjoints of two
    log messages that do not depend on their scale are opposite. A cavity is multiplied by both entries of the message
    that it excludes, so that nothing is divided out; its scale does not matter either. Indices are unsigned: for signed
    ones the compiler checks at every use whether they count from the end.
    """
    slot_ptr, middle, backward, opposite = model.slot_ptr, model.middle, model.backward, model.opposite
    table_of_slot, tables, unary, rho, root = model.table_of_slot, model.tables, model.unary, model.rho, model.root
    adjoint, unary_gradient, outer = adjoints.messages, adjoints.unary, adjoints.outer
    n = middle.shape[0]
    squares = 0.0
    for step in range(n):
        i = np.uint64(backward[step]) if forward else np.uint64(step)
        start, half, end = np.uint64(slot_ptr[i]), np.uint64(middle[i]), np.uint64(slot_ptr[i + ONE])
        a, b = (half, end) if forward else (start, half)
        if a == b:
            continue
        incoming = before if forward else after  # before later updates of this half-sweep changed them
        p0, p1 = 1.0, 1.0
        for q in range(start, half):
            p0 *= after[q, 0]
            p1 *= after[q, 1]
        for q in range(half, end):
            p0 *= incoming[q, 0]
            p1 *= incoming[q, 1]
        p0 = unary[i, 0] * _power(p0, rho, root)
        p1 = unary[i, 1] * _power(p1, rho, root)
        belief_adjoint = 0.0
        for q in range(a, b):
            t, o = np.uint64(table_of_slot[q]), np.uint64(opposite[q])
            m0, m1 = incoming[q, 0], incoming[q, 1]
            c0, c1 = p0 * m1, p1 * m0
            t00, t01, t10, t11 = tables[t, 0], tables[t, 1], tables[t, 2], tables[t, 3]
            if not forward:
                t01, t10 = t10, t01
            raw0 = t00 * c0 + t10 * c1
            raw1 = t01 * c0 + t11 * c1
            if raw0 * raw1 < SMALL:
                c0, c1 = p0 / m0, p1 / m1
                scale = 1.0 / max(c0, c1)
                c0, c1 = c0 * scale, c1 * scale
                raw0 = t00 * c0 + t10 * c1
                raw1 = t01 * c0 + t11 * c1
            g = adjoint[o]
            adjoint[o] = 0.0
            if damping > 0.0:  # entries are damped; the odds of (1 - m, m) move 1 / (m (1 - m)) times as fast as m
                g /= after[o, 0] * after[o, 1]
                adjoint[o] = damping * g * before[o, 0] * before[o, 1]
                g *= (1.0 - damping) * raw0 * raw1 / (raw0 + raw1) ** 2
            squares += g * g
            g /= raw0 * raw1
            w0, w1 = -g * raw1, g * raw0  # adjoints of the logarithms over the unnormalised message
            outer[t, 0] += c0 * w0
            outer[t, 3] += c1 * w1
            if forward:
                outer[t, 1] += c0 * w1
                outer[t, 2] += c1 * w0
            else:
                outer[t, 1] += c1 * w0
                outer[t, 2] += c0 * w1
            r = g * (c0 * c1) * (t00 * t11 - t01 * t10)
            adjoint[q] -= r
            belief_adjoint += r
        unary_gradient[i, 0] -= belief_adjoint
        unary_gradient[i, 1] += belief_adjoint
        belief_adjoint *= rho
        for q in range(start, end):
            adjoint[q] += belief_adjoint
    return squares


@fast_kernel
def back_sweeps_binary(n_iter, model, damping, stack, adjoints, work, row_sums, states):
    """Propagate adjoints back through all sweeps of a stack for two states, in one call."""
    for n in range(n_iter - 1, -1, -1):
        for forward in (False, True):
            back_sweep_binary(forward, model, damping, stack[n + 1], stack[n], adjoints, work, row_sums, states)


@fast_kernel
def _receive(table, k, forward, cavity, out):
    """Compute table^T cavity if `forward`, else table cavity, in `out`; in blocks of four rows that vectorise."""
    whole = k // 4 * 4
    if forward:
        for y in range(k):
            out[y] = 0.0
        for x in range(0, whole, 4):
            c0, c1, c2, c3 = cavity[x], cavity[x + 1], cavity[x + 2], cavity[x + 3]
            row0, row1 = table[x * k : (x + 1) * k], table[(x + 1) * k : (x + 2) * k]
            row2, row3 = table[(x + 2) * k : (x + 3) * k], table[(x + 3) * k : (x + 4) * k]
            for y in range(k):
                out[y] += (c0 * row0[y] + c1 * row1[y]) + (c2 * row2[y] + c3 * row3[y])
        for x in range(whole, k):
            c0, row0 = cavity[x], table[x * k : (x + 1) * k]
            for y in range(k):
                out[y] += c0 * row0[y]
    else:
        for x in range(0, whole, 4):
            row0, row1 = table[x * k : (x + 1) * k], table[(x + 1) * k : (x + 2) * k]
            row2, row3 = table[(x + 2) * k : (x + 3) * k], table[(x + 3) * k : (x + 4) * k]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for y in range(k):
                c0 = cavity[y]
                t0 += row0[y] * c0
                t1 += row1[y] * c0
                t2 += row2[y] * c0
                t3 += row3[y] * c0
            out[x], out[x + 1], out[x + 2], out[x + 3] = t0, t1, t2, t3
        for x in range(whole, k):
            row0 = table[x * k : (x + 1) * k]
            t0 = 0.0
            for y in range(k):
                t0 += row0[y] * cavity[y]
            out[x] = t0


@fast_kernel
def _add_outer(outer, k, left, right):
    """Add the outer product of `left` and `right` to `outer`, a flat table."""
    for x in range(k):
        c, row = left[x], outer[x * k : (x + 1) * k]
        for y in range(k):
            row[y] += c * right[y]


@fast_kernel
def back_sweep_equal(forward, model, damping, after, before, adjoints, work, row_sums, states):
    """Propagate adjoints back through a half-sweep for k states; return the sum of squared message adjoints.

    `adjoints.messages` holds gradients with respect to log messages. `work` is (5, k), `row_sums` (n_tables, 2, k)
    holds the tables' sums over either axis. `states` has length k: a tuple makes k a constant for the compiler, which
    unrolls the loops; an array does not.
    """
    slot_ptr, middle, backward, opposite = model.slot_ptr, model.middle, model.backward, model.opposite
    table_of_slot, tables, unary, rho, root = model.table_of_slot, model.tables, model.unary, model.rho, model.root
    adjoint, unary_gradient, outer = adjoints.messages, adjoints.unary, adjoints.outer
    n, k = unary.shape[0], len(states)
    common, cavity, raw, w, belief_adjoint = work[0], work[1], work[2], work[3], work[4]
    squares = 0.0
    for step in range(n):
        i = backward[step] if forward else step
        start, end = slot_ptr[i], slot_ptr[i + 1]
        a, b = (middle[i], end) if forward else (start, middle[i])
        if a == b:
            continue
        incoming = before if forward else after
        for x in range(k):
            common[x] = 1.0
            belief_adjoint[x] = 0.0
        for q in range(start, end):
            message = after[q] if q < middle[i] else incoming[q]
            for x in range(k):
                common[x] *= message[x]
        unary_row = unary[i]
        for x in range(k):
            common[x] = unary_row[x] * _power(common[x], rho, root)
        for q in range(a, b):
            t, o = table_of_slot[q], opposite[q]
            message, table = incoming[q], tables[t]
            for x in range(k):
                cavity[x] = common[x] / message[x]
            gradient, fresh, old = adjoint[o], after[o], before[o]
            norm = 0.0
            if damping > 0.0:
                _receive(table, k, forward, cavity, raw)
                for y in range(k):
                    norm += raw[y]
            else:  # the message is stored already, up to its normaliser
                sums = row_sums[t, 0 if forward else 1]
                for x in range(k):
                    norm += sums[x] * cavity[x]
                for y in range(k):
                    raw[y] = norm * fresh[y]
            norm = 1.0 / norm
            mean = 0.0
            for y in range(k):
                w[y] = gradient[y]
                gradient[y] = 0.0
                if damping > 0.0:
                    keep = w[y] / fresh[y]
                    gradient[y] = damping * old[y] * keep
                    w[y] = (1.0 - damping) * raw[y] * norm * keep
                mean += w[y]
            mean *= norm
            for y in range(k):
                w[y] = w[y] / raw[y] - mean
                nu = w[y] * raw[y]
                squares += nu * nu
            incoming_adjoint = adjoint[q]
            if forward:
                _add_outer(outer[t], k, cavity, w)
            else:
                _add_outer(outer[t], k, w, cavity)
            _receive(table, k, not forward, w, raw)
            for x in range(k):
                r = cavity[x] * raw[x]
                incoming_adjoint[x] -= r
                belief_adjoint[x] += r
        for x in range(k):
            unary_gradient[i, x] += belief_adjoint[x]
            belief_adjoint[x] *= rho
        for q in range(start, end):
            incoming_adjoint = adjoint[q]
            for x in range(k):
                incoming_adjoint[x] += belief_adjoint[x]
    return squares


@fast_kernel
def back_sweeps_equal(n_iter, model, damping, stack, adjoints, work, row_sums, states):
    """Propagate adjoints back through all sweeps of a stack for k states, in one call."""
    for n in range(n_iter - 1, -1, -1):
        for forward in (False, True):
            back_sweep_equal(forward, model, damping, stack[n + 1], stack[n], adjoints, work, row_sums, states)


@fast_kernel
def start_adjoints(slot_ptr, rho, unary_gradient, adjoint):
    """Add the adjoint of each belief, times rho, to the adjoints of all messages at the variable."""
    n, k = unary_gradient.shape
    for i in range(n):
        for q in range(slot_ptr[i], slot_ptr[i + 1]):
            for x in range(k):
                adjoint[q, x] += rho * unary_gradient[i, x]


@fast_kernel
def sum_tables(tables, row_sums):
    """Compute the sums of every table over its second axis and over its first."""
    k = row_sums.shape[2]
    for t in range(tables.shape[0]):
        rows, columns = row_sums[t, 0], row_sums[t, 1]
        for y in range(k):
            columns[y] = 0.0
        for x in range(k):
            row = tables[t, x * k : x * k + k]
            total = 0.0
            for y in range(k):
                total += row[y]
                columns[y] += row[y]
            rows[x] = total


@fast_kernel
def lay_out_gradient(outer, tables, rho, factor_of_edge, flipped, gradient):
    """Compute the gradient of each factor's scores, (n_factors, k, k), with the axes of the factor.

    Entry by entry, gradient = outer * table / rho.
    """
    k, inverse = gradient.shape[1], 1.0 / rho
    for edge in range(factor_of_edge.shape[0]):
        target, products, table = gradient[factor_of_edge[edge]], outer[edge], tables[edge]
        if flipped[edge]:
            for x in range(k):
                for y in range(k):
                    target[y, x] = products[x * k + y] * table[x * k + y] * inverse
        else:
            for x in range(k):
                row, from_row, of_table = target[x], products[x * k : x * k + k], table[x * k : x * k + k]
                for y in range(k):
                    row[y] = from_row[y] * of_table[y] * inverse
