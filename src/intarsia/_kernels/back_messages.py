"""Backward pass of `messages.py`: from a gradient in the marginals to one in theta (Domke2013 Algorithm 3).

Adjoints are gradients with respect to log messages, so that nothing is divided by a message; an impossible state has
the adjoint 0. With the belief b_j = theta_j + sum_d rho_d log m_d the update of pair (c, i) reads

    log m_c(x_i) = log sum over x_{c - i} of exp(theta_c / rho_c + sum_{j in c - i} (b_j - log m_c(x_j))) - log Z,

so its adjoint nu, after the normalisation is differentiated, is distributed over the table in proportion to the
conditional probability of x_c given x_i. The adjoint of b_j is added to theta_j and, times rho_d, to every message at
j. Instead of adding it to all of them at once, `total` holds the adjoint of b_j so far, which is the gradient of
theta_j, and the adjoint of message p at j is `adjoint[p] + rho_p total[j]`. When the backward pass reaches the update
of p, it uses that sum, and `adjoint[p]` becomes minus the second term: one step for a message, however many factors
meet at the variable.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

TINY = 1e-250  # below this a linear-domain result is computed again in the log domain


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
def pull_variable_beliefs(mu, gradient, variable_ptr, total):
    """Add the adjoints of all beliefs, from the gradient in the variables' marginals (Algorithm 3, step 7).

    `total += mu (gradient - <mu, gradient>)` for each variable (Domke2013).
    """
    for v in range(variable_ptr.shape[0] - 1):
        mean = 0.0
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            if mu[a] > 0.0:
                mean += gradient[a] * mu[a]
        for a in range(variable_ptr[v], variable_ptr[v + 1]):
            if mu[a] > 0.0:
                total[a] += mu[a] * (gradient[a] - mean)


@kernel
def pull_factor_beliefs(mu, gradient, model, state, adjoints):
    """Add the adjoints of tables, beliefs and messages, from the gradient in the factors' marginals (step 6).

    With nu = mu_c (gradient_c - <mu_c, gradient_c>): nu / rho_c to the tables, the sums of nu over the other axes to
    the beliefs, and minus these sums to the messages.
    """
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    table_start, rho, message_ptr = model.table_start, model.rho, model.message_ptr
    sizes, digits = state.sizes, state.digits
    total, adjoint, theta_gradient = adjoints.beliefs, adjoints.messages, adjoints.theta
    for c in range(rho.shape[0]):
        first = scope_ptr[c]
        n_axes = scope_ptr[c + 1] - first
        size = 1
        for a in range(n_axes):
            v = scope_idx[first + a]
            sizes[a] = variable_ptr[v + 1] - variable_ptr[v]
            digits[a] = 0
            size *= sizes[a]
        mean = 0.0
        for e in range(table_start[c], table_start[c] + size):
            if mu[e] > 0.0:
                mean += gradient[e] * mu[e]
        for e in range(table_start[c], table_start[c] + size):
            if mu[e] > 0.0:
                nu = mu[e] * (gradient[e] - mean)
                theta_gradient[e] += nu / rho[c]
                for a in range(n_axes):
                    total[variable_ptr[scope_idx[first + a]] + digits[a]] += nu
                    adjoint[message_ptr[first + a] + digits[a]] -= nu
            _advance(digits, sizes, n_axes)


@kernel
def _raw_linear(table, start, sizes, n_axes, size, target, weights, digits, raw):
    """Compute an unnormalised message in `raw`: sums of the table times the weights of the other axes."""
    for x in range(sizes[target]):
        raw[x] = 0.0
    for e in range(start, start + size):
        value = table[e]
        for a in range(n_axes):
            value *= weights[a, digits[a]]
        raw[digits[target]] += value
        _advance(digits, sizes, n_axes)


@kernel
def _raw_logs(theta, start, scale, sizes, n_axes, size, target, logs, digits, raw, shift):
    """Compute the logarithm of an unnormalised message in `raw` by log-sum-exp, for models that may underflow."""
    for x in range(sizes[target]):
        raw[x] = 0.0
        shift[x] = -np.inf
    for sweep in range(2):
        for e in range(start, start + size):
            value = scale * theta[e]
            for a in range(n_axes):
                value += logs[a, digits[a]]
            x = digits[target]
            if sweep == 0:
                shift[x] = max(shift[x], value)
            elif value > -np.inf:
                raw[x] += np.exp(value - shift[x])
            _advance(digits, sizes, n_axes)
    for x in range(sizes[target]):
        raw[x] = shift[x] + np.log(raw[x]) if raw[x] > 0.0 else -np.inf


@kernel
def back_sweep_messages(order, damping, model, state, before, marginal, adjoints):
    """Propagate adjoints back through one sweep of updates in `order` (Domke2013 Algorithm 3, step 8).

    `state.messages` are reset to `before`, the messages before the sweep, and its gathered beliefs change with them.
    `adjoints` become the gradients with respect to `before`. `marginal` is scratch, a row for each axis. Returns the
    largest adjoint of an unnormalised log message; 0 when no gradient remains.
    """
    theta, exp_tables, exp_ptr, table_start = model.theta, model.exp_tables, model.exp_ptr, model.table_start
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    factor_of_pair, message_ptr, rho = model.factor_of_pair, model.message_ptr, model.rho
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    sizes, digits, logs, weights = state.sizes, state.digits, state.logs, state.weights
    raw, shift = state.row, state.shift
    total, adjoint, theta_gradient = adjoints.beliefs, adjoints.messages, adjoints.theta
    largest = 0.0
    for k in range(order.shape[0] - 1, -1, -1):
        p = order[k]
        c = factor_of_pair[p]
        first = scope_ptr[c]
        n_axes = scope_ptr[c + 1] - first
        target = p - first
        n = message_ptr[p + 1] - message_ptr[p]
        size = 1
        for a in range(n_axes):
            v = scope_idx[first + a]
            sizes[a] = variable_ptr[v + 1] - variable_ptr[v]
            digits[a] = 0
            size *= sizes[a]
            maximum = 0.0 if a == target else -np.inf
            for x in range(sizes[a]):
                logs[a, x] = 0.0
                marginal[a, x] = 0.0
                if a != target:
                    state = variable_ptr[v] + x
                    if n_impossible[state]:
                        logs[a, x] = -np.inf
                    else:
                        logs[a, x] = finite[state] - messages[message_ptr[first + a] + x]
                    maximum = max(maximum, logs[a, x])
            for x in range(sizes[a]):
                logs[a, x] -= maximum
                weights[a, x] = np.exp(logs[a, x])
        _raw_linear(exp_tables, exp_ptr[c], sizes, n_axes, size, target, weights, digits, raw)
        linear = True
        for x in range(n):  # a message of -inf is a true 0, anything else may be an underflow
            linear = linear and (raw[x] > TINY or messages[message_ptr[p] + x] == -np.inf)
        if not linear:
            _raw_logs(theta, table_start[c], 1.0 / rho[c], sizes, n_axes, size, target, logs, digits, raw, shift)
        maximum = -np.inf
        for x in range(n):
            shift[x] = np.log(raw[x]) if linear else raw[x]
            maximum = max(maximum, shift[x])
        norm = 0.0
        for x in range(n):
            norm += np.exp(shift[x] - maximum)
        norm = maximum + np.log(norm)
        # The adjoint of the undamped message, and the fraction of it that damping passes on to the old message.
        v = scope_idx[p]
        mean = 0.0
        for x in range(n):
            m, state = message_ptr[p] + x, variable_ptr[v] + x
            fresh, old = messages[m], before[m]
            gradient = adjoint[m] + rho[c] * total[state]
            adjoint[m] = -rho[c] * total[state]
            if damping > 0.0 and fresh > -np.inf:
                adjoint[m] += damping * np.exp(old - fresh) * gradient
                gradient *= (1.0 - damping) * np.exp(shift[x] - norm - fresh)
            weights[target, x] = gradient if shift[x] > -np.inf else 0.0
            mean += weights[target, x]
            # Restore the old message, and update the beliefs accordingly.
            n_impossible[state] += int(old == -np.inf) - int(fresh == -np.inf)
            if fresh > -np.inf:
                finite[state] -= rho[c] * fresh
            if old > -np.inf:
                finite[state] += rho[c] * old
            messages[m] = old
        for x in range(n):
            nu = 0.0
            if shift[x] > -np.inf:
                nu = weights[target, x] - np.exp(shift[x] - norm) * mean
            largest = max(largest, abs(nu))
            if linear:
                weights[target, x] = nu / raw[x] if nu != 0.0 else 0.0
            else:
                weights[target, x] = nu
                logs[target, x] = -shift[x] if nu != 0.0 else 0.0
        for e in range(size):  # the conditional probability of the entry given the target's state, times nu
            if linear:
                value = exp_tables[exp_ptr[c] + e]
                for a in range(n_axes):
                    value *= weights[a, digits[a]]
            else:
                value = theta[table_start[c] + e] / rho[c]
                for a in range(n_axes):
                    value += logs[a, digits[a]]
                nu = weights[target, digits[target]]
                value = nu * np.exp(value) if nu != 0.0 and value > -np.inf else 0.0
            theta_gradient[table_start[c] + e] += value / rho[c]
            for a in range(n_axes):
                marginal[a, digits[a]] += value
            _advance(digits, sizes, n_axes)
        for a in range(n_axes):
            if a != target:
                for x in range(sizes[a]):  # the factor rho_d - [c = d] of step 8e
                    total[variable_ptr[scope_idx[first + a]] + x] += marginal[a, x]
                    adjoint[message_ptr[first + a] + x] -= marginal[a, x]
    return largest
