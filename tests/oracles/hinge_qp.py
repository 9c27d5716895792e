"""Minimum of a hinge-loss MRF by an interior-point method for quadratic programs (Clarabel)."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy.sparse import csc_matrix, eye_array, vstack


def minimise_hinges(model, tol=1e-10):
    """Return (x, objective), or (None, inf) if the constraints contradict each other.

    Columns are x and a slack s per term: minimise the weighted s or s^2, with s >= 0, s >= the term, 0 <= x <= 1.
    """
    n, m = model.n_variables, model.n_terms
    squared = model.power == 2
    quadratic = np.concatenate([np.zeros(n), np.where(squared, 2.0 * model.weight, 0.0)])
    linear = np.concatenate([np.zeros(n), np.where(squared, 0.0, model.weight)])
    blocks, right, cones = [], [], []
    if model.equalities is not None and model.equalities.n_rows:
        blocks.append(_padded(model.equalities.to_scipy(n), m))
        right.append(-model.equalities.const)
        cones.append(clarabel.ZeroConeT(model.equalities.n_rows))
    at_most = [(_beside(model.terms.to_scipy(n), -np.eye(m)), -model.terms.const)]
    if model.inequalities is not None:
        at_most.append((_padded(model.inequalities.to_scipy(n), m), -model.inequalities.const))
    identity = eye_array(n + m, format="csc")
    at_most += [(-identity, np.zeros(n + m)), (identity[:n], np.ones(n))]
    blocks += [matrix for matrix, _ in at_most]
    right += [bound for _, bound in at_most]
    cones.append(clarabel.NonnegativeConeT(sum(matrix.shape[0] for matrix, _ in at_most)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    solver = clarabel.DefaultSolver(
        csc_matrix(np.diag(quadratic)), linear, csc_matrix(vstack(blocks)), np.concatenate(right), cones, settings
    )
    solution = solver.solve()
    if "Infeasible" in str(solution.status):
        return None, np.inf
    assert "Solved" in str(solution.status), solution.status
    x = np.clip(np.array(solution.x[:n]), 0.0, 1.0)
    return x, float(solution.obj_val)


def _beside(left, right):
    return csc_matrix(np.hstack([left.toarray(), right]))


def _padded(matrix, width):
    return _beside(matrix, np.zeros((matrix.shape[0], width)))
