"""Sweeps of sequential reweighted message passing (SRMP), hard and smoothed, over factors of any scope.

A message `delta` of the pair (factor c, variable v) moves score from the factor to the variable. With

    D(delta) = sum_v max_x [theta_v(x) + sum_c delta_cv(x)] + sum_c max_x_c [theta_c(x_c) - sum_v delta_cv(x_v)]

every delta gives an upper bound on the best score. A sweep in one direction visits the variables in order. At each, the
factors that began earlier send their max-marginal, and the sum is distributed in equal parts to the factors that
continue (Kolmogorov2015); D never rises. With a temperature t > 0, max becomes t log sum exp of 1/t times the argument:
slower, but it does not get stuck (Savchynskyy2012).

States that turn out to be impossible get `unary` = -inf and `delta` = +inf in all factors at their variable. `graph` is
a `DualGraph`.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel, kernel
from intarsia._kernels.factor_kinds import AT_MOST, AT_MOST_OUTPUT, POTTS, TABLE, TRUNCATED_LINEAR, allowed_counts

# Terms of a smoothed maximum that are further below the largest, in units of the temperature, do not count.
_NEGLIGIBLE = -40.0
# Sums of products below this may have lost terms to underflow.
_SMALLEST = 1e-200
# Where exp(weight / t) is larger, its product with a small exponential may have lost digits to underflow.
_LARGEST = 1e200


@kernel
def _soften(values, k, peak, t):
    """Return the smoothed maximum `t log sum exp(values / t)`, given the hard maximum `peak`."""
    if peak == -np.inf:
        return peak
    total = 0.0
    for x in range(k):
        total += np.exp((values[x] - peak) / t)
    return peak + t * np.log(total)


@fast_kernel
def _pair_marginal(theta, table_start, k, j, row_wise, delta, message_start, t, out, work):
    """Compute the max-marginal of a pairwise table less the other variable's message, for the variable with k states.

    The table (k, j) if `row_wise`, else (j, k), begins at `table_start`, the message at `message_start`. Indices are
    unsigned: for signed ones the compiler checks at every use whether they count from the end.
    """
    table_start, message_start, k, j = np.uint64(table_start), np.uint64(message_start), np.uint64(k), np.uint64(j)
    if row_wise:
        for x in range(k):
            peak, row = -np.inf, table_start + x * j
            for y in range(j):
                peak = max(peak, theta[row + y] - delta[message_start + y])
            if t > 0.0 and peak > -np.inf:
                total = 0.0
                for y in range(j):
                    below = theta[row + y] - delta[message_start + y] - peak
                    if below > _NEGLIGIBLE * t:
                        total += np.exp(below / t)
                peak += t * np.log(total)
            out[x] = peak
        return
    for x in range(k):
        out[x] = -np.inf
    for y in range(j):
        message, row = delta[message_start + y], table_start + y * k
        for x in range(k):
            out[x] = max(out[x], theta[row + x] - message)
    if t > 0.0:
        for x in range(k):
            work[x] = 0.0
        for y in range(j):
            message, row = delta[message_start + y], table_start + y * k
            for x in range(k):
                below = theta[row + x] - message - out[x]  # NaN where both are -inf
                if below > _NEGLIGIBLE * t:
                    work[x] += np.exp(below / t)
        for x in range(k):
            if out[x] > -np.inf:
                out[x] += t * np.log(work[x])


@fast_kernel
def _pair_marginal_linear(exps, maximum, table_start, k, j, row_wise, delta, message_start, t, unary, base, out, work):
    """Compute `_pair_marginal` from exp((table - top) / t); return False where it may underflow.

    This takes j exponentials and k logarithms instead of j * k exponentials.
    """
    table_start, message_start, base = np.uint64(table_start), np.uint64(message_start), np.uint64(base)
    k, j = np.uint64(k), np.uint64(j)
    low = np.inf
    for y in range(j):
        low = min(low, delta[message_start + y])
    for y in range(j):
        work[y] = np.exp((low - delta[message_start + y]) / t)
    if row_wise:
        for x in range(k):
            total, row = 0.0, table_start + x * j
            for y in range(j):
                total += exps[row + y] * work[y]
            out[x] = total
    else:
        for x in range(k):
            out[x] = 0.0
        for y in range(j):
            weight, row = work[y], table_start + y * k
            for x in range(k):
                out[x] += exps[row + x] * weight
    for x in range(k):
        if out[x] < _SMALLEST and unary[base + x] > -np.inf:
            return False
        out[x] = t * np.log(out[x]) + (maximum - low)
    return True


@kernel
def _potts_marginal(weight, k, other, t, out, work):
    """Compute the max-marginal of a Potts factor, a weight times [x == y], in O(k)."""
    best, second, best_state = -np.inf, -np.inf, -1
    for y in range(k):
        if -other[y] > best:
            best, second, best_state = -other[y], best, y
        elif -other[y] > second:
            second = -other[y]
    if t == 0.0 or best == -np.inf:
        for x in range(k):
            out[x] = max(second if x == best_state else best, weight - other[x])
        return
    # Sums over the other states. For all but the best state these include the best one, whose term is 1, the largest.
    # The sum for the best state is relative to the second, because it may be far below.
    all_but_best, others_sum = 0.0, 0.0
    for y in range(k):
        work[y] = np.exp((-other[y] - best) / t)
        if y != best_state:
            all_but_best += work[y]
            if second > -np.inf:
                others_sum += np.exp((-other[y] - second) / t)
    factor = np.exp(weight / t)
    for x in range(k):
        if x == best_state:
            rest, equal = second + t * np.log(others_sum) if second > -np.inf else -np.inf, weight + best
            high, low = max(rest, equal), min(rest, equal)
            out[x] = high if low == -np.inf else high + t * np.log1p(np.exp((low - high) / t))
        elif factor < _LARGEST:
            out[x] = best + t * np.log(1.0 + max(all_but_best - work[x], 0.0) + work[x] * factor)
        else:
            rest, equal = best + t * np.log(1.0 + max(all_but_best - work[x], 0.0)), weight - other[x]
            high, low = max(rest, equal), min(rest, equal)
            out[x] = high + t * np.log1p(np.exp((low - high) / t))


@kernel
def _distance_score(kind, weight, truncation, x, y):
    """Return the score of states x and y under a truncated linear or quadratic factor."""
    gap = float(abs(x - y))
    return -weight * min(gap if kind == TRUNCATED_LINEAR else gap * gap, truncation)


@kernel
def _distance_marginal(kind, weight, truncation, k, other, t, out, work):
    """Compute the max-marginal of a truncated linear or quadratic factor."""
    for x in range(k):
        peak = -np.inf
        for y in range(k):
            work[y] = _distance_score(kind, weight, truncation, x, y) - other[y]
            peak = max(peak, work[y])
        out[x] = peak if t == 0.0 else _soften(work, k, peak, t)


@kernel
def _wide_marginal(c, target, theta, delta, t, labels, digits, out, work, graph):
    """Compute the max-marginal of a table of any scope at its pair `target`.

    Variables with a label >= 0 are fixed to it, and their messages are left out.
    """
    n_states, scope_ptr, scope_idx, start, message_ptr = (
        graph.n_states, graph.scope_ptr, graph.scope_idx, graph.start, graph.message_ptr
    )  # fmt: skip
    first, width = scope_ptr[c], scope_ptr[c + 1] - scope_ptr[c]
    k = n_states[scope_idx[target]]
    for x in range(k):
        out[x], work[x] = -np.inf, 0.0
    for pass_index in range(2 if t > 0.0 else 1):
        for d in range(width):
            v = scope_idx[first + d]
            digits[d] = labels[v] if labels[v] >= 0 else 0
        while True:
            entry, message_sum = 0, 0.0
            for d in range(width):
                v = scope_idx[first + d]
                entry = entry * n_states[v] + digits[d]
                if first + d != target and labels[v] < 0:
                    message_sum += delta[message_ptr[first + d] + digits[d]]
            value, x = theta[start[c] + entry] - message_sum, digits[target - first]
            if pass_index == 0:
                out[x] = max(out[x], value)
            elif out[x] > -np.inf:
                work[x] += np.exp((value - out[x]) / t)
            d = width - 1
            while d >= 0:
                v = scope_idx[first + d]
                if labels[v] < 0:
                    digits[d] += 1
                    if digits[d] < n_states[v]:
                        break
                    digits[d] = 0
                d -= 1
            if d < 0:
                break
    if t > 0.0:
        for x in range(k):
            if out[x] > -np.inf:
                out[x] += t * np.log(work[x])


@kernel
def _sort(values, n):
    """Sort the first n values upwards, in place (shell sort: NumPy's takes seconds to compile)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@kernel
def _count_marginal(c, target, theta, delta, labels, out, graph):
    """Compute the max-marginal of a constraint on counts, by sorting the gain of each variable when it counts.

    The best sum over counts from `low` to `high` takes the largest gains: the positive ones, or more, or fewer.
    Smoothed sweeps use the hard maximum too.
    """
    scope_ptr, scope_idx, start, kinds, truncation, message_ptr = (
        graph.scope_ptr, graph.scope_idx, graph.start, graph.kind, graph.truncation, graph.message_ptr
    )  # fmt: skip
    first, last, kind = scope_ptr[c], scope_ptr[c + 1], kinds[c]
    low, high = allowed_counts(kind, truncation[c], last - first)
    gains = np.empty(last - first)
    n, certain, base = 0, 0, 0.0
    for s in range(first, last):
        if s == target:
            continue
        counting_state = 0 if kind >= AT_MOST_OUTPUT and s == last - 1 else 1
        label = labels[scope_idx[s]]
        if label >= 0:
            certain += label == counting_state
            continue
        with_it, without = -delta[message_ptr[s] + counting_state], -delta[message_ptr[s] + 1 - counting_state]
        if without == -np.inf:
            certain += 1
            base += with_it
        else:
            base += without
            if with_it > -np.inf:
                gains[n] = with_it - without
                n += 1
    _sort(gains, n)
    for counts in range(2):
        counting_state = 0 if kind >= AT_MOST_OUTPUT and target == last - 1 else 1
        state = counting_state if counts == 1 else 1 - counting_state
        smallest, largest = max(low - certain - counts, 0), min(high - certain - counts, n)
        best, free = base, base
        for i in range(n):
            gain = gains[n - 1 - i]
            if gain > 0.0:
                free += gain
            if i < smallest or (i < largest and gain > 0.0):
                best += gain
        if largest < 0 or smallest > n or smallest > largest:
            best = -np.inf
        out[state] = max(best, free + theta[start[c]])


@kernel
def _marginal(c, target, theta, delta, t, free, digits, out, work, graph):
    """Compute the max-marginal of factor c at its pair `target`, without that pair's message."""
    n_states, scope_ptr, scope_idx, start, kind, truncation, message_ptr = (
        graph.n_states, graph.scope_ptr, graph.scope_idx, graph.start, graph.kind, graph.truncation, graph.message_ptr
    )  # fmt: skip
    first = scope_ptr[c]
    k = n_states[scope_idx[target]]
    if kind[c] >= AT_MOST:
        _count_marginal(c, target, theta, delta, free, out, graph)
        return
    if scope_ptr[c + 1] - first != 2:
        _wide_marginal(c, target, theta, delta, t, free, digits, out, work, graph)
        return
    pair = 2 * first + 1 - target
    j = n_states[scope_idx[pair]]
    if kind[c] == TABLE:  # by positions: making a slice costs as much as a row of a small table
        _pair_marginal(theta, start[c], k, j, target == first, delta, message_ptr[pair], t, out, work)
        return
    other = delta[message_ptr[pair] : message_ptr[pair] + j]
    if kind[c] == POTTS:
        _potts_marginal(theta[start[c]], k, other, t, out, work)
    else:
        _distance_marginal(kind[c], theta[start[c]], truncation[c], k, other, t, out, work)


@kernel
def sweep_dual(forward, t, theta, exps, tops, unary, delta, beliefs, free, digits, out, work, graph):
    """Visit every variable once; return D, a bound on the best score if t is 0, or NaN when the model is infeasible.

    `beliefs` receives the sum of scores and messages at each variable before it is distributed. `exps` holds exp((theta
    - top) / t) with the `tops` of each factor, or is empty.
    """
    n_states, variable_ptr, pair_ptr, pair_idx, factor_of_pair = (
        graph.n_states, graph.variable_ptr, graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    )  # fmt: skip
    scope_ptr, scope_idx, first, last, start, kind = (
        graph.scope_ptr, graph.scope_idx, graph.first, graph.last, graph.start, graph.kind
    )  # fmt: skip
    message_ptr = graph.message_ptr
    n, linear = n_states.shape[0], t > 0.0 and exps.shape[0] > 0
    value = 0.0
    for step in range(n):
        v = step if forward else n - 1 - step
        k, base = n_states[v], variable_ptr[v]
        for x in range(base, base + k):
            beliefs[x] = unary[x]
        n_in, n_out = 0, 0
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            c = factor_of_pair[pair]
            begins, ends = first[c] == v, last[c] == v
            if not forward:
                begins, ends = ends, begins
            message_start = message_ptr[pair]
            n_out += not ends
            if not begins:
                n_in += 1
                # Not in `_marginal`, because a call with all arrays costs more.
                if kind[c] == TABLE and scope_ptr[c + 1] - scope_ptr[c] == 2:
                    other = 2 * scope_ptr[c] + 1 - pair
                    j, row_wise, other_start = n_states[scope_idx[other]], other > pair, message_ptr[other]
                    computed = linear and _pair_marginal_linear(
                        exps, tops[c], start[c], k, j, row_wise, delta, other_start, t, unary, base, out, work
                    )
                    if not computed:
                        _pair_marginal(theta, start[c], k, j, row_wise, delta, other_start, t, out, work)
                else:
                    _marginal(c, pair, theta, delta, t, free, digits, out, work, graph)
                maximum = -np.inf
                for x in range(k):
                    if unary[base + x] > -np.inf:
                        maximum = max(maximum, out[x])
                if maximum == -np.inf:
                    return np.nan
                for x in range(k):
                    if unary[base + x] > -np.inf:
                        delta[message_start + x] = out[x] - maximum
                if ends:
                    value += maximum
            for x in range(k):
                if unary[base + x] > -np.inf:
                    beliefs[base + x] += delta[message_start + x]
        maximum = -np.inf
        for x in range(k):
            maximum = max(maximum, beliefs[base + x])
            if beliefs[base + x] == -np.inf and unary[base + x] > -np.inf:
                unary[base + x] = -np.inf
                for q in range(pair_ptr[v], pair_ptr[v + 1]):
                    delta[message_ptr[pair_idx[q]] + x] = np.inf
        if maximum == -np.inf:
            return np.nan
        parts = max(n_in, n_out, 1)
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            c = factor_of_pair[pair]
            if (last[c] if forward else first[c]) != v:
                for x in range(k):
                    if beliefs[base + x] > -np.inf:
                        delta[message_ptr[pair] + x] -= beliefs[base + x] / parts
        share = (parts - n_out) / parts
        value += share * maximum
        if t > 0.0 and share > 0.0:
            total = 0.0
            for x in range(k):
                total += np.exp((beliefs[base + x] - maximum) / (parts * t))
            value += share * parts * t * np.log(total)
    return value


@kernel
def decode_dual(forward, theta, unary, delta, labels, digits, out, work, graph):
    """Label variable by variable: the best state given earlier labels, with the max-marginals of later variables.

    To be called after a sweep in the other direction; `labels` is -1 on entry and is filled in.
    """
    n_states, variable_ptr, pair_ptr, pair_idx, factor_of_pair = (
        graph.n_states, graph.variable_ptr, graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    )  # fmt: skip
    scope_ptr, scope_idx, start, kind, truncation = (
        graph.scope_ptr, graph.scope_idx, graph.start, graph.kind, graph.truncation
    )  # fmt: skip
    n = n_states.shape[0]
    field = np.empty(out.shape[0])
    for step in range(n):
        v = step if forward else n - 1 - step
        k, base = n_states[v], variable_ptr[v]
        for x in range(k):
            field[x] = unary[base + x]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            c = factor_of_pair[pair]
            if kind[c] >= AT_MOST:
                _count_marginal(c, pair, theta, delta, labels, out, graph)
            elif scope_ptr[c + 1] - scope_ptr[c] != 2:
                _wide_marginal(c, pair, theta, delta, 0.0, labels, digits, out, work, graph)
            else:
                other = 2 * scope_ptr[c] + 1 - pair
                state = labels[scope_idx[other]]
                if state < 0:
                    _marginal(c, pair, theta, delta, 0.0, labels, digits, out, work, graph)
                elif kind[c] == TABLE:
                    row_wise = other > pair
                    step = n_states[scope_idx[other]] if row_wise else 1
                    entry = start[c] + (state if row_wise else state * k)
                    for x in range(k):
                        out[x] = theta[entry + x * step]
                elif kind[c] == POTTS:
                    for x in range(k):
                        out[x] = theta[start[c]] if x == state else 0.0
                else:
                    for x in range(k):
                        out[x] = _distance_score(kind[c], theta[start[c]], truncation[c], x, state)
            for x in range(k):
                if field[x] > -np.inf:
                    field[x] += out[x]
        best = 0
        for x in range(k):
            if field[x] > field[best]:
                best = x
        labels[v] = best
