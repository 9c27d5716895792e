"""Sums and maxima over a bucket tree: upward pass, marginals, best completions, samples.

Bucket k belongs to the variable eliminated k-th. Its pieces are that variable's scores, the tables assigned to it
and the messages of its children; its message is a table over its separator, outermost axis eliminated last. So the
variable of the receiving bucket is the innermost axis of every message, and bucket tables are never stored.

A bucket is visited cell by cell of its separator like an odometer. A piece belongs to the level of its innermost
separator axis: products over the outer levels are kept while the inner ones turn, so a piece that lacks the fast axes
costs next to nothing. All pieces have maximum 1 (score 0); a bucket whose pieces span a factor above
exp(`LOG_RANGE`) in total is worked in the log domain, so that underflow never looks like a hard zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from intarsia._jit import kernel

LOG_RANGE = 600.0


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
    partial: Any
    belief: Any


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
        np.empty(limits[3]),
        np.empty(limits[3]),
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


# The two loops below make no calls: handing arrays to a function costs more than visiting a cell.


@kernel
def _eliminate(
    values,
    offset,
    own_stride,
    strides,
    level_ptr,
    size,
    state,
    partial,
    cell,
    n_own,
    n_axes,
    n_pieces,
    in_log,
    maximise,
):
    """Message of the open bucket, written from `cell` on."""
    last = n_axes * n_own
    turning = -1
    while True:
        for level in range(turning + 1, n_axes + 1):  # products over the pieces up to each level
            here = level * n_own
            before = here - n_own
            if level == 0:
                before = 0
                for x in range(n_own):
                    partial[x] = 0.0 if in_log else 1.0
            elif level_ptr[level] == level_ptr[level + 1]:
                for x in range(n_own):
                    partial[here + x] = partial[before + x]
            for p in range(level_ptr[level], level_ptr[level + 1]):
                at, step = offset[p], own_stride[p]
                if in_log:
                    for x in range(n_own):
                        partial[here + x] = partial[before + x] + values[at + x * step]
                else:
                    for x in range(n_own):
                        partial[here + x] = partial[before + x] * values[at + x * step]
                before = here
        if in_log:
            total = -np.inf
            for x in range(n_own):
                total = max(total, partial[last + x])
            if not maximise and total > -np.inf:
                top, total = total, 0.0
                for x in range(n_own):
                    total += np.exp(partial[last + x] - top)
                total = top + np.log(total)
        else:
            total = 0.0
            for x in range(n_own):
                total += partial[last + x]
        values[cell] = total
        cell += 1
        turning = n_axes - 1  # outermost axis that the next cell changes
        while turning >= 0 and state[turning] + 1 == size[turning]:
            turning -= 1
        if turning < 0:
            return
        for a in range(turning, n_axes):
            step = 1 if a == turning else -state[a]
            for p in range(level_ptr[a + 1], n_pieces):
                offset[p] += step * strides[p * n_axes + a]
            state[a] += step


@kernel
def _spread(
    values, beliefs, shift, offset, own_stride, strides, level_ptr, size, state, partial, belief, cell, n_own, n_axes,
    n_pieces, in_log,
):  # fmt: skip
    """Add the open bucket's joint distribution to the marginals of its pieces; separator beliefs start at `cell`."""
    last = n_axes * n_own
    turning = -1
    while True:
        for level in range(turning + 1, n_axes + 1):
            here = level * n_own
            before = here - n_own
            if level == 0:
                before = 0
                for x in range(n_own):
                    partial[x] = 0.0 if in_log else 1.0
            elif level_ptr[level] == level_ptr[level + 1]:
                for x in range(n_own):
                    partial[here + x] = partial[before + x]
            for p in range(level_ptr[level], level_ptr[level + 1]):
                at, step = offset[p], own_stride[p]
                if in_log:
                    for x in range(n_own):
                        partial[here + x] = partial[before + x] + values[at + x * step]
                else:
                    for x in range(n_own):
                        partial[here + x] = partial[before + x] * values[at + x * step]
                before = here
            for x in range(n_own):
                belief[here + x] = 0.0
        if values[cell] > 0.0:
            if in_log:
                top = -np.inf
                for x in range(n_own):
                    top = max(top, partial[last + x])
                for x in range(n_own):
                    partial[last + x] = np.exp(partial[last + x] - top)
            total = 0.0
            for x in range(n_own):
                total += partial[last + x]
            scale = values[cell] / total
            for x in range(n_own):
                belief[last + x] += scale * partial[last + x]
        cell += 1
        turning = n_axes - 1
        while turning >= 0 and state[turning] + 1 == size[turning]:
            turning -= 1
        for level in range(n_axes, turning, -1):  # what was gathered inside the turning axis goes outwards
            here = level * n_own
            for p in range(level_ptr[level], level_ptr[level + 1]):
                at, step = offset[p] + shift[p], own_stride[p]
                for x in range(n_own):
                    beliefs[at + x * step] += belief[here + x]
            if level > 0:
                for x in range(n_own):
                    belief[here - n_own + x] += belief[here + x]
        if turning < 0:
            return
        for a in range(turning, n_axes):
            step = 1 if a == turning else -state[a]
            for p in range(level_ptr[a + 1], n_pieces):
                offset[p] += step * strides[p * n_axes + a]
            state[a] += step


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
def collect_buckets(
    plan, start, stop, values, n_table, spans, message_span, message_in_log, bucket_in_log, taken_out, maximise
):
    """Upward pass over buckets start..stop-1; False if nothing is possible.

    `values` holds the logarithms of all tables, the tables, and the messages. `taken_out` receives the logarithm of
    each message's maximum; they are summed outside, pairwise, because a million additions one after another cost
    five digits.
    """
    work = _new_work(plan)
    for k in range(start, stop):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        in_log = _choose_domain(plan, work, k, n_pieces, values, n_table, spans, message_span, message_in_log, maximise)
        _point_to_tables(work, n_pieces, n_table, in_log)
        bucket_in_log[k] = message_in_log[k] = in_log
        begin, end = plan.message_ptr[k], plan.message_ptr[k + 1]
        _eliminate(
            values, work.offset, work.own_stride, work.strides, work.level_ptr, work.size, work.state, work.partial,
            begin, n_own, n_axes, n_pieces, in_log, maximise,
        )  # fmt: skip
        taken_out[k], message_span[k] = _normalise(values, begin, end, in_log)
        if taken_out[k] == -np.inf:
            return False
    return True


@kernel
def distribute_buckets(plan, start, stop, values, n_table, bucket_in_log, beliefs):
    """Downward pass over buckets stop-1..start after a sum.

    Adds marginals to `beliefs`, whose first part has the layout of the tables and whose rest is room for the
    separators of one bucket's children. These then take the place of the messages that were sent over them: a bucket
    needs only its children's messages, because P(own | separator) is the product of its pieces made to sum to one.
    """
    work = _new_work(plan)
    shift = np.empty(plan.limits[1], np.int64)
    for k in range(stop - 1, start - 1, -1):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        in_log = bucket_in_log[k]
        _point_to_tables(work, n_pieces, n_table, in_log)
        used = n_table
        for p in range(n_pieces):
            child = work.source[p]
            if child < 0:
                shift[p] = 0 if in_log else -n_table
            else:
                shift[p] = used - plan.message_ptr[child]
                used += plan.message_ptr[child + 1] - plan.message_ptr[child]
        for i in range(n_table, used):
            beliefs[i] = 0.0
        begin = plan.message_ptr[k]
        if n_axes == 0:
            values[begin] = 1.0
        _spread(
            values, beliefs, shift, work.offset, work.own_stride, work.strides, work.level_ptr, work.size, work.state,
            work.partial, work.belief, begin, n_own, n_axes, n_pieces, in_log,
        )  # fmt: skip
        for p in range(n_pieces):
            child = work.source[p]
            if child >= 0:
                for i in range(plan.message_ptr[child], plan.message_ptr[child + 1]):
                    values[i] = beliefs[i + shift[p]]


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
