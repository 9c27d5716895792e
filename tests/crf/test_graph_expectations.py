"""Expectations on graphs: against chains, finite differences and known labels."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.crf import GraphCRF
from intarsia.crf.graph_expectation_fit import GraphCorpus
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.registry import METHODS
from intarsia.learning import RiskMinimizer
from intarsia.learning.expectations import label_count, label_given, label_proportion
from intarsia.learning.expectations.generalized_expectation import GeneralizedExpectationRisk, bind_expectations
from intarsia.sequences import ChainCRF


def chains_as_graphs(X):
    """Return sequences of feature arrays as graphs with an edge per step."""
    return [(x, [[t, t + 1] for t in range(len(x) - 1)]) for x in X]


def random_sequences(seed, n=6):
    rng = np.random.default_rng(seed)
    return [np.eye(3)[rng.integers(3, size=int(rng.integers(1, 5)))] for _ in range(n)]


WORDS = [
    label_given(0, {"A": 0.9}, strength=3.0),
    label_proportion({"A": 0.4, "B": 0.6}, distance="squared", strength=5.0),
]


def test_chains_as_graphs_equal_chain_crf():
    X = random_sequences(0)
    y = [None] * len(X)
    y[0] = ["A"] + [None] * (len(X[0]) - 1)
    chain = ChainCRF(l2=0.5, ends=False).fit(X, y, expectations=WORDS)
    graph = GraphCRF(inference="tree", learner=RiskMinimizer(loss="likelihood", l2=0.5))
    graph.fit(chains_as_graphs(X), y, expectations=WORDS)
    assert graph.risk_ == pytest.approx(chain.risk_, rel=1e-5)
    for left, right in zip(chain.predict_marginals(X), graph.predict_marginals(chains_as_graphs(X)), strict=True):
        np.testing.assert_allclose(left, right, atol=2e-3)
    assert [row.name for row in graph.expectations_] == [row.name for row in chain.expectations_]


@pytest.mark.parametrize("inference", ["junction_tree", "tree_reweighted", "belief_propagation"])
def test_gradient_on_loopy_graphs_equals_finite_differences(inference):
    rng = np.random.default_rng(1)
    X = [(rng.normal(size=(4, 2)), [[0, 1], [1, 2], [2, 3], [0, 3]]) for _ in range(3)]
    crf = GraphCRF(classes=["A", "B"])
    data = crf._read(X, None, None)
    from intarsia.crf.crf_data import find_truth, make_examples

    truth = find_truth(data, [["A", None, None, "B"], None, None], ["A", "B"], None, {"node": []})
    templates = crf._templates(data, truth, None)
    examples = make_examples(data, truth, templates, [1.0, 2.0, 1.0], None)
    corpus = GraphCorpus(examples, truth.classes, METHODS.resolve(inference))
    bound = bind_expectations([label_proportion({"A": 0.7}), label_count("A", at_least=2)], corpus.positions)
    risk = GeneralizedExpectationRisk(corpus, bound, 0.2)
    weights = 0.3 * rng.normal(size=corpus.n_weights)
    h = 1e-5
    numeric = [(risk(weights + h * e)[0] - risk(weights - h * e)[0]) / (2 * h) for e in np.eye(weights.size)]
    np.testing.assert_allclose(risk(weights)[1], numeric, atol=1e-6)


def typed_data():
    rng = np.random.default_rng(2)
    X, y = [], []
    for _ in range(8):
        labels = rng.choice(["x", "y"], 3)
        features = np.column_stack([labels == "x", labels == "y", rng.normal(size=3)]).astype(float)
        X.append((features, [[0, 1], [1, 2]]))
        y.append(labels)
    return X, y


def test_labelled_features_label_graphs():
    X, y = typed_data()
    crf = GraphCRF(learner=RiskMinimizer(l2=0.1))
    crf.fit(X, expectations=[label_given(0, {"x": 0.95}), label_given(1, {"y": 0.95})])
    assert crf.score(X, y) == 1.0
    assert crf.energies_ is None
    assert len(crf.expectations_) == 4


def test_types_of_variables():
    from intarsia.crf.graph_data import Factors, GraphInstance

    rng = np.random.default_rng(3)
    X = [
        GraphInstance(
            node_features={"word": rng.normal(size=(2, 1)), "topic": np.ones((1, 1))},
            factors={"about": Factors([[0, 0], [1, 0]], None, types=("word", "topic"))},
        )
        for _ in range(4)
    ]
    crf = GraphCRF(classes={"word": ["a", "b"], "topic": ["s", "t"]}, inference="junction_tree")
    crf.set_params(learner=RiskMinimizer(loss="likelihood"))
    crf.fit(X, expectations=label_proportion({"s": 0.8}, kind="topic", strength=50.0))
    assert crf.expectations_[0].model == pytest.approx(0.8, abs=0.02)
    with pytest.raises(InvalidInputError, match="types of variables are"):
        crf.fit(X, expectations=label_proportion({"s": 0.8}))


def test_refusals_keep_the_fitted_model():
    X, y = typed_data()
    crf = GraphCRF().fit(X, y)
    weights = crf.weights_
    with pytest.raises(InvalidInputError, match=r"'z' is not among the labels \['x', 'y'\]"):
        crf.set_params(classes=["x", "y"]).fit(X, expectations=label_proportion({"z": 0.5}))
    with pytest.raises(NotSupportedError, match="RiskMinimizer"):
        crf.set_params(learner="structured_svm").fit(X, expectations=label_proportion({"x": 0.5}))
    with pytest.raises(NotSupportedError, match="loss='likelihood'"):
        GraphCRF(inference="tree").fit(X, expectations=label_proportion({"x": 0.5, "y": 0.5}))
    assert crf.weights_ is weights
