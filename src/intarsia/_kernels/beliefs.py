"""Marginals, the value of the free energy, and labellings from messages.

Everything here reads the log messages of `messages.py` and its `finite` / `n_impossible` beliefs. All tables are full.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

TINY = 1e-250  # below this a factor's normaliser is computed again in the log domain
DIVERGED = 1e6  # logarithms of messages beyond this lose digits that the bounds must allow for


@kernel
def variable_beliefs(finite, n_impossible, variable_ptr, mu, log_mu, log_norm):
    """Compute marginals of all variables, their logarithms and log normalisers; return False if one has no state.

    mu_i(x) is proportional to exp(b_i(x)) with the belief b_i of `messages.py`.
    """
    for v in range(log_norm.shape[0]):
        maximum = -np.inf
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            log_mu[a] = -np.inf if n_impossible[a] else finite[a]
            maximum = max(maximum, log_mu[a])
        if maximum == -np.inf:
            return False
        total = 0.0
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            total += np.exp(log_mu[a] - maximum)
        log_norm[v] = maximum + np.log(total)
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            mu[a] = np.exp(log_mu[a] - maximum) / total  # sums to one however large the logarithms are
            log_mu[a] -= log_norm[v]
    return True


@kernel
def _advance(digits, sizes, n_axes):
    """Advance `digits` to the next joint state, the last axis running fastest."""
    a = n_axes - 1
    while a >= 0:
        digits[a] += 1
        if digits[a] < sizes[a]:
            break
        digits[a] = 0
        a -= 1


@kernel
def factor_beliefs(model, state, log_mu, log_norm, mu, joint, checks):
    """Add every factor's marginals to its block of mu; return the objective <theta, mu> + H~(mu) (Bethe or TRW).

    With log mu_c = theta_c / rho_c + sum of log cavities - log Z_c the terms in theta_c cancel, and Domke2013
    Eq. (13) with (16), (17) becomes

        sum_i mu_i (theta_i - log mu_i) + sum_c rho_c (log Z_c - sum_{j in c} E_c[log cavity_j - log mu_j]).

    `checks[0]` becomes the largest difference between a variable's marginal and that of a factor at it (0 at a fixed
    point). `checks[1]` becomes an upper bound on log Z that holds for any messages if rho is a mean of forests: the
    beliefs reparametrise the model as K + sum_T rho(T) log p_T(x) over forests T, so that log Z is at most
    K + sum_T rho(T) log sum_x p_T(x) by Hoelder's inequality, and eliminating leaves shows that sum_x p_T(x) is at most
    the product over c in T of max_{i, x_i} mu_c(x_i) / mu_i(x_i), which is 1 where the marginals agree. `checks[2]`
    becomes the same sum with minima: on a forest with rho = 1, where log Z is K + log sum_x p(x), a lower bound.
    `checks[3]` becomes the sum of the sizes of all terms of K, to which their rounding is proportional; messages that
    diverge count too, since marginals are differences of them.

    Returns NaN if a factor has no possible joint state.
    """
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    theta, table_start, rho, message_ptr = model.theta, model.table_start, model.rho, model.message_ptr
    messages, n_impossible = state.messages, state.n_impossible
    sizes, digits, logs, marginal = state.sizes, state.digits, state.logs, state.weights
    objective = 0.0
    checks[:] = 0.0
    for v in range(log_norm.shape[0]):
        checks[1] += log_norm[v]
        checks[2] += log_norm[v]
        checks[3] += abs(log_norm[v])
    for a in range(log_mu.shape[0]):
        if mu[a] > 0.0:
            objective += mu[a] * (theta[a] - log_mu[a])
    for c in range(rho.shape[0]):
        first = scope_ptr[c]
        n_axes = scope_ptr[c + 1] - first
        size = 1
        largest = 0.0
        for a in range(n_axes):  # cavities up to a constant: mu_j / m_c
            v = scope_idx[first + a]
            sizes[a] = variable_ptr[v + 1] - variable_ptr[v]
            size *= sizes[a]
            digits[a] = 0
            for x in range(sizes[a]):
                marginal[a, x] = 0.0
                logs[a, x] = log_mu[variable_ptr[v] + x]
                if logs[a, x] > -np.inf:
                    logs[a, x] -= messages[message_ptr[first + a] + x]
                    largest = max(largest, abs(log_mu[variable_ptr[v] + x]), abs(logs[a, x]))
        maximum = -np.inf
        for e in range(size):
            value = theta[table_start[c] + e] / rho[c]
            for a in range(n_axes):
                value += logs[a, digits[a]]
            joint[e] = value
            maximum = max(maximum, value)
            _advance(digits, sizes, n_axes)
        if maximum == -np.inf:
            return np.nan
        total = 0.0
        for e in range(size):
            joint[e] = np.exp(joint[e] - maximum)
            total += joint[e]
        for e in range(size):
            joint[e] /= total
            mu[table_start[c] + e] += joint[e]
            for a in range(n_axes):
                marginal[a, digits[a]] += joint[e]
            _advance(digits, sizes, n_axes)
        log_total = maximum + np.log(total)
        highest, lowest = -np.inf, np.inf
        for a in range(n_axes):
            start = variable_ptr[scope_idx[first + a]]
            for x in range(sizes[a]):
                if marginal[a, x] > 0.0:
                    objective -= rho[c] * marginal[a, x] * (logs[a, x] - log_mu[start + x])
                checks[0] = max(checks[0], abs(marginal[a, x] - mu[start + x]))
                if n_impossible[start + x]:
                    continue
                if mu[start + x] > TINY and marginal[a, x] > TINY:
                    ratio = np.log(marginal[a, x] / mu[start + x])
                else:  # a quotient of two numbers that underflow
                    ratio = _log_marginal(theta, table_start[c], rho[c], sizes, n_axes, size, logs, digits, a, x)
                    ratio -= log_total + log_mu[start + x]
                highest, lowest = max(highest, ratio), min(lowest, ratio)
        objective += rho[c] * log_total
        checks[1] += rho[c] * (log_total + highest)
        checks[2] += rho[c] * (log_total + lowest)
        checks[3] += rho[c] * abs(log_total) + (largest if largest > DIVERGED else 0.0)
    return objective


@kernel
def _log_marginal(theta, start, rho, sizes, n_axes, size, logs, digits, axis, state):
    """Return the log of the unnormalised belief of one state of one axis; `digits` are all 0 before and after."""
    maximum = -np.inf
    total = 0.0
    for sweep in range(2):
        for e in range(size):
            if digits[axis] == state:
                value = theta[start + e] / rho
                for a in range(n_axes):
                    value += logs[a, digits[a]]
                if sweep == 0:
                    maximum = max(maximum, value)
                elif value > -np.inf:
                    total += np.exp(value - maximum)
            _advance(digits, sizes, n_axes)
    return -np.inf if maximum == -np.inf else maximum + np.log(total)


@kernel
def traversal_order(model, order, visited, factor_visited):
    """Fill `order` with all variables; each but the first of its component shares a factor with an earlier one."""
    pair_ptr, pair_idx, factor_of_pair = model.pair_ptr, model.pair_idx, model.factor_of_pair
    scope_ptr, scope_idx = model.scope_ptr, model.scope_idx
    n_ordered = 0
    for root in range(order.shape[0]):
        if visited[root]:
            continue
        visited[root] = True
        order[n_ordered] = root
        head = n_ordered
        n_ordered += 1
        while head < n_ordered:
            v = order[head]
            head += 1
            for k in range(pair_ptr[v], pair_ptr[v + 1]):
                c = factor_of_pair[pair_idx[k]]
                if factor_visited[c]:
                    continue
                factor_visited[c] = True
                for q in range(scope_ptr[c], scope_ptr[c + 1]):
                    u = scope_idx[q]
                    if not visited[u]:
                        visited[u] = True
                        order[n_ordered] = u
                        n_ordered += 1


@kernel
def decode_in_order(order, model, state, labels):
    """Label variables one after the other, each given those before it; exact on forests, also with ties.

    A factor none of whose variables is labelled yet contributes its message; any other contributes its scores with the
    labels put in, maximised over its other variables. `labels` is -1 on entry.
    """
    pair_ptr, pair_idx, factor_of_pair = model.pair_ptr, model.pair_idx, model.factor_of_pair
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    theta, table_start, rho, message_ptr = model.theta, model.table_start, model.rho, model.message_ptr
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    sizes, digits, logs, best, score = state.sizes, state.digits, state.logs, state.row, state.shift
    for k in range(order.shape[0]):
        i = order[k]
        n = variable_ptr[i + 1] - variable_ptr[i]
        for x in range(n):
            score[x] = theta[variable_ptr[i] + x]
        for j in range(pair_ptr[i], pair_ptr[i + 1]):
            p = pair_idx[j]
            c = factor_of_pair[p]
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
                    state = variable_ptr[v] + x
                    value = 0.0
                    if labels[v] >= 0:
                        value = 0.0 if labels[v] == x else -np.inf
                    elif v != i:
                        value = -np.inf if n_impossible[state] else finite[state] - messages[message_ptr[first + a] + x]
                    logs[a, x] = value
            for x in range(n):
                best[x] = -np.inf if labelled else messages[message_ptr[p] + x]
            for e in range(size if labelled else 0):
                value = theta[table_start[c] + e] / rho[c]
                for a in range(n_axes):
                    value += logs[a, digits[a]]
                best[digits[p - first]] = max(best[digits[p - first]], value)
                _advance(digits, sizes, n_axes)
            for x in range(n):
                score[x] += rho[c] * best[x]
        labels[i] = 0
        for x in range(1, n):
            if score[x] > score[labels[i]]:
                labels[i] = x
