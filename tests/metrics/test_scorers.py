"""Scores beside scikit-learn's on flat labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, jaccard_score, pair_confusion_matrix

from intarsia import metrics
from intarsia.exceptions import InvalidInputError

RNG = np.random.default_rng(5)
SHAPES = [(3, 4), (1, 7), (5, 2)]
TRUE = [RNG.integers(0, 3, shape) for shape in SHAPES]
PRED = [RNG.integers(0, 3, shape) for shape in SHAPES]
FLAT_TRUE, FLAT_PRED = (np.concatenate([labels.ravel() for labels in parts]) for parts in (TRUE, PRED))


def test_labels_as_scikit_learn_counts_them():
    assert metrics.pixel_accuracy_score(TRUE, PRED) == pytest.approx(accuracy_score(FLAT_TRUE, FLAT_PRED))
    assert metrics.mean_iou_score(TRUE, PRED) == pytest.approx(jaccard_score(FLAT_TRUE, FLAT_PRED, average="macro"))
    assert metrics.token_f1_score(TRUE, PRED) == pytest.approx(f1_score(FLAT_TRUE, FLAT_PRED, average="macro"))
    assert metrics.token_accuracy_score(TRUE, PRED) == pytest.approx(accuracy_score(FLAT_TRUE, FLAT_PRED))


def test_hidden_pixels_are_left_out():
    hidden = [np.where(RNG.random(labels.shape) < 0.4, -1, labels) for labels in TRUE]
    known = np.concatenate([labels.ravel() for labels in hidden]) >= 0
    expected = jaccard_score(FLAT_TRUE[known], FLAT_PRED[known], average="macro")
    assert metrics.mean_iou_score(hidden, PRED) == pytest.approx(expected)
    assert metrics.mean_iou_score([np.full((2, 2), -1)], [np.zeros((2, 2), int)]) == 0.0


def test_pairs_as_scikit_learn_counts_them():
    true, pred = RNG.integers(0, 5, 40), RNG.integers(0, 6, 40)
    (_, wrong), (missed, right) = pair_confusion_matrix(true, pred)
    assert metrics.pairwise_f1_score(true, pred) == pytest.approx(2 * right / (2 * right + wrong + missed))


def test_errors_name_the_score():
    with pytest.raises(InvalidInputError, match="token_f1_score: y_true has 1 sequences"):
        metrics.token_f1_score([["a"]], [])
