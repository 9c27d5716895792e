"""Sums and maxima over a bucket tree: upward pass, marginals, best completions, samples.

Bucket k belongs to the variable eliminated k-th. Its pieces are that variable's scores, the tables assigned to it
and the messages of its children; its message is a table over its separator, outermost axis eliminated last. So the
variable of the receiving bucket is the innermost axis of every message, and bucket tables are never stored.

The innermost axes of a bucket, as many as make up at most `BLOCK` entries, are its block; the outer axes turn like an
odometer. Pieces within the block are multiplied once; those on outer axes only are kept as products per level
(a level for each outer axis), so a piece that lacks the fast axes costs next to nothing; only pieces with axes of both
kinds are read at every turn. All pieces have maximum 1 (score 0); a bucket whose pieces span a factor above
exp(`LOG_RANGE`) in total is worked in the log domain, so that underflow never looks like a hard zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from intarsia._jit import kernel

LOG_RANGE = 600.0
BLOCK = 1024


class Plan(NamedTuple):
    """Structure of a bucket tree, as flat arrays; everything but `order` and the graph's own is by bucket."""

    order: Any  # variable of each bucket
    n_states: Any
    variable_ptr: Any
    scope_ptr: Any
    scope_idx: Any
    table_start: Any  # per factor: where its full table begins
    block_of_factor: Any  # n_variables + table, the index into `spans`
    sep_ptr: Any
    sep_idx: Any  # variables of the separator, the last to be eliminated first
    factor_ptr: Any
    factor_idx: Any
    child_ptr: Any
    child_idx: Any
    message_ptr: Any  # where each message begins in `values`
    limits: Any  # largest n_axes, n_pieces, n_axes * n_pieces, (n_axes + 1) * n_states, cells of children


class _Work(NamedTuple):
    axis: Any  # of each variable in the open bucket
    size: Any
    state: Any
    level: Any
    level_ptr: Any
    offset: Any
    own_stride: Any
    strides: Any
    source: Any  # of each piece: -1 variable, -2 - c factor c, otherwise the child bucket
    mixed: Any  # pieces with axes both inside and outside the block
    in_order: Any  # whether the block's entries of a mixed piece lie one after another
    index: Any
    partial: Any
    belief: Any
    base: Any
    block: Any
    gathered: Any


@kernel
def _new_work(plan):
    limits = plan.limits
    return _Work(
        np.empty(plan.n_states.shape[0], np.int64),
        np.empty(limits[0], np.int64),
        np.empty(limits[0], np.int64),
        np.empty(limits[1], np.int64),
        np.empty(limits[0] + 3, np.int64),
        np.empty(limits[1], np.int64),
        np.empty(limits[1], np.int64),
        np.empty(limits[2], np.int64),
        np.empty(limits[1], np.int64),
        np.empty(limits[1], np.int64),
        np.empty(limits[1], np.bool_),
        np.empty(4 * BLOCK, np.int64),
        np.empty(limits[3]),
        np.empty(limits[3]),
        np.empty(max(BLOCK, limits[3])),
        np.empty(max(BLOCK, limits[3])),
        np.empty(max(BLOCK, limits[3])),
    )


@kernel
def _open_bucket(plan, work, k):
    """Lay out the pieces of bucket k, ordered by level; return (states of its variable, axes, pieces)."""
    v = plan.order[k]
    sep_start = plan.sep_ptr[k]
    n_axes = plan.sep_ptr[k + 1] - sep_start
    for a in range(n_axes):
        u = plan.sep_idx[sep_start + a]
        work.axis[u] = a
        work.size[a] = plan.n_states[u]
        work.state[a] = 0
    work.axis[v] = -1
    factor_start, child_start = plan.factor_ptr[k], plan.child_ptr[k]
    n_factors = plan.factor_ptr[k + 1] - factor_start
    n_pieces = 1 + n_factors + plan.child_ptr[k + 1] - child_start
    level_ptr = work.level_ptr
    for a in range(n_axes + 3):
        level_ptr[a] = 0
    work.level[0] = 0
    level_ptr[2] += 1
    for j in range(1, n_pieces):
        level = 0
        if j <= n_factors:
            c = plan.factor_idx[factor_start + j - 1]
            for s in range(plan.scope_ptr[c], plan.scope_ptr[c + 1]):
                level = max(level, work.axis[plan.scope_idx[s]] + 1)
        else:
            c = plan.child_idx[child_start + j - 1 - n_factors]
            for s in range(plan.sep_ptr[c], plan.sep_ptr[c + 1]):
                level = max(level, work.axis[plan.sep_idx[s]] + 1)
        work.level[j] = level
        level_ptr[level + 2] += 1
    for level in range(2, n_axes + 3):
        level_ptr[level] += level_ptr[level - 1]
    for j in range(n_pieces):
        p = level_ptr[work.level[j] + 1]
        level_ptr[work.level[j] + 1] += 1
        for a in range(n_axes):
            work.strides[p * n_axes + a] = 0
        stride = 1
        if j == 0:
            work.source[p] = -1
            work.offset[p] = plan.variable_ptr[v]
            work.own_stride[p] = 1
        elif j <= n_factors:
            c = plan.factor_idx[factor_start + j - 1]
            work.source[p] = -2 - c
            work.offset[p] = plan.table_start[c]
            for s in range(plan.scope_ptr[c + 1] - 1, plan.scope_ptr[c] - 1, -1):
                u = plan.scope_idx[s]
                if u == v:
                    work.own_stride[p] = stride
                else:
                    work.strides[p * n_axes + work.axis[u]] = stride
                stride *= plan.n_states[u]
        else:
            c = plan.child_idx[child_start + j - 1 - n_factors]
            work.source[p] = c
            work.offset[p] = plan.message_ptr[c]
            for s in range(plan.sep_ptr[c + 1] - 1, plan.sep_ptr[c] - 1, -1):
                u = plan.sep_idx[s]
                if u == v:
                    work.own_stride[p] = stride
                else:
                    work.strides[p * n_axes + work.axis[u]] = stride
                stride *= plan.n_states[u]
    return plan.n_states[v], n_axes, n_pieces


@kernel
def _choose_domain(plan, work, k, n_pieces, values, n_table, spans, message_span, message_in_log, maximise):
    """Say whether bucket k is worked in the log domain, and bring its children's messages into that domain."""
    total = 0.0
    for p in range(n_pieces):
        source = work.source[p]
        if source >= 0:
            total += message_span[source]
        elif source == -1:
            total += spans[plan.order[k]]
        else:
            total += spans[plan.block_of_factor[-2 - source]]
    in_log = maximise or total > LOG_RANGE
    for p in range(n_pieces):
        child = work.source[p]
        if child >= 0 and message_in_log[child] != in_log:
            for i in range(plan.message_ptr[child], plan.message_ptr[child + 1]):
                values[i] = np.log(values[i]) if in_log else np.exp(values[i])
            message_in_log[child] = in_log
    return in_log


@kernel
def _point_to_tables(work, n_pieces, n_table, in_log):
    """Logarithms of all tables come first in `values`, then the tables themselves."""
    if not in_log:
        for p in range(n_pieces):
            if work.source[p] < 0:
                work.offset[p] += n_table


@kernel
def _index_block(index, start, p, own_stride, strides, size, n_own, n_axes, n_outer):
    """Where piece p's entries for each entry of the block lie, relative to its offset."""
    for x in range(n_own):
        index[start + x] = x * own_stride[p]
    length = n_own
    for a in range(n_axes - 1, n_outer - 1, -1):
        stride = strides[p * n_axes + a]
        for i in range(1, size[a]):
            for e in range(length):
                index[start + i * length + e] = index[start + e] + i * stride
        length *= size[a]


@kernel
def _lay_block(work, values, n_own, n_axes, n_pieces, in_log):
    """Choose the block, multiply the pieces within it into `base`, index the mixed ones.

    Returns the number of outer axes, of separator cells in the block and of mixed pieces, and the indices.
    """
    size, offset, strides = work.size, work.offset, work.strides
    n_outer, n_rows = n_axes, 1
    while n_outer > 0 and n_own * n_rows * size[n_outer - 1] <= BLOCK:
        n_outer -= 1
        n_rows *= size[n_outer]
    n_block = n_own * n_rows
    first = work.level_ptr[n_outer + 1]
    n_mixed = 0
    for p in range(first, n_pieces):
        for a in range(n_outer):
            if strides[p * n_axes + a] != 0:
                work.mixed[n_mixed] = p
                n_mixed += 1
                break
    index = work.index
    if (n_mixed + 1) * n_block > index.shape[0]:
        index = np.empty((n_mixed + 1) * n_block, np.int64)
    for e in range(n_block):
        work.base[e] = 0.0 if in_log else 1.0
    m = 0
    for p in range(first, n_pieces):
        if m < n_mixed and work.mixed[m] == p:
            _index_block(index, m * n_block, p, work.own_stride, strides, size, n_own, n_axes, n_outer)
            work.in_order[m] = True
            for e in range(n_block):
                if index[m * n_block + e] != e:
                    work.in_order[m] = False
            m += 1
        else:
            spare = n_mixed * n_block
            _index_block(index, spare, p, work.own_stride, strides, size, n_own, n_axes, n_outer)
            at = offset[p]
            if in_log:
                for e in range(n_block):
                    work.base[e] += values[at + index[spare + e]]
            else:
                for e in range(n_block):
                    work.base[e] *= values[at + index[spare + e]]
    return n_outer, n_rows, n_mixed, index


@kernel
def _visit_bucket(work, values, beliefs, shift, cell, n_own, n_axes, n_pieces, in_log, maximise, spreading):
    """Visit every entry of the open bucket, whose separator cells start at `cell`.

    Going up, write the bucket's message there. Going down (`spreading`) find the separator's belief there and add
    the bucket's joint distribution to the marginals of its pieces. There are no calls in the loop: handing over
    arrays costs more than visiting a cell.
    """
    n_outer, n_rows, n_mixed, index = _lay_block(work, values, n_own, n_axes, n_pieces, in_log)
    offset, own_stride, strides, level_ptr = work.offset, work.own_stride, work.strides, work.level_ptr
    size, state, partial, base, block = work.size, work.state, work.partial, work.base, work.block
    mixed, in_order, belief, gathered = work.mixed, work.in_order, work.belief, work.gathered
    n_block = n_rows * n_own
    has_base = level_ptr[n_outer + 1] + n_mixed < n_pieces
    last = n_outer * n_own
    for e in range(n_block):
        gathered[e] = 0.0
    turning = -1
    while True:
        for level in range(turning + 1, n_outer + 1):  # products over the outer pieces up to each level
            here = level * n_own
            before = here - n_own
            for x in range(n_own):
                partial[here + x] = (0.0 if in_log else 1.0) if level == 0 else partial[before + x]
                belief[here + x] = 0.0
            for p in range(level_ptr[level], level_ptr[level + 1]):
                at, step = offset[p], own_stride[p]
                if in_log:
                    for x in range(n_own):
                        partial[here + x] += values[at + x * step]
                else:
                    for x in range(n_own):
                        partial[here + x] *= values[at + x * step]
        for r in range(n_rows):
            if in_log:
                for x in range(n_own):
                    block[r * n_own + x] = base[r * n_own + x] + partial[last + x]
            else:
                for x in range(n_own):
                    block[r * n_own + x] = base[r * n_own + x] * partial[last + x]
        for m in range(n_mixed):
            at, start = offset[mixed[m]], m * n_block
            if in_order[m] and in_log:
                for e in range(n_block):
                    block[e] += values[at + e]
            elif in_order[m]:
                for e in range(n_block):
                    block[e] *= values[at + e]
            elif in_log:
                for e in range(n_block):
                    block[e] += values[at + index[start + e]]
            else:
                for e in range(n_block):
                    block[e] *= values[at + index[start + e]]
        for r in range(n_rows):
            here = r * n_own
            top, total = 0.0, 0.0
            if in_log:
                top = block[here]
                for x in range(1, n_own):
                    top = max(top, block[here + x])
            if not (in_log and (maximise or top == -np.inf)):
                if in_log:
                    for x in range(n_own):
                        block[here + x] = np.exp(block[here + x] - top)
                for x in range(n_own):
                    total += block[here + x]
            if not spreading:
                if not in_log:
                    values[cell + r] = total
                else:
                    values[cell + r] = top if maximise or top == -np.inf else top + np.log(total)
            elif values[cell + r] > 0.0:  # P(own | separator) times the separator's belief
                scale = values[cell + r] / total
                for x in range(n_own):
                    block[here + x] *= scale
                    belief[last + x] += block[here + x]
            else:
                for x in range(n_own):
                    block[here + x] = 0.0
        cell += n_rows
        turning = n_outer - 1  # outermost axis that the next block changes
        while turning >= 0 and state[turning] + 1 == size[turning]:
            turning -= 1
        if spreading:
            if has_base:
                for e in range(n_block):
                    gathered[e] += block[e]
            for m in range(n_mixed):
                at, start = offset[mixed[m]] + shift[mixed[m]], m * n_block
                if in_order[m]:
                    for e in range(n_block):
                        beliefs[at + e] += block[e]
                else:
                    for e in range(n_block):
                        beliefs[at + index[start + e]] += block[e]
            for level in range(n_outer, turning, -1):  # what was gathered inside the turning axis goes outwards
                here = level * n_own
                for p in range(level_ptr[level], level_ptr[level + 1]):
                    at, step = offset[p] + shift[p], own_stride[p]
                    for x in range(n_own):
                        beliefs[at + x * step] += belief[here + x]
                if level > 0:
                    for x in range(n_own):
                        belief[here - n_own + x] += belief[here + x]
        if turning < 0:
            break
        for a in range(turning, n_outer):
            step = 1 if a == turning else -state[a]
            for p in range(level_ptr[a + 1], n_pieces):
                offset[p] += step * strides[p * n_axes + a]
            state[a] += step
    if spreading and has_base:
        m, spare = 0, n_mixed * n_block
        for p in range(level_ptr[n_outer + 1], n_pieces):
            if m < n_mixed and mixed[m] == p:
                m += 1
            else:
                _index_block(index, spare, p, own_stride, strides, size, n_own, n_axes, n_outer)
                at = offset[p] + shift[p]
                for e in range(n_block):
                    beliefs[at + index[spare + e]] += gathered[e]


@kernel
def _visit_edge(work, values, beliefs, shift, cell, n_own, n_pieces, spreading):
    """The same for the commonest bucket, a leaf of a pairwise tree: one separator axis, one table on it, no logs."""
    offset, weight, other = work.offset, work.partial, work.belief
    q = n_pieces - 1  # the table; all other pieces are on the own variable alone
    at, own_step, step, n_cells = offset[q], work.own_stride[q], work.strides[q], work.size[0]
    for x in range(n_own):
        weight[x] = 1.0
        other[x] = 0.0
    for p in range(q):
        start, stride = offset[p], work.own_stride[p]
        for x in range(n_own):
            weight[x] *= values[start + x * stride]
    totals = work.gathered
    for i in range(n_cells):
        totals[i] = 0.0
    if own_step == 1:
        for i in range(n_cells):
            total = 0.0
            for x in range(n_own):
                total += weight[x] * values[at + i * step + x]
            totals[i] = total
    else:
        for x in range(n_own):
            w, row = weight[x], at + x * own_step
            for i in range(n_cells):
                totals[i] += w * values[row + i]
    if not spreading:
        for i in range(n_cells):
            values[cell + i] = totals[i]
        return
    for i in range(n_cells):
        totals[i] = values[cell + i] / totals[i] if values[cell + i] > 0.0 else 0.0
    to = at + shift[q]
    if own_step == 1:
        for i in range(n_cells):
            for x in range(n_own):
                joint = weight[x] * values[at + i * step + x] * totals[i]
                beliefs[to + i * step + x] += joint
                other[x] += joint
    else:
        for x in range(n_own):
            w, row = weight[x], x * own_step
            for i in range(n_cells):
                joint = w * values[at + row + i] * totals[i]
                beliefs[to + row + i] += joint
                other[x] += joint
    for p in range(q):
        start, stride = offset[p] + shift[p], work.own_stride[p]
        for x in range(n_own):
            beliefs[start + x * stride] += other[x]


@kernel
def _normalise(values, begin, end, in_log):
    """Take the maximum out of a message; return its logarithm (-inf if all is zero) and the log-range left."""
    top, low = -np.inf, np.inf
    zero = -np.inf if in_log else 0.0
    for i in range(begin, end):
        top = max(top, values[i])
        if values[i] > zero:
            low = min(low, values[i])
    if not top > zero:
        return -np.inf, 0.0
    if in_log:
        for i in range(begin, end):
            values[i] -= top
        return top, top - low
    scale = 1.0 / top
    for i in range(begin, end):
        values[i] *= scale
    return np.log(top), np.log(top) - np.log(low)


@kernel
def pass_buckets(
    plan, start, stop, spreading, maximise, values, n_table, spans, message_span, message_in_log, bucket_in_log,
    taken_out, beliefs,
):  # fmt: skip
    """Pass upward over buckets start..stop-1, or downward (`spreading`) over stop-1..start; False if infeasible.

    One kernel for both, because most of its compilation is common. `values` holds the logarithms of all tables, the
    tables, and the messages.

    Upward, `taken_out` receives the logarithm of each message's maximum; they are summed outside, pairwise, because a
    million additions one after another cost five digits. Downward, after a sum, marginals are added to
    `beliefs`, whose first part has the layout of the tables and whose rest is room for the separators of one bucket's
    children. These then take the place of the messages that were sent over them: a bucket needs only its children's
    messages, because P(own | separator) is the product of its pieces made to sum to one.
    """
    work = _new_work(plan)
    shift = np.zeros(plan.limits[1], np.int64)
    for i in range(start, stop):
        k = start + stop - 1 - i if spreading else i
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        if not spreading:
            bucket_in_log[k] = message_in_log[k] = _choose_domain(
                plan, work, k, n_pieces, values, n_table, spans, message_span, message_in_log, maximise
            )
        in_log = bucket_in_log[k]
        _point_to_tables(work, n_pieces, n_table, in_log)
        begin, end = plan.message_ptr[k], plan.message_ptr[k + 1]
        if spreading:
            used = n_table
            for p in range(n_pieces):
                child = work.source[p]
                if child < 0:
                    shift[p] = 0 if in_log else -n_table
                else:
                    shift[p] = used - plan.message_ptr[child]
                    used += plan.message_ptr[child + 1] - plan.message_ptr[child]
            for j in range(n_table, used):
                beliefs[j] = 0.0
            if n_axes == 0:
                values[begin] = 1.0
        if n_axes == 1 and work.level_ptr[1] == n_pieces - 1 and not in_log:
            _visit_edge(work, values, beliefs, shift, begin, n_own, n_pieces, spreading)
        else:
            _visit_bucket(work, values, beliefs, shift, begin, n_own, n_axes, n_pieces, in_log, maximise, spreading)
        if spreading:
            for p in range(n_pieces):
                child = work.source[p]
                if child >= 0:
                    for j in range(plan.message_ptr[child], plan.message_ptr[child + 1]):
                        values[j] = beliefs[j + shift[p]]
        else:
            taken_out[k], message_span[k] = _normalise(values, begin, end, in_log)
            if taken_out[k] == -np.inf:
                return False
    return True


@kernel
def _local_products(plan, work, k, y, values, n_own, n_axes, n_pieces, in_log):
    """Put into `partial` the product (sum) of bucket k's pieces for each own state, given the separator's labels."""
    partial = work.partial
    for x in range(n_own):
        partial[x] = 0.0 if in_log else 1.0
    sep_start = plan.sep_ptr[k]
    for p in range(n_pieces):
        at, step = work.offset[p], work.own_stride[p]
        for a in range(n_axes):
            at += work.strides[p * n_axes + a] * y[plan.sep_idx[sep_start + a]]
        if in_log:
            for x in range(n_own):
                partial[x] += values[at + x * step]
        else:
            for x in range(n_own):
                partial[x] *= values[at + x * step]


@kernel
def sample_buckets(plan, values, n_table, bucket_in_log, rng, labels):
    """Fill each row of `labels` with a draw, root to leaves, after an upward pass with sums."""
    work = _new_work(plan)
    partial = work.partial
    for k in range(plan.order.shape[0] - 1, -1, -1):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        in_log = bucket_in_log[k]
        _point_to_tables(work, n_pieces, n_table, in_log)
        for m in range(labels.shape[0]):
            _local_products(plan, work, k, labels[m], values, n_own, n_axes, n_pieces, in_log)
            if in_log:
                top = -np.inf
                for x in range(n_own):
                    top = max(top, partial[x])
                for x in range(n_own):
                    partial[x] = np.exp(partial[x] - top)
            total = 0.0
            for x in range(n_own):
                total += partial[x]
            left = rng.random() * total
            chosen = -1
            for x in range(n_own):
                if partial[x] > 0.0:  # rounding may leave a remainder: then it is the last possible state
                    chosen = x
                    left -= partial[x]
                    if left < 0.0:
                        break
            labels[m, plan.order[k]] = chosen


@kernel
def complete_best(plan, stop, values, y, gaps):
    """Give the variables of buckets stop-1..0 their best states, after an upward pass with maxima.

    `gaps`, in the layout of the variables' scores, receives what the best total loses if this variable takes
    another state and everything below is best again; -inf at the state taken.
    """
    work = _new_work(plan)
    partial = work.partial
    for k in range(stop - 1, -1, -1):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        _local_products(plan, work, k, y, values, n_own, n_axes, n_pieces, True)
        best = 0
        for x in range(n_own):
            if partial[x] > partial[best]:
                best = x
        v = plan.order[k]
        y[v] = best
        for x in range(n_own):
            gaps[plan.variable_ptr[v] + x] = partial[x] - partial[best]
        gaps[plan.variable_ptr[v] + best] = -np.inf
