"""GridCRF on synthetic images: it beats single pixels, follows scikit-learn, and raises for invalid input."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from tests.oracles.finite_differences import central_differences, relative_error

import intarsia
from intarsia.crf import GridCRF
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import Status
from intarsia.learning import LBFGS, RiskMinimizer, example
from intarsia.models import LinearScores


def noisy_images(n, size=(16, 16), noise=1.0, n_classes=2, seed=0):
    """Make noisy images of blobs (smoothed noise split at its quantiles), with a constant feature."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        field = rng.normal(size=size)
        for _ in range(6):
            field = sum(np.roll(field, s, axis) for axis in (0, 1) for s in (-1, 0, 1))
        cuts = np.quantile(field, np.arange(1, n_classes) / n_classes)
        labels = np.digitize(field, cuts)
        seen = labels - (n_classes - 1) / 2 + noise * rng.normal(size=size)
        X.append(np.stack([seen, np.ones(size)], axis=2))
        y.append(labels)
    return X, y


def quick(**settings):
    settings = {"gradient": TruncatedGradient(n_iter=5), "optimizer": LBFGS(max_iter=200, tol=1e-4)} | settings
    return RiskMinimizer(**settings)


@pytest.fixture(scope="module")
def fitted():
    return GridCRF(learner=quick()).fit(*noisy_images(8))


@pytest.mark.parametrize("loss", ["clique_logistic", "univariate_logistic"])
def test_neighbours_beat_single_pixels(loss, fitted):
    unseen = noisy_images(8, seed=1)
    crf = fitted if loss == "clique_logistic" else GridCRF(learner=quick(loss=loss)).fit(*noisy_images(8))
    alone = copy(crf)
    alone.weights_ = alone.initial_weights_
    assert not alone.edge_weights_.any()
    assert crf.score(*unseen) > alone.score(*unseen) + 0.05


def test_initial_model_is_logistic_regression():
    """The start maximises the likelihood of single pixels, computed here by hand."""
    X, y = noisy_images(3, (5, 6), n_classes=3)
    crf = GridCRF(learner=quick(l2=0.9)).fit(X, y)
    u, t = np.concatenate([x.reshape(-1, 2) for x in X]), np.concatenate([labels.ravel() for labels in y])

    def risk(flat):
        s = u @ flat.reshape(3, 2).T
        return float(np.mean(np.log(np.exp(s).sum(axis=1)) - s[np.arange(t.size), t]) + 0.005 * flat @ flat)

    assert np.abs(central_differences(risk, crf.initial_weights_[:6])).max() < 1e-3


def test_fit_reaches_a_minimum_of_the_risk(fitted):
    X, y = noisy_images(8)
    assert fitted.status_ is Status.CONVERGED
    examples = []
    for image, labels in zip(X, y, strict=True):
        graph = intarsia.grid_graph(16, 16, 2)
        direction = np.repeat(np.eye(2), 16 * 15, axis=0)
        examples.append(example(LinearScores(graph, image.reshape(-1, 2), direction), labels.ravel()))
    risk = quick().risk(examples, "tree_reweighted")
    assert risk(fitted.weights_)[0] == pytest.approx(fitted.risk_)
    assert np.abs(central_differences(lambda w: risk(w)[0], fitted.weights_)).max() < 2e-4
    away = fitted.weights_ + 0.1
    assert relative_error(risk(away)[1], central_differences(lambda w: risk(w)[0], away)) < 1e-6


@pytest.mark.parametrize("inference", ["tree_reweighted", "belief_propagation", "mean_field"])
def test_predictions_use_the_sweeps_of_training(inference):
    X, y = noisy_images(2, (4, 5))
    crf = GridCRF(inference=inference, learner=quick(l2=4.0)).fit(X, y)
    graph = intarsia.grid_graph(4, 5, 2)
    scores = LinearScores(graph, X[0].reshape(-1, 2), np.repeat(np.eye(2), [16, 15], axis=0))
    one = example(scores, y[0].ravel())
    risk = quick().risk([one], inference)
    result = risk.rule.value_and_gradient(graph, scores.theta(crf.weights_), one.labels, risk.loss, risk.inference)
    np.testing.assert_allclose(crf.predict_marginals(X)[0].ravel(), result.mu[:40], atol=1e-12)


def test_without_truncation_it_predicts_with_the_inference_itself():
    X, y = noisy_images(2, (4, 5))
    crf = GridCRF(learner=quick(loss="likelihood", gradient="auto", l2=4.0), inference="junction_tree").fit(X, y)
    graph = intarsia.grid_graph(4, 5, 2)
    scores = LinearScores(graph, X[0].reshape(-1, 2), np.repeat(np.eye(2), [16, 15], axis=0))
    exact = intarsia.infer(graph, scores.theta(crf.weights_), "junction_tree").mu[:40]
    np.testing.assert_allclose(crf.predict_marginals(X)[0].ravel(), exact, atol=1e-12)


def test_sizes_may_differ_and_labels_be_hidden():
    X, y = noisy_images(4, (9, 7))
    more = noisy_images(4, (6, 12), seed=5)
    X, y = X + more[0], y + more[1]
    X.append(np.ones((1, 1, 2)))
    y.append(np.array([[1]]))
    rng = np.random.default_rng(0)
    partly = [np.where(rng.random(labels.shape) < 0.2, -1, labels) for labels in y]
    crf = GridCRF(learner=quick()).fit(X, partly)
    result = crf.predict(X)
    assert [p.shape for p in result] == [labels.shape for labels in y]
    shown = [labels != -1 for labels in partly]
    right = sum(int((p == labels)[s].sum()) for p, labels, s in zip(result, y, shown, strict=True))
    assert crf.score(X, partly) == pytest.approx(right / sum(int(s.sum()) for s in shown))
    for marginals in crf.predict_marginals(X):
        np.testing.assert_allclose(marginals.sum(axis=2), 1.0)


def test_sets_with_one_label_equal_the_label():
    X, y = noisy_images(3, (5, 5), n_classes=3)
    y[0][2, 2] = -1
    allowed = [(labels[:, :, None] == np.arange(3)) | (labels == -1)[:, :, None] for labels in y]
    first, second = (GridCRF(learner=quick(l2=0.9)).fit(X, labels) for labels in (y, allowed))
    np.testing.assert_allclose(first.weights_, second.weights_, atol=1e-10)
    assert first.score(X, y) == second.score(X, allowed)


def test_classes_keep_their_names():
    X, y = noisy_images(3, (5, 5))
    plain = GridCRF(learner=quick()).fit(X, y)
    named = GridCRF(learner=quick()).fit(X, [4 + 3 * labels for labels in y])
    assert named.classes_.tolist() == [4, 7]
    np.testing.assert_array_equal(named.weights_, plain.weights_)
    np.testing.assert_array_equal(named.predict(X)[0], 4 + 3 * plain.predict(X)[0])
    wide = GridCRF(learner=quick(), classes=[2, 0, 1]).fit(X, y)
    assert wide.classes_.tolist() == [2, 0, 1]
    assert wide.node_weights_.shape == (3, 2)
    assert wide.edge_weights_.shape == (9, 2)


@pytest.mark.parametrize("connectivity", [4, 8])
def test_edge_features_dense_and_sparse(connectivity):
    X, y = noisy_images(3, (5, 6))
    n_edges = intarsia.grid_graph(5, 6, 2, connectivity=connectivity).n_factors
    v = [np.random.default_rng(i).normal(size=(n_edges, 3)) for i in range(3)]
    crf = GridCRF(learner=quick(l2=0.9), connectivity=connectivity)
    dense = clone(crf).fit(X, y, v)
    thin = clone(crf).fit(X, y, [sparse.csr_array(one) for one in v])
    np.testing.assert_allclose(dense.weights_, thin.weights_, atol=1e-6)
    assert dense.edge_weights_.shape == (4, 3)
    assert dense.score(X, y, v) == thin.score(X, y, v)
    assert clone(crf).fit(X, y).edge_weights_.shape == (4, connectivity // 2)
    with pytest.raises(InvalidInputError, match="pass edge_features if and only if fit had them"):
        dense.predict(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pixel_features_dense_and_sparse(dtype):
    X, y = noisy_images(3, (5, 6))
    X = [np.where(np.random.default_rng(i).random((5, 6, 1)) < 0.5, x, 0.0).astype(dtype) for i, x in enumerate(X)]
    thin = [sparse.csr_array(x.reshape(30, 2)).reshape((5, 6, 2)) for x in X]
    assert [x.ndim for x in thin] == [3] * 3
    crf = GridCRF(learner=quick(l2=0.9))
    of_dense, of_thin = clone(crf).fit(X, y), clone(crf).fit(thin, y)
    np.testing.assert_allclose(of_thin.weights_, of_dense.weights_, atol=1e-6)
    for x, other in zip(of_dense.predict_marginals(X), of_dense.predict_marginals(thin), strict=True):
        np.testing.assert_allclose(other, x, atol=1e-12)
    (one,) = of_thin._read(thin[:1], None, None).score_maps(of_thin.templates_)
    assert sparse.issparse(one.blocks[0].features)
    assert one.blocks[0].features.dtype == dtype
    paired = [(x, np.ones((49, 1))) for x in thin]
    assert clone(crf).fit(paired, y).edge_weights_.shape == (4, 1)
    with pytest.raises(InvalidInputError, match=r"y\[1\] has shape \(6, 5\) but X\[1\] has shape \(5, 6, 2\)"):
        clone(crf).fit(thin, put(y, 1, y[1].T))


def test_threads_change_nothing():
    X, y = noisy_images(4, (4, 5))
    one, two = (GridCRF(learner=quick(n_jobs=n)).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.predict_marginals(X), two.predict_marginals(X))


def test_follows_scikit_learn():
    X, y = noisy_images(4, (5, 6))
    X[0], y[0] = X[0][:4], y[0][:4]
    search = GridSearchCV(GridCRF(learner=quick()), {"learner__l2": [0.5, 5e3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"learner__l2": 0.5}
    assert search.predict(X)[0].shape == (4, 6)
    with pytest.raises(NotFittedError):
        GridCRF().predict(X)


@pytest.mark.parametrize("call", [1, 30])
def test_interrupt_keeps_the_best_weights(monkeypatch, call):
    """Ctrl-C during the independent model, and during the main fit."""
    from intarsia.learning.risk import Risk

    whole, count = Risk.__call__, []

    def broken_off(self, weights):
        count.append(1)
        if len(count) == call + 1:
            raise KeyboardInterrupt
        return whole(self, weights)

    monkeypatch.setattr(Risk, "__call__", broken_off)
    X, y = noisy_images(3, (5, 6))
    crf = GridCRF(learner=quick(optimizer=LBFGS(tol=1e-9))).fit(X, y)
    assert crf.status_ is Status.INTERRUPTED
    assert crf.predict(X)[0].shape == (5, 6)
    if call == 1:  # the risk of the main fit was never computed
        assert np.isnan(crf.risk_)
        np.testing.assert_array_equal(crf.weights_, crf.initial_weights_)
    else:
        assert crf.risk_ <= crf.history_["risk"][0]


def put(arrays, i, value):
    return [value if j == i else array for j, array in enumerate(arrays)]


def holed(image):
    image = image.copy()
    image[1, 2, 0] = np.nan
    return image


BAD = {
    "empty": (lambda X, y: ([], []), "X is empty"),
    "no list": (lambda X, y: (3.0, y), "X must be a list"),
    "flat image": (lambda X, y: (put(X, 1, X[1][:, :, 0]), y), r"X\[1\] has shape \(4, 5\), expected \(H, W"),
    "sparse image": (
        lambda X, y: (put(X, 1, sparse.csr_array(X[1][0])), y),
        r"X\[1\] is a sparse matrix of shape \(5, 2\).*reshape\(\(H, W, n_features\)\).*use GraphCRF",
    ),
    "sparse nan": (
        lambda X, y: (put(X, 1, sparse.coo_array(holed(X[1]))), y),
        r"X\[1\]\[1, 2, 0\] is nan",
    ),
    "sparse words": (lambda X, y: (put(X, 1, sparse.coo_array(X[1]).astype(complex)), y), r"X\[1\]: expected numbers"),
    "features": (lambda X, y: (put(X, 2, X[2][:, :, :1]), y), r"X\[2\] has 1 features, but the model has 2"),
    "nan": (lambda X, y: (put(X, 1, holed(X[1])), y), r"X\[1\]\[1, 2, 0\] is nan"),
    "labels' shape": (
        lambda X, y: (X, put(y, 1, y[1].T)),
        r"GridCRF.fit: y\[1\] has shape \(5, 4\) but X\[1\] has shape \(4, 5, 2\)",
    ),
    "fewer labels": (lambda X, y: (X, y[:2]), "X has 3 examples, but y has 2"),
    "fractions": (lambda X, y: (X, put(y, 0, y[0] + 0.5)), r"y\[0\]: expected integers"),
    "negative": (lambda X, y: (X, put(y, 0, y[0] - 5)), r"y\[0\]\[0, 0\] is -[45], but the classes are \[0, 1\]"),
    "all hidden": (lambda X, y: (X, [labels * 0 - 1 for labels in y]), "all labels are hidden"),
    "-1 and 1": (lambda X, y: (X, [2 * labels - 1 for labels in y]), "-1 means hidden. Use 0 and 1"),
    "one class": (lambda X, y: (X, [labels * 0 for labels in y]), r"classes are \[0\]"),
    "single pixels": (lambda X, y: ([x[:1, :1] for x in X[:2]], [[[0]], [[1]]]), "every image is a single pixel"),
    "no class": (lambda X, y: (X, [np.zeros((4, 5, 2), bool)] * 3), r"y\[0\]\[0, 0\] allows no class"),
    "all allowed": (lambda X, y: (X, [np.ones((4, 5, 2), bool)] * 3), "all labels are hidden"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_data_raises_and_weights_are_unchanged(name, fitted):
    X, y = noisy_images(3, (4, 5))
    crf = copy(fitted)
    before = crf.weights_.copy()
    spoil, message = BAD[name]
    with pytest.raises(InvalidInputError, match=message):
        crf.fit(*spoil(X, y))
    np.testing.assert_array_equal(crf.weights_, before)
    assert crf.predict(X)[0].shape == (4, 5)


def test_invalid_settings(fitted):
    X, y = noisy_images(3, (4, 5))
    with pytest.raises(InvalidInputError, match=r"but the classes are \[0, 2\]"):
        GridCRF(classes=[0, 2]).fit(X, y)
    with pytest.raises(InvalidInputError, match="classes must be distinct"):
        GridCRF(classes=[0, 0]).fit(X, y)
    with pytest.raises(InvalidInputError, match="connectivity must be 4 or 8, got 6"):
        GridCRF(connectivity=6).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"GridCRF.fit: learner='risk' is not known. Known: 'risk_minimizer'"):
        GridCRF(learner="risk").fit(X, y)
    with pytest.raises(InvalidInputError, match=r"learner must be a name .* or a settings object, got LBFGS"):
        GridCRF(learner=LBFGS()).fit(X, y)
    with pytest.raises(NotSupportedError, match="TruncatedGradient cannot differentiate JunctionTree"):
        GridCRF(inference="junction_tree").fit(X, y)
    with pytest.raises(InvalidInputError, match="2 arrays of edge features for 3 images"):
        GridCRF().fit(X, y, [np.ones((31, 1))] * 2)
    with pytest.raises(InvalidInputError, match="has 31 edges"):
        GridCRF().fit(X, y, [np.ones((30, 1))] * 3)
    with pytest.raises(InvalidInputError, match=r"edge_features\[0\]\[0\] contains nan"):
        GridCRF().fit(X, y, [np.full((31, 1), np.nan)] * 3)
    with pytest.raises(InvalidInputError, match="has 3 features, but the model has 2"):
        fitted.predict([np.ones((3, 3, 3))])
    with pytest.raises(InvalidInputError, match="all labels are hidden"):
        fitted.score(X, [labels * 0 - 1 for labels in y])
