"""From messages to marginals, the value of the free energy, and a labelling.

Everything here reads the log messages of `messages.py` and its `finite` / `n_impossible` beliefs.
"""

from __future__ import annotations

import numpy as np

from intarsia._jit import kernel

TINY = 1e-250  # below this a factor's normaliser is computed again in the log domain


@kernel
def variable_beliefs(finite, n_impossible, variable_ptr, mu, log_mu, log_norm):
    """Marginals of all variables, their logarithms and log normalisers. Returns False if a variable has no state."""
    for v in range(variable_ptr.shape[0] - 1):
        top = -np.inf
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            log_mu[a] = finite[a] if n_impossible[a] == 0 else -np.inf
            top = max(top, log_mu[a])
        if top == -np.inf:
            return False
        total = 0.0
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            mu[a] = np.exp(log_mu[a] - top)
            total += mu[a]
        log_norm[v] = top + np.log(total)
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            mu[a] /= total
            log_mu[a] -= log_norm[v]
    return True


@kernel
def _gap_scores(kind, strength, truncation, n, scores):
    """Log-weight of each distance 0..n-1 between the two states of a parametric factor."""
    for d in range(n):
        if kind == 1:
            scores[d] = strength if d == 0 else 0.0
        elif kind == 2:
            scores[d] = -strength * min(float(d), truncation)
        else:
            scores[d] = -strength * min(float(d) * d, truncation)


@kernel
def _gap_statistic(kind, truncation, d):
    """Statistic of a parametric factor at distance d."""
    if kind == 1:
        return 1.0 if d == 0 else 0.0
    if kind == 2:
        return -min(float(d), truncation)
    return -min(float(d) * d, truncation)


@kernel
def _factor_belief(table, offset, kind, gap_weight, sizes, n_axes, weights, digits, joint):
    """Unnormalised joint belief of one factor in `joint`; returns its sum."""
    last = n_axes - 1
    width = sizes[last]
    rows = 1
    for a in range(last):
        rows *= sizes[a]
        digits[a] = 0
    total = 0.0
    at = 0
    for row in range(rows):
        prefix = 1.0
        for a in range(last):
            prefix *= weights[a, digits[a]]
        for x in range(width):
            value = table[offset + at + x] if kind == 0 else gap_weight[abs(row - x)]
            joint[at + x] = prefix * weights[last, x] * value
            total += joint[at + x]
        at += width
        a = last - 1
        while a >= 0:
            digits[a] += 1
            if digits[a] < sizes[a]:
                break
            digits[a] = 0
            a -= 1
    return total


@kernel
def _factor_belief_log(theta, offset, kind, gap_score, inv_rho, sizes, n_axes, logs, digits, joint):
    """The same in the log domain, the largest entry scaled to 1; returns (sum, what was taken out)."""
    size = 1
    for a in range(n_axes):
        size *= sizes[a]
        digits[a] = 0
    top = -np.inf
    width = sizes[n_axes - 1]
    for e in range(size):
        value = theta[offset + e] * inv_rho if kind == 0 else gap_score[abs(e // width - e % width)]
        for a in range(n_axes):
            value += logs[a, digits[a]]
        joint[e] = value
        top = max(top, value)
        a = n_axes - 1
        while a >= 0:
            digits[a] += 1
            if digits[a] < sizes[a]:
                break
            digits[a] = 0
            a -= 1
    total = 0.0
    if top > -np.inf:
        for e in range(size):
            joint[e] = np.exp(joint[e] - top)
            total += joint[e]
    return total, top


@kernel
def _log_marginal(theta, offset, kind, gap_score, inv_rho, sizes, n_axes, logs, digits, axis, state):
    """Log of the unnormalised belief of one state of one axis, by log-sum-exp."""
    size = 1
    for a in range(n_axes):
        size *= sizes[a]
    width = sizes[n_axes - 1]
    top = -np.inf
    total = 0.0
    for sweep in range(2):
        for a in range(n_axes):
            digits[a] = 0
        for e in range(size):
            if digits[axis] == state:
                value = theta[offset + e] * inv_rho if kind == 0 else gap_score[abs(e // width - e % width)]
                for a in range(n_axes):
                    value += logs[a, digits[a]]
                if sweep == 0:
                    top = max(top, value)
                elif value > -np.inf:
                    total += np.exp(value - top)
            a = n_axes - 1
            while a >= 0:
                digits[a] += 1
                if digits[a] < sizes[a]:
                    break
                digits[a] = 0
                a -= 1
    return -np.inf if top == -np.inf else top + np.log(total)


@kernel
def factor_beliefs(
    theta, exp_tables, exp_ptr, exp_top, rho, table_of_factor, table_ptr, kind, truncation, variable_ptr, scope_ptr,
    scope_idx, message_ptr, messages, finite, n_impossible, log_mu, log_norm, mu, work, joint, checks,
):  # fmt: skip
    """Add every factor's marginals to its block of mu; return the objective `<theta, mu> + H~(mu)`.

    With log mu_c = theta_c / rho_c + sum of log cavities - log Z_c the terms in theta_c cancel, and Domke2013
    Eq. (13) with (16), (17) becomes

        sum_i mu_i (theta_i - log mu_i) + sum_c rho_c (log Z_c - sum_{j in c} E_c[log cavity_j - log mu_j]).

    `checks[0]` becomes the largest difference between a variable's marginal and that of a factor at it (0 at a fixed
    point). `checks[1]` becomes an upper bound on log Z that holds for any messages if rho is valid: the beliefs
    reparametrise the model as K + sum_T rho(T) log p_T(x) over trees T, so log Z <= K + sum_T rho(T) log sum_x p_T(x)
    by Hoelder's inequality, and eliminating leaves shows that sum_x p_T(x) is at most the product over c in T of
    max_{i, x_i} mu_c(x_i) / mu_i(x_i), which is 1 where the marginals agree.

    Returns NaN if a factor has no possible joint state.
    """
    k_max, s_max = work.shape[1], (work.shape[0] - 4) // 2
    sizes, digits = np.empty(s_max, np.int64), np.empty(s_max, np.int64)
    logs, weights, gap_score, gap_weight = work[:s_max], work[s_max : 2 * s_max], work[2 * s_max], work[2 * s_max + 1]
    marginal = np.empty((s_max, k_max))
    objective = 0.0
    checks[:] = 0.0
    for v in range(log_norm.shape[0]):
        checks[1] += log_norm[v]
    for a in range(variable_ptr[-1]):
        if mu[a] > 0.0:
            objective += mu[a] * (theta[a] - log_mu[a])
    for c in range(table_of_factor.shape[0]):
        t = table_of_factor[c]
        first = scope_ptr[c]
        n_axes = scope_ptr[c + 1] - first
        tops = 0.0
        for a in range(n_axes):
            v = scope_idx[first + a]
            start = variable_ptr[v]
            sizes[a] = variable_ptr[v + 1] - start
            top = -np.inf
            for x in range(sizes[a]):
                logs[a, x] = -np.inf
                if n_impossible[start + x] == 0:
                    logs[a, x] = finite[start + x] - messages[message_ptr[first + a] + x]
                    top = max(top, logs[a, x])
            if top == -np.inf:
                return np.nan
            tops += top - log_norm[v]
            for x in range(sizes[a]):
                logs[a, x] -= top
                weights[a, x] = np.exp(logs[a, x])
        shift = exp_top[c]
        if kind[t] != 0:
            _gap_scores(kind[t], theta[table_ptr[t]] / rho[c], truncation[t], sizes[0], gap_score)
            shift = gap_score[: sizes[0]].max()
            for d in range(sizes[0]):
                gap_weight[d] = np.exp(gap_score[d] - shift)
        total = _factor_belief(exp_tables, exp_ptr[c], kind[t], gap_weight, sizes, n_axes, weights, digits, joint)
        if total < TINY:
            total, shift = _factor_belief_log(
                theta, table_ptr[t], kind[t], gap_score, 1.0 / rho[c], sizes, n_axes, logs, digits, joint
            )
            if total == 0.0:
                return np.nan
        objective += rho[c] * (np.log(total) + shift)
        checks[1] += rho[c] * (np.log(total) + shift + tops)
        last = n_axes - 1
        width = sizes[last]
        rows = 1
        for a in range(n_axes):
            digits[a] = 0
            for x in range(sizes[a]):
                marginal[a, x] = 0.0
            if a < last:
                rows *= sizes[a]
        at = 0
        for row in range(rows):
            row_sum = 0.0
            for x in range(width):
                value = joint[at + x] / total
                if kind[t] == 0:
                    mu[table_ptr[t] + at + x] += value
                else:
                    mu[table_ptr[t]] += value * _gap_statistic(kind[t], truncation[t], abs(row - x))
                marginal[last, x] += value
                row_sum += value
            for a in range(last):
                marginal[a, digits[a]] += row_sum
            at += width
            a = last - 1
            while a >= 0:
                digits[a] += 1
                if digits[a] < sizes[a]:
                    break
                digits[a] = 0
                a -= 1
        worst = 0.0
        for a in range(n_axes):
            start = variable_ptr[scope_idx[first + a]]
            extreme = False
            for x in range(sizes[a]):
                if marginal[a, x] > 0.0:
                    objective -= rho[c] * marginal[a, x] * (logs[a, x] - log_mu[start + x])
                checks[0] = max(checks[0], abs(marginal[a, x] - mu[start + x]))
                if mu[start + x] > TINY:
                    worst = max(worst, marginal[a, x] / mu[start + x])
                elif n_impossible[start + x] == 0:
                    extreme = True
            if extreme:  # the ratio of two underflowing numbers, from logarithms
                log_total = np.log(total) + shift
                for x in range(sizes[a]):
                    if n_impossible[start + x] == 0 and mu[start + x] <= TINY:
                        score = _log_marginal(
                            theta, table_ptr[t], kind[t], gap_score, 1.0 / rho[c], sizes, n_axes, logs, digits, a, x
                        )
                        worst = max(worst, np.exp(min(score - log_total - log_mu[start + x], 700.0)))
        checks[1] += rho[c] * np.log(worst)
    return objective


@kernel
def traversal_order(pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx):
    """Variables so that each one, but the first of its component, shares a factor with an earlier one."""
    n = pair_ptr.shape[0] - 1
    order = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    factor_seen = np.zeros(scope_ptr.shape[0] - 1, np.bool_)
    filled = 0
    for root in range(n):
        if seen[root]:
            continue
        seen[root] = True
        order[filled] = root
        head = filled
        filled += 1
        while head < filled:
            v = order[head]
            head += 1
            for k in range(pair_ptr[v], pair_ptr[v + 1]):
                c = factor_of_pair[pair_idx[k]]
                if factor_seen[c]:
                    continue
                factor_seen[c] = True
                for q in range(scope_ptr[c], scope_ptr[c + 1]):
                    u = scope_idx[q]
                    if not seen[u]:
                        seen[u] = True
                        order[filled] = u
                        filled += 1
    return order


@kernel
def decode_in_order(
    order, theta, rho, pair_ptr, pair_idx, factor_of_pair, table_of_factor, table_ptr, kind, truncation, variable_ptr,
    scope_ptr, scope_idx, message_ptr, messages, finite, n_impossible, work,
):  # fmt: skip
    """Label variables one after the other, each given those before it; exact on forests, also with ties.

    A factor none of whose variables is labelled yet speaks through its message; any other through its own scores
    with the labels put in and the rest maximised over.
    """
    s_max = (work.shape[0] - 4) // 2
    sizes, digits = np.empty(s_max, np.int64), np.empty(s_max, np.int64)
    logs, best, score = work[:s_max], work[2 * s_max], work[2 * s_max + 1]
    labels = np.full(variable_ptr.shape[0] - 1, -1)
    for k in range(order.shape[0]):
        i = order[k]
        n = variable_ptr[i + 1] - variable_ptr[i]
        for x in range(n):
            score[x] = theta[variable_ptr[i] + x]
        for j in range(pair_ptr[i], pair_ptr[i + 1]):
            p = pair_idx[j]
            c = factor_of_pair[p]
            t = table_of_factor[c]
            first = scope_ptr[c]
            n_axes = scope_ptr[c + 1] - first
            labelled = False
            size = 1
            for a in range(n_axes):
                v = scope_idx[first + a]
                sizes[a] = variable_ptr[v + 1] - variable_ptr[v]
                size *= sizes[a]
                digits[a] = 0
                labelled = labelled or labels[v] >= 0
                for x in range(sizes[a]):
                    at = variable_ptr[v] + x
                    if labels[v] >= 0:
                        logs[a, x] = 0.0 if labels[v] == x else -np.inf
                    elif v == i:
                        logs[a, x] = 0.0
                    elif n_impossible[at] > 0:
                        logs[a, x] = -np.inf
                    else:
                        logs[a, x] = finite[at] - messages[message_ptr[first + a] + x]
            if not labelled:
                for x in range(n):
                    score[x] += rho[c] * messages[message_ptr[p] + x]
                continue
            for x in range(n):
                best[x] = -np.inf
            width = sizes[n_axes - 1]
            for e in range(size):
                if kind[t] == 0:
                    value = theta[table_ptr[t] + e] / rho[c]
                else:
                    gap = _gap_statistic(kind[t], truncation[t], abs(e // width - e % width))
                    value = theta[table_ptr[t]] / rho[c] * gap if gap != 0.0 else 0.0
                for a in range(n_axes):
                    value += logs[a, digits[a]]
                best[digits[p - first]] = max(best[digits[p - first]], value)
                a = n_axes - 1
                while a >= 0:
                    digits[a] += 1
                    if digits[a] < sizes[a]:
                        break
                    digits[a] = 0
                    a -= 1
            for x in range(n):
                score[x] += rho[c] * best[x]
        labels[i] = 0
        for x in range(1, n):
            if score[x] > score[labels[i]]:
                labels[i] = x
    return labels
