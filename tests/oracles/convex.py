"""The tree-reweighted objective on a binary pairwise graph, maximised by SciPy's SLSQP over the local polytope."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def solve_tree_reweighted(graph, theta, rho):
    """Return (value, node marginals P(x=1), edge marginals (E, 2, 2)); optimise P(x_i=1) and P(x_i=1, x_j=1)."""
    n, edges = graph.n_variables, graph.scope_idx.reshape(-1, 2)
    unary = theta[: 2 * n].reshape(n, 2)
    tables = np.stack([graph.factor_table(theta, c) for c in range(graph.n_factors)])

    def expand(z):
        p, q = z[:n], z[n:]
        a, b = p[edges[:, 0]], p[edges[:, 1]]
        joint = np.stack([np.stack([1 - a - b + q, b - q], 1), np.stack([a - q, q], 1)], 1)
        return np.stack([1 - p, p], 1), joint

    def negative_value(z):
        node, joint = expand(np.asarray(z))
        node, joint = np.maximum(node, 1e-15), np.maximum(joint, 1e-15)
        outer = node[edges[:, 0]][:, :, None] * node[edges[:, 1]][:, None, :]
        information = (joint * np.log(joint / outer)).sum(axis=(1, 2))
        value = (unary * node).sum() + (tables * joint).sum() - (node * np.log(node)).sum() - rho @ information
        return -value

    def gradient(z):
        node, joint = expand(z)
        node, joint = np.maximum(node, 1e-15), np.maximum(joint, 1e-15)
        d_node = unary - np.log(node) - 1
        d_joint = tables - rho[:, None, None] * (np.log(joint) + 1)
        grad = np.zeros_like(z)
        # mutual information: sum_x mu_c log(mu_c) - sum_i mu_i log(mu_i) inside the local polytope
        for e, (i, j) in enumerate(edges):
            d_node[i] += rho[e] * (np.log(node[i]) + 1)
            d_node[j] += rho[e] * (np.log(node[j]) + 1)
            d = d_joint[e]
            grad[i] += d[1, 0] - d[0, 0]
            grad[j] += d[0, 1] - d[0, 0]
            grad[n + e] += d[0, 0] - d[0, 1] - d[1, 0] + d[1, 1]
        grad[:n] += d_node[:, 1] - d_node[:, 0]
        return -grad

    start = np.concatenate([np.full(n, 0.5), np.full(len(edges), 0.25)])
    constraint = {"type": "ineq", "fun": lambda z: expand(z)[1].reshape(-1) - 1e-12}
    best = minimize(
        negative_value,
        start,
        jac=gradient,
        method="SLSQP",
        constraints=[constraint],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    node, joint = expand(best.x)
    return -best.fun, node, joint
