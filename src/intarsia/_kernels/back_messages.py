"""The reverse pass of `messages.py`: from a gradient in the marginals to one in theta (Domke2013 Algorithm 3).

Adjoints are those of log messages, so that nothing is divided by a message and an impossible state, which nothing
depends on, simply has 0. With the belief b_j = theta_j + sum_d rho_d log m_d the update of pair (c, i) reads

    log m_c(x_i) = log sum over x_{c - i} of exp(theta_c / rho_c + sum_{j in c - i} (b_j - log m_c(x_j))) - log Z,

so its adjoint nu, the normalisation taken out, spreads over the table in proportion to the conditional probability of
x_c given x_i. What arrives at b_j belongs to theta_j and, times rho_d, to every message at j. Instead of adding it to
all of them at once, `total` holds what has arrived at b_j so far, which is the gradient of theta_j, and the adjoint of
message p at j is `adjoint[p] + rho_p total[j]`; when the reverse pass meets the update of p, that is taken and
`adjoint[p]` becomes minus the second term: one step for a message, however many factors meet at the variable.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

TINY = 1e-250  # below this a linear-domain result is computed again in the log domain


@kernel
def _advance(digits, sizes, n_axes):
    """Next joint state, the last axis running fastest."""
    a = n_axes - 1
    while a >= 0:
        digits[a] += 1
        if digits[a] < sizes[a]:
            break
        digits[a] = 0
        a -= 1


@kernel
def pull_variable_beliefs(mu, gradient, variable_ptr, total):
    """Adjoints of all beliefs from the gradient in the variables' marginals (Domke2013 Algorithm 3, step 7)."""
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
    """The same for the factors' marginals (step 6): into `total`, `adjoint` and the tables' part of `pulled`."""
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    table_start, rho, message_ptr = model.table_start, model.rho, model.message_ptr
    sizes, digits = state.sizes, state.digits
    total, adjoint, pulled = adjoints.beliefs, adjoints.messages, adjoints.theta
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
                pulled[e] += nu / rho[c]
                for a in range(n_axes):
                    total[variable_ptr[scope_idx[first + a]] + digits[a]] += nu
                    adjoint[message_ptr[first + a] + digits[a]] -= nu
            _advance(digits, sizes, n_axes)


@kernel
def _raw_linear(table, start, sizes, n_axes, size, target, weights, digits, raw):
    """Unnormalised message to the target: sums of the table times the weights of the other axes."""
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
    """Its logarithm, in `raw`, where underflow threatens."""
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
    """Undo one sweep: `messages` (beliefs gathered) become `before`, adjoints those of `before` (step 8).

    Returns the largest adjoint met, normalisation taken out; 0 when nothing more comes back.
    """
    theta, exp_tables, exp_ptr, table_start = model.theta, model.exp_tables, model.exp_ptr, model.table_start
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    factor_of_pair, message_ptr, rho = model.factor_of_pair, model.message_ptr, model.rho
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    sizes, digits, logs, weights = state.sizes, state.digits, state.logs, state.weights
    raw, shift = state.row, state.shift
    total, adjoint, pulled = adjoints.beliefs, adjoints.messages, adjoints.theta
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
            top = 0.0 if a == target else -np.inf
            for x in range(sizes[a]):
                logs[a, x] = 0.0
                marginal[a, x] = 0.0
                if a != target:
                    state = variable_ptr[v] + x
                    if n_impossible[state]:
                        logs[a, x] = -np.inf
                    else:
                        logs[a, x] = finite[state] - messages[message_ptr[first + a] + x]
                    top = max(top, logs[a, x])
            for x in range(sizes[a]):
                logs[a, x] -= top
                weights[a, x] = np.exp(logs[a, x])
        _raw_linear(exp_tables, exp_ptr[c], sizes, n_axes, size, target, weights, digits, raw)
        linear = True
        for x in range(n):  # a message of -inf is a true 0, anything else may be an underflow
            linear = linear and (raw[x] > TINY or messages[message_ptr[p] + x] == -np.inf)
        if not linear:
            _raw_logs(theta, table_start[c], 1.0 / rho[c], sizes, n_axes, size, target, logs, digits, raw, shift)
        top = -np.inf
        for x in range(n):
            shift[x] = np.log(raw[x]) if linear else raw[x]
            top = max(top, shift[x])
        norm = 0.0
        for x in range(n):
            norm += np.exp(shift[x] - top)
        norm = top + np.log(norm)
        # The adjoint of the message that the update gave, and the part that damping passes on to the old one.
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
            # Back to the old message, and the beliefs in step.
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
            pulled[table_start[c] + e] += value / rho[c]
            for a in range(n_axes):
                marginal[a, digits[a]] += value
            _advance(digits, sizes, n_axes)
        for a in range(n_axes):
            if a != target:
                for x in range(sizes[a]):  # the factor rho_d - [c = d] of step 8e
                    total[variable_ptr[scope_idx[first + a]] + x] += marginal[a, x]
                    adjoint[message_ptr[first + a] + x] -= marginal[a, x]
    return largest
