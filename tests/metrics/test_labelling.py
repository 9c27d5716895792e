"""Accuracy and F1 of labels, compared with scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import labelling_scores


def test_against_scikit_learn():
    rng = np.random.default_rng(0)
    true = [rng.integers(0, 4, size=n) for n in (5, 1, 0, 12)]
    pred = [np.where(rng.random(len(y)) < 0.6, y, rng.integers(0, 5, size=len(y))) for y in true]
    scores = labelling_scores(true, pred)
    flat = np.concatenate(true), np.concatenate(pred)
    assert scores.accuracy == pytest.approx(accuracy_score(*flat))
    assert (scores.n, scores.n_tokens) == (3, 18)
    precision, recall, f1, support = precision_recall_fscore_support(*flat, zero_division=0)
    assert [c.precision for c in scores.by_label.values()] == pytest.approx(precision)
    assert [c.recall for c in scores.by_label.values()] == pytest.approx(recall)
    assert [c.n_true for c in scores.by_label.values()] == support.tolist()
    assert scores.macro_f1 == pytest.approx(f1.mean())
    assert scores.as_dict()["by_label"]["0"]["f1"] == pytest.approx(f1[0])


def test_hidden_labels_do_not_count():
    with_hidden = labelling_scores([np.array([[0, -1], [1, 1]]), [-1, -1]], [np.array([[0, 0], [1, 0]]), [0, 1]])
    assert with_hidden.accuracy == pytest.approx(2 / 3)
    assert (with_hidden.n, with_hidden.sequence_accuracy) == (1, 0)
    assert labelling_scores([["a", None]], [["a", "b"]]).sequence_accuracy == 1
    assert labelling_scores([["-1"]], [["a"]]).n_tokens == 1
    nothing = labelling_scores([[]], [[]])
    assert (nothing.accuracy, nothing.sequence_accuracy, nothing.macro_f1, nothing.n) == (0, 0, 0, 0)


def test_labels_of_mixed_types_are_sorted():
    assert list(labelling_scores([["b", 2, "a"]], [["b", 1, "a"]]).by_label) == [1, 2, "a", "b"]


@pytest.mark.parametrize(
    ("true", "pred", "message"),
    [
        ([["a"]], [["a", "b"]], r"y_true\[0\] has 1 labels, but y_pred\[0\] has 2"),
        ([[["a"]]], [["a"]], "one label for each token"),
        ([[frozenset("ab")]], [["a"]], "holds a set of labels"),
        ([3], [[3]], r"y_true\[0\] is 3; expected the labels of one sequence"),
    ],
)
def test_bad_input(true, pred, message):
    with pytest.raises(InvalidInputError, match=message):
        labelling_scores(true, pred)
