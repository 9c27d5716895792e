"""Our logistic regression against scikit-learn's, and against the conditions of a minimum."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from intarsia.clusters.logistic_regression import fit_logistic_regression


@pytest.mark.parametrize("l2", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn(l2, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 4)) * rng.uniform(0.1, 3.0, 4)
    y = rng.random(200) < 1 / (1 + np.exp(-(X @ rng.normal(size=4) - 0.5)))
    coefficients, intercept = fit_logistic_regression(X, y, l2)
    peer = LogisticRegression(C=1 / l2, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, y)
    assert coefficients == pytest.approx(peer.coef_[0], rel=1e-6, abs=1e-8)
    assert intercept == pytest.approx(peer.intercept_[0], rel=1e-6, abs=1e-8)


def test_separable_rows_and_a_constant_feature():
    X = np.column_stack([np.r_[np.zeros(10), np.ones(10)], np.ones(20)])
    y = np.r_[np.zeros(10), np.ones(10)]
    coefficients, intercept = fit_logistic_regression(X, y, 0.01)
    scores = X @ coefficients + intercept
    residual = 1 / (1 + np.exp(-scores)) - y
    assert X.T @ residual + 0.01 * coefficients == pytest.approx(np.zeros(2), abs=1e-6)
    assert residual.sum() == pytest.approx(0.0, abs=1e-6)
    assert ((scores > 0) == y).all()
