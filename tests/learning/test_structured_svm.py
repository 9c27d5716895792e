"""Structured SVM, compared with scikit-learn's linear SVM, a quadratic program over all labellings, and its dual."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC
from tests.learning.margin_sets import features, frustrated_triangles, labellings, random_triangles
from tests.oracles.local_polytope import write_out

from intarsia import GridCRF, StructuredSVM
from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError, TooLargeError
from intarsia.inference import Status
from intarsia.learning import example
from intarsia.learning.structured_svm import BlockFrankWolfe
from intarsia.models import Templates, TemplateScores, template_graph

SOLVERS = ["frank_wolfe", "subgradient"]


def enumerated_minimum(data, l2):
    """Lowest objective by SLSQP over weights and slacks, a constraint for each labelling."""
    mass = sum(one.mass for one in data)
    n_weights, rows, sides = data[0].scores.n_weights, [], []
    for i, one in enumerate(data):
        y, slack = one.labels.y, np.eye(len(data))[i]
        for z in labellings(one.scores.graph):
            rows.append(np.concatenate([features(one.scores, y) - features(one.scores, z), slack]))
            each = np.ones(len(y)) if one.labels.weights is None else one.labels.weights
            sides.append(float(each[z != y].sum()))
    rows, sides = np.array(rows), np.array(sides)
    shares = np.array([one.weight / mass for one in data])

    def value(point):
        w = point[:n_weights]
        return 0.5 * l2 / mass * w @ w + shares @ point[n_weights:]

    def slope(point):
        return np.concatenate([l2 / mass * point[:n_weights], shares])

    start = np.concatenate([np.zeros(n_weights), np.full(len(data), 10.0)])
    fits = {"type": "ineq", "fun": lambda point: rows @ point - sides, "jac": lambda point: rows}
    result = minimize(
        value, start, jac=slope, constraints=[fits], method="SLSQP", options={"maxiter": 500, "ftol": 1e-12}
    )
    assert result.success, result.message
    return result.fun


def test_single_variables_are_a_linear_svm():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    y = (x @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=30) > 0).astype(int)
    templates = Templates({"node": 2}, {"node": 3})
    graph = template_graph(templates, {"node": 30}, {})
    data = [example(TemplateScores(templates, graph, {"node": x}, {}), y)]
    l2 = 1.5
    result = StructuredSVM(l2=l2, tol=1e-7, max_iter=500).minimize(data, "lp_relaxation")
    # One weight vector for each class: they are opposite, and half of the squares of the difference.
    peer = LinearSVC(loss="hinge", C=2.0 / l2, fit_intercept=False, tol=1e-9, max_iter=10**6).fit(x, y)
    np.testing.assert_allclose(result.point[3:] - result.point[:3], peer.coef_[0], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(
    ("solver", "l2", "tol"), [("frank_wolfe", 10.5, 1e-6), ("frank_wolfe", 0.21, 1e-6), ("subgradient", 10.5, 2e-2)]
)
def test_objective_is_the_minimum_over_all_labellings(solver, l2, tol):
    data = random_triangles(n=6, noise=0.3, variable_weights=[1.0, 2.0, 0.5])
    best = enumerated_minimum(data, l2)
    result = StructuredSVM(l2=l2, solver=solver, tol=tol, max_iter=2000, path="none").minimize(data, "brute_force")
    gap, dual = result.history["gap"][-1], result.history["dual"][-1]
    assert result.status is Status.CONVERGED
    assert dual - 1e-9 <= best <= result.value + 1e-9
    assert result.value - best <= gap + 1e-9 <= tol * result.value + 2e-9


@pytest.mark.parametrize("solver", SOLVERS)
def test_relaxed_dual_is_below_every_relaxed_objective(solver):
    data, l2 = frustrated_triangles(), 0.3
    learner = StructuredSVM(l2=l2, solver=solver, tol=3e-2, max_iter=500)
    result = learner.minimize(data, "lp_relaxation")
    mass = sum(one.mass for one in data)

    def objective(weights):
        total = 0.5 * l2 / mass * weights @ weights
        for one in data:
            theta, graph = one.scores.theta(weights), one.scores.graph
            cost = graph.zeros()
            cost[:6] = 1.0
            cost[graph.variable_ptr[:-1] + one.labels.y] = 0.0
            total += (write_out(graph, theta + cost).value - features(one.scores, one.labels.y) @ weights) / mass
        return total

    assert result.status is Status.CONVERGED
    assert objective(result.point) == pytest.approx(result.value, abs=1e-6)
    rng = np.random.default_rng(0)
    nearby = [result.point + scale * rng.normal(size=4) for scale in (0.0, 0.01, 0.1, 1.0) for _ in range(3)]
    assert all(result.history["dual"][-1] <= objective(w) + 1e-9 for w in nearby)


def test_fixed_scores_count_like_a_cost():
    result = StructuredSVM(l2=8e-3).minimize(diamond_examples(), "brute_force")
    # By symmetry w = (-t, t); all four labels flip at once, at a score of 0.1 t: 2 * 4 is what the hinges cost at 0.
    t = np.linspace(0.0, 100.0, 100001)
    best = (1e-3 * t**2 + np.maximum(0.0, 4.0 - 0.1 * t) * 2 / 8).min()
    assert result.value == pytest.approx(best, abs=1e-6)
    assert result.history["misled"].sum() == 0


def test_merging_stored_predictions_keeps_the_dual_valid(monkeypatch):
    monkeypatch.setattr("intarsia.learning.structured_svm._MAX_STORED", 2)
    data = random_triangles(n=6, noise=0.3, n_states=3)
    best = enumerated_minimum(data, 1.8)
    result = StructuredSVM(l2=1.8, tol=1e-2).minimize(data, "brute_force")
    assert result.history["dual"][-1] <= best + 1e-9 <= result.value + 2e-9
    assert result.status is Status.CONVERGED


def test_estimator():
    y = [np.repeat([[0, 0, 1, 1]], 3, axis=0), np.repeat([[0, 1, 1, 1]], 3, axis=0)]
    X = [labels[..., None] - 0.5 for labels in y]
    crf = GridCRF(learner="structured_svm", inference="lp_relaxation", class_weight="balanced").fit(X, y)
    assert crf.score(X, y) == 1.0
    with pytest.raises(NotSupportedError, match="starts at 0"):
        crf.set_params(warm_start=True).fit(X, y)


def test_refusals():
    with pytest.raises(NotSupportedError, match=r"variable 2 of example 0 has a hidden label.*structured_perceptron"):
        StructuredSVM().minimize(triangle_examples(), "lp_relaxation")
    data = random_triangles(2)
    with pytest.raises(NotSupportedError, match="does not support early stopping"):
        StructuredSVM().minimize(data, "icm", validation=data)
    with pytest.raises(InvalidInputError, match="l2"):
        StructuredSVM(l2=0.0).minimize(data, "icm")
    with pytest.raises(InvalidInputError, match="solver='cutting'"):
        StructuredSVM(solver="cutting").minimize(data, "icm")
    with pytest.raises(TooLargeError, match="subgradient"):
        BlockFrankWolfe(np.ones(10**5), 10**5, 1.0)
    with pytest.warns(ConvergenceWarning, match="duality gap of .* Raise max_iter"):
        StructuredSVM(tol=0.0, max_iter=1).minimize(random_triangles(noise=0.5), "brute_force")
