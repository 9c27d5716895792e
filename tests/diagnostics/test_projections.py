"""Energies are examined: convergence, gap and enumeration of their projections, for chains and graphs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from intarsia import BetheMirrorDescent, ChainCRF, GraphCRF, diagnose
from intarsia.crf.graph_energies import project_graph
from intarsia.diagnostics.projections import best_by_enumeration, check_projections, projections_of
from intarsia.energies import Count, MeasuredEnergy, Squared, Transitions, at_most_one
from intarsia.graph import chain_graph
from intarsia.learning import RiskMinimizer

EXACT = RiskMinimizer(loss="likelihood", l2=0.1)


def one_title(n, seed=0, shuffled=False):
    """Sequences of five words with one title each, and a word that usually shows it."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.where(np.arange(5) == rng.integers(5), "title", "other")
        X.append([[f"w{int(name == 'title') if rng.random() < 0.9 else rng.integers(2)}"] for name in labels])
        y.append((rng.permutation(labels) if shuffled else labels).tolist())
    return X, y


def energy(psi):
    return MeasuredEnergy(Count("title"), Squared(1.0), psi=psi)


def chain(psi, **settings):
    return ChainCRF(energies=[energy(psi)], energy_learner=None, **settings)


def as_graphs(X):
    steps = [[t, t + 1] for t in range(4)]
    return [(np.array([[word == "w1", 1.0] for (word,) in x], dtype=float), steps) for x in X]


def graphs(psi):
    return GraphCRF(learner=EXACT, inference="tree", energies=[energy(psi)], energy_learner=None)


def test_energies_whose_projection_converges_fit():
    X, y = one_title(30)
    for estimator, data in ((chain(5.0), X), (graphs(5.0), as_graphs(X))):
        found = diagnose(estimator, data, y, n_examples=30)
        assert found.verdict == "fits"
        check = found.check("projection")
        assert check.verdict == "good"
        assert check.values["converged"] == check.values["convex"] == 1.0
        assert check.values["largest shortfall"] < 1e-3
        assert not hasattr(estimator, "weights_")


def test_energies_whose_projection_does_not_converge_fail():
    X, y = one_title(30)
    for estimator, data in ((chain(1e6), X), (graphs(1e6), as_graphs(X))):
        found = diagnose(estimator, data, y, n_examples=30)
        assert found.verdict == "fails"
        assert found.reasons[0].startswith("projection: 0 of 30 projections converge")
        assert found.check("projection").values["largest shortfall"] > 1.0


def test_chains_with_shuffled_labels_do_not_fit():
    found = diagnose(chain(5.0), *one_title(30, shuffled=True), n_examples=30)
    assert found.verdict == "fails"
    assert "works no better than guessing the most frequent label" in found.reasons[0]


def test_held_out_errors_of_chains_are_those_of_the_majority():
    """Four of five labels are "other" in every sequence, hidden labels count neither as right nor as wrong."""
    X, y = one_title(20)
    y[0] = [None, *y[0][1:]]
    check = diagnose(chain(5.0), X, y).check("held-out error")
    assert check.arrays["labelled"].tolist() == [4.0] + 19 * [5.0]
    assert check.arrays["majority"].tolist() == [float("title" in y[0][1:])] + 19 * [1.0]


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_by_enumeration_is_that_of_an_independent_solver(seed):
    rng = np.random.default_rng(seed)
    graph = chain_graph(3, 2)
    theta = rng.normal(size=graph.n_theta)
    bound = (energy(4.0) + MeasuredEnergy(Transitions("other", "title"), Squared(0.2), psi=2.0)).bind(
        graph, ["other", "title"]
    )
    labellings = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    scores = np.array([graph.statistics(y) @ theta for y in labellings])
    titles, starts = labellings.sum(axis=1), ((labellings[:, :-1] == 0) & (labellings[:, 1:] == 1)).sum(axis=1)

    def loss(z):
        p = np.exp(z - np.logaddexp.reduce(z))
        return p @ (np.log(p) - scores) + 2.0 * (p @ titles - 1.0) ** 2 + (p @ starts - 0.2) ** 2

    expected = -minimize(loss, scores, tol=1e-12).fun
    assert best_by_enumeration(graph, theta, bound) == pytest.approx(expected, abs=1e-5)


def test_projections_are_those_of_predictions():
    """Marginals under the energy, computed from the instances, are those of `predict_marginals`."""
    X, y = one_title(6)
    for estimator, data in (
        (chain(5.0, projection=BetheMirrorDescent(tol=1e-8)), X),
        (graphs(5.0).set_params(projection=BetheMirrorDescent(tol=1e-8)), as_graphs(X)),
    ):
        fitted = estimator.fit(data, y)
        projections = projections_of(fitted, data)
        assert check_projections(projections).values["largest shortfall"] == pytest.approx(0.0, abs=1e-5)
        for instance, marginals in zip(projections, fitted.predict_marginals(data), strict=True):
            mu = project_graph(*instance).mu[: marginals.size].reshape(marginals.shape)
            np.testing.assert_allclose(mu, marginals, atol=1e-5)


def test_fixed_energies_that_never_apply_do_not_matter():
    found = diagnose(ChainCRF(energies=at_most_one("title")), *one_title(30), n_examples=30)
    assert found.check("projection").verdict == "good"
