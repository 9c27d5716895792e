"""Accelerated dual averaging: the rate of 1/t^2, fixed and backtracked constants, and unsupported energies."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import ask, smooth_optimum, solve

import intarsia
from intarsia.energies import Count, MeasuredEnergy, Squared
from intarsia.exceptions import NotSupportedError


def test_iterates_follow_algorithm_5():
    graph, theta = chain()
    bound = ENERGIES["squared"].bind(graph, BIO)
    constant = bound.lipschitz
    mu = nu = intarsia.infer(graph, theta, "brute_force").mu
    slope = 0.0
    for t in range(1, 6):
        c = 2.0 / (t + 1)
        slope = (1 - c) * slope + c * bound.gradient((1 - c) * mu + c * nu)
        tilted = theta - t * (t + 1) / (4 * constant + t * (t + 1)) * slope
        nu = intarsia.infer(graph, tilted, "brute_force").mu
        mu = (1 - c) * mu + c * nu
    entropy = intarsia.infer(graph, tilted, "brute_force").log_partition - tilted @ nu
    result = solve("squared", "bethe_accelerated", lipschitz=constant, restart=False, max_iter=5, tol=0.0)
    assert result.history["log_partition"][-1] == pytest.approx(theta @ nu + entropy - bound.value(nu), abs=1e-9)


@pytest.mark.parametrize("name", ["squared", "huber", "poisson_with_background"])
def test_gap_decreases_with_the_square_of_the_iterations(name):
    """The gap is at most 4 c D / t^2, where D is the divergence of the optimum from the start."""
    graph, theta = chain()
    bound = ENERGIES[name].bind(graph, BIO)
    least, mu = smooth_optimum(name)
    base = intarsia.infer(graph, theta, "brute_force")
    # KL(mu*, mu_0) = -H(mu*) - <theta, mu*> + log Z, and least = -<theta, mu*> - H(mu*) + L(mu*)
    divergence = least - bound.value(mu) + base.log_partition
    for n in (10, 40, 160):
        result = solve(name, "bethe_accelerated", lipschitz=bound.lipschitz, restart=False, max_iter=n, tol=0.0)
        # The rate holds for the mean, but another distribution is returned; twice the bound is a safe margin.
        assert -result.log_partition - least <= 8 * bound.lipschitz * divergence / n**2 + 1e-9


def test_strong_energies_need_fewer_calls_than_mirror_descent_with_safe_steps():
    graph = intarsia.chain_graph(30, 3)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    energy = MeasuredEnergy(Count(1), Squared(25.0), psi=5.0)
    constant = energy.bind(graph).lipschitz
    quick = ask(graph, theta, "bethe_accelerated", energy=energy, max_iter=3000)
    slow = ask(graph, theta, "bethe_mirror_descent", energy=energy, step_size=1.0 / constant, max_iter=3000)
    sure = ask(graph, theta, "bethe_dual", energy=energy)
    assert quick.converged
    assert quick.log_partition == pytest.approx(sure.log_partition, abs=1e-6)
    assert quick.history["oracle_calls"][-1] < slow.history["oracle_calls"][-1]


@pytest.mark.parametrize("name", ["hinge", "absolute", "interval"])
def test_error_for_kinks_has_a_remedy(name):
    with pytest.raises(NotSupportedError, match=r"kinks.*'bethe_dual'.*SmoothedHinge"):
        solve(name, "bethe_accelerated")


@pytest.mark.parametrize("name", ["words", "counts", "cross_clique", "sum"])
def test_error_for_nonconvex_energies_has_a_remedy(name):
    with pytest.raises(NotSupportedError, match=r"not convex.*'bethe_mirror_descent'"):
        solve(name, "bethe_accelerated")
