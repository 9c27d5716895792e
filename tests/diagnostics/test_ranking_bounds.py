"""Bounds on the errors of SampleRank against general optimizers and a perceptron."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from intarsia.diagnostics import ranking_bound, separable_ranking_bound
from intarsia.exceptions import InvalidInputError


@pytest.mark.parametrize("seed", range(4))
def test_bounds_agree_with_general_optimizers(seed):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=3)
    rows = rng.normal(size=(30, 3))
    rows *= np.sign(rows @ truth)[:, None]
    longest = np.linalg.norm(rows, axis=1).max()
    shortest = minimize(
        lambda w: w @ w, truth * 50.0, jac=lambda w: 2.0 * w, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        constraints={"type": "ineq", "fun": lambda w: rows @ w - 1.0, "jac": lambda w: rows},
    )  # fmt: skip
    assert separable_ranking_bound(rows) == pytest.approx(longest**2 * shortest.fun, rel=1e-4)
    assert ranking_bound(rows) <= separable_ranking_bound(rows) * (1.0 + 1e-6)
    rows[0] *= -1.0
    rows[1] = -rows[0]
    assert linprog(np.zeros(3), A_ub=-rows, b_ub=-np.ones(30), bounds=(None, None)).status == 2
    assert separable_ranking_bound(rows) is None

    def root(w):
        return longest * np.linalg.norm(w) + np.linalg.norm(np.maximum(1.0 - rows @ w, 0.0))

    best = min(minimize(root, rng.normal(size=3), method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-9}).fun
               for _ in range(3))  # fmt: skip
    assert ranking_bound(rows) == pytest.approx(min(30, best**2), rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_perceptron_makes_fewer_errors_than_the_bounds(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal([0.5, 0.0, 0.0], size=(200, 3))
    separable = rows * np.sign(rows @ [1.0, 0.5, -0.2])[:, None]
    for pairs, n_passes in ((rows, 1), (separable, 1), (separable, 50)):
        weights, errors = np.zeros(3), 0
        for row in np.tile(pairs, (n_passes, 1)):
            if row @ weights <= 0.0:
                weights, errors = weights + row, errors + 1
        assert errors <= (separable_ranking_bound(pairs) if n_passes > 1 else ranking_bound(pairs))
    assert separable_ranking_bound(rows) is None


@pytest.mark.parametrize("bound", [ranking_bound, separable_ranking_bound])
@pytest.mark.parametrize("differences", [[1.0, 2.0], [[np.nan]], np.zeros((2, 3)), np.zeros((0, 2))])
def test_differences_are_checked(bound, differences):
    with pytest.raises(InvalidInputError, match=rf"{bound.__name__}: differences must be a finite matrix"):
        bound(differences)
