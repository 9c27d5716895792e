"""Inputs that users confuse: missing labels, labels of several kinds, a single sequence, features of another model."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from intarsia.exceptions import InvalidInputError
from intarsia.sequences import ChainCRF

NAN = float("nan")
X = [[["a", "x"], ["b", "x"]], [["b", "x"], ["a", "x"]]]
Y = [["A", "B"], ["B", "A"]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["A", NAN], ["B", "A"]], r"y\[0\]\[1\] is NaN"),
        ([["A", "B"], [NAN, NAN]], r"y\[1\]\[0\] is NaN"),
        ([[1.0, NAN], [0.0, 1.0]], r"y\[0\]\[1\] is NaN"),
        ([np.array(["A", NAN], object), ["B", "A"]], r"y\[0\]\[1\] is NaN"),
        ([np.array(["A", NAN]), ["B", "A"]], "'nan' is among the strings"),
        (np.array([["A", NAN], ["B", "A"]]), "'nan' is among the strings"),
        ([["A", 1], ["B", "A"]], r"y\[0\]\[1\] is 1, an integer, but y\[0\]\[0\] is 'A', a string"),
        ([["A", "B"], [0, 1]], r"y\[1\]\[0\] is 0, an integer, but y\[0\]\[0\] is 'A', a string"),
        ([["A", frozenset(["A", 1])], ["B", "A"]], "an integer, but|a string, but"),
    ],
)
def test_missing_and_mixed_labels_are_refused(y, message):
    with pytest.raises(InvalidInputError, match=message):
        ChainCRF().fit(X, y)


def test_a_class_may_be_called_nan_if_it_is_listed():
    crf = ChainCRF(classes=["A", "B", "nan"]).fit(X, [["A", "nan"], ["B", "A"]])
    assert crf.classes_.tolist() == ["A", "B", "nan"]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["A", "B", NAN], r"classes\[2\] is NaN"),
        (["A", "B", 1], r"classes\[2\] is 1, an integer, but classes\[0\] is 'A', a string"),
    ],
)
def test_missing_and_mixed_classes_are_refused(classes, message):
    with pytest.raises(InvalidInputError, match=message):
        ChainCRF(classes=classes).fit(X, Y)


def test_a_single_sequence_is_refused_with_the_remedy():
    named, strings = ChainCRF().fit(X, Y), ChainCRF().fit([["a", "b"], ["b", "a"]], Y)
    dicts, arrays = ChainCRF().fit([[{"w": "a"}, {"w": "b"}]], [Y[0]]), ChainCRF().fit([np.eye(2)], [[0, 1]])
    cases = [
        lambda: named.predict(X[0]),
        lambda: named.score(X[0], Y[0]),
        lambda: strings.predict(["a", "b"]),
        lambda: dicts.predict([{"w": "a"}, {"w": "b"}]),
        lambda: arrays.predict(np.eye(2)),
        lambda: arrays.predict(sparse.eye_array(2, format="csr")),
        lambda: ChainCRF().fit(X[0], Y[0]),
        lambda: ChainCRF().fit(["a", "b"], Y[0]),
        lambda: ChainCRF().fit(np.eye(2), [0, 1]),
    ]
    for call in cases:
        with pytest.raises(InvalidInputError, match=r"If X is a single sequence, pass \[X\]"):
            call()


@pytest.mark.parametrize("method", ["predict", "predict_marginals"])
def test_features_of_another_model_give_a_warning(method):
    crf = ChainCRF().fit(X, Y)
    message = rf"^ChainCRF.{method}: no feature of X is among the 3 features of the training set \(X has 'w=a', the"
    with pytest.warns(UserWarning, match=message) as seen:
        getattr(crf, method)([[["w=a", "w=x"]], [], [["w=b"]]])
    assert seen[0].filename == __file__
    without_features = ChainCRF(min_count=9).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(crf, method)([[["a", "w=x"]], [["w=b"]]])
        getattr(crf, method)([[], [[]]])  # no features at all
        getattr(without_features, method)([[["w=a"]]])
