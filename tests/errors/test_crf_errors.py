"""Invalid data for estimators raise one line with a remedy before any work, and a fitted model is unchanged."""

from __future__ import annotations

import re
from copy import copy

import numpy as np
import pytest
from scipy import sparse

from intarsia import GraphCRF, GridCRF, RiskMinimizer
from intarsia.crf import Factors, GraphInstance
from intarsia.exceptions import IntarsiaError, InvalidInputError, NotSupportedError
from intarsia.gradients import TruncatedGradient
from intarsia.learning import LBFGS
from intarsia.learning.risk import Risk

LEARNER = RiskMinimizer(gradient=TruncatedGradient(n_iter=2), optimizer=LBFGS(tol=1e-2), l2=1.0)
TYPES = {"word": np.ones((3, 2)), "topic": np.ones((1, 1))}


def graphs():
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(4, 2)), [[0, 1], [1, 2], [2, 3]]) for _ in range(3)]
    return X, [[0, 1, 1, 0]] * 3


def images():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(2, 3, 2)) for _ in range(3)], [np.array([[0, 1, 1], [0, 1, 1]])] * 3


def changed(values, i, value):
    return [value if j == i else one for j, one in enumerate(values)]


def with_factors(value, nodes=TYPES):
    return [GraphInstance(nodes, factors={"f": value})]


def assert_untouched(crf, call, message, error=InvalidInputError):
    """Check that the call raises this one-line message and that the fitted attributes are the same objects."""
    before = {name: value for name, value in vars(crf).items() if name.endswith("_")}
    with pytest.raises(error, match=f"^{re.escape(message)}") as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, IntarsiaError)
    after = {name: value for name, value in vars(crf).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())


@pytest.fixture(scope="module")
def fitted_graph():
    return GraphCRF(learner=LEARNER).fit(*graphs())


@pytest.fixture(scope="module")
def fitted_grid():
    return GridCRF(learner=LEARNER).fit(*images())


U = np.ones((4, 2))
GRAPHS = {
    "empty": ([], "X is empty. Pass at least one graph."),
    "one graph": (GraphInstance(U), "X must be a list of graphs, got GraphInstance."),
    "number": (3, "X must be a list of graphs, got int."),
    "arrays": ([U], "X[0] is of type ndarray. Pass a GraphInstance, or a tuple (node_features, edges)"),
    "long tuple": ([(U, [], None, None)], "X[0] is of type tuple. Pass a GraphInstance"),
    "flat features": ([(np.ones(4), [])], "X[0]: node_features has shape (4,). Pass one row for each"),
    "words": ([([["a"]], [])], "X[0]: node_features: expected numbers"),
    "nan": ([(U, []), (changed(U, 2, [np.nan, 1]), [])], "X[1]: node_features[2] contains nan, but features must be"),
    "sparse infinity": ([(sparse.csr_array([[0, 1], [np.inf, 0]]), [])], "X[0]: node_features[1] contains inf, but"),
    "no types": ([GraphInstance({})], "X[0]: node_features is empty."),
    "no variable": (
        [(U, [[0, 4]])],
        "X[0]: edges[0] names variable 4 of type 'node', but there are 4, counted from 0.",
    ),
    "negative": ([(U, [[0, 1], [-1, 2]])], "X[0]: edges[1] names variable -1 of type 'node'"),
    "loop": ([(U, [[0, 1], [2, 2]])], "X[0]: edges[1] joins variable 2 of type 'node' to itself."),
    "flat edges": ([(U, [0, 1])], "X[0]: edges has scopes of shape (2,), expected (n, k)"),
    "fractions": ([(U, [[0, 0.5]])], "X[0]: edges: expected integers"),
    "edge rows": ([(U, [[0, 1]], np.ones((2, 1)))], "X[0]: edges: features has shape (2, 1), but there are 1 factors."),
    "edge nan": ([(U, [[0, 1]], [[np.nan]])], "X[0]: edges: features[0] contains nan, but"),
    "features without edges": ([GraphInstance(U, edge_features=[[1.0]])], "X[0] has edge_features but no edges."),
    "edges twice": (
        [GraphInstance(U, [[0, 1]], factors={"edge": [[0, 1]]})],
        "X[0] has both edges and factors of type 'edge'. Pass only one of them.",
    ),
    "edges of types": (
        [GraphInstance(TYPES, [[0, 1]])],
        "X[0] has edges, but 2 types of variables: ['word', 'topic'].",
    ),
    "untyped": (with_factors([[0, 0]]), "X[0]: factors['f'] does not specify which of the types ['word', 'topic']"),
    "type of types": (
        with_factors(Factors([[0, 0]], types=3)),
        "X[0]: factors['f'] has types=3. Pass the name of a type, or a tuple of 2 names.",
    ),
    "types": (
        with_factors(Factors([[0, 0]], types=("word",))),
        "X[0]: factors['f'] joins 2 variables, but has 1 types: ('word',).",
    ),
    "range of a type": (
        with_factors(Factors([[0, 0], [2, 1]], types=("word", "topic"))),
        "X[0]: factors['f'][1] names variable 1 of type 'topic', but there are 1, counted from 0.",
    ),
    "unknown type": (
        with_factors(Factors(np.empty((0, 2), int), types=("word", "author"))),
        "factors 'f' join variables of type 'author', but the types are ['word', 'topic'].",
    ),
    "widths": (
        [(U, []), (np.ones((4, 3)), [])],
        "X[1]: variables of type 'node' have 3 features, but the model has 2.",
    ),
    "edge widths": (
        [(U, [[0, 1]], [[1.0]]), (U, [[0, 1]], [[1.0, 2.0]])],
        "X[1]: factors 'edge' have 2 features, but the model has 1.",
    ),
    "two meanings": (
        [*with_factors(Factors([[0, 1]], types="word")), *with_factors(Factors([[0, 0]], types=("word", "topic")))],
        "X[1]: factors 'f' join ('word', 'topic'), but others of that type join ('word', 'word').",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name, fitted_graph):
    X, message = GRAPHS[name]
    y = [[0, 1, 1, 0]] * (len(X) if hasattr(X, "__len__") else 1)
    assert_untouched(fitted_graph, lambda: fitted_graph.fit(X, y), f"GraphCRF.fit: {message}")


def test_graphs_of_another_model(fitted_graph):
    for X, message in (
        ([(np.ones((4, 3)), [])], "X[0]: variables of type 'node' have 3 features, but the model has 2."),
        (
            [GraphInstance({"word": U})],
            "X[0]: variables of type 'word' are new to the model, which was fitted to ['node'].",
        ),
        ([GraphInstance(U, factors={"far": [[0, 1]]})], "X[0]: factors 'far' are new to the model"),
        ([(U, [[0, 1]], [[1.0, 2.0]])], "X[0]: factors 'edge' have 2 features, but the model has 1."),
        ([GraphInstance(U, factors={"edge": [[0, 1, 2]]})], "X[0]: factors 'edge' join ('node', 'node', 'node')"),
    ):
        for method in ("predict", "predict_marginals"):
            assert_untouched(
                fitted_graph, lambda m=method, X=X: getattr(fitted_graph, m)(X), f"GraphCRF.{method}: {message}"
            )


LABELS = {
    "fewer": (lambda y: y[:2], "X has 3 examples, but y has 2. Pass labels for each example."),
    "number": (lambda y: 3, "X has 3 examples, but y has int."),
    "outside": (lambda y: changed(y, 1, np.asarray(y[1]) + 5), "y[1]"),
    "hidden": (lambda y: [np.asarray(labels) * 0 - 1 for labels in y], "all labels are hidden."),
    "none": (lambda y: [np.full(np.shape(labels), None) for labels in y], "all labels are hidden."),
    "minus one and one": (lambda y: [2 * np.asarray(labels) - 1 for labels in y], "the labels are -1 and 1"),
    "one class": (lambda y: [np.asarray(labels) * 0 for labels in y], "the classes are [0]."),
    "no class": (lambda y: [np.zeros((*np.shape(labels), 2), bool) for labels in y], "y[0]"),
    "by type": (
        lambda y: [{"node": labels} for labels in y],
        "y[0] is a dict with keys ['node'], but the variables have no",
    ),
    "kinds": (lambda y: changed(y, 1, np.where(y[1], "a", "b")), "y[1][0"),
}


@pytest.mark.parametrize("kind", ["grid", "graph"])
@pytest.mark.parametrize("name", LABELS)
def test_labels(name, kind, fitted_graph, fitted_grid):
    crf = fitted_graph if kind == "graph" else fitted_grid
    X, y = graphs() if kind == "graph" else images()
    spoil, message = LABELS[name]
    if name == "outside":  # with classes, since otherwise all labels of an image would become classes
        crf = copy(crf).set_params(classes=[0, 1])
    assert_untouched(crf, lambda: crf.fit(X, spoil(y)), f"{type(crf).__name__}.fit: {message}")


def test_shapes_of_labels(fitted_graph, fitted_grid):
    X, y = graphs()
    assert_untouched(
        fitted_graph,
        lambda: fitted_graph.fit(X, changed(y, 2, [0, 1])),
        "GraphCRF.fit: y[2] has shape (2,) but X[2] has 4 variables. Pass one label for each; use -1 for a "
        "hidden label.",
    )
    X, y = images()
    assert_untouched(
        fitted_grid,
        lambda: fitted_grid.fit(X, changed(y, 1, np.zeros((2, 4), int))),
        "GridCRF.fit: y[1] has shape (2, 4) but X[1] has shape (2, 3, 2). Pass one label per pixel; use -1 for a "
        "hidden label.",
    )


def test_labels_by_type():
    X = with_factors(Factors([[0, 0]], types=("word", "topic"))) * 2
    crf = GraphCRF(learner=LEARNER)
    y = [{"word": [0, 1, 1], "topic": ["a"]}, {"word": [1, 1, 0], "topic": ["b"]}]
    for labels, message in (
        ([[0, 1, 1]] * 2, "y[0] is of type list, but there are several types of variables."),
        (changed(y, 1, {"words": [0, 1, 1]}), "y[1] has labels of 'words', but the types are ['word', 'topic']."),
        (changed(y, 1, {"word": [0, 1]}), "y[1]['word'] has shape (2,) but X[1] has 3 variables of type 'word'."),
        (
            [{"word": one["word"]} for one in y],
            "type 'topic': all labels are hidden. Label some of the variables, or list the classes",
        ),
    ):
        assert_untouched(crf, lambda labels=labels: crf.fit(X, labels), f"GraphCRF.fit: {message}")
    crf.set_params(classes=[0, 1])
    assert_untouched(crf, lambda: crf.fit(X, y), "GraphCRF.fit: classes must be a dict by type")
    crf.set_params(classes={"topic": ["a", "c"]})
    assert_untouched(
        crf, lambda: crf.fit(X, y), "GraphCRF.fit: y[1]['topic'][0] is 'b', but the classes are ['a', 'c']."
    )
    crf.set_params(classes=None, class_weight={"a": 2.0})
    assert_untouched(crf, lambda: crf.fit(X, y), "GraphCRF.fit: class_weight has weights for type 'a'")
    crf.set_params(class_weight={"topic": {"a": 2.0}})
    assert crf.fit(X, y).predict(X)[0]["topic"].dtype.kind == "U"


def test_weights_of_examples(fitted_graph):
    X, y = graphs()
    for weights, message in (
        ([1.0, 2.0], "sample_weight has shape (2,), but X has 3 examples. Pass one number for each example."),
        ([1.0, -2.0, 1.0], "sample_weight[1] is -2.0. Weights must be finite and at least 0."),
        ([1.0, np.nan, 1.0], "sample_weight[1] is nan."),
        (["a", "b", "c"], "sample_weight: expected numbers"),
    ):
        assert_untouched(
            fitted_graph, lambda w=weights: fitted_graph.fit(X, y, sample_weight=w), f"GraphCRF.fit: {message}"
        )
        assert_untouched(
            fitted_graph, lambda w=weights: fitted_graph.score(X, y, sample_weight=w), f"GraphCRF.score: {message}"
        )
    with pytest.raises(InvalidInputError, match="weight of 0"):
        fitted_graph.fit(X, y, sample_weight=[0.0] * 3)
    with pytest.raises(InvalidInputError, match="all labels are hidden, or belong to examples of weight 0"):
        fitted_graph.score(X, y, sample_weight=[0.0] * 3)


def test_single_pixels(fitted_grid):
    dots, labels = [np.ones((1, 1, 2))] * 2, [[[0]], [[1]]]
    assert_untouched(fitted_grid, lambda: fitted_grid.fit(dots, labels), "GridCRF.fit: every image is a single pixel")
    assert fitted_grid.predict(dots)[0].shape == (1, 1)  # predicting a single pixel works
    X, y = images()
    assert (
        GridCRF(learner=LEARNER).fit([*X, *dots], [*y, *labels]).status_.name == "CONVERGED"
    )  # and so does fitting with other images


def test_pairs_of_images_and_edges(fitted_grid):
    X, y = images()
    v = np.ones((7, 1))
    for given, message in (
        ([(X[0], v), X[1], X[2]], "X contains tuples. Pass (image, edge_features) for every image"),
        ([(image, v, v) for image in X], "X contains tuples."),
        ([(image, v[1:]) for image in X], "edge_features[0] has shape (6, 1), but the 2x3 grid of X[0] has 7 edges"),
    ):
        assert_untouched(fitted_grid, lambda X=given: fitted_grid.fit(X, y), f"GridCRF.fit: {message}")


@pytest.mark.parametrize("pairs", [False, True])
def test_edge_features_must_be_in_all_graphs_or_none(pairs):
    """Two columns of features could be mistaken for the indicators of the two directions, and vice versa."""
    X, y = images()
    v = [np.random.default_rng(i).normal(size=(7, 2)) for i in range(len(X))]
    both = list(zip(X, v, strict=True))
    plain = GridCRF(learner=LEARNER).fit(X, y)
    own = GridCRF(learner=LEARNER).fit(both, y) if pairs else GridCRF(learner=LEARNER).fit(X, y, v)
    assert own.edge_weights_.shape == plain.edge_weights_.shape == (4, 2)
    assert_untouched(own, lambda: own.predict(X), "GridCRF.predict: edge features are not passed, but fit had some.")
    assert_untouched(plain, lambda: plain.predict(both), "GridCRF.predict: edge features are passed, but fit had none.")
    fresh = GridCRF(learner=LEARNER)
    with pytest.raises(InvalidInputError, match="validation: edge features are not passed, but fit had some"):
        fresh.fit(X, y, v, validation=(X, y))


def test_settings(fitted_graph):
    X, y = graphs()
    crf = copy(fitted_graph)
    for settings, message in (
        (
            {"symmetric": "edge"},
            "GraphCRF.fit: symmetric must be True, False or a list of types of factors, got 'edge'.",
        ),
        ({"symmetric": 3}, "GraphCRF.fit: symmetric must be True, False or a list of types of factors, got 3."),
        (
            {"symmetric": ["edges"]},
            "GraphCRF.fit: Templates: symmetric contains 'edges', but the factors are ['edge'].",
        ),
        ({"learner": "risk"}, "GraphCRF.fit: learner='risk' is not known."),
        ({"class_weight": "even"}, "GraphCRF.fit: class_weight must be None, 'balanced' or a dict"),
        ({"random_state": -1}, "GraphCRF.fit: RiskMinimizer: random_state must be an integer"),
        ({"decode": "best"}, "GraphCRF.fit: decode='best' is not known."),
    ):
        changed_crf = copy(crf).set_params(**settings)
        assert_untouched(changed_crf, lambda c=changed_crf: c.fit(X, y), message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference": "junction_tree"}, "GraphCRF.fit: TruncatedGradient cannot differentiate JunctionTree."),
        (
            {"learner": RiskMinimizer(loss="likelihood"), "class_weight": "balanced"},
            "GraphCRF.fit: Likelihood is not a sum over variables, so it supports no weights",
        ),
    ],
)
def test_incompatible_settings_raise_before_any_work(settings, message, fitted_graph, monkeypatch):
    monkeypatch.setattr(Risk, "__call__", lambda *_: pytest.fail("a risk was computed"))
    crf = copy(fitted_graph).set_params(**settings)
    assert_untouched(crf, lambda: crf.fit(*graphs()), message, NotSupportedError)


def test_a_graph_without_factors_needs_a_loss_of_variables():
    with pytest.raises(InvalidInputError, match=r"CliqueLogistic needs a factor whose.*'univariate_logistic'"):
        GraphCRF().fit([(U,)], [[0, 1, 0, 1]])
