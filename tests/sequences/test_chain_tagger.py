"""Methods of a fitted chain: each reads X once; k best, samples, and tools of scikit-learn."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, cross_validate

import intarsia
from intarsia.energies import Count, MeasuredEnergy, Squared
from intarsia.exceptions import InvalidInputError
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia.learning import Adam
from intarsia.metrics import labelling_scores, segment_scores
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.sequences import AROW, AveragedPerceptron, ChainCRF, MaximumLikelihood, PassiveAggressive

CLOSE = BetheMirrorDescent(tol=1e-11, max_iter=5000)
LEARNERS = ["maximum_likelihood", "averaged_perceptron", "passive_aggressive", "arow"]


def one_b(psi=1.5):
    return MeasuredEnergy(Count("B"), Squared(1.0), psi=psi)


def sentences(n=24, seed=0):
    """Return sequences of different lengths in which half of the tokens determine their label."""
    rng = np.random.default_rng(seed)
    y = [rng.choice(["A", "B", "C"], size=int(rng.integers(1, 6))).tolist() for _ in range(n)]
    X = [[[f"w{label}" if rng.random() < 0.5 else "w", "bias"] for label in labels] for labels in y]
    return X, y


def fitted(**settings):
    """Return a fitted model; its energies have a large psi and many iterations of inference."""
    crf = ChainCRF(l2=0.5, **settings).fit(*sentences()).set_params(projection=CLOSE)
    if crf.energies_ is not None:
        crf.energies_ = replace(
            crf.energies_, weights=np.full_like(crf.energies_.weights, 1.5), active=np.array([True])
        )
    return crf


# ---------------------------------------------------------------- X is read once

QUESTIONS = {
    "predict": lambda crf, X, y: crf.predict(X),
    "predict, allowed": lambda crf, X, y: crf.predict(X, allowed=[None] * len(X)),
    "predict_marginals": lambda crf, X, y: crf.predict_marginals(X),
    "predict_kbest": lambda crf, X, y: crf.predict_kbest(X, 2),
    "sample": lambda crf, X, y: crf.sample(X, 2),
    "score": lambda crf, X, y: crf.score(X, y),
    "sequence_log_probability": lambda crf, X, y: crf.sequence_log_probability(X, y),
    "strengths": lambda crf, X, y: crf.strengths(X),
    "fit": lambda crf, X, y: crf.fit(X, y),
    "fit, warm": lambda crf, X, y: crf.set_params(warm_start=True).fit(X, y),
    "fit, frozen": lambda crf, X, y: crf.fit(X, y, freeze_weights=True),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_call_reads_the_sequences_once(question, monkeypatch):
    crf, (X, y) = fitted(energies=one_b()), sentences(5, seed=1)
    reads = []
    for name in ("fit_transform_stacked", "transform_stacked"):
        read = getattr(SequenceVectorizer, name)
        monkeypatch.setattr(SequenceVectorizer, name, lambda self, X, read=read: reads.append(X) or read(self, X))
    QUESTIONS[question](crf, X, y)
    assert len(reads) == 1


def test_score_takes_an_iterator_as_predict_does():
    crf, (X, y) = fitted(), sentences(5, seed=1)
    assert crf.score(iter(X), y) == crf.score(X, y)


# ---------------------------------------------------------------- k best and samples


def every_labelling(crf, x):
    """Return all labellings of a sequence with their probabilities; with energies by inference on a graph."""
    length, k = len(x), crf.classes_.size
    graph = intarsia.chain_graph(length, k, shared=True)
    nodes = crf.vectorizer_.transform([x])[0].toarray() @ crf.state_weights_
    nodes[0] += crf.start_
    nodes[-1] += crf.end_
    theta = np.concatenate([nodes.ravel(), crf.transitions_.ravel()])
    if crf.energies_ is not None:
        psi = float(crf.strengths([x])[0, 0])
        assert psi > 0.1
        method = clone(CLOSE).set_params(energy=one_b(psi), names=crf.classes_.tolist())
        theta = intarsia.infer(graph, theta, method).tilted_theta
    paths = list(itertools.product(range(k), repeat=length))
    scores = np.array([theta @ graph.statistics(path) for path in paths])
    return [tuple(crf.classes_[list(path)]) for path in paths], np.exp(scores - np.logaddexp.reduce(scores))


@pytest.mark.parametrize("decode", ["map", "marginals"])
@pytest.mark.parametrize("energies", [None, one_b()], ids=["plain", "energies"])
def test_k_best_and_samples_are_those_of_all_labellings(energies, decode):
    crf = fitted(decode=decode, **({} if energies is None else {"energies": energies}))
    every = sentences(30, seed=2)[0]
    X = [next(x for x in every if len(x) == length) for length in (3, 2, 4)]
    n_samples = 4000
    for x, best, samples in zip(
        X, crf.predict_kbest(X, k=12), crf.sample(X, n_samples=n_samples, random_state=0), strict=True
    ):
        paths, probability = every_labelling(crf, x)
        by_path = dict(zip(paths, probability, strict=True))
        expected = np.sort(probability)[::-1][:12]
        np.testing.assert_allclose(np.exp([value for _, value in best]), expected, atol=1e-6)
        np.testing.assert_allclose([by_path[tuple(path)] for path, _ in best], expected, atol=1e-6)
        assert len({tuple(path) for path, _ in best}) == len(expected)
        counts = dict.fromkeys(paths, 0)
        for path in samples:
            counts[tuple(path)] += 1
        frequency = np.array([counts[path] for path in paths]) / n_samples
        assert (np.abs(frequency - probability) <= 5 * np.sqrt(probability / n_samples) + 1e-3).all()


def test_k_and_n_samples_out_of_range():
    crf = fitted()
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.predict_kbest: k must be"):
        crf.predict_kbest([[["w"]]], k=0)
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.sample: n_samples must be"):
        crf.sample([[["w"]]], n_samples=-1)


# ---------------------------------------------------------------- random_state


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "chosen", [MaximumLikelihood(optimizer=Adam(batch_size=4)), AveragedPerceptron(), PassiveAggressive(), AROW()]
)
def test_generators_as_random_state(chosen):
    X, y = sentences()
    fits = [ChainCRF(learner=chosen, random_state=np.random.default_rng(seed)).fit(X, y) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    assert (fits[0].weights_ != fits[2].weights_).any()
    same = ChainCRF(learner=clone(chosen).set_params(random_state=np.random.default_rng(0))).fit(X, y)
    np.testing.assert_array_equal(same.weights_, fits[0].weights_)
    ChainCRF(learner=clone(chosen).set_params(random_state=None)).fit(X, y)
    np.testing.assert_array_equal(
        clone(fits[0]).set_params(random_state=5).fit(X, y).weights_,
        clone(fits[0]).set_params(random_state=np.int64(5)).fit(X, y).weights_,
    )


def test_generators_advance_from_call_to_call():
    X, y = sentences()
    crf = ChainCRF(learner=AveragedPerceptron(random_state=np.random.default_rng(0)), classes=["A", "B", "C"])
    crf.partial_fit(X, y).partial_fit(X, y)
    drawn = [crf.sample(X, 3, random_state=rng) for rng in [np.random.default_rng(1)] * 2]
    assert any((a != b).any() for a, b in zip(*drawn, strict=True))


@pytest.mark.parametrize("wrong", [-1, 1.5, "x", True, np.random.RandomState(0)])
@pytest.mark.parametrize("learner", [MaximumLikelihood(), AROW()])
def test_invalid_random_states(learner, wrong):
    X, y = sentences()
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.fit: \w+: random_state must be an integer"):
        ChainCRF(learner=learner, random_state=wrong).fit(X, y)


# ---------------------------------------------------------------- scikit-learn


def token_f1(y_true, y_pred):
    return labelling_scores(y_true, y_pred).macro_f1


def segment_f1(y_true, y_pred):
    return segment_scores(y_true, y_pred, scheme="tokens").f1


SCORERS = {
    "score": (None, lambda crf, X, y: crf.score(X, y)),
    "segments": (make_scorer(segment_f1), lambda crf, X, y: segment_f1(y, crf.predict(X))),
    "function": (lambda crf, X, y: -len(X), lambda crf, X, y: -len(X)),
}


def by_hand(crf, X, y, cv, ask):
    for train, test in cv.split(X):
        model = clone(crf).fit([X[i] for i in train], [y[i] for i in train])
        yield test, ask(model, [X[i] for i in test], [y[i] for i in test])


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("scorer", SCORERS)
def test_cross_val_score(learner, scorer):
    (X, y), cv = sentences(), KFold(3, shuffle=True, random_state=0)
    crf, (scoring, ask) = ChainCRF(learner=learner), SCORERS[scorer]
    scores = cross_val_score(crf, X, y, cv=cv, scoring=scoring, error_score="raise")
    np.testing.assert_allclose(scores, [value for _, value in by_hand(crf, X, y, cv, ask)], rtol=1e-12)


@pytest.mark.parametrize("equal", [False, True])
def test_cross_val_predict_of_sequences_of_any_length(equal):
    X, y = sentences()
    if equal:
        X, y = [x * 5 for x in X if len(x) == 1], [one * 5 for one in y if len(one) == 1]
    crf, cv = ChainCRF(classes=["A", "B", "C"]), KFold(3, shuffle=True, random_state=0)
    predictions = cross_val_predict(crf, X, y, cv=cv)
    assert predictions.shape == (len(X),)
    for test, expected in by_hand(crf, X, y, cv, lambda model, X, y: model.predict(X)):
        for i, one in zip(test, expected, strict=True):
            np.testing.assert_array_equal(predictions[i], one)


def test_grid_search_with_several_scorers():
    X, y = sentences(40)
    scoring = {
        "tokens": make_scorer(token_f1),
        "segments": make_scorer(segment_f1),
        "positions": lambda m, X, y: m.score(X, y),
    }
    search = GridSearchCV(ChainCRF(), {"l2": [0.1, 1e4]}, cv=3, scoring=scoring, refit="segments").fit(X, y)
    assert search.best_params_["l2"] == 0.1
    assert search.predict(X)[0].shape == (len(X[0]),)
    assert {"mean_test_tokens", "mean_test_segments", "mean_test_positions"} <= set(search.cv_results_)


def test_sample_weight_is_routed_to_fit_and_score():
    X, y = sentences()
    weight = np.random.default_rng(3).uniform(0.0, 2.0, len(X))
    cv = KFold(3)
    with config_context(enable_metadata_routing=True):
        crf = ChainCRF().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(crf, X, y, cv=cv, params={"sample_weight": weight}, error_score="raise")["test_score"]
        search = GridSearchCV(crf, {"l2": [0.1, 1.0]}, cv=cv, error_score="raise").fit(X, y, sample_weight=weight)
    expected = []
    for train, test in cv.split(X):
        model = ChainCRF().fit([X[i] for i in train], [y[i] for i in train], sample_weight=weight[train])
        expected.append(model.score([X[i] for i in test], [y[i] for i in test], weight[test]))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    best = clone(search.best_estimator_).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(best.weights_, search.best_estimator_.weights_)


def test_tags():
    tags = ChainCRF().__sklearn_tags__()
    assert tags.estimator_type is None  # "classifier" would stratify by labels, which differ within a sequence
    assert tags.target_tags.required
    assert (tags.target_tags.multi_output, tags.target_tags.single_output) == (True, False)
    assert (tags.input_tags.one_d_array, tags.input_tags.two_d_array) == (True, False)
    with pytest.raises(InvalidInputError):
        ChainCRF().fit(np.eye(3), [0, 1, 0])  # an array (n_samples, n_features) is no list of sequences
    with pytest.raises(InvalidInputError, match=r"y is missing\. Pass labels for each sequence, or expectations="):
        ChainCRF().fit([np.eye(3)])
