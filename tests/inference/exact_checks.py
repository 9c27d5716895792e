"""Properties of every result of an exact method, checked against plain enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model

import intarsia


def check_against_enumeration(graph, theta, method, *, evidence=None, temperature=1.0, n_best=7, **settings):
    truth = enumerate_model(graph, theta, evidence, temperature)
    more = {"evidence": evidence, **settings}
    result = intarsia.infer(graph, theta, method, temperature=temperature, n_best=n_best, n_samples=3, **more)
    best = intarsia.infer(graph, theta, method, task="map", n_best=n_best, **more)
    if truth.log_partition == -np.inf:
        for answer in (result, best):
            assert answer.status is intarsia.Status.INFEASIBLE
            assert answer.upper_bound == -np.inf
        assert result.log_partition == -np.inf
        return
    size = max(1.0, np.abs(truth.scores).max())  # scores of +-1000 have larger absolute rounding errors
    assert result.status is intarsia.Status.EXACT
    assert result.log_partition_is == "exact"
    assert result.log_partition == pytest.approx(truth.log_partition, rel=1e-11, abs=1e-11)
    assert result.lower_bound == result.upper_bound == result.log_partition
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-12 * size * max(1, graph.n_factors))
    for c in range(graph.n_factors):
        np.testing.assert_allclose(result.factor_marginals(c), truth.factor_marginals[c], atol=1e-12 * size)
    possible = {tuple(y) for y in truth.labellings.tolist()}
    assert {tuple(y) for y in result.samples.tolist()} <= possible
    assert best.status is intarsia.Status.EXACT
    assert best.score == pytest.approx(truth.best_score, rel=1e-12, abs=1e-12 * size)
    assert best.upper_bound == pytest.approx(truth.best_score, rel=1e-12, abs=1e-12 * size)
    for answer in (result, best):
        labellings = {tuple(y) for y in answer.best.tolist()}
        assert len(labellings) == len(answer.best)
        assert labellings <= possible
        expected = np.sort(truth.scores)[::-1][:n_best]
        np.testing.assert_allclose(answer.best_scores, expected, rtol=1e-12, atol=1e-12 * size)


def check_samples(graph, theta, method, *, n_samples=20_000, **settings):
    """Check the frequencies of complete labellings with Pearson's chi-squared statistic."""
    truth = enumerate_model(graph, theta)
    draws = intarsia.infer(graph, theta, method, n_samples=n_samples, random_state=7, **settings).samples
    number = {tuple(y): i for i, y in enumerate(truth.labellings.tolist())}
    counts = np.bincount([number[tuple(y)] for y in draws.tolist()], minlength=len(number))
    expected = n_samples * np.exp(truth.scores - truth.log_partition)
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], max(expected[~common].sum(), 1e-9))
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1.0)).sum()
    freedom = common.sum()
    assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 5
    again = intarsia.infer(graph, theta, method, n_samples=n_samples, random_state=7, **settings).samples
    np.testing.assert_array_equal(draws, again)
