"""Coordinate ascent on fully factorised distributions (mean field).

`mu` is the flat block of variable marginals. A variable's field is the expected score of each of its states under the
marginals of the others; its optimal marginal is proportional to exp(field). Everywhere 0 * -inf is 0: a state without
probability costs nothing.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_borrowing_kernel, kernel
from intarsia._kernels.factor_kinds import POTTS, TABLE, TRUNCATED_LINEAR

# ln 2 = _LN2_HIGH + _LN2_LOW; the first has so few digits that its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOG2_E = 1.44269504088896338700e00
_SMALLEST = -708.0  # below, exp is treated as 0


@kernel
def exp_vectorised(x):
    """Return exp(x) for x <= 0, with a relative error below 1e-15, and 0 below -708.

    A loop that calls it is vectorised, unlike one that calls the exponential function of the C library. With x = n ln 2
    + r, it is 2^n times the Taylor polynomial of exp(r). Sums must not be reordered, so this is a strict kernel.
    """
    n = np.rint(max(x, _SMALLEST) * _LOG2_E)
    r = (max(x, _SMALLEST) - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    highest = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
    value = low + r4 * (middle + r4 * (high + r4 * highest))
    bits = np.int64((np.int64(np.int32(n)) + np.int64(1023)) << np.int64(52))
    power = np.int64(bits).view(np.float64)
    return value * power if x >= _SMALLEST else 0.0


@fast_borrowing_kernel
def _multiply_out(out, first, last, mu, n_states, variable_ptr, scope_idx):
    """Compute joint probabilities, in C order, of the variables at scope positions first..last-1; return how many."""
    out[0] = 1.0
    size = 1
    for s in range(first, last):
        v = scope_idx[s]
        k = n_states[v]
        block = mu[variable_ptr[v] : variable_ptr[v] + k]
        # In place from the end, so that no entry is overwritten before it was read.
        for a in range(size - 1, -1, -1):
            weight = out[a]
            for x in range(k - 1, -1, -1):
                out[a * k + x] = weight * block[x]
        size *= k
    return size


@fast_borrowing_kernel
def _add_rows(field, table, weights):
    """Add to field[x] the sum over y of table[x, y] weights[y]."""
    n = weights.shape[0]
    for x in range(field.shape[0]):
        row = table[x * n : (x + 1) * n]
        total = 0.0
        for y in range(n):
            total += row[y] * weights[y] if weights[y] > 0.0 else 0.0
        field[x] += total


@fast_borrowing_kernel
def _add_columns(field, table, weights):
    """Add to field[x] the sum over y of weights[y] table[y, x]."""
    n = field.shape[0]
    for y in range(weights.shape[0]):
        weight = weights[y]
        if weight > 0.0:
            row = table[y * n : (y + 1) * n]
            for x in range(n):
                field[x] += weight * row[x]


@fast_borrowing_kernel
def _add_parametric(field, weight, other, kind, truncation):
    """Add the expected score of a Potts or truncated factor; `other` is the neighbour's marginal."""
    k = field.shape[0]
    if kind == POTTS:
        for x in range(k):
            if other[x] > 0.0:
                field[x] += weight * other[x]
        return
    # -min(d, cap) = -cap + max(cap - d, 0), and the last term vanishes outside a window around x.
    farthest = float(k - 1) if kind == TRUNCATED_LINEAR else float((k - 1) * (k - 1))
    cap = min(truncation, farthest)
    reach = cap if kind == TRUNCATED_LINEAR else np.sqrt(cap)
    window = int(np.ceil(reach))
    for x in range(k):
        near = 0.0
        for y in range(max(0, x - window), min(k, x + window + 1)):
            gap = float(abs(x - y))
            distance = gap if kind == TRUNCATED_LINEAR else gap * gap
            near += max(cap - distance, 0.0) * other[y]
        field[x] += weight * (near - cap)


@fast_borrowing_kernel
def _add_factor(field, theta, mu, pair, c, left, right, graph):
    """Add the expected scores of factor c to the field of its variable at position `pair` of scope_idx."""
    n_states, variable_ptr, scope_ptr, scope_idx = graph.n_states, graph.variable_ptr, graph.scope_ptr, graph.scope_idx
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    kind, truncation = graph.table_kind, graph.table_truncation
    t = table_of_factor[c]
    first, last = scope_ptr[c], scope_ptr[c + 1]
    if last - first == 2:
        other = scope_idx[last - 1] if pair == first else scope_idx[first]
        weights = mu[variable_ptr[other] : variable_ptr[other + 1]]
        if kind[t] != TABLE:
            _add_parametric(field, theta[table_ptr[t]], weights, kind[t], truncation[t])
            return
        table = theta[table_ptr[t] : table_ptr[t + 1]]
        if pair == first:
            _add_rows(field, table, weights)
        else:
            _add_columns(field, table, weights)
        return
    # The table has three axes: the variables before this one, the variable, the variables after it.
    n_left = _multiply_out(left, first, pair, mu, n_states, variable_ptr, scope_idx)
    n_right = _multiply_out(right, pair + 1, last, mu, n_states, variable_ptr, scope_idx)
    k = field.shape[0]
    for a in range(n_left):
        if left[a] == 0.0:
            continue
        base = table_ptr[t] + a * k * n_right
        for x in range(k):
            row = theta[base + x * n_right : base + (x + 1) * n_right]
            total = 0.0
            for b in range(n_right):
                total += row[b] * right[b] if right[b] > 0.0 else 0.0
            field[x] += left[a] * total


@fast_borrowing_kernel
def _take_softmax(block, field):
    """Set `block` to exp(field), normalised; return the largest change, 0 if no state is possible."""
    k = field.shape[0]
    maximum = -np.inf
    for x in range(k):
        maximum = max(maximum, field[x])
    if maximum == -np.inf:
        return 0.0
    total = 0.0
    for x in range(k):
        field[x] = exp_vectorised(field[x] - maximum)
    for x in range(k):
        total += field[x]
    scale = 1.0 / total
    change = 0.0
    for x in range(k):
        value = field[x] * scale
        change = max(change, abs(value - block[x]))
        block[x] = value
    return change


@fast_borrowing_kernel
def _activate_neighbours(v, active, drift, graph):
    """Mark all variables that share a factor with v as active."""
    pair_ptr, pair_idx, factor_of_pair = graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    scope_ptr, scope_idx = graph.scope_ptr, graph.scope_idx
    drift[v] = 0.0
    for q in range(pair_ptr[v], pair_ptr[v + 1]):
        c = factor_of_pair[pair_idx[q]]
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            if scope_idx[s] != v:
                active[scope_idx[s]] = True


@fast_borrowing_kernel
def sweep_mean_field(theta, mu, active, drift, slack, field, left, right, graph):
    """Update each active variable once, in ascending order (Domke2013 section 3.2); return the largest change.

    A variable activates its neighbours when it has changed by more than `slack` in total since it last did so. A
    variable that is not active would hardly change and is skipped.
    """
    n_states, variable_ptr = graph.n_states, graph.variable_ptr
    pair_ptr, pair_idx, factor_of_pair = graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    residual = 0.0
    for v in range(n_states.shape[0]):
        if not active[v]:
            if drift[v] > slack:
                _activate_neighbours(v, active, drift, graph)
            continue
        active[v] = False
        local_field = field[: n_states[v]]
        unary = theta[variable_ptr[v] : variable_ptr[v + 1]]
        for x in range(local_field.shape[0]):
            local_field[x] = unary[x]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            _add_factor(local_field, theta, mu, pair, factor_of_pair[pair], left, right, graph)
        change = _take_softmax(mu[variable_ptr[v] : variable_ptr[v + 1]], local_field)
        residual = max(residual, change)
        drift[v] += change
        if drift[v] > slack:
            _activate_neighbours(v, active, drift, graph)
    return residual


@fast_borrowing_kernel
def sweep_mean_field_pairwise(theta, mu, active, gap, slack, fields, scratch, renew, graph):
    """Make a sweep of `sweep_mean_field` for pairwise tables without hard zeros, with all `fields` kept up to date.

    A variable reads its field only if a neighbour moved. If its marginal would change by no more than `slack`, it keeps
    it, and `gap` stores the difference. One that moves adds its change, times its tables, to the fields of its
    neighbours. So the tables of variables that stay are not read, each move is an exact step of coordinate ascent, and
    the residual includes every variable. With `renew` the fields are computed again first, from all marginals.
    """
    n_states, variable_ptr, scope_idx = graph.n_states, graph.variable_ptr, graph.scope_idx
    pair_ptr, pair_idx, factor_of_pair = graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    n_variables = n_states.shape[0]
    if renew:
        for position in range(fields.shape[0]):
            fields[position] = theta[position]
    residual = 0.0
    for i in range(0 if renew else n_variables, 2 * n_variables):
        v = i if i < n_variables else i - n_variables
        is_update = i >= n_variables
        if is_update and not active[v] and gap[v] <= slack:  # checked before any slice, which costs more than the check
            if gap[v] > residual:
                residual = gap[v]
            continue
        n = n_states[v]
        marginal = mu[variable_ptr[v] : variable_ptr[v] + n]
        step = marginal
        if is_update:
            active[v] = False
            field = fields[variable_ptr[v] : variable_ptr[v] + n]
            fresh, step = scratch[:n], scratch[n : 2 * n]
            maximum = field[0]
            for x in range(1, n):
                if field[x] > maximum:
                    maximum = field[x]
            for x in range(n):
                fresh[x] = exp_vectorised(field[x] - maximum)
            total = 0.0
            for x in range(n):
                total += fresh[x]
            total = 1.0 / total
            change = 0.0
            for x in range(n):
                fresh[x] *= total
                step[x] = fresh[x] - marginal[x]
                if abs(step[x]) > change:
                    change = abs(step[x])
            gap[v] = change
            if gap[v] > residual:
                residual = gap[v]
            if gap[v] <= slack:
                continue
            gap[v] = 0.0
            for x in range(n):
                marginal[x] = fresh[x]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            other = scope_idx[pair ^ 1]  # every factor has two variables; an even pair is the first axis
            active[other] = True
            k = n_states[other]
            field = fields[variable_ptr[other] : variable_ptr[other] + k]
            position = table_ptr[table_of_factor[factor_of_pair[pair]]]
            table = theta[position : position + k * n]
            # Four rows at a time: `field` or `step` is loaded a quarter as often. Rows are slices, since an index such
            # as x * k + y, which could be negative for all the compiler knows, would keep it from vectorising.
            if pair & 1 == 0:
                whole = n // 4 * 4
                for x in range(0, whole, 4):
                    s0, s1, s2, s3 = step[x], step[x + 1], step[x + 2], step[x + 3]
                    row0, row1 = table[x * k : (x + 1) * k], table[(x + 1) * k : (x + 2) * k]
                    row2, row3 = table[(x + 2) * k : (x + 3) * k], table[(x + 3) * k : (x + 4) * k]
                    for y in range(k):
                        field[y] += (s0 * row0[y] + s1 * row1[y]) + (s2 * row2[y] + s3 * row3[y])
                for x in range(whole, n):
                    s0, row0 = step[x], table[x * k : (x + 1) * k]
                    for y in range(k):
                        field[y] += s0 * row0[y]
            else:
                whole = k // 4 * 4
                for y in range(0, whole, 4):
                    row0, row1 = table[y * n : (y + 1) * n], table[(y + 1) * n : (y + 2) * n]
                    row2, row3 = table[(y + 2) * n : (y + 3) * n], table[(y + 3) * n : (y + 4) * n]
                    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
                    for x in range(n):
                        t0 += row0[x] * step[x]
                        t1 += row1[x] * step[x]
                        t2 += row2[x] * step[x]
                        t3 += row3[x] * step[x]
                    field[y] += t0
                    field[y + 1] += t1
                    field[y + 2] += t2
                    field[y + 3] += t3
                for y in range(whole, k):
                    row0 = table[y * n : (y + 1) * n]
                    t0 = 0.0
                    for x in range(n):
                        t0 += row0[x] * step[x]
                    field[y] += t0
    return residual


@fast_borrowing_kernel
def sweep_mean_field_binary(mu, active, gap, slack, odds, coupling, graph):
    """Make a sweep for binary variables: one log-odds instead of a field, one weight instead of a table."""
    pair_ptr, pair_idx = graph.pair_ptr, graph.pair_idx
    scope_idx, table_of_factor = graph.scope_idx, graph.table_of_factor
    residual = 0.0
    for v in range(odds.shape[0]):
        change = gap[v]
        if active[v] or change > slack:
            active[v] = False
            small = exp_vectorised(-abs(odds[v]))
            likely = 1.0 / (1.0 + small)
            p_one, p_zero = small * likely, likely
            if odds[v] > 0.0:
                p_one, p_zero = likely, p_one
            step = p_one - mu[2 * v + 1]
            change = abs(step)
            gap[v] = change
            if change > slack:
                gap[v] = 0.0
                mu[2 * v], mu[2 * v + 1] = p_zero, p_one
                for q in range(pair_ptr[v], pair_ptr[v + 1]):
                    pair = pair_idx[q]
                    other = scope_idx[pair ^ 1]
                    odds[other] += step * coupling[table_of_factor[pair >> 1]]
                    active[other] = True
        if change > residual:
            residual = change
    return residual


@fast_borrowing_kernel
def fill_pairwise_tables(mu, scope_idx, variable_ptr, table_of_factor, table_ptr, first_factor):
    """Write the products of marginals into the tables' block of mu, summed where factors share a table."""
    for c in range(table_of_factor.shape[0]):
        t = table_of_factor[c]
        v, w = scope_idx[2 * c], scope_idx[2 * c + 1]
        columns = mu[variable_ptr[w] : variable_ptr[w + 1]]
        n, position = columns.shape[0], table_ptr[t]
        alone = first_factor[t] == c  # assigned and not added, so that the block need not be zeroed first
        for x in range(variable_ptr[v], variable_ptr[v + 1]):
            weight = mu[x]
            block = mu[position : position + n]
            if alone:
                for y in range(n):
                    block[y] = weight * columns[y]
            else:
                for y in range(n):
                    block[y] += weight * columns[y]
            position += n


@fast_borrowing_kernel
def expect_parametric(first, second, kind, truncation):
    """Return the expected statistic of a Potts or truncated factor under independent marginals."""
    total = 0.0
    if kind == POTTS:
        for x in range(first.shape[0]):
            total += first[x] * second[x]
        return total
    for x in range(first.shape[0]):
        for y in range(second.shape[0]):
            gap = float(abs(x - y))
            total -= first[x] * second[y] * min(gap if kind == TRUNCATED_LINEAR else gap * gap, truncation)
    return total


@fast_borrowing_kernel
def complete_mean_field(theta, mu, keep, left, right, graph):
    """Return <theta, mu> + H(mu), and with `keep` fill in the tables' block of mu, a product of marginals.

    `mu` is the complete vector. With `keep` the tables' block must be zeros on entry; without, it is not touched.
    """
    n_states, variable_ptr, scope_ptr, scope_idx = graph.n_states, graph.variable_ptr, graph.scope_ptr, graph.scope_idx
    table_of_factor, table_ptr = graph.table_of_factor, graph.table_ptr
    kind, truncation = graph.table_kind, graph.table_truncation
    value = 0.0
    for position in range(variable_ptr[n_states.shape[0]]):
        if mu[position] > 0.0:
            value += mu[position] * (theta[position] - np.log(mu[position]))  # Domke2013 Eq. 12
    for c in range(table_of_factor.shape[0]):
        t = table_of_factor[c]
        first, last = scope_ptr[c], scope_ptr[c + 1]
        v, w = scope_idx[first], scope_idx[last - 1]
        start = table_ptr[t]
        if kind[t] != TABLE:
            statistic = expect_parametric(
                mu[variable_ptr[v] : variable_ptr[v + 1]],
                mu[variable_ptr[w] : variable_ptr[w + 1]],
                kind[t],
                truncation[t],
            )
            if statistic != 0.0:
                value += theta[start] * statistic
            if keep:
                mu[start] += statistic
            continue
        if last - first == 2:
            rows, columns = mu[variable_ptr[v] : variable_ptr[v + 1]], mu[variable_ptr[w] : variable_ptr[w + 1]]
        else:
            n_rows = _multiply_out(left, first, last - 1, mu, n_states, variable_ptr, scope_idx)
            n_columns = _multiply_out(right, last - 1, last, mu, n_states, variable_ptr, scope_idx)
            rows, columns = left[:n_rows], right[:n_columns]
        n = columns.shape[0]
        for a in range(rows.shape[0]):
            weight = rows[a]
            if weight == 0.0:
                continue
            scores = theta[start + a * n : start + (a + 1) * n]
            row_score = 0.0
            for b in range(n):
                row_score += scores[b] * columns[b] if columns[b] > 0.0 else 0.0
            value += weight * row_score
            if keep:
                block = mu[start + a * n : start + (a + 1) * n]
                for b in range(n):
                    block[b] += weight * columns[b]
    return value
