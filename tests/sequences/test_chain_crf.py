"""`ChainCRF` against enumeration of all labellings, against scikit-learn, and with every input format."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from tests.oracles.chain_likelihood import log_probability, parts_of, path_score

from intarsia import ChainCRF
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.inference import Status
from intarsia.learning import LBFGS, Adam, RiskMinimizer
from intarsia.sequences import MaximumLikelihood

TIGHT = LBFGS(tol=1e-9)


def weather(n=20, seed=0):
    """Return sequences with informative words (sun, rain) and an uninformative word (fog), whose label is likely
    equal to the previous label.
    """
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = ["good"] if rng.random() < 0.5 else ["bad"]
        while len(labels) < 5:
            stay = rng.random() < 0.9
            labels.append(labels[-1] if stay else "good" if labels[-1] == "bad" else "bad")
        words = [("sun" if one == "good" else "rain") if rng.random() < 0.7 else "fog" for one in labels]
        X.append([{"word": word, "bias": 1} for word in words])
        y.append(labels)
    return X, y


def ints(y):
    return [[0 if label == "bad" else 1 for label in one] for one in y]


def fitted(**settings):
    return ChainCRF(**{"l2": 1.0} | settings).fit(*weather())


# ---------------------------------------------------------------- predictions


def everything(crf, X):
    """Return the scores of all labellings of each sequence."""
    for one in crf.vectorizer_.transform(X):
        dense = one.toarray()
        paths = list(itertools.product(range(crf.classes_.size), repeat=len(dense)))
        yield (
            paths,
            np.array([path_score(features=dense, path=path, **parts_of(crf.layout_, crf.weights_)) for path in paths]),
        )


def test_predictions_against_every_labelling():
    crf = fitted()
    X, y = weather(3, seed=1)
    best = crf.predict(X)
    marginals, several = crf.predict_marginals(X), crf.predict_kbest(X, 3)
    log_probabilities = crf.sequence_log_probability(X, y)
    for s, (paths, scores) in enumerate(everything(crf, X)):
        probability = np.exp(scores - scores.max())
        probability /= probability.sum()
        order = np.argsort(-scores)
        assert best[s].tolist() == crf.classes_[list(paths[order[0]])].tolist()
        result = [paths.index(tuple(np.searchsorted(crf.classes_, labels).tolist())) for labels, _ in several[s]]
        assert len(set(result)) == 3
        np.testing.assert_allclose(scores[result], scores[order[:3]], atol=1e-10)  # there are ties
        np.testing.assert_allclose([value for _, value in several[s]], np.log(probability[result]), atol=1e-10)
        expected = np.zeros_like(marginals[s])
        for path, p in zip(paths, probability, strict=True):
            expected[np.arange(len(path)), path] += p
        np.testing.assert_allclose(marginals[s], expected, atol=1e-12)
        truth = tuple(np.searchsorted(crf.classes_, y[s]))
        assert log_probabilities[s] == pytest.approx(np.log(probability[paths.index(truth)]), abs=1e-10)


def test_probability_of_partial_labels_is_a_sum():
    crf = fitted()
    X, _ = weather(1, seed=2)
    y = [["good", None, frozenset(["good", "bad"]), "bad", None]]
    dense = crf.vectorizer_.transform(X)[0].toarray()
    sets = [{1}, {0, 1}, {0, 1}, {0}, {0, 1}]
    expected = log_probability(parts_of(crf.layout_, crf.weights_), dense, sets, lambda path: True)
    np.testing.assert_allclose(crf.sequence_log_probability(X, y), [expected], atol=1e-10)


def test_frequencies_of_samples():
    crf = fitted()
    X, _ = weather(2, seed=3)
    drawn = crf.sample(X, 4000, random_state=0)
    again = crf.sample(X, 4000, random_state=0)
    for one, same, marginals in zip(drawn, again, crf.predict_marginals(X), strict=True):
        assert one.shape == (4000, 5)
        np.testing.assert_array_equal(one, same)
        np.testing.assert_allclose((one == "good").mean(axis=0), marginals[:, 1], atol=5 * 0.5 / np.sqrt(4000))


def test_decode_by_marginals():
    crf = fitted(decode="marginals")
    X, _ = weather(5, seed=4)
    for labels, marginals in zip(crf.predict(X), crf.predict_marginals(X), strict=True):
        assert labels.tolist() == crf.classes_[marginals.argmax(axis=1)].tolist()


def test_labels_that_are_known_at_predict_time():
    crf = fitted()
    X, _ = weather(2, seed=5)
    known = [["bad", None, frozenset(["good"]), None, None], None]
    labels = crf.predict(X, allowed=known)
    assert (labels[0][0], labels[0][2]) == ("bad", "good")
    assert labels[1].tolist() == crf.predict(X)[1].tolist()
    marginals = crf.predict_marginals(X, allowed=known)[0]
    np.testing.assert_allclose(marginals[[0, 2], [0, 1]], 1.0)
    assert (crf.sample(X, 20, 0, allowed=known)[0][:, 0] == "bad").all()
    assert all(path[0] == "bad" for path, _ in crf.predict_kbest(X, 3, allowed=known)[0])


# ---------------------------------------------------------------- likelihood


def test_single_positions_are_logistic_regression():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 4)), rng.integers(3, size=60)
    labels[:30] = features[:30, :3].argmax(axis=1)
    X, y = [row[None] for row in features], [[int(label)] for label in labels]
    for l2, l1 in [(0.6, 0.0), (0.0, 2.0)]:
        crf = ChainCRF(learner=MaximumLikelihood(l2=l2, l1=l1, optimizer=TIGHT), ends=False).fit(X, y)
        # scikit-learn multiplies the loss by C, and its penalty is |w|^2 / 2 or |w|_1.
        other = LogisticRegression(
            C=1 / l2 if l2 else 1 / l1, l1_ratio=0.0 if l2 else 1.0, solver="lbfgs" if l2 else "saga",
            fit_intercept=False, tol=1e-10, max_iter=20000,
        ).fit(features, labels)  # fmt: skip
        np.testing.assert_allclose(np.concatenate(crf.predict_marginals(X)), other.predict_proba(features), atol=1e-5)
        assert (crf.state_weights_ == 0).sum() == (0 if l2 else (np.abs(other.coef_) < 1e-7).sum())


def test_class_weight_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    X, y = [row[None] for row in features], [[int(label)] for label in labels]
    crf = ChainCRF(learner=MaximumLikelihood(l2=1.0, optimizer=TIGHT), ends=False, class_weight={0: 3.0}).fit(X, y)
    # With one column per class, the penalty of two classes is half that of one column of differences.
    other = LogisticRegression(C=2.0, fit_intercept=False, class_weight={0: 3.0}, tol=1e-10).fit(features, labels)
    np.testing.assert_allclose(np.concatenate(crf.predict_marginals(X)), other.predict_proba(features), atol=1e-6)


def test_the_minimum_of_crfsuites_objective():
    """No small step lowers the sum of -log p + c2 |w|^2 + c1 |w|_1."""
    X, y = weather(8)
    # Where the gradient is below 1e-8, a step changes the risk by less than its rounding.
    crf = ChainCRF(learner=MaximumLikelihood(l2=0.4, l1=2.0, optimizer=LBFGS(tol=1e-8))).fit(X, y)
    weights = crf.weights_

    def objective(w):
        crf.weights_ = w
        return -crf.sequence_log_probability(X, y).sum() + 0.2 * w @ w + 2.0 * np.abs(w).sum()

    lowest = objective(weights)
    n = sum(map(len, y))
    assert crf.risk_ * n == pytest.approx(lowest, rel=1e-10)
    for i in range(weights.size):
        for shift in (-1e-3, 1e-3):
            moved = weights.copy()
            moved[i] += shift
            assert objective(moved) > lowest
    assert (weights == 0).any()


def test_sample_weight_counts_as_repetition():
    X, y = weather(4, seed=3)
    crf = ChainCRF(learner=MaximumLikelihood(optimizer=TIGHT), weights="all").fit(X, y, sample_weight=[2, 1, 0, 1])
    other = ChainCRF(learner=MaximumLikelihood(optimizer=TIGHT), weights="all").fit(
        [X[0], X[0], X[1], X[3]], [y[0], y[0], y[1], y[3]]
    )
    np.testing.assert_allclose(crf.weights_, other.weights_, atol=1e-6)


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_hidden_labels_help():
    """With labels of the first positions only, the transitions determine the other labels."""
    X, y = weather(40)
    hidden = [[label if t % 2 == 0 else None for t, label in enumerate(one)] for one in y]
    crf = ChainCRF(l2=0.2).fit(X, hidden)
    assert crf.score(X, y) > 0.8
    before = ChainCRF(l2=0.2).fit(X, y).score(X, y)
    assert crf.score(X, y) <= before + 0.05


# ---------------------------------------------------------------- input formats


def test_all_feature_formats_give_equal_models():
    X, y = weather(10)
    named = ChainCRF(weights="all", learner=MaximumLikelihood(optimizer=TIGHT)).fit(X, y)
    matrices = named.vectorizer_.transform(X)
    strings = [[["bias", f"word={one['word']}"] for one in sequence] for sequence in X]
    forms = [strings, matrices, [one.toarray() for one in matrices], [sparse.coo_array(one) for one in matrices]]
    for form in forms:
        for weights in ("all", "observed"):
            crf = ChainCRF(weights=weights, learner=MaximumLikelihood(optimizer=TIGHT)).fit(form, y)
            if weights == "all":
                np.testing.assert_allclose(crf.weights_, named.weights_, atol=1e-6)
            assert [one.tolist() for one in crf.predict(form)] == [one.tolist() for one in named.predict(X)]


def test_pairs_that_do_not_occur_have_no_weight():
    crf = fitted()
    assert crf.vocabulary_ == ["bias", "word=fog", "word=rain", "word=sun"]
    states = crf.state_weights_
    assert states[2, 1] == states[3, 0] == 0.0  # rain is never good, sun never bad
    assert crf.weights_.size == 6 + 4 + 4


def test_integer_and_boolean_labels():
    X, y = weather(10)
    texts, numbers = ChainCRF().fit(X, y), ChainCRF().fit(X, ints(y))
    np.testing.assert_array_equal(texts.weights_, numbers.weights_)
    assert numbers.predict(X)[0].dtype.kind == "i"
    masks = [np.array(one)[:, None] == np.arange(2) for one in ints(y)]
    np.testing.assert_array_equal(ChainCRF().fit(X, masks).weights_, numbers.weights_)


def test_short_and_empty_sequences():
    X, y = weather(10)
    crf = ChainCRF().fit([[], X[0], X[1][:1], *X[2:], []], [[], y[0], y[1][:1], *y[2:], []])
    result = crf.predict([X[0], [], X[1][:1]])
    assert [len(one) for one in result] == [5, 0, 1]
    assert [one.shape for one in crf.predict_marginals([[], X[0]])] == [(0, 2), (5, 2)]
    assert crf.predict_kbest([[]], 2)[0][0][1] == 0.0
    assert crf.sample([[]], 3)[0].shape == (3, 0)
    np.testing.assert_array_equal(crf.sequence_log_probability([[]], [[]]), [0.0])
    assert crf.predict([]) == []


def test_unknown_features_are_ignored():
    with pytest.warns(UserWarning, match=r"no feature of X is among .* \(X has 'word=snow'"):
        assert fitted().predict([[{"word": "snow"}, {}]])[0].size == 2


def test_edge_features():
    """The label changes if the edge feature is set; no other feature depends on the label."""
    rng = np.random.default_rng(0)
    X, edges, y = [], [], []
    for _ in range(40):
        turn = rng.integers(2, size=4)
        labels = np.concatenate([[0], np.cumsum(turn) % 2])
        X.append(np.eye(5)[:, :1])  # only the first position has a feature
        edges.append(np.stack([turn, 1 - turn], axis=1))
        y.append(labels)
    crf = ChainCRF(l2=0.2).fit(X, y, edge_features=edges)
    assert crf.edge_weights_.shape == (2, 2, 2)
    assert [one.tolist() for one in crf.predict(X, edge_features=edges)] == [one.tolist() for one in y]
    assert crf.score(X, y, edge_features=edges) == 1.0
    assert crf.predict([X[0][:1]])[0].tolist() == [0]  # a single position needs no edge features
    with pytest.raises(InvalidInputError, match="was fitted with 2 edge features, got none"):
        crf.predict(X)
    with pytest.raises(InvalidInputError, match=r"edge_features\[0\] has shape \(3, 2\), but X\[0\] has 4 steps"):
        crf.predict(X[:1], edge_features=[edges[0][:3]])


# ---------------------------------------------------------------- constraints


def tags():
    X = [[["a"], ["b"], ["c"]], [["c"], ["a"], ["b"]]]
    return X, [["B-x", "I-x", "O"], ["O", "B-x", "I-x"]]


def test_impossible_tags_are_never_predicted():
    X, y = tags()
    crf = ChainCRF(scheme="bio", l2=0.2).fit(X, y)
    rng = np.random.default_rng(0)
    odd = [[[word] for word in rng.choice(["a", "b", "c", "d"], size=6)] for _ in range(30)]
    for labels in crf.predict(odd):
        assert labels[0] != "I-x"
        assert ("O", "I-x") not in set(itertools.pairwise(labels))
    assert crf.sequence_log_probability(X[:1], [["I-x", "O", "O"]])[0] == -np.inf
    total = sum(
        np.exp(crf.sequence_log_probability(X[:1], [list(one)])[0]) for one in itertools.product(crf.classes_, repeat=3)
    )
    assert total == pytest.approx(1.0)


def test_labels_against_the_constraints_name_the_sequence():
    X, y = tags()
    with pytest.raises(InvalidInputError, match=r"ChainCRF.fit: no labelling of X\[1\] agrees with both y\[1\]"):
        ChainCRF(forbidden=[("O", "B-x")]).fit(X, y)
    crf = ChainCRF(scheme="bio").fit(X, y)
    with pytest.raises(InvalidInputError, match=r"allowed\[1\] excludes every labelling of X\[1\]"):
        crf.predict(X, allowed=[None, ["O", "I-x", None]])


def test_predictions_where_every_labelling_is_forbidden():
    """A sequence of one token has no valid labelling with the tags B and E only."""
    X, y = [[["a"], ["b"]]] * 2, [["B-x", "E-x"]] * 2
    crf = ChainCRF(scheme="bioes").fit(X, y)
    asked = [[["a"]], [["a"], ["b"]]]
    assert [len(labels) for labels in crf.predict(asked)] == [1, 2]
    assert crf.predict(asked)[1].tolist() == ["B-x", "E-x"]
    np.testing.assert_allclose(crf.predict_marginals(asked)[0].sum(), 1.0)
    assert crf.sequence_log_probability(asked[:1], [["B-x"]])[0] == -np.inf


# ---------------------------------------------------------------- fitting


def test_mini_batches_reach_the_same_minimum():
    X, y = weather(30)
    exact = ChainCRF(l2=2.0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="MAX_ITER"):
        crf = ChainCRF(learner=MaximumLikelihood(l2=2.0, optimizer=Adam(step_size=0.05, max_iter=30))).fit(X, y)
    assert crf.risk_ == pytest.approx(exact.risk_, rel=1e-3)


def test_partial_fit():
    X, y = weather(30)
    crf = ChainCRF(learner=MaximumLikelihood(optimizer=Adam(step_size=0.1), l2=0.2), classes=["bad", "good"])
    for part in [0, 10, 20] * 3:
        crf.partial_fit(X[part : part + 10], y[part : part + 10])
    assert crf.n_iter_ == crf.history_["risk"].size == 9
    assert crf.score(X, y) > 0.8
    with pytest.raises(InvalidInputError, match="the first call needs all classes"):
        ChainCRF(learner="arow").partial_fit(X, y)
    with pytest.raises(NotSupportedError, match="LBFGS needs all data at once"):
        ChainCRF(classes=["bad", "good"]).partial_fit(X, y)


def test_warm_start():
    X, y = weather()
    crf = ChainCRF(warm_start=True).fit(X, y)
    before = crf.weights_
    crf.fit(X, y)
    assert crf.n_iter_ == 0
    np.testing.assert_array_equal(crf.weights_, before)
    again = ChainCRF().fit(X, y, start=before)
    assert again.n_iter_ == 0


def test_early_stopping_and_checkpoint(tmp_path):
    X, y = weather(30)
    learner = MaximumLikelihood(l2=0.0, validation_fraction=0.3, patience=2)
    crf = ChainCRF(learner=learner).fit(X, y)
    assert crf.history_["validation_risk"].size == crf.history_["risk"].size
    held_out = ChainCRF(learner=MaximumLikelihood(l2=0.0, patience=2)).fit(X[:20], y[:20], validation=(X[20:], y[20:]))
    nll = -held_out.sequence_log_probability(X[20:], y[20:]).sum() / 50
    assert nll == pytest.approx(held_out.history_["validation_risk"].min())
    path = tmp_path / "fit.npz"
    with pytest.warns(ConvergenceWarning):
        ChainCRF(learner=MaximumLikelihood(checkpoint=path, optimizer=LBFGS(max_iter=3))).fit(X, y)
    resumed = ChainCRF(learner=MaximumLikelihood(checkpoint=path)).fit(X, y)
    np.testing.assert_array_equal(resumed.weights_, ChainCRF().fit(X, y).weights_)
    with pytest.raises(InvalidInputError, match="belongs to another fit"):
        ChainCRF(learner=MaximumLikelihood(checkpoint=path)).fit(X[:-1], y[:-1])


def test_scikit_learn_conventions():
    X, y = weather()
    crf = ChainCRF(learner="maximum_likelihood", l2=0.5)
    assert clone(crf).get_params() == crf.get_params()
    crf.set_params(learner__optimizer__max_iter=7)
    assert crf.learner.optimizer.max_iter == 7
    search = GridSearchCV(ChainCRF(), {"l2": [0.1, 100.0]}, cv=2).fit(X, y)
    assert search.best_params_["l2"] == 0.1


def test_results_do_not_depend_on_n_jobs():
    X, y = weather()
    one, two = fitted(), fitted(n_jobs=2)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    assert one.score(X, y) == two.score(X, y)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[["a"]]], [["x", "y"]], r"y\[0\] has shape \(2,\) but X\[0\] has 1 positions"),
        ([[["a"]]], ["x"], r"y\[0\] is 'x'; expected one label for each of the 1 positions"),
        ([[["a"]]], [["x"], ["y"]], "X has 1 sequences, but y has 2"),
        ([[["a"], ["b"]]], [["x", "x"]], r"the classes are \['x'\]"),
        ([[["a"], ["b"]]], [[None, None]], "all labels are hidden"),
        ([[]], [[]], "X has no position"),
        ([[{"a": float("nan")}, {}]], [["x", "y"]], r"X\[0\]\[0\]: feature 'a' is nan"),
        ([np.array([[1.0], [np.nan]])], [["x", "y"]], r"ChainCRF.fit: X\[0\]\[1\] contains nan"),
        ([[["a"], ["b"]]], [[1, -1]], "the labels are -1 and 1, but -1 means hidden"),
        ([[["a"], ["b"], ["c"]]], [["x", frozenset(), "y"]], r"y\[0\]\[1\] allows no class"),
    ],
)
def test_bad_data(X, y, message):
    crf = ChainCRF()
    with pytest.raises(InvalidInputError, match=message):
        crf.fit(X, y)
    assert not hasattr(crf, "weights_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learner": "perceptron"}, "learner='perceptron' is not known.*Did you mean 'averaged_perceptron'"),
        ({"learner": RiskMinimizer()}, "learner must be a name"),
        ({"l2": -1.0}, "MaximumLikelihood: l2 must be a number"),
        ({"l1": float("nan")}, "MaximumLikelihood: l1 must be a number"),
        ({"decode": "viterbi"}, "decode='viterbi' is not known"),
        ({"weights": "some"}, "weights='some' is not known"),
        ({"min_count": 0}, "min_count must be an integer"),
        ({"class_weight": {"x": 2}}, "class_weight has a weight for 'x'"),
        ({"forbidden": [("good", "x")]}, "'x' is not a label"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        ChainCRF(**settings).fit(*weather(3))


def test_l1_with_mini_batches_is_refused():
    with pytest.raises(NotSupportedError, match=r"l1=0.5 cannot be used with Adam.*optimizer='lbfgs'"):
        ChainCRF(learner=MaximumLikelihood(optimizer="adam"), l1=0.5).fit(*weather(3))


def test_predict_time_errors():
    crf = fitted()
    X, _ = weather(1)
    with pytest.raises(InvalidInputError, match=r"allowed\[0\]\[0\] is 'x', but the classes are \['bad', 'good'\]"):
        crf.predict(X, allowed=[["x", None, None, None, None]])
    with pytest.raises(InvalidInputError, match="X has 1 sequences, but allowed has 2"):
        crf.predict(X, allowed=[None, None])
    with pytest.raises(InvalidInputError, match="holds numbers"):
        crf.predict([np.ones((2, 3))])
    with pytest.raises(InvalidInputError, match="all labels are hidden"):
        crf.score(X, [[None] * 5])


def test_ctrl_c_returns_the_best_weights(monkeypatch):
    from intarsia.sequences.maximum_likelihood import ChainRisk

    X, y = weather()
    real, calls = ChainRisk.__call__, itertools.count()

    def broken(self, weights):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return real(self, weights)

    monkeypatch.setattr(ChainRisk, "__call__", broken)
    crf = ChainCRF().fit(X, y)
    assert crf.status_ is Status.INTERRUPTED
    assert crf.risk_ < crf.history_["risk"][0]
