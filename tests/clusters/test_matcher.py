"""Log odds of pairs: minimum of the penalised likelihood, and pairs that all match or all differ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from intarsia.clusters.matcher import MAX_LOG_ODDS, PairMatcher, fit_matcher


def test_matcher_minimises_the_penalised_loss():
    """Compare with an independent optimiser on the labelled pairs, with features in units of standard deviations."""
    rng = np.random.default_rng(0)
    clusters = rng.integers(-1, 4, 30)
    pairs = np.column_stack(np.triu_indices(30, 1))
    same = clusters[pairs[:, 0]] == clusters[pairs[:, 1]]
    values = rng.normal(size=(len(pairs), 2)) * [1.0, 50.0] + same[:, None] * [1.0, 40.0]
    known = (clusters[pairs] >= 0).all(axis=1)
    X, sign = values[known] / values[known].std(axis=0), np.where(same[known], 1.0, -1.0)

    def risk(w):
        return np.logaddexp(0, -sign * (X @ w[:2] + w[2])).sum() + 0.5 * 2.0 * (w[:2] ** 2).sum()

    best = minimize(risk, np.zeros(3), tol=1e-10).x
    found = fit_matcher(values, pairs, clusters, l2=2.0)
    np.testing.assert_allclose(found.weights * values[known].std(axis=0), best[:2], atol=1e-3)
    assert found.intercept == pytest.approx(best[2], abs=1e-3)


@pytest.mark.parametrize(("clusters", "odds"), [([1, 1, 1], 3.5 / 0.5), ([1, 2, 3], 0.5 / 3.5), ([-1, -1, 3], 1.0)])
def test_all_or_no_pairs_match(clusters, odds):
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    found = fit_matcher(np.ones((3, 2)), pairs, np.array(clusters))
    assert found.log_odds(np.ones((1, 2))) == pytest.approx([np.log(odds)])


def test_log_odds_are_clipped():
    assert PairMatcher(np.array([100.0]), 0.0).log_odds(np.array([[1.0], [-1.0]])).tolist() == [
        MAX_LOG_ODDS,
        -MAX_LOG_ODDS,
    ]
