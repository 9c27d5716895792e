"""Sum-product sweeps over pairwise graphs whose variables all have k states, in the linear domain.

Only for models in which no product can underflow and no table holds a hard zero (the caller checks the ranges);
variables may have impossible states. Messages are stored by *slot*: the factors at a variable next to each other, those
to earlier neighbours first (`slot_ptr[i]` .. `middle[i]`), those to later ones after. A forward half-sweep goes up
through the variables and sends to later neighbours, a backward one goes down and sends to earlier ones. Reading and
writing the same array is Gauss-Seidel; two arrays make the sweep parallel.

Variables are numbered here by *rank*: by the length of the longest path that leads up to them, then by index. Every
update sees exactly what it would see in the order of the indices, but updates of neighbouring ranks do not depend on
each other, so the processor works on several at once (on a grid, along the diagonals).

`rho` is the same for all factors here (1 is belief propagation): then the powers of Domke2013 Eq. 18 need one `pow` per
state of a variable, and a square root for 1/2. Scratch arrays are passed in: allocating them here would triple the time
to compile.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel
from intarsia._kernels.factor_kinds import POTTS, TRUNCATED_LINEAR

TINY = 1e-300  # stands in for 0 where a message is divided out

ONE, TWO = np.uint64(1), np.uint64(2)  # with a signed number an unsigned index becomes a float


@fast_kernel
def products_after(old, a, b, k, after):
    """Set row q - a of `after` to the product of the messages of the slots after q, up to b - 1."""
    for x in range(k):
        after[b - 1 - a, x] = 1.0
    for q in range(b - 2, a - 1, -1):
        for x in range(k):
            after[q - a, x] = after[q + 1 - a, x] * old[q + 1, x]


@fast_kernel
def _power(value, rho, root):
    """Return value ** rho; `root` is the number of square roots for rho = 1/2 or 1/4."""
    if root == 1:
        return np.sqrt(value)
    if root == 2:
        return np.sqrt(np.sqrt(value))
    return value**rho


@fast_kernel
def _send_binary(q, c0, c1, forward, opposite, table_of_slot, tables, damping, old, new):
    """Send the message for cavity (c0, c1) from slot q to its opposite; return its change, -1 if it has no state.

    Indices are unsigned: for signed ones the compiler checks at every use whether they count from the end.
    """
    t, o = np.uint64(table_of_slot[q]), np.uint64(opposite[q])
    if forward:  # axes of a table: the earlier variable, the later one
        m0 = tables[t, 0] * c0 + tables[t, 2] * c1
        m1 = tables[t, 1] * c0 + tables[t, 3] * c1
    else:
        m0 = tables[t, 0] * c0 + tables[t, 1] * c1
        m1 = tables[t, 2] * c0 + tables[t, 3] * c1
    total = m0 + m1
    if total == 0.0:
        return -1.0
    inverse = (1.0 - damping) / total
    before = old[o, 0]
    m0 = m0 * inverse + damping * before
    new[o, 1] = m1 * inverse + damping * old[o, 1]
    new[o, 0] = m0
    return abs(m0 - before)


@fast_kernel
def sweep_binary(forward, model, damping, old, new, after):
    """Update the messages of a half-sweep for two states and rho = 1; return the largest change.

    m_c(x_j) is proportional to sum_x table(x, x_j) exp(theta_i(x)) prod_{d != c} m_d(x). Returns -1 when a message has
    no possible state.
    """
    slot_ptr, middle, backward, opposite = model.slot_ptr, model.middle, model.backward, model.opposite
    table_of_slot, tables, unary = model.table_of_slot, model.tables, model.unary
    n = middle.shape[0]
    residual = 0.0
    for step in range(n):
        i = np.uint64(step) if forward else np.uint64(backward[step])
        start, half, end = np.uint64(slot_ptr[i]), np.uint64(middle[i]), np.uint64(slot_ptr[i + ONE])
        a, b = (half, end) if forward else (start, half)
        c, d = (start, half) if forward else (half, end)
        p0, p1 = unary[i, 0], unary[i, 1]
        change = 0.0
        for q in range(c, d):  # slots whose opposite receives no message in this half-sweep
            p0 *= old[q, 0]
            p1 *= old[q, 1]
        if b - a == ONE:
            change = _send_binary(a, p0, p1, forward, opposite, table_of_slot, tables, damping, old, new)
        elif b - a == TWO:
            x0, x1, y0, y1 = old[a, 0], old[a, 1], old[a + ONE, 0], old[a + ONE, 1]
            first_change = _send_binary(
                a, p0 * y0, p1 * y1, forward, opposite, table_of_slot, tables, damping, old, new
            )
            second_change = _send_binary(
                a + ONE, p0 * x0, p1 * x1, forward, opposite, table_of_slot, tables, damping, old, new
            )
            change = (
                min(first_change, second_change)
                if min(first_change, second_change) < 0.0
                else max(first_change, second_change)
            )
        elif b > a:  # leave one out by products from both ends
            products_after(old, np.int64(a), np.int64(b), 2, after)
            for q in range(a, b):
                c0, c1 = p0 * after[q - a, 0], p1 * after[q - a, 1]
                p0 *= old[q, 0]
                p1 *= old[q, 1]
                first_change = _send_binary(q, c0, c1, forward, opposite, table_of_slot, tables, damping, old, new)
                change = first_change if first_change < 0.0 else max(change, first_change)
                if change < 0.0:
                    break
        if change < 0.0:
            return -1.0
        residual = max(residual, change)
    return residual


@fast_kernel
def sweep_binary_reweighted(forward, model, damping, old, new, after):
    """Update the messages of a half-sweep for two states and rho other than 1; return the largest change.

    The cavity is exp(theta_i) prod_d m_d^rho / m_c (Domke2013 Eq. 18). Returns -1 when a message has no possible state.
    """
    slot_ptr, middle, backward, opposite = model.slot_ptr, model.middle, model.backward, model.opposite
    table_of_slot, tables, unary, rho, root = model.table_of_slot, model.tables, model.unary, model.rho, model.root
    n = middle.shape[0]
    residual = 0.0
    for step in range(n):
        i = np.uint64(step) if forward else np.uint64(backward[step])
        start, half, end = np.uint64(slot_ptr[i]), np.uint64(middle[i]), np.uint64(slot_ptr[i + ONE])
        a, b = (half, end) if forward else (start, half)
        if a == b:
            continue
        p0, p1 = 1.0, 1.0
        for q in range(start, end):
            p0 *= old[q, 0]
            p1 *= old[q, 1]
        p0 = unary[i, 0] * _power(p0, rho, root)
        p1 = unary[i, 1] * _power(p1, rho, root)
        for q in range(a, b):
            # A state whose own message is 0 is impossible: then p is 0 as well, and stays 0.
            c0, c1 = p0 / max(old[q, 0], TINY), p1 / max(old[q, 1], TINY)
            change = _send_binary(q, c0, c1, forward, opposite, table_of_slot, tables, damping, old, new)
            if change < 0.0:
                return -1.0
            residual = max(residual, change)
    return residual


@fast_kernel
def _receive(table, k, forward, cavity, out):
    """Compute table^T cavity if `forward`, else table cavity, in `out`; rows are slices so that loops vectorise."""
    if forward:
        for y in range(k):
            out[y] = 0.0
        for x in range(k):
            w = cavity[x]
            row = table[x * k : x * k + k]
            for y in range(k):
                out[y] += w * row[y]
    else:
        for x in range(k):
            row = table[x * k : x * k + k]
            total = 0.0
            for y in range(k):
                total += row[y] * cavity[y]
            out[x] = total


@fast_kernel
def _receive_potts(gap, k, cavity, out):
    """Compute a Potts message in O(k): gap[0] for equal states, gap[1] for others; nothing is subtracted."""
    after = 0.0
    for x in range(k - 1, -1, -1):
        out[x] = after
        after += cavity[x]
    before = 0.0
    for x in range(k):
        out[x] = gap[1] * (before + out[x]) + gap[0] * cavity[x]
        before += cavity[x]


@fast_kernel
def _receive_beyond(gap, reach, k, cavity, out):
    """Add the terms of states farther than `reach`, where the score is constant, in O(k)."""
    total = 0.0
    for x in range(reach + 1, k):
        total += cavity[x - reach - 1]
        out[x] += gap[reach + 1] * total
    total = 0.0
    for x in range(k - reach - 2, -1, -1):
        total += cavity[x + reach + 1]
        out[x] += gap[reach + 1] * total


@fast_kernel
def _receive_linear(gap, reach, k, cavity, out, left, right):
    """Compute a truncated linear message in O(k): weights gap[d] are powers of gap[1] up to `reach`, then constant.

    A window is composed of running sums over blocks of the window's length, from the start of a block and to its end,
    so that nothing is ever subtracted.
    """
    block = reach + 1
    for side in range(2):  # partners y <= x, then partners y > x in the mirror
        for j in range(k):
            w = cavity[j if side == 0 else k - 1 - j]
            left[j] = w if j % block == 0 else w + gap[1] * left[j - 1]
        for j in range(k - 1, -1, -1):
            end = min(k, (j // block + 1) * block) - 1
            term = gap[end - j] * cavity[j if side == 0 else k - 1 - j]
            right[j] = term if j == end else right[j + 1] + term
        for j in range(k):
            x = j if side == 0 else k - 1 - j
            begin = j - reach
            window = 0.0 if j % block == 0 else gap[1] * left[j - 1]
            if begin >= 0 and begin // block != j // block:
                window += gap[j - (begin // block + 1) * block + 1] * right[begin]
            if side == 0:
                out[x] = cavity[x] + window
            else:
                out[x] += window
    _receive_beyond(gap, reach, k, cavity, out)


@fast_kernel
def _receive_window(gap, reach, k, cavity, out):
    """Compute a message for any function of the distance that is constant beyond `reach`, in O(k reach)."""
    for x in range(k):
        total = 0.0
        for y in range(max(0, x - reach), min(k, x + reach + 1)):
            total += gap[abs(x - y)] * cavity[y]
        out[x] = total
    _receive_beyond(gap, reach, k, cavity, out)


@fast_kernel
def sweep_equal(forward, kind, reach, model, damping, old, new, after, work, states):
    """Update the messages of a half-sweep for k states; return the largest change, -1 when one has no state.

    A row of `model.tables` holds k * k entries (`kind` None) or k weights by distance. `work` is (5, k) scratch.
    `states` has length k: a tuple makes k a constant for the compiler, which unrolls the loops; an array does not.
    """
    slot_ptr, middle, backward, opposite = model.slot_ptr, model.middle, model.backward, model.opposite
    table_of_slot, tables, unary, rho, root = model.table_of_slot, model.tables, model.unary, model.rho, model.root
    common, cavity, out, left, right = work[0], work[1], work[2], work[3], work[4]
    n, k = unary.shape[0], len(states)
    residual = 0.0
    for step in range(n):
        i = step if forward else backward[step]
        start, end = slot_ptr[i], slot_ptr[i + 1]
        a, b = (middle[i], end) if forward else (start, middle[i])
        if a == b:
            continue
        unary_row = unary[i]
        if rho == 1.0:  # leave one out among the receivers, all others are in `common`
            c, d = (start, middle[i]) if forward else (middle[i], end)
            for x in range(k):
                common[x] = unary_row[x]
            for q in range(c, d):
                message = old[q]
                for x in range(k):
                    common[x] *= message[x]
        else:
            for x in range(k):
                common[x] = 1.0
            for q in range(start, end):
                message = old[q]
                for x in range(k):
                    common[x] *= message[x]
            for x in range(k):
                common[x] = unary_row[x] * _power(common[x], rho, root)
        many = rho == 1.0 and b - a > 2
        if many:  # leave one out by products from both ends
            products_after(old, a, b, k, after)
        for q in range(a, b):
            message = old[q]
            if many:
                rest = after[q - a]
                for x in range(k):
                    cavity[x] = common[x] * rest[x]
                    common[x] *= message[x]
            elif rho != 1.0:  # a state whose own message is 0 is impossible: then `common` is 0 as well
                for x in range(k):
                    cavity[x] = common[x] / max(message[x], TINY)
            elif b - a == 2:
                other = old[a + b - 1 - q]
                for x in range(k):
                    cavity[x] = common[x] * other[x]
            else:
                for x in range(k):
                    cavity[x] = common[x]
            t = table_of_slot[q]
            if kind is None:  # full tables; the compiler drops the rest
                _receive(tables[t], k, forward, cavity, out)
            elif kind == POTTS:
                _receive_potts(tables[t], k, cavity, out)
            elif kind == TRUNCATED_LINEAR and tables[t, 0] == 1.0:  # the weight is not negative
                _receive_linear(tables[t], reach[t], k, cavity, out, left, right)
            else:
                _receive_window(tables[t], reach[t], k, cavity, out)
            total = 0.0
            for x in range(k):
                total += out[x]
            if total == 0.0:
                return -1.0
            inverse = (1.0 - damping) / total
            before, result = old[opposite[q]], new[opposite[q]]
            change = 0.0
            for x in range(k):
                value = out[x] * inverse + damping * before[x]
                change = max(change, abs(value - before[x]))
                result[x] = value
            residual = max(residual, change)
    return residual


@fast_kernel
def stack_sweeps_binary(n_iter, model, damping, messages, after, work, states, stack):
    """Sweep `n_iter` times over `messages` of two states; store them in `stack` before each sweep and at the end.

    One call makes all sweeps, so that the interpreter does not run in between. Returns False when a message has no
    possible state.
    """
    for n in range(n_iter):
        stack[n] = messages
        for forward in (True, False):
            if model.rho == 1.0:
                change = sweep_binary(forward, model, damping, messages, messages, after)
            else:
                change = sweep_binary_reweighted(forward, model, damping, messages, messages, after)
            if change < 0.0:
                return False
    stack[n_iter] = messages
    return True


@fast_kernel
def stack_sweeps_equal(n_iter, model, damping, messages, after, work, states, stack):
    """Sweep `n_iter` times over `messages` of k states and full tables, as `stack_sweeps_binary` does for two."""
    reach = model.backward  # used by parametric tables only
    for n in range(n_iter):
        stack[n] = messages
        for forward in (True, False):
            change = sweep_equal(forward, None, reach, model, damping, messages, messages, after, work, states)
            if change < 0.0:
                return False
    stack[n_iter] = messages
    return True
