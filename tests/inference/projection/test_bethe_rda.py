"""Regularised dual averaging: the updates of Algorithm 1, kinks, rates of convergence."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import KINKED, kinked_optimum, solve

import intarsia


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_iterates_follow_algorithm_1(beta):
    """The gradient is taken at the previous iterate, and theta_t = theta - t / (t + beta) x mean gradient."""
    graph, theta = chain()
    bound = ENERGIES["squared"].bind(graph, BIO)
    mu, slopes, values = intarsia.infer(graph, theta, "brute_force").mu, [], []
    for t in range(1, 7):
        slopes.append(bound.gradient(mu))
        tilted = theta - t / (t + beta) * np.mean(slopes, axis=0)
        model = intarsia.infer(graph, tilted, "brute_force")
        mu = model.mu
        entropy = model.log_partition - tilted @ mu
        values.append(theta @ mu + entropy - bound.value(mu))
    result = solve("squared", "bethe_rda", beta=beta, max_iter=6, tol=0.0)
    np.testing.assert_allclose(result.history["log_partition"], values, atol=1e-10)
    assert result.history["oracle_calls"].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]  # one per step


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_three_digits_at_kinks(name, beta):
    least = kinked_optimum(name)[0]
    result = solve(name, "bethe_rda", beta=beta, max_iter=3000, tol=1e-3)
    assert -result.log_partition == pytest.approx(least, abs=1e-3)
    assert (result.history["gap"] >= -least - result.history["log_partition"].max() - 1e-9).all()
    assert result.upper_bound >= -least - 1e-8


@pytest.mark.parametrize("name", KINKED)
def test_error_of_mean_iterates_is_at_most_log_t_over_t(name):
    least = kinked_optimum(name)[0]
    history = solve(name, "bethe_rda", max_iter=3000, tol=0.0).history["average_log_partition"]
    assert -history[-1] == pytest.approx(least, abs=2e-2)  # the returned iterate is much closer
    t = np.arange(1, history.size + 1)
    scaled = (-history - least) * t / np.log(t + 1.0)
    assert scaled[1000:].max() <= max(3.0 * scaled[10:200].max(), 1e-6)


def test_nonconvex_energies_reach_a_stationary_point():
    result = solve("words", "bethe_rda", max_iter=3000, tol=1e-4)
    assert result.converged
    assert np.isinf(result.history["gap"]).all()
