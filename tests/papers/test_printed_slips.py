"""Errors in the printed text of the papers, each checked numerically by enumeration or a small loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import intarsia
from intarsia.energies import Count, MeasuredEnergy, Squared

LABELLINGS = np.array(list(itertools.product([0, 1], repeat=3)))
COUNTS = LABELLINGS.sum(axis=1).astype(float)  # the statistic a . S(y) of the energy


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def chain_scores(seed):
    """Scores of all labellings of a binary chain of three, with its graph and theta."""
    graph = intarsia.chain_graph(3, 2)
    theta = np.random.default_rng(seed).normal(size=graph.n_theta)
    return graph, theta, np.array([graph.score(theta, labels) for labels in LABELLINGS])


@pytest.mark.parametrize("seed", range(5))
def test_jensen_in_eq_25_of_bethe_projections_runs_the_other_way(seed):
    # P_c is proportional to exp(theta . S - L), Eq. 8 with its sign corrected, for the convex L = 3 (count - 1)^2.
    graph, theta, scores = chain_scores(seed)
    energy = 3.0 * (COUNTS - 1.0) ** 2
    log_z = float(np.logaddexp.reduce(scores - energy))
    rng = np.random.default_rng(100 + seed)
    for concentration in (0.1, 1.0, 10.0):
        q = rng.dirichlet(np.full(len(LABELLINGS), concentration))
        q = np.maximum(q, 1e-300)
        kl = float(q @ (np.log(q) - (scores - energy - log_z)))
        objective = float(q @ np.log(q) - q @ scores + 3.0 * (q @ COUNTS - 1.0) ** 2)
        assert objective <= kl - log_z + 1e-12  # a lower bound on the KL divergence, up to the constant log Z
    # So its minimum is at most -log Z, and the library's value, minus that minimum, at least log Z.
    preference = MeasuredEnergy(Count(1), Squared(1.0), psi=3.0)
    result = intarsia.infer(graph, theta, intarsia.BetheMirrorDescent(energy=preference, tol=1e-10))
    assert result.log_partition >= log_z - 1e-9


def test_eq_16_of_bethe_projections_has_one_derivative_too_many():
    # log Q(y) in psi with mu held fixed; Q has the scores theta . S - psi l'(a . mu) a . S, l(t) = (t - 1)^2.
    _, _, scores = chain_scores(0)
    mean, observed, step = 2.2, 3, 1e-6  # a . mu, and the labelling whose likelihood is asked for
    slope = 2.0 * (mean - 1.0)

    def log_q(psi):
        return float(np.log(softmax(scores - psi * slope * COUNTS)[observed]))

    measured = (log_q(0.7 + step) - log_q(0.7 - step)) / (2.0 * step)
    expected_count = float(softmax(scores - 0.7 * slope * COUNTS) @ COUNTS)
    once = -slope * (COUNTS[observed] - expected_count)
    assert measured == pytest.approx(once, rel=1e-6)
    assert abs(measured - slope * once) > 0.1 * abs(measured)  # as printed: the slope twice
    assert abs(measured + once) > 0.1 * abs(measured)  # as printed: without the minus


def test_definition_5_of_samplerank_counts_more_than_its_proof_bounds():
    # Three states with F 2 > 1 > 0. The walk alternates between the first two, which weights of one update rank.
    features = np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 1.0]])
    performance = np.array([2.0, 1.0, 0.0])
    best = np.array([0.1, -1.0])  # ranks all three, so that the set is separable
    assert (np.diff(features @ best) < 0).all()
    worse = [(i, j) for i in range(3) for j in range(3) if performance[j] < performance[i]]
    differences = np.array([features[i] - features[j] for i, j in worse])
    margin = -minimize(
        lambda u: -(differences @ u).min() / np.linalg.norm(u), best, method="Nelder-Mead", options={"maxiter": 5000}
    ).fun
    bound = (np.linalg.norm(differences, axis=1).max() / margin) ** 2
    weights, updates, errors = np.zeros(2), 0, 0
    for _ in range(int(10 * bound)):
        errors += bool((weights @ features[0] < features[1:] @ weights).any())  # Definition 5, at the state 0
        if weights @ (features[0] - features[1]) <= 0.0:  # the pair that the walk compares
            weights += features[0] - features[1]
            updates += 1
    assert updates == 1 <= bound
    assert errors > bound  # state 2, never proposed, outscores state 0 each time


def dual_averaging(theta, counts, beta, n_iter):
    """Algorithm 1 of Bethe projections for one distribution of walkers over cells, with Poisson counts."""
    share = counts / counts.sum()
    mu, total = softmax(theta), np.zeros_like(theta)
    for t in range(1, n_iter + 1):
        total -= share / np.maximum(mu, 1e-300)
        mu = softmax(theta - total / (t + beta))
    return mu


@pytest.mark.parametrize(("spread", "sticking", "moving"), [(1.0, 0.0, 20.0), (3.0, 20.0, 450.0)])
def test_algorithm_1_of_bethe_projections_sticks_where_beta_is_small_beside_the_slopes(spread, sticking, moving):
    rng = np.random.default_rng(0)
    theta, counts = spread * rng.normal(size=20), rng.poisson(50, 20).astype(float)
    share = counts / counts.sum()

    def objective(log_mu):
        mu = softmax(log_mu)
        return float(mu @ np.log(mu) - theta @ mu - share @ np.log(mu))

    optimum = softmax(minimize(objective, np.log(share), options={"gtol": 1e-8}).x)

    def off(beta, n_iter):
        return float(np.abs(dual_averaging(theta, counts, beta, n_iter) - optimum).max())

    assert off(sticking, 2000) > 0.5
    assert off(moving, 20_000) < 0.05
    assert off(moving, 20_000) < off(moving, 2000)
