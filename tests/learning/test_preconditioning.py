"""Preconditioning: curvature estimated from the features, and the search that starts from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from intarsia.graph import chain_graph
from intarsia.learning import LBFGS, RiskMinimizer, example
from intarsia.learning import risk as module
from intarsia.learning.minimum import SummedObjective
from intarsia.learning.risk import FeatureCurvature
from intarsia.models import LinearScores
from intarsia.models.template_scores import Templates, TemplateScores, template_graph


def labelled_chains(n=6, n_features=5, seed=0):
    """Chains with correlated features: running sums of the columns, at different scales."""
    rng = np.random.default_rng(seed)
    result = []
    for i in range(n):
        features = np.cumsum(rng.normal(size=(7, n_features)), axis=1) * np.geomspace(0.1, 3.0, n_features)
        labels = (np.arange(7) + 7 * i) % 3  # with six chains each is as frequent as the others
        result.append(example(LinearScores(chain_graph(7, 3), features), labels))
    return result


def test_the_inverse_is_that_of_the_hessian_at_zero():
    """Compare with the curvature of the logistic loss at weights of 0, by differences of its gradient."""
    examples = labelled_chains()
    risk = RiskMinimizer(loss="univariate_logistic", l2=0.02 * 42).risk(examples, "tree_reweighted")
    n, step = 5, 1e-5
    ours = FeatureCurvature(examples, risk.mass, 0.02)
    hessian = np.empty((n, n))
    for i in range(n):  # of the first class only: blocks between classes are approximated
        along = np.zeros(risk.n_weights)
        along[i] = step
        hessian[i] = (risk(along)[1] - risk(-along)[1])[:n] / (2 * step)
    for direction in np.eye(n):
        whole = np.zeros(risk.n_weights)
        whole[:n] = hessian @ direction
        np.testing.assert_allclose(ours.solve(whole)[:n], direction, atol=1e-4)


def test_sparse_features_and_dense_ones_agree():
    examples = labelled_chains(2)
    scarce = [example(LinearScores(e.scores.graph, sparse.csr_array(e.scores.blocks[0].features)), e.labels.y)
              for e in examples]  # fmt: skip
    at = np.random.default_rng(1).normal(size=examples[0].scores.n_weights)
    one, other = (FeatureCurvature(given, 14.0, 0.1).solve(at) for given in (examples, scarce))
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_too_many_features_use_only_the_diagonal(monkeypatch):
    examples = labelled_chains(2)
    squares = sum((e.scores.blocks[0].features ** 2).sum(axis=0) for e in examples)
    for given in (
        examples,
        [example(LinearScores(e.scores.graph, sparse.csr_array(e.scores.blocks[0].features)), e.labels.y)
         for e in examples],
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, "WIDEST", 4)
            result = FeatureCurvature(given, 14.0, 0.1).solve(np.ones(examples[0].scores.n_weights))
        share = 0.5 * 5 / 14 + 0.5 / 3  # the first class has 3 labels in the first chain and 2 in the second
        np.testing.assert_allclose(result[:5], 1.0 / (share * (1 - share) * squares / 14.0 + 0.1))


def test_entries_count_by_how_often_labels_show_them():
    """Hidden labels do not count; mirrored entries of a symmetric table count together."""
    rng = np.random.default_rng(0)
    templates = Templates({"a": 2}, {"a": 1}, {"pair": ("a", "a")}, {"pair": 1}, frozenset({"pair"}))
    graph = template_graph(templates, {"a": 4}, {"pair": np.array([[0, 1], [1, 2], [2, 3]])})
    scores = TemplateScores(templates, graph, {"a": rng.normal(size=(4, 1))}, {"pair": np.ones((3, 1))})
    result = FeatureCurvature([example(scores, [0, 1, 0, -1])], 1.0, 0.0).solve(np.ones(5))
    pairs = 0.5 * np.array([0.0, 1.0, 0.0]) + 0.5 * np.array([0.25, 0.5, 0.25])  # (0, 1) and (1, 0) are one row
    np.testing.assert_allclose(result[2:], 1.0 / (3.0 * pairs * (1.0 - pairs)), rtol=1e-6)


def test_features_of_zero_without_a_ridge():
    one = example(LinearScores(chain_graph(2, 2), np.zeros((2, 1))), [0, 1])
    result = FeatureCurvature([one], 2.0, 0.0).solve(np.ones(6))
    np.testing.assert_allclose(result[:2], 1.0)
    assert np.isfinite(result).all()


@pytest.mark.parametrize("loss", ["univariate_logistic", "likelihood"])
def test_the_same_minimum_in_fewer_iterations(loss):
    examples = labelled_chains()
    inference = "tree"
    settings = {"loss": loss, "l2": 1e-3 * 42, "optimizer": LBFGS(tol=1e-7, max_iter=5000)}
    if loss == "univariate_logistic":
        inference = "belief_propagation"
    shaped, plain = (
        RiskMinimizer(**settings, precondition=asked).minimize(examples, inference) for asked in (True, False)
    )
    assert shaped.value == pytest.approx(plain.value, abs=1e-9)
    np.testing.assert_allclose(shaped.point, plain.point, atol=1e-3)
    assert shaped.n_iter < 0.5 * plain.n_iter


class Quadratic(SummedObjective):
    """An ill-conditioned quadratic function with known Hessian."""

    hessian = np.diag(10.0 ** np.arange(-4, 5)) + 1e-5

    def __call__(self, point):
        return float(0.5 * point @ self.hessian @ point), self.hessian @ point

    def __len__(self):
        return 1

    def subset(self, indices):
        return self

    def precondition(self, gradient):
        return np.linalg.solve(self.hessian, gradient)


def test_with_the_exact_hessian_the_search_makes_newton_steps():
    result = LBFGS(tol=1e-8).minimize(Quadratic(), np.full(9, 3.0))
    assert result.status.name == "CONVERGED"
    assert result.n_iter <= 5


class RoughlyKnown(Quadratic):
    """A quadratic function whose curvatures are known up to a factor of four."""

    def precondition(self, gradient):
        return super().precondition(gradient) * np.resize([1.0, 4.0, 2.0], 9)


def test_an_approximate_hessian_needs_few_iterations():
    result = LBFGS(tol=1e-8).minimize(RoughlyKnown(), np.full(9, 3.0))
    assert result.status.name == "CONVERGED"
    assert 3 < result.n_iter < 40
    assert result.n_restarts == 0  # a direction that leads uphill would cause a restart
