"""Inference with a global energy by optimisation over the simplex of all assignments.

`minimise over p:  sum_y p_y (log p_y - score_y) + L(sum_y p_y S(y))`, whose minimum is that of the marginal problem.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from tests.oracles.enumeration import enumerate_model


def all_statistics(graph, theta):
    """Return the labellings of finite score, their scores, and their statistics as rows."""
    truth = enumerate_model(graph, theta)
    return truth.labellings, truth.scores, np.stack([graph.statistics(y) for y in truth.labellings])


def certify(graph, theta, tilted_theta, value, gradient):
    """Return the objective of the tilted model, and a bound on its distance from the minimum.

    F is convex with gradient d = log p - score + S . grad L(mu), and strongly convex because of the entropy:
    F(q) >= F(p) + <d, q - p> + KL(q, p), whose minimum over q is F(p) - <d, p> - log sum p exp(-d).
    """
    labellings, scores, statistics = all_statistics(graph, theta)
    tilted = graph.score(tilted_theta, labellings)
    p = np.exp(tilted - tilted.max())
    p /= p.sum()
    mu = p @ statistics
    log_p = np.log(np.maximum(p, 1e-300))
    d = log_p - scores + statistics @ gradient(mu)
    d -= p @ d
    return float(p @ (log_p - scores) + value(mu)), float(np.log(p @ np.exp(-d)))


def solve_smooth(graph, theta, value, gradient, temperature=1.0):
    """Return (minimum, mu) for a differentiable convex L, by BFGS in unconstrained softmax coordinates."""
    _, scores, statistics = all_statistics(graph, theta)

    def objective(z):
        p = np.exp(z - z.max())
        p = np.maximum(p / p.sum(), 1e-300)
        mu = p @ statistics
        f = p @ (temperature * np.log(p) - scores) + value(mu)
        slope = temperature * np.log(p) - scores + statistics @ gradient(mu)
        return f, p * (slope - p @ slope)

    best = minimize(objective, scores / temperature, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    p = np.exp(best.x - best.x.max())
    p /= p.sum()
    return float(best.fun), p @ statistics


def solve_penalised(graph, theta, terms):
    """Return (minimum, mu) for energies with kinks, by SLSQP with slacks for both extreme slopes.

    `terms` is a list of (a, shift, low, high, psi): psi max(low r, high r) of r = a . mu - shift, low <= 0 <= high.
    The slacks satisfy s_i >= slope (a_i . mu - shift). psi = inf makes a term a constraint.
    """
    _, scores, statistics = all_statistics(graph, theta)
    n, soft = scores.size, [t for t in terms if np.isfinite(t[4])]
    strengths = np.array([t[4] for t in soft])

    def objective(x):
        p, s = np.maximum(x[:n], 1e-300), x[n:]
        return p @ (np.log(p) - scores) + strengths @ s

    def slope(x):
        return np.concatenate([np.log(np.maximum(x[:n], 1e-300)) + 1.0 - scores, strengths])

    rows, offsets = [], []
    for a, shift, low, high, psi in terms:
        along = statistics @ a
        for u in (low, high):
            if u == 0.0:
                continue
            row = np.zeros(n + len(soft))
            row[:n] = -u * along
            if np.isfinite(psi):
                row[n + [id(t[0]) for t in soft].index(id(a))] = 1.0
            rows.append(row)
            offsets.append(u * shift)
    matrix, offset = np.array(rows), np.array(offsets)
    p0 = np.exp(scores - scores.max())
    p0 /= p0.sum()
    s0 = [max(0.0, low * (p0 @ statistics @ a - b), high * (p0 @ statistics @ a - b)) for a, b, low, high, _ in soft]
    best = minimize(
        objective,
        np.concatenate([p0, s0]),
        jac=slope,
        method="SLSQP",
        bounds=[(1e-14, 1.0)] * n + [(0.0, None)] * len(soft),
        constraints=[
            {"type": "eq", "fun": lambda x: x[:n].sum() - 1.0, "jac": lambda x: np.r_[np.ones(n), np.zeros(len(soft))]},
            {"type": "ineq", "fun": lambda x: matrix @ x + offset, "jac": lambda x: matrix},
        ],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return float(best.fun), best.x[:n] @ statistics
