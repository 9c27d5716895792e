"""Minimum of a small hinge-loss model as a quadratic program with a slack for each hinge, by SLSQP."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def solve_hinge_program(model):
    """Return (minimum, x), for up to about twenty variables and terms."""
    n, m = model.n_variables, model.n_terms
    rows = model.terms.to_scipy(n).toarray()
    squared = model.power == 2

    def value(v):
        slack = v[n:]
        return float(model.weight @ np.where(squared, slack * slack, slack))

    def slope(v):
        slack = v[n:]
        return np.concatenate([np.zeros(n), model.weight * np.where(squared, 2.0 * slack, 1.0)])

    above = np.hstack([-rows, np.eye(m)])  # slack - rows x - const >= 0
    constraints = [{"type": "ineq", "fun": lambda v: above @ v - model.terms.const, "jac": lambda v: above}]
    for limits, kind in ((model.equalities, "eq"), (model.inequalities, "ineq")):
        if limits is not None and limits.n_rows:
            matrix = -np.hstack([limits.to_scipy(n).toarray(), np.zeros((limits.n_rows, m))])
            constraints.append(
                {
                    "type": kind,
                    "fun": lambda v, a=matrix, b=limits.const: a @ v - b,
                    "jac": lambda v, a=matrix: a,
                }
            )
    start = np.full(n, 0.5)
    start = np.concatenate([start, np.maximum(model.terms.values(start), 0.0)])
    best = minimize(
        value,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * n + [(0.0, None)] * m,
        constraints=constraints,
        options={"ftol": 1e-15, "maxiter": 500},
    )
    x = np.clip(best.x[:n], 0.0, 1.0)
    return model.objective(x), x
