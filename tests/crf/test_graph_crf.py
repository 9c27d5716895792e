"""The graph model against dense sums over all labellings, scikit-learn, and the grid model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from tests.oracles.finite_differences import central_differences

from intarsia import GraphCRF, GridCRF, RiskMinimizer, TreeReweighted
from intarsia.crf import Factors, GraphInstance
from intarsia.exceptions import InvalidInputError
from intarsia.gradients import TruncatedGradient
from intarsia.graph.shapes import grid_edges
from intarsia.inference import Status
from intarsia.learning import LBFGS


def exact(**settings):
    settings = {"loss": "likelihood", "l2": 0.1, "optimizer": LBFGS(tol=1e-7)} | settings
    return RiskMinimizer(**settings)


def alone(**settings):
    """Logistic regression of single variables."""
    settings = {"loss": "univariate_logistic", "optimizer": LBFGS(tol=1e-9, max_iter=5000)} | settings
    return RiskMinimizer(gradient=TruncatedGradient(n_iter=0), **settings)


def chains(n=4, length=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    edges = np.stack([np.arange(length - 1), np.arange(1, length)], axis=1)
    X = [(rng.normal(size=(length, 2)), edges, rng.normal(size=(length - 1, 2))) for _ in range(n)]
    return X, [rng.integers(k, size=length) for _ in range(n)]


def dense_risk(F, G, X, y, k, l2, weights):
    """Return -log p(y | x) and the regularization, per variable, by summing over all labellings; -1 is summed out."""
    total = 0.0
    for (u, edges, v), labels in zip(X, y, strict=True):
        everything, agreeing = [], []
        for states in itertools.product(range(k), repeat=len(u)):
            score = sum(F[s] @ u[i] for i, s in enumerate(states))
            score += sum(G[states[a] * k + states[b]] @ v[e] for e, (a, b) in enumerate(edges))
            everything.append(score)
            if all(label in (-1, s) for s, label in zip(states, labels, strict=True)):
                agreeing.append(score)
        total += np.log(np.sum(np.exp(everything))) - np.log(np.sum(np.exp(agreeing)))
    n = sum(int((np.asarray(labels) >= 0).sum()) for labels in y)
    return float((total + 0.5 * l2 * weights @ weights) / n)


@pytest.mark.parametrize("inference", ["tree", "junction_tree"])
@pytest.mark.parametrize("hidden", [False, True])
def test_likelihood_of_chains_is_the_sum_over_all_labellings(inference, hidden):
    X, y = chains(n=3, length=3, k=3)
    if hidden:
        y[0][1] = y[2][0] = -1

    def risk(w):
        return dense_risk(w[:6].reshape(3, 2), w[6:].reshape(9, 2), X, y, 3, 0.1, w)

    start = np.random.default_rng(1).normal(size=24)
    stay = exact(optimizer=LBFGS(max_iter=0, tol=1e3))
    crf = GraphCRF(inference=inference, learner=stay, classes=[0, 1, 2]).fit(X, y, start=start)
    np.testing.assert_array_equal(crf.weights_, start)
    assert crf.risk_ == pytest.approx(risk(start), rel=1e-10)
    slope = central_differences(risk, start)
    assert crf.history_["gradient_norm"][0] == pytest.approx(np.abs(slope).max(), rel=1e-6)
    fitted = GraphCRF(inference=inference, learner=exact(), classes=[0, 1, 2]).fit(X, y)
    assert fitted.status_ is Status.CONVERGED
    assert fitted.risk_ == pytest.approx(risk(fitted.weights_), rel=1e-10)
    assert np.abs(central_differences(risk, fitted.weights_)).max() < 1e-5
    np.testing.assert_array_equal(fitted.node_weights_["node"].ravel(), fitted.weights_[:6])
    np.testing.assert_array_equal(fitted.factor_weights_["edge"].ravel(), fitted.weights_[6:])


def test_marginals_and_best_labelling_are_those_of_all_labellings():
    X, y = chains(n=2, length=3, k=2)
    crf = GraphCRF(inference="junction_tree", learner=exact()).fit(X, y)
    F, G = crf.node_weights_["node"], crf.factor_weights_["edge"]
    for (u, edges, v), result, best in zip(
        X, crf.predict_marginals(X), crf.set_params(decode="map").predict(X), strict=True
    ):
        p = np.zeros((2, 2, 2))
        for states in np.ndindex(2, 2, 2):
            score = sum(F[s] @ u[i] for i, s in enumerate(states))
            p[states] = np.exp(score + sum(G[states[a] * 2 + states[b]] @ v[e] for e, (a, b) in enumerate(edges)))
        p /= p.sum()
        expected = [p.sum(axis=tuple({0, 1, 2} - {i})) for i in range(3)]
        np.testing.assert_allclose(result, expected, atol=1e-10)
        assert tuple(best) == np.unravel_index(p.argmax(), p.shape)


def paragraphs(n=3, seed=0):
    """Make graphs of words with 2 states and topics with 3, factors of two words and of two words with a topic."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        n_topics = 0 if i == 1 else 1  # one paragraph without a topic
        factors = {"follows": Factors([[0, 1], [2, 1]], types="word")}
        if n_topics:
            factors["about"] = Factors([[0, 0, 2]], rng.normal(size=(1, 2)), types=("word", "topic", "word"))
        nodes = {"word": rng.normal(size=(3, 2)), "topic": rng.normal(size=(n_topics, 1))}
        X.append(GraphInstance(nodes, factors=factors))
        y.append({"word": rng.integers(2, size=3), "topic": rng.integers(3, size=n_topics)})
    y[0]["topic"], y[2]["topic"] = np.array([0]), np.array([2])
    return X, y


@pytest.mark.parametrize("hidden", [False, True])
def test_types_of_variables_and_a_factor_of_three(hidden):
    """Scores are summed by hand; hidden topics have no labels and are summed out."""
    X, y = paragraphs()
    if hidden:
        y = [{"word": labels["word"]} for labels in y]
    classes = {"word": [0, 1], "topic": [0, 1, 2]}

    def risk(w):
        words, topics, pairs, triples = (
            part.reshape(shape)
            for part, shape in zip(np.split(w, [4, 7, 11]), [(2, 2), (3, 1), (2, 2, 1), (2, 3, 2, 2)], strict=True)
        )
        total, count = 0.0, 0
        for graph, labels in zip(X, y, strict=True):
            u, t = graph.node_features["word"], graph.node_features["topic"]
            everything, agreeing = [], []
            for a, b, c, s in itertools.product(range(2), range(2), range(2), range(3 if len(t) else 1)):
                score = sum(words[state] @ u[i] for i, state in enumerate((a, b, c)))
                score += pairs[a, b, 0] + pairs[c, b, 0]
                if len(t):
                    score += topics[s] @ t[0] + triples[a, s, c] @ graph.factors["about"].features[0]
                everything.append(score)
                topic_agrees = "topic" not in labels or labels["topic"].tolist() in ([s], [])
                if (a, b, c) == tuple(labels["word"]) and topic_agrees:
                    agreeing.append(score)
            total += np.log(np.sum(np.exp(everything))) - np.log(np.sum(np.exp(agreeing)))
            count += 3 + (len(t) if "topic" in labels else 0)
        return float((total + 0.05 * w @ w) / count)

    start = np.random.default_rng(2).normal(size=4 + 3 + 4 + 24)
    stay = exact(optimizer=LBFGS(max_iter=0, tol=1e3))
    crf = GraphCRF(inference="junction_tree", learner=stay, classes=classes).fit(X, y, start=start)
    assert crf.risk_ == pytest.approx(risk(start), rel=1e-10)
    fitted = GraphCRF(inference="junction_tree", learner=exact(), classes=classes, random_state=3).fit(X, y)
    assert np.abs(central_differences(risk, fitted.weights_)).max() < 1e-5
    assert {k: v.shape for k, v in fitted.node_weights_.items()} == {"word": (2, 2), "topic": (3, 1)}
    assert {k: v.shape for k, v in fitted.factor_weights_.items()} == {"follows": (4, 1), "about": (12, 2)}
    answers = fitted.predict_marginals(X)
    assert answers[1]["topic"].shape == (0, 3)
    assert answers[0]["word"].shape == (3, 2)
    assert fitted.predict(X)[1]["topic"].shape == (0,)
    if hidden:  # states of a hidden type must not remain identical
        assert np.ptp(fitted.initial_weights_[4:7]) > 0.01
        assert fitted.score(X, y) == np.mean(
            np.concatenate([p["word"] == t["word"] for p, t in zip(fitted.predict(X), y, strict=True)])
        )


@pytest.mark.parametrize(
    "inference", [TreeReweighted(rho=0.5), "belief_propagation", "mean_field"], ids=["trw", "bp", "mf"]
)
def test_graph_of_a_grid_is_the_grid_model(inference):
    rng = np.random.default_rng(0)
    images = [rng.normal(size=(4, 5, 2)), rng.normal(size=(3, 2, 2))]
    y = [rng.integers(3, size=image.shape[:2]) for image in images]
    X = []
    for image in images:
        edges = grid_edges(*image.shape[:2])
        direction = np.repeat(np.eye(2), [len(part) for part in edges], axis=0)
        X.append((image.reshape(-1, 2), np.concatenate(edges), direction))
    learner = RiskMinimizer(gradient=TruncatedGradient(n_iter=4), l2=8.0, optimizer=LBFGS(tol=1e-4))
    grid = GridCRF(inference=inference, learner=learner).fit(images, y)
    graph = GraphCRF(inference=inference, learner=learner).fit(X, [labels.ravel() for labels in y])
    np.testing.assert_allclose(graph.weights_, grid.weights_, atol=1e-12)
    for one, other in zip(graph.predict_marginals(X), grid.predict_marginals(images), strict=True):
        np.testing.assert_allclose(one, other.reshape(one.shape), atol=1e-12)


def classification(seed=0, n=60):
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    return rng.normal(size=(n, 4)) + labels[:, None] * [0.5, -0.3, 0.2, 0.0], labels


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.5, 2: 3.0}])
def test_without_factors_it_is_logistic_regression(class_weight):
    u, labels = classification()
    l2 = 1.2
    each = np.ones(60)
    if class_weight == "balanced":
        each = 60 / (3 * np.bincount(labels))[labels]
    elif class_weight:
        each = np.array([class_weight.get(int(label), 1.0) for label in labels])
    expected = LogisticRegression(C=1 / l2, fit_intercept=False, tol=1e-10, max_iter=10000)
    expected.fit(u, labels, sample_weight=each)
    X, y = [(u[:40],), (u[40:],)], [labels[:40], labels[40:]]
    crf = GraphCRF(learner=alone(l2=l2), class_weight=class_weight).fit(X, y)
    np.testing.assert_allclose(np.concatenate(crf.predict_marginals(X)), expected.predict_proba(u), atol=1e-5)
    assert crf.factor_weights_ == {}


def test_weights_of_examples_repeat_them():
    X, y = chains(n=3)
    weighted = GraphCRF(inference="tree", learner=exact()).fit(X, y, sample_weight=[2.0, 0.0, 1.0])
    repeated = GraphCRF(inference="tree", learner=exact()).fit([X[0], X[0], X[2]], [y[0], y[0], y[2]])
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-5)
    right = [float((p == t).sum()) for p, t in zip(weighted.predict(X), y, strict=True)]
    assert weighted.score(X, y, sample_weight=[2.0, 0.0, 1.0]) == pytest.approx((2 * right[0] + right[2]) / 12)


def test_symmetric_weights_ignore_the_order():
    X, y = chains(n=3)
    X = [(u, edges) for u, edges, _ in X]
    turned = [(u, edges[:, ::-1]) for u, edges in X]
    learner = exact(l2=1.2)
    one, other = (GraphCRF(inference="tree", learner=learner, symmetric=True).fit(data, y) for data in (X, turned))
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-10)
    table = one.factor_weights_["edge"].reshape(3, 3)
    np.testing.assert_array_equal(table, table.T)
    assert np.ptp(table) > 0.1
    assert one.weights_.size == 3 * 2 + 6
    np.testing.assert_allclose(one.predict_marginals(X), one.predict_marginals(turned), atol=1e-12)
    directed = GraphCRF(inference="tree", learner=learner).fit(X, y)
    assert np.abs(np.subtract(directed.predict_marginals(X), directed.predict_marginals(turned))).max() > 0.01
    by_name = GraphCRF(inference="tree", learner=learner, symmetric=["edge"]).fit(X, y)
    np.testing.assert_array_equal(by_name.weights_, one.weights_)
    before = one.weights_
    one.set_params(warm_start=True, symmetric=False)
    for change in (one.fit, one.partial_fit):
        with pytest.raises(
            InvalidInputError, match=r"symmetric tables are \[\], but in the fitted model they are \['edge'\]"
        ):
            change(X, y)
    assert one.weights_ is before
    one.set_params(symmetric=["edge"]).fit(X, y)
    assert one.n_iter_ <= 1


def test_sparse_features_are_dense_ones():
    X, y = chains(n=3)
    thin = [(sparse.csr_array(u), edges, sparse.coo_array(v)) for u, edges, v in X]
    one, other = (GraphCRF(inference="tree", learner=exact()).fit(data, y) for data in (X, thin))
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
    np.testing.assert_allclose(one.predict_marginals(thin), one.predict_marginals(X), atol=1e-12)


def test_edges_are_factors_named_edge():
    X, y = chains(n=2)
    longer = [GraphInstance({"node": u}, factors={"edge": (edges, v)}) for u, edges, v in X]
    one = GraphCRF(inference="tree", learner=exact()).fit(X, y)
    other = GraphCRF(inference="tree", learner=exact()).fit(longer, [{"node": labels} for labels in y])
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert other.classes_["node"].tolist() == one.classes_.tolist()
    np.testing.assert_array_equal(other.predict(longer)[0]["node"], one.predict(X)[0])
    np.testing.assert_array_equal(one.predict(longer)[0]["node"], one.predict(X)[0])


def test_graphs_without_edges_and_parallel_edges():
    """Graphs without edges are supported; an edge that occurs twice counts twice."""
    X, y = chains(n=2)
    u, edges, v = X[0]
    twice = [(u, np.concatenate([edges, edges]), np.concatenate([v, v])), (X[1][0], [])]
    doubled = [(u, edges, 2 * v), (X[1][0], np.empty((0, 2), int), np.empty((0, 2)))]
    twice[1] = doubled[1]
    learner = exact(
        optimizer=LBFGS(tol=1e-11)
    )  # over the penalty of 0.1 / 8 per variable: how far the weights may be off
    one, other = (GraphCRF(inference="tree", learner=learner).fit(data, y) for data in (twice, doubled))
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
