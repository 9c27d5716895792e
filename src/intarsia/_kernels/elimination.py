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
    message_ptr: Any
    limits: Any  # largest n_axes, n_pieces, n_axes * n_pieces, n_states, (n_axes + 1) * n_states, cells of children


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
        np.empty(limits[4]),
        np.empty(limits[4]),
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
def _extend(work, tables, messages, level, n_own, in_log):
    """Products (sums of scores) of all pieces up to `level`, from those up to the level before."""
    partial = work.partial
    here = level * n_own
    first, last = work.level_ptr[level], work.level_ptr[level + 1]
    if level == 0:
        for x in range(n_own):
            partial[x] = 0.0 if in_log else 1.0
    elif first == last:
        for x in range(n_own):
            partial[here + x] = partial[here - n_own + x]
        return
    before = here if level == 0 else here - n_own
    for p in range(first, last):
        source = messages if work.source[p] >= 0 else tables
        at, step = work.offset[p], work.own_stride[p]
        if in_log:
            for x in range(n_own):
                partial[here + x] = partial[before + x] + source[at + x * step]
        else:
            for x in range(n_own):
                partial[here + x] = partial[before + x] * source[at + x * step]
        before = here


@kernel
def _turning_axis(work, n_axes):
    """Outermost axis that the next cell changes; -1 after the last cell."""
    a = n_axes - 1
    while a >= 0 and work.state[a] + 1 == work.size[a]:
        a -= 1
    return a


@kernel
def _advance(work, turning, n_axes, n_pieces):
    """Move to the next cell: axis `turning` steps on, those inside it return to 0."""
    for a in range(turning, n_axes):
        step = 1 if a == turning else -work.state[a]
        for p in range(work.level_ptr[a + 1], n_pieces):
            work.offset[p] += step * work.strides[p * n_axes + a]
        work.state[a] += step


@kernel
def _choose_domain(plan, work, k, n_pieces, spans, message_span, message_in_log, messages, maximise):
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
                messages[i] = np.log(messages[i]) if in_log else np.exp(messages[i])
            message_in_log[child] = in_log
    return in_log


@kernel
def _eliminate(work, tables, messages, cell, n_own, n_axes, n_pieces, in_log, maximise):
    """Message of the open bucket, from `cell` on."""
    partial = work.partial
    last = n_axes * n_own
    turning = -1
    while True:
        for level in range(turning + 1, n_axes + 1):
            _extend(work, tables, messages, level, n_own, in_log)
        if in_log:
            top = -np.inf
            for x in range(n_own):
                top = max(top, partial[last + x])
            if not maximise and top > -np.inf:
                total = 0.0
                for x in range(n_own):
                    total += np.exp(partial[last + x] - top)
                top += np.log(total)
            messages[cell] = top
        else:
            total = 0.0
            for x in range(n_own):
                total += partial[last + x]
            messages[cell] = total
        turning = _turning_axis(work, n_axes)
        if turning < 0:
            return
        _advance(work, turning, n_axes, n_pieces)
        cell += 1


@kernel
def _normalise(message, begin, end, in_log):
    """Take the maximum out of a message; return its logarithm (-inf if all is zero) and the log-range left."""
    top, low = -np.inf, np.inf
    zero = -np.inf if in_log else 0.0
    for i in range(begin, end):
        top = max(top, message[i])
        if message[i] > zero:
            low = min(low, message[i])
    if not top > zero:
        return -np.inf, 0.0
    if in_log:
        for i in range(begin, end):
            message[i] -= top
        return top, top - low
    scale = 1.0 / top
    for i in range(begin, end):
        message[i] *= scale
    return np.log(top), np.log(top) - np.log(low)


@kernel
def collect_buckets(
    plan,
    start,
    stop,
    log_tables,
    tables,
    spans,
    messages,
    message_span,
    message_in_log,
    bucket_in_log,
    taken_out,
    maximise,
):
    """Upward pass over buckets start..stop-1; False if nothing is possible.

    `taken_out` receives the logarithm of each message's maximum; they are summed outside, pairwise, because a million
    additions one after another cost five digits.
    """
    work = _new_work(plan)
    for k in range(start, stop):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        in_log = _choose_domain(plan, work, k, n_pieces, spans, message_span, message_in_log, messages, maximise)
        bucket_in_log[k] = message_in_log[k] = in_log
        begin, end = plan.message_ptr[k], plan.message_ptr[k + 1]
        source = log_tables if in_log else tables
        _eliminate(work, source, messages, begin, n_own, n_axes, n_pieces, in_log, maximise)
        taken_out[k], message_span[k] = _normalise(messages, begin, end, in_log)
        if taken_out[k] == -np.inf:
            return False
    return True


@kernel
def _share_out(work, level, n_own, mu, scratch, shift):
    """Add the belief gathered at `level` to the marginals of its pieces and to the level outside it."""
    belief = work.belief
    here = level * n_own
    for p in range(work.level_ptr[level], work.level_ptr[level + 1]):
        at, step = work.offset[p], work.own_stride[p]
        if work.source[p] >= 0:
            at += shift[p]
            for x in range(n_own):
                scratch[at + x] += belief[here + x]
        else:
            for x in range(n_own):
                mu[at + x * step] += belief[here + x]
    if level > 0:
        for x in range(n_own):
            belief[here - n_own + x] += belief[here + x]


@kernel
def distribute_buckets(plan, start, stop, log_tables, tables, messages, bucket_in_log, mu):
    """Downward pass over buckets stop-1..start after a sum: adds marginals to `mu`, in the layout of the tables.

    The belief of a separator takes the place of the message that was sent over it: a bucket needs only its
    children's messages, because P(own | separator) is the product of its pieces made to sum to one.
    """
    work = _new_work(plan)
    shift = np.zeros(plan.limits[1], np.int64)
    scratch = np.empty(plan.limits[5])
    belief, partial = work.belief, work.partial
    for k in range(stop - 1, start - 1, -1):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        in_log = bucket_in_log[k]
        source = log_tables if in_log else tables
        used = 0
        for p in range(n_pieces):
            child = work.source[p]
            if child >= 0:
                shift[p] = used - plan.message_ptr[child]
                used += plan.message_ptr[child + 1] - plan.message_ptr[child]
        for i in range(used):
            scratch[i] = 0.0
        cell = plan.message_ptr[k]
        if n_axes == 0:
            messages[cell] = 1.0
        last = n_axes * n_own
        turning = -1
        while True:
            for level in range(turning + 1, n_axes + 1):
                _extend(work, source, messages, level, n_own, in_log)
                for x in range(n_own):
                    belief[level * n_own + x] = 0.0
            if messages[cell] > 0.0:
                if in_log:
                    top = -np.inf
                    for x in range(n_own):
                        top = max(top, partial[last + x])
                    for x in range(n_own):
                        partial[last + x] = np.exp(partial[last + x] - top)
                total = 0.0
                for x in range(n_own):
                    total += partial[last + x]
                scale = messages[cell] / total
                for x in range(n_own):
                    belief[last + x] += scale * partial[last + x]
            turning = _turning_axis(work, n_axes)
            for level in range(n_axes, turning, -1):
                _share_out(work, level, n_own, mu, scratch, shift)
            if turning < 0:
                break
            _advance(work, turning, n_axes, n_pieces)
            cell += 1
        for p in range(n_pieces):
            child = work.source[p]
            if child >= 0:
                for i in range(plan.message_ptr[child], plan.message_ptr[child + 1]):
                    messages[i] = scratch[i + shift[p]]


@kernel
def _local_products(plan, work, k, y, tables, messages, n_own, n_axes, n_pieces, in_log):
    """Put into `partial` the product (sum) of bucket k's pieces for each own state, given the separator's labels."""
    partial = work.partial
    for x in range(n_own):
        partial[x] = 0.0 if in_log else 1.0
    sep_start = plan.sep_ptr[k]
    for p in range(n_pieces):
        at, step = work.offset[p], work.own_stride[p]
        for a in range(n_axes):
            at += work.strides[p * n_axes + a] * y[plan.sep_idx[sep_start + a]]
        source = messages if work.source[p] >= 0 else tables
        if in_log:
            for x in range(n_own):
                partial[x] += source[at + x * step]
        else:
            for x in range(n_own):
                partial[x] *= source[at + x * step]


@kernel
def sample_buckets(plan, log_tables, tables, messages, bucket_in_log, rng, labels):
    """Fill each row of `labels` with a draw, root to leaves, after an upward pass with sums."""
    work = _new_work(plan)
    partial = work.partial
    for k in range(plan.order.shape[0] - 1, -1, -1):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        in_log = bucket_in_log[k]
        source = log_tables if in_log else tables
        for m in range(labels.shape[0]):
            _local_products(plan, work, k, labels[m], source, messages, n_own, n_axes, n_pieces, in_log)
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
def complete_best(plan, stop, log_tables, messages, y, gaps):
    """Give the variables of buckets stop-1..0 their best states, after an upward pass with maxima.

    `gaps`, in the layout of the variables' scores, receives what the best total loses if this variable takes
    another state and everything below is best again; -inf at the state taken.
    """
    work = _new_work(plan)
    partial = work.partial
    for k in range(stop - 1, -1, -1):
        n_own, n_axes, n_pieces = _open_bucket(plan, work, k)
        _local_products(plan, work, k, y, log_tables, messages, n_own, n_axes, n_pieces, True)
        best = 0
        for x in range(n_own):
            if partial[x] > partial[best]:
                best = x
        v = plan.order[k]
        y[v] = best
        for x in range(n_own):
            gaps[plan.variable_ptr[v] + x] = partial[x] - partial[best]
        gaps[plan.variable_ptr[v] + best] = -np.inf
