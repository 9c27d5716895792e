"""Coordinate ascent on fully factorised distributions.

`mu` is the flat block of variable marginals. A variable's field is the expected score of each of its states under
the marginals of the others; its optimal marginal is proportional to exp(field). Everywhere 0 * -inf is 0: what has no
probability costs nothing.
"""

from __future__ import annotations

import numpy as np

from intarsia._jit import fast_kernel


@fast_kernel
def _multiply_out(out, first, last, mu, n_states, variable_ptr, scope_idx):
    """Joint probabilities, in C order, of the variables at scope positions first..last-1; returns their number."""
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


@fast_kernel
def _add_rows(field, table, weights):
    """Add to field[x] the sum over y of table[x, y] weights[y]."""
    n = weights.shape[0]
    for x in range(field.shape[0]):
        row = table[x * n : (x + 1) * n]
        total = 0.0
        for y in range(n):
            total += row[y] * weights[y] if weights[y] > 0.0 else 0.0
        field[x] += total


@fast_kernel
def _add_columns(field, table, weights):
    """Add to field[x] the sum over y of weights[y] table[y, x]."""
    n = field.shape[0]
    for y in range(weights.shape[0]):
        weight = weights[y]
        if weight > 0.0:
            row = table[y * n : (y + 1) * n]
            for x in range(n):
                field[x] += weight * row[x]


@fast_kernel
def _add_parametric(field, weight, other, kind, truncation):
    """Add the expected score of a Potts or truncated factor; `other` is the neighbour's marginal."""
    k = field.shape[0]
    if kind == 1:
        for x in range(k):
            if other[x] > 0.0:
                field[x] += weight * other[x]
        return
    # -min(d, cap) = -cap + max(cap - d, 0), and the last term vanishes outside a window around x.
    farthest = float(k - 1) if kind == 2 else float((k - 1) * (k - 1))
    cap = min(truncation, farthest)
    reach = cap if kind == 2 else np.sqrt(cap)
    window = int(np.ceil(reach))
    for x in range(k):
        near = 0.0
        for y in range(max(0, x - window), min(k, x + window + 1)):
            gap = float(abs(x - y))
            distance = gap if kind == 2 else gap * gap
            near += max(cap - distance, 0.0) * other[y]
        field[x] += weight * (near - cap)


@fast_kernel
def _add_factor(field, theta, mu, pair, c, left, right, graph):
    """Add the expected scores of factor c to the field of its variable at position `pair` of scope_idx."""
    n_states, variable_ptr, _, _, _, scope_ptr, scope_idx, table_of_factor, table_ptr, kind, truncation = graph
    t = table_of_factor[c]
    first, last = scope_ptr[c], scope_ptr[c + 1]
    if last - first == 2:
        other = scope_idx[last - 1] if pair == first else scope_idx[first]
        weights = mu[variable_ptr[other] : variable_ptr[other + 1]]
        if kind[t] != 0:
            _add_parametric(field, theta[table_ptr[t]], weights, kind[t], truncation[t])
            return
        table = theta[table_ptr[t] : table_ptr[t + 1]]
        if pair == first:
            _add_rows(field, table, weights)
        else:
            _add_columns(field, table, weights)
        return
    # Seen from its variable, a table has three axes: what comes before, the variable, what comes after.
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


@fast_kernel
def _take_softmax(block, field):
    """Set `block` to exp(field), normalised; return the largest change, 0 if no state is possible."""
    k = field.shape[0]
    top = -np.inf
    for x in range(k):
        top = max(top, field[x])
    if top == -np.inf:
        return 0.0
    total = 0.0
    for x in range(k):
        field[x] = np.exp(field[x] - top)
        total += field[x]
    scale = 1.0 / total
    change = 0.0
    for x in range(k):
        value = field[x] * scale
        change = max(change, abs(value - block[x]))
        block[x] = value
    return change


@fast_kernel
def _wake_neighbours(v, active, drift, graph):
    """Mark all that share a factor with v as worth an update."""
    pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx = graph[2:7]
    drift[v] = 0.0
    for q in range(pair_ptr[v], pair_ptr[v + 1]):
        c = factor_of_pair[pair_idx[q]]
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            if scope_idx[s] != v:
                active[scope_idx[s]] = True


@fast_kernel
def sweep_mean_field(theta, mu, active, drift, slack, field, left, right, graph):
    """Update each active variable once, in ascending order (Domke2013 section 3.2); return the largest change.

    A variable wakes its neighbours when it has drifted by more than `slack` since it last did so; a variable that
    is not active would hardly change and is passed over.
    """
    n_states, variable_ptr, pair_ptr, pair_idx, factor_of_pair = graph[:5]
    residual = 0.0
    for v in range(n_states.shape[0]):
        if not active[v]:
            if drift[v] > slack:
                _wake_neighbours(v, active, drift, graph)
            continue
        active[v] = False
        mine = field[: n_states[v]]
        unary = theta[variable_ptr[v] : variable_ptr[v + 1]]
        for x in range(mine.shape[0]):
            mine[x] = unary[x]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            _add_factor(mine, theta, mu, pair, factor_of_pair[pair], left, right, graph)
        change = _take_softmax(mu[variable_ptr[v] : variable_ptr[v + 1]], mine)
        residual = max(residual, change)
        drift[v] += change
        if drift[v] > slack:
            _wake_neighbours(v, active, drift, graph)
    return residual


@fast_kernel
def sweep_mean_field_pairwise(theta, mu, active, drift, slack, fields, ready, graph):
    """`sweep_mean_field` for finite pairwise tables, each read from memory once in a sweep.

    When v is updated, it pulls from the tables to later variables and at once pushes its new marginal through the same
    tables, which are then in the cache, into the `fields` of those later variables that are `ready` for it: active
    from the start of the sweep. One woken during the sweep has missed pushes and pulls from all its tables.
    """
    n_states, variable_ptr, pair_ptr, pair_idx, factor_of_pair, _, scope_idx, table_of_factor, table_ptr = graph[:9]
    residual = 0.0
    for at in range(fields.shape[0]):
        fields[at] = theta[at]
    for v in range(n_states.shape[0]):
        ready[v] = active[v]
    for v in range(n_states.shape[0]):
        start, stop = variable_ptr[v], variable_ptr[v + 1]
        awake = active[v]
        for push in range(2):
            for q in range(pair_ptr[v], pair_ptr[v + 1]):
                pair = pair_idx[q]
                # All factors have two variables, so pair ^ 1 is the other end and an even pair is the first axis.
                other = scope_idx[pair ^ 1]
                begin, end = variable_ptr[other], variable_ptr[other + 1]
                if push == 0:
                    if not awake or (ready[v] and other < v):
                        continue
                    field, weights = fields[start:stop], mu[begin:end]
                else:
                    if other < v or not ready[other]:
                        continue
                    field, weights = fields[begin:end], mu[start:stop]
                k, n = field.shape[0], weights.shape[0]
                at = table_ptr[table_of_factor[factor_of_pair[pair]]]
                table = theta[at : at + k * n]
                if (pair & 1) == push:  # the field is along the first axis
                    for x in range(k):
                        row = table[x * n : (x + 1) * n]
                        total = 0.0
                        for y in range(n):
                            total += row[y] * weights[y]
                        field[x] += total
                    continue
                paired = n // 4 * 4
                for y in range(0, paired, 4):  # four rows at a time: the field is loaded and stored a quarter as often
                    w0, w1, w2, w3 = weights[y], weights[y + 1], weights[y + 2], weights[y + 3]
                    row0 = table[y * k : (y + 1) * k]
                    row1 = table[(y + 1) * k : (y + 2) * k]
                    row2 = table[(y + 2) * k : (y + 3) * k]
                    row3 = table[(y + 3) * k : (y + 4) * k]
                    for x in range(k):
                        field[x] += (w0 * row0[x] + w1 * row1[x]) + (w2 * row2[x] + w3 * row3[x])
                for y in range(paired, n):
                    w0 = weights[y]
                    row0 = table[y * k : (y + 1) * k]
                    for x in range(k):
                        field[x] += w0 * row0[x]
            if push == 0 and awake:
                active[v] = False
                change = _take_softmax(mu[start:stop], fields[start:stop])
                residual = max(residual, change)
                drift[v] += change
        if drift[v] > slack:
            _wake_neighbours(v, active, drift, graph)
    return residual


@fast_kernel
def sweep_mean_field_binary(theta, mu, active, drift, slack, graph):
    """`sweep_mean_field` for finite pairwise tables over binary variables: one log-odds instead of a field."""
    n_states, _, pair_ptr, pair_idx, factor_of_pair, _, scope_idx, table_of_factor, table_ptr = graph[:9]
    residual = 0.0
    for v in range(n_states.shape[0]):
        if not active[v]:
            if drift[v] > slack:
                _wake_neighbours(v, active, drift, graph)
            continue
        active[v] = False
        odds = theta[2 * v + 1] - theta[2 * v]
        for q in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[q]
            at = table_ptr[table_of_factor[factor_of_pair[pair]]]
            other = scope_idx[pair ^ 1]
            # All factors have two variables, so pair ^ 1 is the other end and an even pair is the first axis.
            low, high = (2, 1) if pair & 1 == 0 else (1, 2)
            odds += mu[2 * other] * (theta[at + low] - theta[at])
            odds += mu[2 * other + 1] * (theta[at + 3] - theta[at + high])
        small = np.exp(-abs(odds))
        likely = 1.0 / (1.0 + small)
        one = likely if odds > 0.0 else small * likely
        change = abs(one - mu[2 * v + 1])
        mu[2 * v + 1] = one
        mu[2 * v] = small * likely if odds > 0.0 else likely
        residual = max(residual, change)
        drift[v] += change
        if drift[v] > slack:
            _wake_neighbours(v, active, drift, graph)
    return residual


@fast_kernel
def expect_parametric(first, second, kind, truncation):
    """Expected statistic of a Potts or truncated factor under independent marginals."""
    total = 0.0
    if kind == 1:
        for x in range(first.shape[0]):
            total += first[x] * second[x]
        return total
    for x in range(first.shape[0]):
        for y in range(second.shape[0]):
            gap = float(abs(x - y))
            total -= first[x] * second[y] * min(gap if kind == 2 else gap * gap, truncation)
    return total


@fast_kernel
def complete_mean_field(theta, mu, keep, left, right, graph):
    """Return <theta, mu> + H(mu), and with `keep` fill in the tables' part of mu, a product of marginals.

    `mu` is the whole vector; with `keep` its tables' part must come in as zeros, without it is not touched.
    """
    n_states, variable_ptr, _, _, _, scope_ptr, scope_idx, table_of_factor, table_ptr, kind, truncation = graph
    value = 0.0
    for at in range(variable_ptr[n_states.shape[0]]):
        if mu[at] > 0.0:
            value += mu[at] * (theta[at] - np.log(mu[at]))  # Domke2013 Eq. 12
    for c in range(table_of_factor.shape[0]):
        t = table_of_factor[c]
        first, last = scope_ptr[c], scope_ptr[c + 1]
        v, w = scope_idx[first], scope_idx[last - 1]
        start = table_ptr[t]
        if kind[t] != 0:
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
            part = 0.0
            for b in range(n):
                part += scores[b] * columns[b] if columns[b] > 0.0 else 0.0
            value += weight * part
            if keep:
                block = mu[start + a * n : start + (a + 1) * n]
                for b in range(n):
                    block[b] += weight * columns[b]
    return value
