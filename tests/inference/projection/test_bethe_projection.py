"""Common properties of the Bethe projections: optimum, tilted model, reduced graphs, limits, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import LOOPY, SMOOTH, ask, check_is_the_tilted_model, smooth_optimum, solve
from tests.oracles.global_energy import certify, solve_smooth
from tests.zoo import ZOO

import intarsia
from intarsia import Status
from intarsia._core.clock import Clock
from intarsia.energies import Count, FunctionEnergy, Hinge, MeasuredEnergy, Squared, exactly_one
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.projection.bethe_projection import largest_difference

METHODS = ["bethe_rda", "bethe_mirror_descent", "bethe_accelerated", "bethe_dual"]
every_method = pytest.mark.parametrize("method", METHODS)


def settings(method):
    """Return settings with few iterations for dual averaging, which needs ten times as many per digit."""
    return {"max_iter": 300, "tol": 1e-3} if method == "bethe_rda" else {}


def close(method):
    return 2e-4 if method == "bethe_rda" else 1e-6


@every_method
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_energies_reach_the_optimum_of_an_independent_solver(method, name):
    least, mu = smooth_optimum(name)
    many = {"max_iter": 3000, "tol": 1e-5} if method == "bethe_rda" else {}
    result = solve(name, method, **many)
    assert -result.log_partition == pytest.approx(least, abs=1e-6)
    np.testing.assert_allclose(result.mu, mu, atol=2e-3)
    assert result.log_partition <= -least + 1e-9  # every iterate is a distribution
    assert result.upper_bound >= -least - 1e-9  # the tangents are lower bounds of the energy


@every_method
@pytest.mark.parametrize("model", LOOPY)
def test_energies_on_reduced_graphs(method, model):
    """Models with loops, one-state variables, unary and duplicate factors, parametric tables, hard zeros."""
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, energy=LOOPY[model], **settings(method))
    bound = check_is_the_tilted_model(result, LOOPY[model])[1]
    objective, excess = certify(graph, theta, result.tilted_theta, bound.value, bound.gradient)
    assert -result.log_partition == pytest.approx(objective, abs=1e-9)
    assert excess <= close(method)


@every_method
def test_energy_includes_evidence(method):
    graph, theta = chain()
    energy = ENERGIES["squared"]
    result = ask(graph, theta, method, energy=energy, names=BIO, evidence={1: 2}, **settings(method))
    clamped = theta.copy()
    graph.variable(clamped, 1)[:2] = -np.inf
    same = ask(graph, clamped, method, energy=energy, names=BIO, **settings(method))
    assert result.log_partition == pytest.approx(same.log_partition, abs=close(method))
    np.testing.assert_allclose(result.mu, same.mu, atol=100 * close(method))
    check_is_the_tilted_model(result, energy, BIO, {1: 2})


@every_method
def test_energy_of_fully_observed_models(method):
    graph, theta = chain()
    y = [1, 0, 1]
    energy = MeasuredEnergy(Count(1), Squared(0.0))
    result = ask(graph, theta, method, energy=energy, evidence=dict(enumerate(y)))
    assert result.log_partition == pytest.approx(graph.score(theta, y) - 2.0)


@every_method
@pytest.mark.parametrize("max_iter", [0, 1, 2, 5, 20])
def test_every_iterate_is_a_tilted_model(method, max_iter):
    energy = ENERGIES["segments"] if method != "bethe_accelerated" else ENERGIES["squared"]
    if method == "bethe_dual" and max_iter == 0:
        max_iter = 1
    graph, theta = chain()
    result = ask(graph, theta, method, energy=energy, names=BIO, max_iter=max_iter, tol=0.0)
    exact, bound = check_is_the_tilted_model(result, energy, BIO)
    # <theta, mu> + H(mu) - L(mu), with the entropy from the exact log Z of the tilted model
    entropy = exact.log_partition - result.tilted_theta @ exact.mu
    assert result.log_partition == pytest.approx(theta @ exact.mu + entropy - bound.value(exact.mu), abs=1e-9)
    assert result.n_iter <= max_iter
    for values in result.history.values():
        assert values.size == result.n_iter


@pytest.mark.parametrize("method", METHODS[:3])
def test_residual_is_the_distance_from_the_fixed_point(method):
    for max_iter in (3, 1000):
        result = solve("squared", method, max_iter=max_iter)
        bound = ENERGIES["squared"].bind(result.graph, BIO)
        theta = chain()[1]
        target = intarsia.infer(result.graph, theta - bound.gradient(result.mu), "brute_force").mu
        assert result.residual == pytest.approx(np.abs(result.mu - target).max(), abs=1e-9)
        assert result.converged == (result.residual <= result.method.tol)


@every_method
def test_shared_tables_and_single_factors(method):
    least = smooth_optimum("squared", shared=True)[0]
    result = solve("squared", method, shared=True, **settings(method))
    assert -result.log_partition == pytest.approx(least, abs=close(method))
    both = sum(result.factor_marginals(c) for c in range(2))
    np.testing.assert_allclose(result.graph.table(result.mu, 0), both, atol=1e-9)


@every_method
def test_temperature(method):
    graph, theta = chain()
    bound = ENERGIES["squared"].bind(graph, BIO)
    least = solve_smooth(graph, theta, bound.value, bound.gradient, temperature=0.5)[0]
    result = solve("squared", method, temperature=0.5, **settings(method))
    assert -result.log_partition == pytest.approx(least, abs=close(method))
    warmer = intarsia.infer(graph, result.tilted_theta, "brute_force", temperature=0.5)
    np.testing.assert_allclose(result.mu, warmer.mu, atol=1e-10)


@every_method
def test_map_samples_and_best_are_those_of_the_tilted_model(method):
    graph, theta = chain()
    marginals = solve("squared", method, n_samples=4000, n_best=3, random_state=0, **settings(method))
    exact = intarsia.infer(graph, marginals.tilted_theta, "brute_force", n_best=3)
    np.testing.assert_array_equal(marginals.best, exact.best)
    np.testing.assert_allclose(marginals.best_scores, exact.best_scores, atol=1e-9)
    np.testing.assert_allclose(graph.statistics(marginals.samples) / 4000, marginals.mu, atol=0.04)
    best = solve("squared", method, task="map", **settings(method))
    assert best.assignment.tolist() == exact.best[0].tolist()
    assert best.score == pytest.approx(graph.score(theta, best.assignment))
    np.testing.assert_allclose(best.tilted_theta, marginals.tilted_theta, atol=1e-9)


@every_method
def test_warm_start_from_the_optimum_converges_soon(method):
    first = solve("squared", method, **settings(method))
    again = solve("squared", method, warm_start=first, **settings(method))
    assert again.n_iter <= 3
    assert again.log_partition == pytest.approx(first.log_partition, abs=close(method))


@every_method
def test_warm_start_from_a_tilt_of_tables_that_the_energy_does_not_read(method):
    graph, theta = chain()
    few = {"names": BIO, **settings(method)}
    tables = ask(graph, theta, method, energy=ENERGIES["squared"], **few)
    energy = MeasuredEnergy(Count("O"), Squared(0.5), psi=3.0)
    cold = ask(graph, theta, method, energy=energy, **few)
    warm = ask(graph, theta, method, energy=energy, warm_start=tables, **few)
    np.testing.assert_allclose(warm.mu, intarsia.infer(graph, warm.tilted_theta, "brute_force").mu, atol=1e-10)
    assert warm.log_partition == pytest.approx(cold.log_partition, abs=close(method))


@every_method
def test_tree_reweighted_as_convex_oracle(method):
    """The oracle is exact on a tree, where its weights are 1, and an upper bound with another optimum on loops."""
    least = smooth_optimum("squared")[0]
    result = solve("squared", method, oracle="tree_reweighted", **settings(method))
    assert -result.log_partition == pytest.approx(least, abs=10 * close(method))
    graph, theta = ZOO["grid"]()
    loopy = ask(graph, theta, method, energy=LOOPY["grid"], oracle="tree_reweighted", **settings(method))
    exact = ask(graph, theta, "bethe_dual", energy=LOOPY["grid"])
    assert loopy.log_partition >= exact.log_partition - close(method)
    tilted = intarsia.infer(graph, loopy.tilted_theta, "tree_reweighted")
    np.testing.assert_allclose(loopy.mu, tilted.mu, atol=1e-6)


def test_all_methods_agree_with_the_tree_reweighted_oracle():
    graph, theta = ZOO["grid"]()
    values = [
        ask(graph, theta, m, energy=LOOPY["grid"], oracle="tree_reweighted", **settings(m)).log_partition
        for m in METHODS
    ]
    np.testing.assert_allclose(values[1:], values[-1], atol=1e-5)
    assert values[0] == pytest.approx(values[-1], abs=1e-3)


@every_method
def test_bound_energies_and_infeasible_models(method):
    graph, theta = chain()
    bound = ENERGIES["squared"].bind(graph, BIO)
    direct = ask(graph, theta, method, energy=bound, **settings(method))
    assert -direct.log_partition == pytest.approx(smooth_optimum("squared")[0], abs=close(method))
    other = intarsia.chain_graph(4, 3)
    with pytest.raises(InvalidInputError, match="bound to another graph"):
        intarsia.infer(other, other.zeros(), method, energy=bound)
    graph, theta = ZOO["infeasible"]()
    assert ask(graph, theta, method, energy=MeasuredEnergy(Count(1), Squared())).status is Status.INFEASIBLE


@every_method
def test_zero_psi_is_inference_without_energy(method):
    graph, theta = chain()
    result = ask(graph, theta, method, energy=MeasuredEnergy(Count(1), Squared(), psi=0.0))
    np.testing.assert_allclose(result.mu, intarsia.infer(graph, theta, "tree").mu, atol=1e-12)
    assert result.converged
    assert result.n_iter <= 1


def test_hard_zeros_are_preserved():
    graph, theta = ZOO["hard_implications"]()
    for method in METHODS:
        result = ask(graph, theta, method, energy=MeasuredEnergy(Count(0), Squared(4.0), psi=5.0))
        assert np.isneginf(result.tilted_theta[np.isneginf(theta)]).all()
        assert not result.mu[np.isneginf(theta)].any()


@every_method
def test_time_limit_returns_the_current_result(method, monkeypatch):
    calls = itertools.count()
    monkeypatch.setattr(Clock, "expired", property(lambda clock: next(calls) >= 3))  # on any machine
    graph = intarsia.chain_graph(400, 5)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    energy = MeasuredEnergy(Count(1), Squared(100.0), psi=3.0)
    result = ask(graph, theta, method, energy=energy, tol=0.0, max_iter=10**6, time_limit=1000.0)
    assert result.status is Status.TIME_LIMIT
    assert result.mu is not None


@every_method
def test_invalid_arguments_raise(method):
    graph, theta = chain()
    with pytest.raises(InvalidInputError, match="energy must be an Energy"):
        intarsia.infer(graph, theta, method, energy="at most one")
    with pytest.raises(InvalidInputError, match=r"MeanField is neither exact nor convex.*'auto'"):
        intarsia.infer(graph, theta, method, energy=exactly_one(1), oracle="mean_field")
    with pytest.raises(InvalidInputError, match="label='z' is not known"):
        intarsia.infer(graph, theta, method, energy=exactly_one("z"), names=BIO)
    with pytest.raises(NotSupportedError, match="n_samples needs an exact oracle"):
        intarsia.infer(graph, theta, method, energy=exactly_one(1), oracle="tree_reweighted", n_samples=3)
    hard = MeasuredEnergy(Count(1), Hinge(1.0), psi=np.inf)
    if method != "bethe_dual":
        with pytest.raises(NotSupportedError, match=r"psi\[0\] is infinite.*'bethe_dual'"):
            intarsia.infer(graph, theta, method, energy=hard)
    else:
        custom = FunctionEnergy(lambda mu, graph: 0.0, lambda mu, graph: 0 * mu)
        with pytest.raises(NotSupportedError, match="'bethe_mirror_descent'"):
            intarsia.infer(graph, theta, method, energy=custom)


@pytest.mark.parametrize("size", range(10))
def test_largest_difference(size):
    a, b = np.random.default_rng(size).standard_normal((2, size))
    assert largest_difference(a, b) == np.abs(a - b).max(initial=0.0)
