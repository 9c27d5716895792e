"""Deterministic bound, the learner that minimizes Eq. 8, and the grid search over weights, against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.learning.margin_sets import random_triangles

from intarsia.crf import GraphCRF
from intarsia.datasets.counterexamples import DIAMOND_INPUTS, diamond_examples
from intarsia.diagnostics import BoundMinimizer, mistake_bound, pac_bayes_bound, weight_grid_search
from intarsia.diagnostics.pac_bayes import BoundTerms
from intarsia.diagnostics.separability import Separability
from intarsia.exceptions import CompatibilityWarning, InvalidInputError, NotSupportedError, TooLargeError
from intarsia.graph import chain_graph
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.learning import StructuredPerceptron, example
from intarsia.learning.margin_example import MarginExample
from intarsia.models import LinearScores, MatrixScores

PARALLEL = BeliefPropagation(schedule="parallel", rounding="beliefs", max_iter=2000, tol=1e-10)
GAMMA = 1.0893390  # Kulesza2007, section 4


# ---------------------------------------------------------------- deterministic version of Theorem 2


def single_nodes(n, seed=0, noise=0.0):
    """Return single binary variables with one feature whose sign is the label, except for some noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.0, n) * rng.choice([-1.0, 1.0], n)
    labels = ((x > 0) ^ (rng.random(n) < noise)).astype(int)
    graph = chain_graph(1, 2)
    return [example(MatrixScores(graph, [[v, 0.0], [0.0, v]]), [y]) for v, y in zip(x, labels, strict=True)]


def test_deterministic_complexity_by_hand():
    data = single_nodes(50)
    weights = np.array([-0.2, 0.3])
    result = pac_bayes_bound(data, weights=weights, scales=[1.0], delta=0.1, deterministic=True)
    squared = result.radius**2 * float(weights @ weights)
    inside = 4 * squared * math.log(2 * 2 * 50) + math.log(50 / 0.1)
    assert result.n_indicators == 2
    assert result.complexity == pytest.approx(math.sqrt(inside / (2 * 49)) + 2 / 50)
    assert result.deterministic
    assert str(result).startswith("Deterministic PAC-Bayes bound")


def test_steps_of_the_proof_hold_for_drawn_weights():
    """Under weights drawn as in the proof, answers within half the distance are confusable under w, for most draws."""
    rng = np.random.default_rng(0)
    m, n_states, n_indicators = 40, 3, 3
    for _ in range(20):
        features = rng.normal(size=(n_states, 2))  # one variable with three states, a feature vector for each
        w = rng.normal(size=2) * 3
        radius = np.linalg.norm(features, axis=1).max()
        sigma = 1 / (2 * radius * math.sqrt(2 * math.log(2 * n_indicators * m)))
        draws = w + sigma * rng.normal(size=(4000, 2))
        distance = 2.0 * (1.0 - np.eye(n_states))  # 1-norm of the difference of two indicator vectors
        scores_of_w = features @ w
        predicted = int(np.argmax(scores_of_w))
        confusable = scores_of_w[predicted] - scores_of_w <= distance[predicted]
        scores = draws @ features.T
        near = (scores[:, :, None] >= scores[:, None, :] - 0.5 * distance).all(axis=2)  # draw, answer
        assert (~near[:, predicted]).mean() <= 1 / m
        assert (near & ~confusable).any(axis=1).mean() <= 1 / m


def test_bound_holds_on_new_data_and_is_printed_beside_the_test_error():
    train, test = single_nodes(600, 1, noise=0.05), single_nodes(400, 2, noise=0.05)
    result = pac_bayes_bound(train, weights=np.array([-1.0, 1.0]), scales=[2.5], deterministic=True, test=test)
    assert result.test_error == pytest.approx(0.05, abs=0.03)
    assert result.test_error <= result.bound < 1.0
    assert f"Measured test error: {result.test_error:.3f}." in str(result)
    assert not result.vacuous
    few = pac_bayes_bound(train[:5], weights=np.array([-1.0, 1.0]), scales=[2.5], deterministic=True, test=test)
    assert few.vacuous
    assert "is vacuous" in str(few)


def test_test_error_of_a_model_and_bad_tests():
    X = [([[1.0], [-1.0]], [[0, 1]]), ([[-1.0], [1.0]], [[0, 1]])] * 5
    y = [[1, 0], [0, 1]] * 5
    crf = GraphCRF(learner="structured_svm", inference="lp_relaxation").fit(X, y)
    assert pac_bayes_bound(X, y, crf, scales=[1.0], test=(X, y)).test_error == 0.0
    assert pac_bayes_bound(X, y, crf, scales=[1.0], test=(X[:1], [[0, 1]])).test_error == 1.0
    with pytest.raises(InvalidInputError, match="test"):
        pac_bayes_bound(X, y, crf, test=(X, y, 3))


# ---------------------------------------------------------------- learner of Eq. 8


def test_learner_reaches_the_minimum_of_a_fine_grid():
    data = [example(MatrixScores(chain_graph(1, 2), [[0.0, 0.0], row]), [label])
            for row, label in (([1.0, 0.2], 1), ([-0.8, 0.5], 0), ([0.3, 1.0], 1), ([0.9, -0.4], 0))] * 3  # fmt: skip
    terms = BoundTerms([MarginExample(item, i) for i, item in enumerate(data)], 0.05, False)
    axis = np.linspace(-8.0, 8.0, 33)
    # Enumeration: a wrong answer is confusable if its score is within 2 (both indicators differ) of the prediction.
    rows = np.array([item.scores.theta(np.eye(2)[j])[1] for j in range(2) for item in data]).reshape(2, -1).T
    labels = np.array([item.labels.y[0] for item in data])

    def risk(w):
        margin = np.where(labels == 1, 1.0, -1.0) * (rows @ w)
        return float((margin <= 2.0 + 1e-9).mean())

    values = {(a, b): risk(np.array([a, b])) for a in axis for b in axis}
    for point in [(-8.0, 3.0), (1.0, 1.0), (0.0, 0.0), (5.0, 8.0)]:
        assert terms.empirical(np.array(point)) == pytest.approx(values[point], abs=1e-6)
    best_risk = min(values.values())
    result = BoundMinimizer(objective="risk", max_iter=30).minimize(data, "lp_relaxation")
    assert result.value <= best_risk + 1e-9
    best_bound = min(value + terms.complexity(np.array(point)) for point, value in values.items())
    bound = BoundMinimizer(objective="bound", max_iter=30).minimize(data, "lp_relaxation")
    assert bound.value <= best_bound + 0.02
    for fit in (result, bound):
        assert (np.diff(fit.history["risk"]) <= 0.0).all()


def test_learner_refuses_other_inference_and_fixed_scores():
    data = single_nodes(4)
    with pytest.raises(NotSupportedError, match="LP-relaxed inference"):
        BoundMinimizer().minimize(data, "brute_force")
    with pytest.raises(NotSupportedError, match="fixed scores"):
        BoundMinimizer().minimize(diamond_examples(), "lp_relaxation")
    with pytest.raises(InvalidInputError, match="objective"):
        BoundMinimizer(objective="loss").minimize(data, "lp_relaxation")


def test_learned_bound_is_below_that_of_the_perceptron():
    data = random_triangles(n=8, noise=0.1)
    learner = BoundMinimizer(max_iter=10)
    weights = StructuredPerceptron(max_iter=20).minimize(data, "lp_relaxation").point
    learned = learner.minimize(data, "lp_relaxation")
    assert learned.value <= pac_bayes_bound(data, weights=weights, scales=[1.0]).bound + 1e-9


# ---------------------------------------------------------------- grid search


def test_grid_search_learns_with_parallel_belief_propagation_where_the_perceptron_fails():
    data = diamond_examples(200.0)
    with pytest.warns(CompatibilityWarning):
        perceptron = StructuredPerceptron(average=False, max_iter=50).minimize(data, PARALLEL)
    assert perceptron.history["mistakes"][-1] > 0
    grid = weight_grid_search(data, inference=PARALLEL, n_steps=256)
    assert grid.error == 0.0
    # The region of Figure 5 (b): node B counts gamma times, and the label of (a) is -1, of (b) is +1.
    for point, error in zip(grid.points, grid.errors, strict=True):
        values = [point @ (np.array(a) + GAMMA * np.array(b)) for a, b, _ in DIAMOND_INPUTS]
        if min(map(abs, values)) > 0.005:
            assert (error == 0.0) == (values[0] < 0 < values[1])
    exact = weight_grid_search(data, inference="brute_force", n_steps=256)
    assert exact.error == 0.0
    assert exact.weights @ grid.weights < 0  # opposite regions


def test_grids_of_one_and_three_weights():
    data = [example(MatrixScores(chain_graph(1, 2), [[0.0], [1.0]]), [1])]
    assert weight_grid_search(data, inference="brute_force").weights.tolist() == [1.0]
    triple = [example(MatrixScores(chain_graph(1, 2), [[0.0] * 3, row]), [label])
              for row, label in (([1.0, 0, 0], 1), ([0, 1.0, 0], 0), ([0, 0, 1.0], 1))]  # fmt: skip
    grid = weight_grid_search(triple, inference="brute_force", n_steps=5, radii=[1.0, 2.0])
    assert grid.error == 0.0
    assert np.sign(grid.weights).tolist() == [1.0, -1.0, 1.0]
    np.testing.assert_allclose(sorted(set(np.linalg.norm(grid.points, axis=1).round(6))), [1.0, 2.0])


def test_grid_refusals():
    data = diamond_examples()
    for settings in ({"n_steps": 1}, {"radii": []}, {"radii": [0.0]}):
        with pytest.raises(InvalidInputError):
            weight_grid_search(data, inference="brute_force", **settings)
    with pytest.raises(TooLargeError, match="max_points"):
        weight_grid_search(random_triangles(n=2), inference="brute_force", n_steps=10)


# ---------------------------------------------------------------- mistake bound


def test_a_bound_that_the_run_contradicts_is_refused(monkeypatch):
    data = [example(MatrixScores(chain_graph(1, 2), [[0.0], [0.1]], fixed=[0.0, -5.0]), [1])]
    good = mistake_bound(data, inference="brute_force")
    assert good.theorem == "the extension to fixed scores"
    assert "by the extension to fixed scores" in str(good)
    # The bound of Theorem 1, which does not hold with fixed scores.
    monkeypatch.setattr(Separability, "most_mistakes", lambda self, radius: (self.radius / self.gamma_at_least) ** 2)
    with pytest.raises(NotSupportedError, match="500 mistakes, more than the bound of"):
        mistake_bound(data, inference="brute_force")
    plain = [example(LinearScores(chain_graph(1, 2), [[1.0]]), [1])]
    assert "by Theorem 1" in str(mistake_bound(plain, inference="brute_force"))
