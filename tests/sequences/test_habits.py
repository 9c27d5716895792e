"""Habits of scikit-learn and sklearn-crfsuite users: lists out, pipelines, labels unseen in training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from intarsia import ChainCRF
from intarsia.metrics import segment_f1_scorer, sequence_accuracy_scorer, token_f1_scorer


def words_and_tags(n=30, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.choice(["B-a", "B-b", "O"], int(rng.integers(1, 6))).tolist() for _ in range(n)]
    return [[f"{label.lower()}{rng.integers(3)}" for label in labels] for labels in y], y


def word_features(X):
    return [[[f"w={word}", f"start={word[:2]}"] for word in words] for words in X]


def test_predictions_become_plain_lists_of_strings():
    words, y = words_and_tags()
    crf = ChainCRF(l2=0.1).fit(word_features(words), y)
    predicted = crf.predict(word_features(words)).tolist()
    assert predicted == y
    assert {type(labels) for labels in predicted} == {list}
    assert {type(label) for labels in predicted for label in labels} == {str}
    assert json.loads(json.dumps(predicted)) == y
    single = crf.predict_single(word_features(words)[0])
    assert (single, type(single), type(single[0])) == (y[0], list, str)
    assert crf.predict([]).tolist() == []
    assert crf.predict([[]]).tolist() == [[]]


def test_pipeline_with_feature_functions():
    words, y = words_and_tags()
    pipeline = make_pipeline(FunctionTransformer(word_features), ChainCRF(l2=0.1)).fit(words, y)
    assert pipeline.predict(words).tolist() == y
    assert pipeline.score(words, y) == 1.0
    assert cross_val_score(pipeline, words, y, cv=3, error_score="raise").min() > 0.9
    search = GridSearchCV(pipeline, {"chaincrf__l2": [100.0, 0.1]}, cv=3, error_score="raise").fit(words, y)
    assert search.best_params_ == {"chaincrf__l2": 0.1}
    assert len(cross_val_predict(pipeline, words, y, cv=3)) == len(y)


def test_segment_scorer_reads_labels_without_prefix():
    words, y = words_and_tags()
    raw = [[label.removeprefix("B-") for label in labels] for labels in y]
    scores = cross_val_score(
        ChainCRF(l2=0.1), word_features(words), raw, cv=3, scoring=segment_f1_scorer, error_score="raise"
    )
    assert scores.min() > 0.9


@pytest.mark.parametrize("scoring", [None, segment_f1_scorer, token_f1_scorer, sequence_accuracy_scorer])
def test_labels_that_the_training_set_does_not_have_count_as_errors(scoring):
    words, y = words_and_tags()
    y[0][0] = "B-rare"
    X = word_features(words)
    scores = cross_val_score(ChainCRF(l2=0.1), X, y, cv=3, scoring=scoring, error_score="raise")
    assert np.isfinite(scores).all()
    assert scores[0] < 1.0
    search = GridSearchCV(ChainCRF(), {"l2": [1000.0, 0.1]}, cv=3, scoring=scoring, error_score="raise").fit(X, y)
    assert search.best_params_ == {"l2": 0.1}
