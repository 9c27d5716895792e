"""Mirror descent: monotone decrease, kinks, nonconvex energies, structured mean field."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import KINKED, SMOOTH, ask, kinked_optimum, solve

import intarsia
from intarsia.energies import CrossCliqueEnergy, PoissonCounts


@pytest.mark.parametrize("name", [*SMOOTH, "poisson", "words", "cross_clique", "function"])
def test_objective_never_increases_and_the_result_is_stationary(name):
    result = solve(name, "bethe_mirror_descent")
    values = result.history["log_partition"]
    assert (np.diff(values) >= -1e-9 * (1.0 + np.abs(values[1:]))).all()
    assert result.converged
    graph, theta = chain()
    bound = ENERGIES[name].bind(graph, BIO)
    target = intarsia.infer(graph, theta - bound.gradient(result.mu), "brute_force").mu
    np.testing.assert_allclose(result.mu, target, atol=2e-6)


def test_steps_follow_algorithm_4():
    graph, theta = chain()
    bound = ENERGIES["squared"].bind(graph, BIO)
    eta = 0.2
    tilted, mu = theta, intarsia.infer(graph, theta, "brute_force").mu
    for _ in range(4):
        tilted = (eta * (theta - bound.gradient(mu)) + tilted) / (1 + eta)
        mu = intarsia.infer(graph, tilted, "brute_force").mu
    result = solve("squared", "bethe_mirror_descent", step_size=eta, max_iter=4, tol=0.0)
    np.testing.assert_allclose(result.tilted_theta, tilted, atol=1e-10)


@pytest.mark.parametrize("name", KINKED)
def test_three_digits_at_kinks(name):
    least = kinked_optimum(name)[0]
    result = solve(name, "bethe_mirror_descent", max_iter=3000, tol=1e-3)
    assert -result.log_partition == pytest.approx(least, abs=1e-3)


def test_equals_mean_field_on_graphs_without_factors():
    """With the cliques of a loopy model as an energy on isolated variables, it finds a mean-field solution."""
    graph = intarsia.graph.complete_graph(4, 2)
    theta = 0.5 * np.random.default_rng(2).standard_normal(graph.n_theta)
    cliques = [(tuple(graph.scope(c).tolist()), graph.table(theta, c)) for c in range(graph.n_factors)]
    loose = intarsia.from_edges(2, [], n_variables=4)
    result = ask(loose, theta[:8], "bethe_mirror_descent", energy=CrossCliqueEnergy(cliques), tol=1e-9)
    other = intarsia.infer(graph, theta, "mean_field", tol=1e-12)
    np.testing.assert_allclose(result.mu, other.mu[:8], atol=1e-6)
    assert result.log_partition == pytest.approx(other.log_partition, abs=1e-7)


def test_counts_of_walkers_without_background():
    """Poisson counts have no Lipschitz constant; with backtracking the optimum equals that of the dual."""
    graph, theta = chain()
    energy = PoissonCounts([[30, 0, 5], [2, 20, 0], [0, 0, 44]], rate=40.0)
    primal = ask(graph, theta, "bethe_mirror_descent", energy=energy)
    dual = ask(graph, theta, "bethe_dual", energy=energy)
    assert primal.log_partition == pytest.approx(dual.log_partition, abs=1e-7)
    assert dual.history["gap"][-1] < 1e-6
