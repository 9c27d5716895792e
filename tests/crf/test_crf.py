"""Behaviour common to GridCRF and GraphCRF: scikit-learn conventions, labels of the user, warm starts."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import intarsia
from intarsia import GraphCRF, GridCRF, RiskMinimizer
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.gradients import TruncatedGradient
from intarsia.inference import Status
from intarsia.inference.messages.pairwise_messages import PairwiseMaxMessages, PairwiseMessages
from intarsia.learning import LBFGS, SGD, Adam, Incremental, example
from intarsia.learning.risk import Risk
from intarsia.losses import Likelihood
from intarsia.models import LinearScores


def quick(**settings):
    settings = {"gradient": TruncatedGradient(n_iter=3), "optimizer": LBFGS(tol=1e-4), "l2": 4.0} | settings
    return RiskMinimizer(**settings)


def pictures(n=4, sizes=((4, 5),), seed=0):
    """Make noisy images whose left and right halves have different labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        height, width = sizes[i % len(sizes)]
        labels = np.repeat([np.arange(width) >= width // 2], height, axis=0).astype(int)
        X.append((labels - 0.5 + 0.3 * rng.normal(size=(height, width)))[:, :, None])
        y.append(labels)
    return X, y


def as_graphs(X):
    result = []
    for image in X:
        graph = intarsia.grid_graph(*image.shape[:2], 2)
        result.append((image.reshape(-1, 1), graph.scope_idx.reshape(-1, 2)))
    return result


@pytest.fixture(params=["grid", "graph"])
def problem(request):
    """Estimator, X and y, for grids and for graphs."""
    X, y = pictures(sizes=((4, 5), (3, 6)))
    if request.param == "grid":
        return GridCRF(learner=quick()), X, y
    return GraphCRF(learner=quick()), as_graphs(X), [labels.ravel() for labels in y]


# -------------------------------------------------------------------- scikit-learn


def test_clone_repr_and_nested_settings(problem):
    crf, X, y = problem
    crf.set_params(class_weight="balanced", n_jobs=2, classes=[0, 1])
    copy = clone(crf)
    assert copy.get_params()["learner__l2"] == 4.0
    assert copy.learner is not crf.learner
    assert repr(copy) == repr(crf)
    assert "class_weight='balanced'" in repr(crf)
    copy.set_params(learner__l2=1.0, learner__gradient__n_iter=2, inference__max_iter=7)
    assert (copy.learner.l2, copy.learner.gradient.n_iter, copy.inference.max_iter) == (1.0, 2, 7)
    assert (crf.learner.l2, crf.inference) == (4.0, "tree_reweighted")
    assert crf.fit(X, y) is crf


def test_fitted_models_can_be_pickled(problem):
    crf, X, y = problem
    again = pickle.loads(pickle.dumps(crf.fit(X, y)))
    np.testing.assert_array_equal(again.predict(X)[0], crf.predict(X)[0])


def test_names_stand_for_objects_with_their_defaults(problem):
    kind = type(problem[0])
    assert kind(learner="risk_minimizer")._resolve_learner().l2 == RiskMinimizer().l2
    changed = kind().set_params(learner__l2=0.5, inference="mean_field")
    assert changed.learner.l2 == 0.5
    assert changed.inference == "mean_field"
    with pytest.raises(ValueError, match="Invalid parameter 'l3'"):
        kind().set_params(learner__l3=0.5)


def test_settings_of_the_estimator_override_those_of_the_learner(problem):
    crf, _, _ = problem
    learner = quick(n_jobs=1, random_state=5, verbose=True)
    crf.set_params(learner=learner, n_jobs=2, random_state=7, verbose=False)
    result = crf._resolve_learner()
    assert (result.n_jobs, result.random_state, result.verbose) == (2, 7, False)
    assert (learner.n_jobs, learner.random_state, learner.verbose) == (1, 5, True)
    crf.set_params(n_jobs=None, random_state=None, verbose=None)
    result = crf._resolve_learner()
    assert (result.n_jobs, result.random_state, result.verbose) == (1, 5, True)


def test_invalid_numbers_of_workers(problem):
    crf, X, y = problem
    for n_jobs, message in ((0, "n_jobs is 0, but work needs a worker"), (1.5, "n_jobs must be an integer")):
        with pytest.raises(InvalidInputError, match=message):
            clone(crf).set_params(n_jobs=n_jobs).fit(X, y)
    crf.fit(X, y).set_params(n_jobs=0)
    with pytest.raises(InvalidInputError, match=r"predict: n_jobs is 0"):
        crf.predict(X)


def test_grid_search_over_nested_settings(problem):
    crf, X, y = problem
    grid = {"learner__l2": [4.0, 1e6], "inference__damping": [0.0, 0.1]}
    search = GridSearchCV(crf, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["learner__l2"] == 4.0
    assert len(search.predict(X)) == len(X)
    scores = cross_val_score(crf, X, y, cv=2, params={"sample_weight": np.ones(len(X))}, error_score="raise")
    assert (scores > 0.8).all()


class Twice(TransformerMixin, BaseEstimator):
    """Features of each image, and their squares."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [np.concatenate([image, image**2], axis=2) for image in X]


@pytest.mark.parametrize(
    "first", [Twice(), FunctionTransformer(lambda X: Twice().transform(X))], ids=["own", "function"]
)
def test_pipelines_over_lists(first):
    X, y = pictures(sizes=((4, 5), (3, 6)))
    pipe = Pipeline([("more", first), ("crf", GridCRF(learner=quick()))]).fit(X, y)
    assert pipe["crf"].node_weights_.shape == (2, 2)
    assert pipe.score(X, y) > 0.9
    direct = GridCRF(learner=quick()).fit(Twice().transform(X), y)
    np.testing.assert_array_equal(pipe.predict(X)[1], direct.predict(Twice().transform(X))[1])


def test_pairs_of_images_and_edge_features_are_edge_features():
    X, y = pictures()
    v = [np.random.default_rng(i).normal(size=(31, 2)) for i in range(4)]
    beside = GridCRF(learner=quick()).fit(X, y, v)
    inside = GridCRF(learner=quick()).fit(list(zip(X, v, strict=True)), y)
    np.testing.assert_array_equal(inside.weights_, beside.weights_)
    assert inside.score(list(zip(X, v, strict=True)), y) == beside.score(X, y, v)
    assert cross_val_score(GridCRF(learner=quick()), list(zip(X, v, strict=True)), y, cv=2).shape == (2,)


# -------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("names", "hidden"),
    [(np.array([3, 8]), -1), (np.array(["left", "right"]), None), (np.array([False, True]), None)],
    ids=["integers", "strings", "booleans"],
)
def test_predictions_are_labels_of_the_user(problem, names, hidden):
    crf, X, y = problem
    plain = clone(crf).fit(X, y)
    named = clone(crf).fit(X, [names[labels] for labels in y])
    np.testing.assert_array_equal(named.weights_, plain.weights_)
    result = named.predict(X)
    assert result[0].dtype == names.dtype
    np.testing.assert_array_equal(result[1], names[plain.predict(X)[1]])
    if names.dtype.kind == "b":
        return
    partly, objects = [labels.copy() for labels in y], [names[labels].astype(object) for labels in y]
    for ints, given in zip(partly, objects, strict=True):
        ints.flat[3], given.flat[3] = -1, hidden
    np.testing.assert_array_equal(clone(crf).fit(X, objects).weights_, clone(crf).fit(X, partly).weights_)
    lists = [given.tolist() for given in objects]
    np.testing.assert_array_equal(clone(crf).fit(X, lists).weights_, clone(crf).fit(X, partly).weights_)


def test_sets_in_lists_are_boolean_arrays(problem):
    crf, X, y = problem
    crf.set_params(classes=["a", "b", "c"])
    lists, arrays = [], []
    for labels in y:
        given = np.array(["a", "b"], object)[labels]
        given.flat[0] = frozenset({"a", "c"})
        given.flat[4] = None
        allowed = labels[..., None] == np.arange(3)
        allowed.reshape(-1, 3)[0] = [True, False, True]
        allowed.reshape(-1, 3)[4] = True
        lists.append(given.tolist())
        arrays.append(allowed)
    np.testing.assert_array_equal(clone(crf).fit(X, lists).weights_, clone(crf).fit(X, arrays).weights_)
    fitted = crf.fit(X, lists)
    single = [[label if isinstance(label, str) else None for label in np.ravel(np.array(one, object))] for one in lists]
    right = total = 0
    for result, truth in zip(fitted.predict(X), single, strict=True):
        right += sum(p == t for p, t in zip(result.ravel(), truth, strict=True) if t is not None)
        total += sum(t is not None for t in truth)
    assert fitted.score(X, lists) == right / total


def test_class_weight_is_a_weight_of_variables(problem):
    crf, X, y = problem
    y = [np.where(np.arange(labels.size).reshape(labels.shape) < 6, 0, labels) for labels in y]
    counts = np.bincount(np.concatenate([labels.ravel() for labels in y]))
    dictionary = {c: counts.sum() / (2 * counts[c]) for c in (0, 1)}
    fits = [clone(crf).set_params(class_weight=w).fit(X, y) for w in (None, "balanced", dictionary)]
    np.testing.assert_allclose(fits[1].weights_, fits[2].weights_, atol=1e-10)
    assert np.abs(fits[0].weights_ - fits[1].weights_).max() > 1e-3
    with pytest.raises(NotSupportedError, match="univariate_logistic"):
        crf.set_params(class_weight="balanced", learner=quick(loss=Likelihood(inference="junction_tree"))).fit(X, y)


def test_single_precision_features_remain_so():
    X, y = pictures()
    small = [image.astype(np.float32) for image in X]
    large = [image.astype(np.float64) for image in small]
    one, other = (GridCRF(learner=quick()).fit(data, y) for data in (small, large))
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
    maps = one._read(small, None, one.templates_).score_maps(one.templates_)
    assert all(np.shares_memory(scores.blocks[0].features, image) for scores, image in zip(maps, small, strict=True))


# -------------------------------------------------------------------- warm start and partial_fit


def test_warm_start_continues_from_the_weights(problem):
    crf, X, y = problem
    crf.set_params(warm_start=True).fit(X, y)
    first, n_iter = crf.weights_, crf.n_iter_
    assert n_iter > 2
    crf.fit(X, y)
    assert crf.n_iter_ <= 1
    np.testing.assert_array_equal(crf.initial_weights_, first)
    crf.fit(X[:1], [y[0] * 0])  # the classes remain, although only one occurs here
    assert crf.classes_.tolist() == [0, 1]
    before = crf.weights_
    with pytest.raises(InvalidInputError, match=r"is 2, but the classes are \[0, 1\]"):
        crf.fit(X, [labels * 2 for labels in y])
    with pytest.raises(InvalidInputError, match=r"classes are \[0, 1, 2\], but the model has \[0, 1\]"):
        crf.set_params(classes=[0, 1, 2]).fit(X, y)
    assert crf.weights_ is before


def test_start_is_where_the_fit_begins(problem):
    crf, X, y = problem
    full = clone(crf).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        stay = clone(crf).set_params(learner__optimizer=LBFGS(max_iter=0, tol=0.0)).fit(X, y, start=full.weights_)
    np.testing.assert_array_equal(stay.weights_, full.weights_)
    assert stay.risk_ == pytest.approx(full.risk_, rel=1e-12)
    with pytest.raises(InvalidInputError, match=r"start has shape \(3,\), but the model has"):
        crf.fit(X, y, start=np.zeros(3))


@pytest.mark.parametrize(
    "optimizer", [Adam(step_size=0.1, batch_size=2), SGD(step_size=0.5, batch_size=2)], ids=["adam", "sgd"]
)
def test_partial_fit_is_one_step_of_the_learner(problem, optimizer):
    crf, X, y = problem
    learner = quick(optimizer=optimizer)
    crf.set_params(learner=learner)
    maps = crf._read(X, None, None)
    for n in range(3):
        assert crf.partial_fit(X, y, classes=[0, 1]) is crf
        assert crf.n_iter_ == n + 1
        assert crf.history_["risk"].size == n + 1
    examples = []
    for scores, labels in zip(maps.score_maps(crf.templates_), y, strict=True):
        u, v = (block.features for block in scores.blocks)
        examples.append(example(LinearScores(scores.graph, u, v), labels.ravel()))
    weights, state = np.zeros(crf.weights_.size), None
    for _ in range(3):
        weights, state, _ = learner.step(examples, "tree_reweighted", weights, state)
    np.testing.assert_allclose(crf.weights_, weights, atol=1e-12)
    assert crf.history_["risk"][-1] < crf.history_["risk"][0]
    fresh = clone(crf).set_params(learner=quick()).fit(X, y).set_params(learner=learner)
    assert fresh.partial_fit(X[:2], y[:2]).classes_.tolist() == [0, 1]


def test_invalid_partial_fit_raises_and_changes_nothing(problem):
    crf, X, y = problem
    with pytest.raises(InvalidInputError, match="the first call needs all classes"):
        crf.set_params(learner=quick(optimizer="adam")).partial_fit(X, y)
    assert not hasattr(crf, "weights_")
    crf.partial_fit(X, y, classes=[0, 1])
    before = crf.weights_.copy()
    with pytest.raises(InvalidInputError, match=r"is 2, but the classes are \[0, 1\]"):
        crf.partial_fit(X, [labels * 2 for labels in y])
    with pytest.raises(InvalidInputError, match=r"classes are \[0, 1, 2\], but the model has \[0, 1\]"):
        crf.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InvalidInputError, match="class_weight='balanced' needs the whole data set"):
        crf.set_params(class_weight="balanced").partial_fit(X, y)
    with pytest.raises(NotSupportedError, match="LBFGS"):
        crf.set_params(class_weight=None, learner=quick()).partial_fit(X, y)
    np.testing.assert_array_equal(crf.weights_, before)
    assert crf.n_iter_ == 1
    with pytest.raises(InvalidInputError, match="random_state must be an integer"):
        clone(crf).set_params(random_state="a", learner=quick(optimizer="adam")).partial_fit(X, y, classes=[0, 1])


def test_one_fit_builds_one_risk_per_stage(problem, monkeypatch):
    """Checks build no risk: there is one of the independent model, one of the model, one of the validation set."""
    crf, X, y = problem
    built, whole = [], Risk.__init__

    def counted(risk, *args, **kwargs):
        built.append(risk)
        whole(risk, *args, **kwargs)

    monkeypatch.setattr(Risk, "__init__", counted)
    clone(crf).fit(X, y)
    assert len(built) == 2
    built.clear()
    clone(crf).fit(X[:2], y[:2], validation=(X[2:], y[2:]))
    assert len(built) == 3
    built.clear()
    clone(crf).set_params(learner__validation_fraction=0.5).fit(X, y)
    assert len(built) == 3


def test_validation_risk_is_recorded(problem):
    crf, X, y = problem
    fitted = clone(crf).fit(X[:2], y[:2], validation=(X[2:], y[2:]))
    assert fitted.history_["validation_risk"].size == fitted.history_["risk"].size
    best = fitted.history_["validation_risk"].min()
    stay = quick(l2=0.0).risk(
        [
            example(scores, np.ravel(labels))
            for scores, labels in zip(crf._read(X[2:], None, None).score_maps(fitted.templates_), y[2:], strict=True)
        ],
        "tree_reweighted",
    )
    assert stay(fitted.weights_)[0] == pytest.approx(best)
    with pytest.raises(InvalidInputError, match=r"validation must be a pair \(X, y\)"):
        crf.fit(X, y, validation=X)


# -------------------------------------------------------------------- decoding


def test_map_is_the_best_labelling():
    X, y = pictures(n=2, sizes=((2, 3),))
    crf = GridCRF(inference="junction_tree", learner=RiskMinimizer(loss="likelihood", l2=0.6), decode="map").fit(X, y)
    graph = intarsia.grid_graph(2, 3, 2)
    for image, result in zip(X, crf.predict(X), strict=True):
        theta = LinearScores(graph, image.reshape(-1, 1), np.repeat(np.eye(2), [4, 3], axis=0)).theta(crf.weights_)
        best = max(np.ndindex(*[2] * 6), key=lambda states: graph.score(theta, states))
        assert tuple(result.ravel()) == best
    assert crf.score(X, y) == np.mean([p == t for p, t in zip(crf.predict(X), y, strict=True)])


def test_map_needs_a_method_for_map_inference(problem):
    crf, X, y = problem
    without = next(
        name for name in intarsia.inference.method_names() if not intarsia.inference.method_class(name).gives_map
    )
    crf.fit(X, y)
    crf.set_params(decode="map", inference=without)
    for call in (lambda: crf.predict(X), lambda: crf.fit(X, y)):
        with pytest.raises(
            NotSupportedError, match=r"decode='map' needs MAP inference, which .* does not support.*junction_tree"
        ):
            call()
    with pytest.raises(InvalidInputError, match="decode='mode' is not known"):
        crf.set_params(decode="mode").fit(X, y)


def interrupt(monkeypatch, call, owner=Risk, name="__call__"):
    """Raise KeyboardInterrupt in the given call of a method; return the list of calls."""
    whole, calls = getattr(owner, name), []

    def broken_off(*given):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(owner, name, broken_off)
    return calls


def test_interrupt_keeps_the_best(problem, monkeypatch):
    interrupt(monkeypatch, 25)
    crf, X, y = problem
    crf.set_params(learner=quick(optimizer=LBFGS(tol=1e-12))).fit(X, y)
    assert crf.status_ is Status.INTERRUPTED
    assert len(crf.predict(X)) == len(X)


def test_interrupt_at_any_time_keeps_weights(monkeypatch):
    """In the independent model, at the start of a new stage, and when the best of all stages is selected."""
    X, y = pictures(n=3)
    learner = quick(schedule=Incremental(n_start=1, max_iter=2), validation_fraction=0.3, precondition=False)
    status, scores = Status.INTERRUPTED, []
    while status is Status.INTERRUPTED:
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            interrupt(patch, 2 + len(scores))
            crf = GridCRF(learner=learner).fit(X, y)
        status = crf.status_
        scores.append(crf.score(X, y))
    assert status is Status.MAX_ITER
    assert len(scores) > 10
    assert min(scores[4:]) > 0.9  # before that there are only weights of 0


@pytest.mark.filterwarnings("ignore:.*TreeReweighted did not converge")
@pytest.mark.parametrize(("decode", "messages"), [("marginals", PairwiseMessages), ("map", PairwiseMaxMessages)])
def test_an_interrupted_prediction_raises(decode, messages, monkeypatch):
    X, y = pictures()
    crf = GridCRF(learner=quick(loss="likelihood", gradient="auto"), decode=decode).fit(X, y)
    calls = interrupt(monkeypatch, 2, messages, "sweep")
    with pytest.raises(KeyboardInterrupt):
        crf.predict(X)
    assert len(calls) == 2  # the other images were not processed
