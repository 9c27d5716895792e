"""Invalid expectations: the message, and a model that stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import IntarsiaError, InvalidInputError, NotSupportedError
from intarsia.learning.expectations import (
    LabelExpectation,
    MeasuredExpectation,
    label_count,
    label_given,
    label_proportion,
)
from intarsia.sequences import AveragedPerceptron, ChainCRF

X = [[["smith"], ["runs"]], [["jones"]], []]
Y = [["NAME", "O"], ["NAME"], []]

INVALID = [
    (label_proportion({"NAME": 0.8, "O": 0.4}), "sum to 1.2, which is more than 1"),
    (label_proportion({"NAME": 0.5, "O": 0.4}), "at most 0.9 instead of 1"),
    (label_proportion({"NAME": 1.4}), r"target of 'NAME' must be"),
    (label_proportion({"NAME": -0.1}), r"target of 'NAME' must be"),
    (label_proportion({"NAME": float("nan")}), r"target of 'NAME' must be"),
    (label_proportion({"PLACE": 0.5}), r"'PLACE' is not among the labels \['NAME', 'O'\]"),
    (label_proportion({}), "at least one label"),
    (label_proportion(["NAME"]), "dict label -> target"),
    (label_proportion({"NAME": (0.5, 0.2)}, distance="squared"), "reversed"),
    (label_proportion({"NAME": (0.1, 0.2)}), "distance='kl' needs one number per label"),
    (label_proportion({"NAME": (None, None)}, distance="squared"), "a number or a pair"),
    (label_proportion({"NAME": 0.5}, distance="l2"), "distance"),
    (label_proportion({"NAME": 0.5}, strength=-1.0), "strength must be a positive number"),
    (label_proportion({"NAME": 0.5}, strength="big"), "strength must be a positive number"),
    (label_proportion({"NAME": 0.5}, strength=float("inf")), "strength must be a positive number"),
    (label_proportion({"NAME": 0.5}, examples=[3]), r"examples has 3, but X has the indices 0 \.\. 2"),
    (label_proportion({"NAME": 0.5}, examples=[2]), "covers no position"),
    (label_proportion({"NAME": 0.5}, examples=[]), "list of indices"),
    (label_given("smiht", {"NAME": 0.9}), "'smiht' never occurs in X.*Did you mean 'smith'"),
    (label_given(7, {"NAME": 0.9}), "feature 7 does not exist"),
    (label_given(1.5, {"NAME": 0.9}), "a feature must be a name"),
    (label_given([[True, False]], {"NAME": 0.9}), "1 masks, but X has 3"),
    (label_given([[True], [True], []], {"NAME": 0.9}), r"mask 0 has shape \(1,\)"),
    (label_count("NAME"), "a number or a pair"),
    (label_count("NAME", at_least=2, at_most=1), "reversed"),
    (LabelExpectation({"NAME": 1.0}, unit="count", distance="kl"), "unit is 'count'"),
    (LabelExpectation({"NAME": 1.0}, unit="percent"), "unit"),
    (MeasuredExpectation([np.ones((2, 2))], 1.0), "coefficients of 1 examples, but X has 3"),
    (MeasuredExpectation([np.ones((2, 2)), np.ones((2, 2)), []], 1.0), r"coefficients\[1\] has shape \(2, 2\)"),
    (MeasuredExpectation([np.ones((2, 2)), np.ones((1, 2)), []], "x"), "target"),
    (MeasuredExpectation("abc", 1.0), "list of arrays"),
    ("NAME", "expectations"),
    ([], "empty"),
    ([3], r"expectations\[0\] is 3"),
    (5, "must be a list"),
]


@pytest.mark.parametrize(("expectation", "message"), INVALID, ids=range(len(INVALID)))
def test_invalid_expectations_are_named_and_leave_the_model(expectation, message):
    crf = ChainCRF(classes=["NAME", "O"]).fit(X, Y)
    attributes = dict(vars(crf))
    with pytest.raises(InvalidInputError, match=message) as error:
        crf.fit(X, Y, expectations=expectation)
    assert str(error.value).startswith("ChainCRF.fit: ")
    assert vars(crf) == attributes


@pytest.mark.parametrize(
    ("crf", "arguments", "message"),
    [
        (ChainCRF(learner=AveragedPerceptron()), {}, "maximum_likelihood"),
        (ChainCRF(l2="auto"), {}, "l2='auto'"),
        (ChainCRF(l1=0.5), {}, "l1=0.5"),
        (ChainCRF(weights="observed"), {}, "weights='all'"),
        (ChainCRF(), {"validation": (X, Y)}, "validation= cannot be used with expectations"),
        (ChainCRF(), {"freeze_weights": True}, "freeze_weights= cannot be used"),
        (ChainCRF(), {"start": [1.0]}, "start has shape"),
        (ChainCRF(classes=["NAME"]), {}, "at least two classes"),
    ],
)
def test_incompatible_settings(crf, arguments, message):
    with pytest.raises(IntarsiaError, match=message):
        crf.fit(X, expectations=label_proportion({"NAME": 0.6, "O": 0.4}), **arguments)
    assert not hasattr(crf, "weights_")


def test_energies_and_rules_are_refused():
    from intarsia.energies import at_most_one
    from intarsia.sequences import once

    for settings in ({"energies": at_most_one("NAME")}, {"require": once("NAME")}):
        with pytest.raises(NotSupportedError, match="cannot be used together with"):
            ChainCRF(**settings).fit(X, expectations=label_proportion({"NAME": 0.6, "O": 0.4}))


def test_y_none():
    with pytest.raises(InvalidInputError, match="y is missing"):
        ChainCRF().fit(X)
    with pytest.raises(InvalidInputError, match="at least two classes"):
        ChainCRF().fit(X, expectations=label_given("smith", {"NAME": 0.9}))


def test_arrays_have_no_names():
    with pytest.raises(InvalidInputError, match="have no names"):
        ChainCRF(classes=["a", "b"]).fit([np.ones((2, 1))], expectations=label_given("w", {"a": 1.0}))


@pytest.mark.parametrize("data", [[], [[]]])
def test_empty_data(data):
    with pytest.raises(InvalidInputError):
        ChainCRF(classes=["a", "b"]).fit(data, expectations=label_proportion({"a": 0.5}))


def test_forbidden_label_with_a_positive_proportion():
    forbidden = [(None, "NAME"), ("NAME", "NAME"), ("O", "NAME")]
    with pytest.raises(InvalidInputError, match=r"NAME should be 0\.5, but the labels or forbidden"):
        ChainCRF(forbidden=forbidden).fit(X, expectations=label_proportion({"NAME": 0.5, "O": 0.5}))


def test_saved_model_has_its_expectations(tmp_path):
    crf = ChainCRF(classes=["NAME", "O"]).fit(X, expectations=label_count("NAME", at_most=1))
    crf.save(tmp_path / "model.npz")
    loaded = ChainCRF.load(tmp_path / "model.npz")
    assert list(loaded.expectations_) == list(crf.expectations_)
    np.testing.assert_array_equal(loaded.predict(X)[0], crf.predict(X)[0])
    crf.fit(X, Y)
    assert crf.expectations_ is None
