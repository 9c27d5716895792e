"""Minimum of a hinge-loss MRF by an interior-point method for quadratic programs (Clarabel)."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy.sparse import csc_matrix, diags_array, eye_array, hstack, vstack


def minimise_hinges(model, tol=1e-10):
    """Return (x, objective), or (None, inf) if the constraints contradict each other.

    Columns are x and a slack s per term: minimise the sum of s or s^2, with s >= 0, s >= the term times its weight (or
    the root of the weight), 0 <= x <= 1.
    """
    n, m = model.n_variables, model.n_terms
    squared = model.power == 2
    counted = model.weight > 0.0
    scale = np.where(squared, np.sqrt(model.weight), model.weight)
    quadratic = diags_array(np.concatenate([np.zeros(n), np.where(squared & counted, 2.0, 0.0)]))
    linear = np.concatenate([np.zeros(n), np.where(squared, 0.0, counted)])
    blocks, right, cones = [], [], []
    if model.equalities is not None and model.equalities.n_rows:
        blocks.append(hstack([model.equalities.to_scipy(n), csc_matrix((model.equalities.n_rows, m))]))
        right.append(-model.equalities.const)
        cones.append(clarabel.ZeroConeT(model.equalities.n_rows))
    at_most = [(hstack([diags_array(scale) @ model.terms.to_scipy(n), -eye_array(m)]), -scale * model.terms.const)]
    if model.inequalities is not None and model.inequalities.n_rows:
        padding = csc_matrix((model.inequalities.n_rows, m))
        at_most.append((hstack([model.inequalities.to_scipy(n), padding]), -model.inequalities.const))
    identity = eye_array(n + m, format="csc")
    at_most += [(-identity, np.zeros(n + m)), (identity[:n], np.ones(n))]
    blocks += [matrix for matrix, _ in at_most]
    right += [bound for _, bound in at_most]
    cones.append(clarabel.NonnegativeConeT(sum(matrix.shape[0] for matrix, _ in at_most)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    solver = clarabel.DefaultSolver(
        csc_matrix(quadratic), linear, csc_matrix(vstack(blocks)), np.concatenate(right), cones, settings
    )
    solution = solver.solve()
    if "Infeasible" in str(solution.status):
        return None, np.inf
    assert "Solved" in str(solution.status), solution.status
    x = np.clip(np.array(solution.x[:n]), 0.0, 1.0)
    return x, float(solution.obj_val)
