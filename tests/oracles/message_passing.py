"""Tree-reweighted message passing and its objective in plain NumPy, from Domke2013 Eq. 13 - 18."""

from __future__ import annotations

import numpy as np


def full_tables(graph, theta):
    return [np.asarray(graph.factor_table(theta, c)) for c in range(graph.n_factors)]


def start_messages(graph):
    return {
        (c, int(i)): np.full(graph.n_states[i], 1.0 / graph.n_states[i])
        for c in range(graph.n_factors)
        for i in graph.scope(c)
    }


def cavity(graph, theta, rho, messages, c, j):
    value = np.exp(graph.variable(theta, j))
    for d in range(graph.n_factors):
        if j in graph.scope(d):
            value = value * messages[d, j] ** rho[d]
    return value / messages[c, j]


def new_message(graph, theta, rho, messages, c, i):
    """Return the updated message of Eq. 18."""
    scope = [int(v) for v in graph.scope(c)]
    joint = np.exp(graph.factor_table(theta, c) / rho[c])
    for axis, j in enumerate(scope):
        if j != i:
            shape = [1] * len(scope)
            shape[axis] = -1
            joint = joint * cavity(graph, theta, rho, messages, c, j).reshape(shape)
    out = joint.sum(axis=tuple(a for a, j in enumerate(scope) if j != i))
    return out / out.sum()


def parallel_sweep(graph, theta, rho, messages):
    return {(c, i): new_message(graph, theta, rho, messages, c, i) for c, i in messages}


def forward_backward_sweep(graph, theta, rho, messages):
    """Update messages to the later variables of factors in ascending order, then to the first in descending order."""
    messages = dict(messages)
    up = sorted((i, c) for c, i in messages if i != min(graph.scope(c)))
    down = sorted(((i, c) for c, i in messages if i == min(graph.scope(c))), reverse=True)
    for i, c in up + down:
        messages[c, i] = new_message(graph, theta, rho, messages, c, i)
    return messages


def beliefs(graph, theta, rho, messages):
    nodes, factors = [], []
    for i in range(graph.n_variables):
        value = np.exp(graph.variable(theta, i))
        for c, j in messages:
            if j == i:
                value = value * messages[c, i] ** rho[c]
        nodes.append(value / value.sum())
    for c in range(graph.n_factors):
        scope = [int(v) for v in graph.scope(c)]
        joint = np.exp(graph.factor_table(theta, c) / rho[c])
        for axis, j in enumerate(scope):
            shape = [1] * len(scope)
            shape[axis] = -1
            joint = joint * cavity(graph, theta, rho, messages, c, j).reshape(shape)
        factors.append(joint / joint.sum())
    return nodes, factors


def objective(graph, theta, rho, nodes, factors):
    """Return the objective of Eq. 13 with Eq. 16 and 17."""

    def xlogx(p):
        return float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0)))

    total = 0.0
    for i, p in enumerate(nodes):
        total += float(np.sum(np.where(p > 0, p * graph.variable(theta, i), 0.0))) - xlogx(p)
    for c, q in enumerate(factors):
        table = np.asarray(graph.factor_table(theta, c))
        total += float(np.sum(np.where(q > 0, q * np.where(q > 0, table, 0.0), 0.0)))
        information = xlogx(q)
        for axis, j in enumerate(graph.scope(c)):
            marginal = q.sum(axis=tuple(a for a in range(q.ndim) if a != axis))
            information -= float(
                np.sum(np.where(marginal > 0, marginal * np.log(np.where(marginal > 0, nodes[j], 1.0)), 0.0))
            )
        total -= rho[c] * information
    return total


def statistics(graph, nodes, factors):
    """Return the expected statistics in the layout of theta."""
    mu = np.concatenate([*nodes, np.zeros(graph.n_theta - int(graph.variable_ptr[-1]))])
    unit = np.concatenate([np.zeros(int(graph.variable_ptr[-1])), np.ones(graph.n_theta - int(graph.variable_ptr[-1]))])
    for c, q in enumerate(factors):
        t = int(graph.table_of_factor[c])
        if graph.table_kind[t] == 0:
            mu[graph.table_ptr[t] : graph.table_ptr[t + 1]] += q.reshape(-1)
        else:
            mu[graph.table_ptr[t]] += (q * graph.factor_table(unit, c)).sum()
    return mu
