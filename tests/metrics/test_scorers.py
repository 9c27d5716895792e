"""Scores of structured labels, compared with scikit-learn on the flattened labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, f1_score, jaccard_score, pair_confusion_matrix

from intarsia import metrics
from intarsia.exceptions import InvalidInputError

RNG = np.random.default_rng(5)
SHAPES = [(3, 4), (1, 7), (5, 2)]
TRUE = [RNG.integers(0, 3, shape) for shape in SHAPES]
PRED = [RNG.integers(0, 3, shape) for shape in SHAPES]
FLAT_TRUE, FLAT_PRED = (np.concatenate([labels.ravel() for labels in parts]) for parts in (TRUE, PRED))


def test_label_scores_equal_scikit_learn():
    assert metrics.pixel_accuracy_score(TRUE, PRED) == pytest.approx(accuracy_score(FLAT_TRUE, FLAT_PRED))
    assert metrics.mean_iou_score(TRUE, PRED) == pytest.approx(jaccard_score(FLAT_TRUE, FLAT_PRED, average="macro"))
    assert metrics.token_f1_score(TRUE, PRED) == pytest.approx(f1_score(FLAT_TRUE, FLAT_PRED, average="macro"))
    assert metrics.token_accuracy_score(TRUE, PRED) == pytest.approx(accuracy_score(FLAT_TRUE, FLAT_PRED))


def test_sample_weights_equal_scikit_learn():
    weights = [0.5, 3.0, 1.25]
    flat = np.repeat(weights, [labels.size for labels in TRUE])
    accuracy = accuracy_score(FLAT_TRUE, FLAT_PRED, sample_weight=flat)
    assert metrics.pixel_accuracy_score(TRUE, PRED, sample_weight=weights) == pytest.approx(accuracy)
    assert metrics.token_accuracy_score(TRUE, PRED, sample_weight=weights) == pytest.approx(accuracy)
    f1 = f1_score(FLAT_TRUE, FLAT_PRED, average="macro", sample_weight=flat)
    assert metrics.token_f1_score(TRUE, PRED, sample_weight=weights) == pytest.approx(f1)
    iou = jaccard_score(FLAT_TRUE, FLAT_PRED, average="macro", sample_weight=flat)
    assert metrics.mean_iou_score(TRUE, PRED, sample_weight=weights) == pytest.approx(iou)
    # A sequence is one example: its prediction is correct where all labels are.
    partly_right = [TRUE[0], PRED[1], TRUE[2]]
    correct = [np.array_equal(a, b) for a, b in zip(TRUE, partly_right, strict=True)]
    expected = accuracy_score(np.ones(3), correct, sample_weight=weights)
    assert metrics.sequence_accuracy_score(TRUE, partly_right, sample_weight=weights) == pytest.approx(expected)


def test_scorers_pass_sample_weights():
    class Constant(BaseEstimator):
        def predict(self, X):
            return [np.zeros(len(x), int) for x in X]

    X, y = [[0, 0], [0]], [np.array([0, 1]), np.array([1])]
    assert metrics.token_accuracy_scorer(Constant(), X, y, sample_weight=[2.0, 1.0]) == pytest.approx(2 / 5)


def test_zero_and_invalid_sample_weights():
    assert metrics.mean_iou_score(TRUE, PRED, sample_weight=np.zeros(3)) == 0.0
    assert metrics.token_accuracy_score(TRUE, PRED, sample_weight=np.zeros(3)) == 0.0
    with pytest.raises(InvalidInputError, match=r"token_accuracy_score: sample_weight\[1\] is -1"):
        metrics.token_accuracy_score(TRUE, PRED, sample_weight=[1.0, -1.0, 1.0])
    with pytest.raises(InvalidInputError, match="sequence_accuracy_score: sample_weight has shape"):
        metrics.sequence_accuracy_score(TRUE, PRED, sample_weight=[1.0])


def test_hidden_pixels_are_ignored():
    hidden = [np.where(RNG.random(labels.shape) < 0.4, -1, labels) for labels in TRUE]
    known = np.concatenate([labels.ravel() for labels in hidden]) >= 0
    expected = jaccard_score(FLAT_TRUE[known], FLAT_PRED[known], average="macro")
    assert metrics.mean_iou_score(hidden, PRED) == pytest.approx(expected)
    assert metrics.mean_iou_score([np.full((2, 2), -1)], [np.zeros((2, 2), int)]) == 0.0


def test_pairwise_f1_equals_scikit_learn():
    true, pred = RNG.integers(0, 5, 40), RNG.integers(0, 6, 40)
    (_, wrong), (missed, right) = pair_confusion_matrix(true, pred)
    assert metrics.pairwise_f1_score(true, pred) == pytest.approx(2 * right / (2 * right + wrong + missed))


def test_errors_name_the_score():
    with pytest.raises(InvalidInputError, match="token_f1_score: y_true has 1 sequences"):
        metrics.token_f1_score([["a"]], [])
