"""Message passing over factors of any scope, any state counts, with hard zeros: sum- and max-product, any rho.

Messages are logarithms. Those of sum-product are normalised to sum to one in the linear domain, those of max-product
have their largest entry at 0. The table of a factor is read in the linear domain with its maximum taken out; whenever a
result is so small that underflow may have hidden a possible state, that message is computed again by log-sum-exp, so an
underflow never looks like a hard zero.

A pair is a position of `scope_idx`: a factor with one of its variables. Message `p` goes from the pair's factor to
its variable and lies at `message_ptr[p]`. `finite` and `n_impossible` hold, for every state of every variable,

    theta_i(x) + sum over factors d at i of rho_d log m_d(x)                                  (Domke2013 Eq. 18)

split into its finite part and the number of -inf in it, so that one message can be taken out again.
"""

from __future__ import annotations

import numpy as np

from intarsia._jit import kernel

TINY = 1e-250  # below this a linear-domain result is computed again in the log domain


@kernel
def gather_beliefs(theta, messages, rho, variable_ptr, scope_idx, factor_of_pair, message_ptr, finite, n_impossible):
    """Fill `finite` and `n_impossible` from theta and all messages."""
    for a in range(variable_ptr[-1]):
        finite[a] = 0.0
        n_impossible[a] = 0
        if theta[a] == -np.inf:
            n_impossible[a] = 1
        else:
            finite[a] = theta[a]
    for p in range(scope_idx.shape[0]):
        start = variable_ptr[scope_idx[p]]
        weight = rho[factor_of_pair[p]]
        for x in range(message_ptr[p + 1] - message_ptr[p]):
            value = messages[message_ptr[p] + x]
            if value == -np.inf:
                n_impossible[start + x] += 1
            else:
                finite[start + x] += weight * value


@kernel
def _log_cavity(p, v, variable_ptr, message_ptr, messages, finite, n_impossible, out):
    """Log of what a variable tells factor of pair p: its belief without p's own message. Returns the largest."""
    start = variable_ptr[v]
    top = -np.inf
    for x in range(variable_ptr[v + 1] - start):
        if n_impossible[start + x] > 0:
            out[x] = -np.inf  # a state ruled out anywhere is ruled out for good
        else:
            out[x] = finite[start + x] - messages[message_ptr[p] + x]
            top = max(top, out[x])
    return top


@kernel
def _sum_table(table, offset, sizes, n_axes, target, weights, digits, out):
    """out[x] = sum over the table's entries with x on the target axis, times the weights of all other axes."""
    last = n_axes - 1
    width = sizes[last]
    rows = 1
    for a in range(last):
        rows *= sizes[a]
        digits[a] = 0
    for x in range(sizes[target]):
        out[x] = 0.0
    at = offset
    for _ in range(rows):
        prefix = 1.0
        for a in range(last):
            if a != target:
                prefix *= weights[a, digits[a]]
        if prefix != 0.0:
            if target == last:
                for x in range(width):
                    out[x] += prefix * table[at + x]
            else:
                total = 0.0
                for x in range(width):
                    total += table[at + x] * weights[last, x]
                out[digits[target]] += prefix * total
        at += width
        a = last - 1
        while a >= 0:
            digits[a] += 1
            if digits[a] < sizes[a]:
                break
            digits[a] = 0
            a -= 1


@kernel
def _entry(theta, offset, kind, truncation, e, width):
    """Score of entry e of a factor whatever its kind; `width` is the size of the last axis."""
    if kind == 0:
        return theta[offset + e]
    gap = float(abs(e // width - e % width))
    if kind == 1:
        return theta[offset] if gap == 0.0 else 0.0
    if kind == 2:
        return -theta[offset] * min(gap, truncation)
    return -theta[offset] * min(gap * gap, truncation)


@kernel
def _reduce_log(theta, offset, kind, truncation, inv_rho, sizes, n_axes, target, logs, maximise, digits, out, shift):
    """Like `_sum_table`, in the log domain: a maximum, or a log-sum-exp in two passes."""
    total = 1
    for a in range(n_axes):
        total *= sizes[a]
    width = sizes[n_axes - 1]
    for x in range(sizes[target]):
        shift[x] = -np.inf
        out[x] = 0.0
    for sweep in range(1 if maximise else 2):
        for a in range(n_axes):
            digits[a] = 0
        for e in range(total):
            value = _entry(theta, offset, kind, truncation, e, width) * inv_rho
            for a in range(n_axes):
                if a != target:
                    value += logs[a, digits[a]]
            x = digits[target]
            if sweep == 0:
                shift[x] = max(shift[x], value)
            elif value > -np.inf:
                out[x] += np.exp(value - shift[x])
            a = n_axes - 1
            while a >= 0:
                digits[a] += 1
                if digits[a] < sizes[a]:
                    break
                digits[a] = 0
                a -= 1
    for x in range(sizes[target]):
        out[x] = shift[x] if maximise or shift[x] == -np.inf else shift[x] + np.log(out[x])


@kernel
def _sum_potts(strength, weights, n, out, scratch):
    """Potts in O(n): out[x] = sum of the others + exp(strength) weights[x], scaled; sums only, no cancellation."""
    off = np.exp(-max(strength, 0.0))
    on = np.exp(min(strength, 0.0))
    after = 0.0
    for x in range(n - 1, -1, -1):
        scratch[x] = after
        after += weights[x]
    before = 0.0
    for x in range(n):
        out[x] = off * (before + scratch[x]) + on * weights[x]
        before += weights[x]


@kernel
def _sum_exponential(strength, truncation, weights, n, out, left, right, power):
    """Truncated linear in O(n): out[x] = sum over y of exp(-strength min(|x - y|, truncation)) weights[y].

    Within the window the weights are geometric. Windows are put together from running sums over blocks of the window's
    length, from the block's start and to its end, so that nothing is ever subtracted.
    """
    reach = n - 1
    if truncation < n:
        reach = min(reach, max(0, int(np.ceil(truncation)) - 1))
    block = reach + 1
    for d in range(n):
        power[d] = np.exp(-strength * d)
    for side in range(2):  # partners y <= x, then partners y > x in the mirror
        for k in range(n):
            w = weights[k if side == 0 else n - 1 - k]
            left[k] = w if k % block == 0 else w + power[1] * left[k - 1]
        for k in range(n - 1, -1, -1):
            end = min(n, (k // block + 1) * block) - 1
            term = power[end - k] * weights[k if side == 0 else n - 1 - k]
            right[k] = term if k == end else right[k + 1] + term
        for k in range(n):
            x = k if side == 0 else n - 1 - k
            begin = k - reach
            window = 0.0 if k % block == 0 else power[1] * left[k - 1]
            if begin >= 0 and begin // block != k // block:
                window += power[k - (begin // block + 1) * block + 1] * right[begin]
            if side == 0:
                out[x] = weights[x] + window
            else:
                out[x] += window
    if reach < n - 1:
        beyond = np.exp(-strength * truncation)
        total = 0.0
        for x in range(reach + 1, n):
            total += weights[x - reach - 1]
            out[x] += beyond * total
        total = 0.0
        for x in range(n - reach - 2, -1, -1):
            total += weights[x + reach + 1]
            out[x] += beyond * total


@kernel
def _max_parametric(kind, strength, truncation, logs, n, out):
    """Best partner under a Potts or truncated linear score in O(n); for a negative truncated weight in O(n^2)."""
    if kind == 1:
        best, second, at = -np.inf, -np.inf, -1
        for x in range(n):
            if logs[x] > best:
                best, second, at = logs[x], best, x
            elif logs[x] > second:
                second = logs[x]
        for x in range(n):
            out[x] = max(second if x == at else best, strength + logs[x])
        return
    if kind == 2 and strength >= 0.0:
        top = -np.inf
        for x in range(n):
            out[x] = logs[x]
            top = max(top, logs[x])
        for x in range(1, n):
            out[x] = max(out[x], out[x - 1] - strength)
        for x in range(n - 2, -1, -1):
            out[x] = max(out[x], out[x + 1] - strength)
        for x in range(n):
            out[x] = max(out[x], top - strength * truncation)
        return
    for x in range(n):
        out[x] = -np.inf
        for y in range(n):
            gap = float(abs(x - y))
            if kind == 3:
                gap = gap * gap
            out[x] = max(out[x], logs[y] - strength * min(gap, truncation))


@kernel
def _max_quadratic(strength, truncation, logs, n, out, site, border):
    """Truncated quadratic in O(n) for strength > 0: upper envelope of parabolas, then the truncation."""
    top = -np.inf
    n_site = 0
    for y in range(n):
        if logs[y] == -np.inf:
            continue
        top = max(top, logs[y])
        while n_site > 0:
            z = int(site[n_site - 1])
            cross = (z + y) / 2.0 + (logs[z] - logs[y]) / (2.0 * strength * (y - z))
            if n_site > 1 and cross <= border[n_site - 1]:
                n_site -= 1
                continue
            border[n_site] = cross
            break
        site[n_site] = y
        n_site += 1
    if n_site == 0:
        for x in range(n):
            out[x] = -np.inf
        return
    k = 0
    for x in range(n):
        while k + 1 < n_site and border[k + 1] < x:
            k += 1
        y = int(site[k])
        out[x] = max(logs[y] - strength * (x - y) ** 2, top - strength * truncation)


@kernel
def compute_message(
    p, factor_of_pair, theta, exp_tables, exp_ptr, inv_rho, table_of_factor, table_ptr, kind, truncation,
    variable_ptr, scope_ptr, scope_idx, message_ptr, messages, finite, n_impossible, maximise,
    sizes, digits, logs, weights, out, scratch,
):  # fmt: skip
    """New message of pair p (Domke2013 Eq. 18), normalised, in `out`. Returns False if no state is possible."""
    c = factor_of_pair[p]
    t = table_of_factor[c]
    first = scope_ptr[c]
    n_axes = scope_ptr[c + 1] - first
    target = p - first
    for a in range(n_axes):
        v = scope_idx[first + a]
        sizes[a] = variable_ptr[v + 1] - variable_ptr[v]
        if a == target:
            continue
        top = _log_cavity(first + a, v, variable_ptr, message_ptr, messages, finite, n_impossible, logs[a])
        if top == -np.inf:
            return False
        for x in range(sizes[a]):
            logs[a, x] -= top
            if not maximise:
                weights[a, x] = np.exp(logs[a, x])
    n = sizes[target]
    strength = theta[table_ptr[t]] * inv_rho[c] if kind[t] != 0 else 0.0
    linear = False
    if maximise:
        other = logs[1 - target] if n_axes == 2 else logs[0]
        if kind[t] == 3 and strength > 0.0:
            _max_quadratic(strength, truncation[t], other, n, out, scratch[0], scratch[1])
        elif kind[t] != 0:
            _max_parametric(kind[t], strength, truncation[t], other, n, out)
        else:
            _reduce_log(
                theta, table_ptr[t], 0, 0.0, inv_rho[c], sizes, n_axes, target, logs, True, digits, out, scratch[0]
            )  # fmt: skip
    else:
        if kind[t] == 0:
            _sum_table(exp_tables, exp_ptr[c], sizes, n_axes, target, weights, digits, out)
            linear = True
        elif kind[t] == 1 and strength > -np.inf:
            _sum_potts(strength, weights[1 - target], n, out, scratch[0])
            linear = True
        elif kind[t] == 2 and strength >= 0.0:
            _sum_exponential(strength, truncation[t], weights[1 - target], n, out, scratch[0], scratch[1], scratch[2])
            linear = True
        if linear:
            for x in range(n):
                if out[x] < TINY:
                    linear = False
        if not linear:
            _reduce_log(
                theta, table_ptr[t], kind[t], truncation[t], inv_rho[c], sizes, n_axes, target, logs, False, digits,
                out, scratch[0],
            )  # fmt: skip
    top = -np.inf
    for x in range(n):
        if linear:
            out[x] = np.log(out[x])
        top = max(top, out[x])
    if top == -np.inf:
        return False
    if not maximise:
        total = 0.0
        for x in range(n):
            total += np.exp(out[x] - top)
        top += np.log(total)
    for x in range(n):
        out[x] -= top
    return True


@kernel
def _blend(new, old, damping, maximise):
    """Damped message entry: a mixture of probabilities, or of scores for max-product."""
    if damping == 0.0:
        return new
    if maximise:
        return (1.0 - damping) * new + damping * old
    left, right = np.log1p(-damping) + new, np.log(damping) + old
    top = max(left, right)
    return top if top == -np.inf else top + np.log(np.exp(left - top) + np.exp(right - top))


@kernel
def _change(new, old, scores):
    """Change of one normalised entry, or of its logarithm (a state that becomes impossible then counts 1)."""
    if new == old:
        return 0.0
    if scores:
        return 1.0 if new == -np.inf or old == -np.inf else abs(new - old)
    return abs(np.exp(new) - np.exp(old))


@kernel
def _store(p, v, new, messages, weight, variable_ptr, message_ptr, finite, n_impossible):
    """Replace message p and keep the beliefs of its variable in step."""
    start = variable_ptr[v]
    for x in range(variable_ptr[v + 1] - start):
        old = messages[message_ptr[p] + x]
        if old == -np.inf:
            n_impossible[start + x] -= 1
        else:
            finite[start + x] -= weight * old
        if new[x] == -np.inf:
            n_impossible[start + x] += 1
        else:
            finite[start + x] += weight * new[x]
        messages[message_ptr[p] + x] = new[x]


@kernel
def sweep_messages(
    order, in_place, strict, damping, rho, factor_of_pair, theta, exp_tables, exp_ptr, inv_rho, table_of_factor,
    table_ptr, kind, truncation, variable_ptr, scope_ptr, scope_idx, message_ptr, messages, finite, n_impossible,
    maximise, work,
):  # fmt: skip
    """Update each message of `order` once; each sees those before it (`in_place`) or only the old ones.

    The residual is measured on logarithms for max-product, and if `strict`: then a state of tiny probability counts
    as much as any other. Returns the residual, NaN when a message leaves no state possible (the model is infeasible).
    """
    k_max, s_max = work.shape[1], (work.shape[0] - 4) // 2
    sizes, digits = np.empty(s_max, np.int64), np.empty(s_max, np.int64)
    logs, weights, out, scratch = work[:s_max], work[s_max : 2 * s_max], work[2 * s_max], work[2 * s_max + 1 :]
    new = messages if in_place else np.empty_like(messages)
    residual = 0.0
    gather_beliefs(theta, messages, rho, variable_ptr, scope_idx, factor_of_pair, message_ptr, finite, n_impossible)
    blended = np.empty(k_max)
    for k in range(order.shape[0]):
        p = order[k]
        possible = compute_message(
            p, factor_of_pair, theta, exp_tables, exp_ptr, inv_rho, table_of_factor, table_ptr, kind, truncation,
            variable_ptr, scope_ptr, scope_idx, message_ptr, messages, finite, n_impossible, maximise,
            sizes, digits, logs, weights, out, scratch,
        )  # fmt: skip
        if not possible:
            return np.nan
        for x in range(message_ptr[p + 1] - message_ptr[p]):
            old = messages[message_ptr[p] + x]
            blended[x] = _blend(out[x], old, damping, maximise)
            residual = max(residual, _change(blended[x], old, maximise or strict))
            if not in_place:
                new[message_ptr[p] + x] = blended[x]
        if in_place:
            _store(
                p, scope_idx[p], blended, messages, rho[factor_of_pair[p]], variable_ptr, message_ptr, finite,
                n_impossible,
            )  # fmt: skip
    if not in_place:
        messages[:] = new
    return residual


@kernel
def _sift(heap, place, priority, at):
    """Restore the max-heap order around position `at`; `place` tells where each pair stands."""
    n = heap.shape[0]
    item = heap[at]
    while at > 0 and priority[heap[(at - 1) // 2]] < priority[item]:
        heap[at] = heap[(at - 1) // 2]
        place[heap[at]] = at
        at = (at - 1) // 2
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and priority[heap[child + 1]] > priority[heap[child]]:
            child += 1
        if priority[heap[child]] <= priority[item]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = item
    place[item] = at


@kernel
def sweep_residual(
    pair_ptr, pair_idx, n_updates, tol, pending, priority, heap, place, fresh, damping, rho, factor_of_pair, theta,
    exp_tables, exp_ptr, inv_rho, table_of_factor, table_ptr, kind, truncation, variable_ptr, scope_ptr, scope_idx,
    message_ptr, messages, finite, n_impossible, maximise, work,
):  # fmt: skip
    """As many single updates as there are messages, always of the one that would change most.

    `pending` holds every message as it would be after its update, `priority` how much that changes it.
    Returns the largest change still pending, NaN when the model is infeasible.
    """
    k_max, s_max = work.shape[1], (work.shape[0] - 4) // 2
    sizes, digits = np.empty(s_max, np.int64), np.empty(s_max, np.int64)
    logs, weights, out, scratch = work[:s_max], work[s_max : 2 * s_max], work[2 * s_max], work[2 * s_max + 1 :]
    gather_beliefs(theta, messages, rho, variable_ptr, scope_idx, factor_of_pair, message_ptr, finite, n_impossible)
    n_pairs = scope_idx.shape[0]
    queue = np.empty(n_pairs, np.int64)
    blended = np.empty(k_max)
    for update in range(n_updates + 1):
        n_queue = 0
        if update == 0:
            if fresh:  # everything is pending for the first time
                for p in range(n_pairs):
                    queue[p] = p
                    heap[p] = p
                    place[p] = p
                    priority[p] = 0.0
                n_queue = n_pairs
        else:
            p = heap[0]
            if priority[p] <= tol:
                break
            v = scope_idx[p]
            start = message_ptr[p]
            size = message_ptr[p + 1] - start
            _store(
                p, v, pending[start : start + size], messages, rho[factor_of_pair[p]], variable_ptr, message_ptr,
                finite, n_impossible,
            )  # fmt: skip
            queue[0] = p
            n_queue = 1
            for k in range(pair_ptr[v], pair_ptr[v + 1]):
                d = factor_of_pair[pair_idx[k]]
                for q in range(scope_ptr[d], scope_ptr[d + 1]):
                    if scope_idx[q] != v:
                        queue[n_queue] = q
                        n_queue += 1
        for k in range(n_queue):
            p = queue[k]
            possible = compute_message(
                p, factor_of_pair, theta, exp_tables, exp_ptr, inv_rho, table_of_factor, table_ptr, kind, truncation,
                variable_ptr, scope_ptr, scope_idx, message_ptr, messages, finite, n_impossible, maximise,
                sizes, digits, logs, weights, out, scratch,
            )  # fmt: skip
            if not possible:
                return np.nan
            change = 0.0
            for x in range(message_ptr[p + 1] - message_ptr[p]):
                old = messages[message_ptr[p] + x]
                blended[x] = _blend(out[x], old, damping, maximise)
                pending[message_ptr[p] + x] = blended[x]
                change = max(change, _change(blended[x], old, maximise))
            priority[p] = change
            _sift(heap, place, priority, place[p])
    return priority[heap[0]] if n_pairs else 0.0
