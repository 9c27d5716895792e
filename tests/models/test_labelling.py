"""Labels in every supported form, converted to states."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import InvalidInputError
from intarsia.models.labelling import (
    Layout,
    as_states,
    check_classes,
    find_classes,
    has_observed_label,
    hidden_labels,
    read_labels,
    single_states,
    weigh_classes,
    weights_of_states,
)

A, B = frozenset({"a", "b"}), frozenset({"b"})
# Name -> labels of four variables, classes expected, states expected.
FORMS = {
    "integers": ([4, 9, -1, 4], [4, 9], [0, 1, -1, 0]),
    "unsigned": (np.array([0, 2, 2, 0], np.uint8), [0, 2], [0, 1, 1, 0]),
    "whole floats": ([0.0, 1.0, -1.0, 1.0], [0, 1], [0, 1, -1, 1]),
    "booleans": ([True, False, False, True], [False, True], [1, 0, 0, 1]),
    "strings": (["b", "a", None, "b"], ["a", "b"], [1, 0, -1, 1]),
    "array of strings": (np.array(["bb", "a", "a", "bb"]), ["a", "bb"], [1, 0, 0, 1]),
    "objects": (np.array([3, 1, None, -1], dtype=object), [1, 3], [1, 0, -1, -1]),
    "sets": (["a", A, None, B], ["a", "b"], [[1, 0], [1, 1], [1, 1], [0, 1]]),
    "sets of integers": ([5, frozenset({5, 7}), -1, {7}], [5, 7], [[1, 0], [1, 1], [1, 1], [0, 1]]),
    "only sets": ([A, B, A, {"c"}], ["a", "b", "c"], [[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]),
    "allowed": (
        np.eye(4, 3, dtype=bool) | (np.arange(4) == 3)[:, None],
        [0, 1, 2],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]],
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_forms_of_labels(name, shape):
    given, classes, states = FORMS[name]
    if shape == (2, 2):
        if isinstance(given, np.ndarray):
            given = given.reshape(2, 2, *given.shape[1:])
        else:
            given = [given[:2], given[2:]]
    labels = read_labels(given, shape, "", "y")
    result = find_classes([labels])
    assert result.tolist() == classes
    np.testing.assert_array_equal(as_states(labels, result), states)
    # States follow the order of the user's classes.
    turned = check_classes(classes[::-1])
    expected = np.asarray(states)
    expected = np.where(expected < 0, -1, len(classes) - 1 - expected) if expected.ndim == 1 else expected[:, ::-1]
    if name == "allowed":  # its columns are already in the order of the classes
        expected = np.asarray(states)
    np.testing.assert_array_equal(as_states(labels, turned), expected)


def test_classes_of_all_examples_together():
    several = [read_labels(y, (2,), "", "y") for y in (["b", "b"], ["a", None], [frozenset({"c"}), None])]
    assert find_classes(several).tolist() == ["a", "b", "c"]
    mixed = [read_labels([0, 1], (2,), "", "y"), read_labels(np.ones((2, 3), bool), (2,), "", "y")]
    assert find_classes(mixed).tolist() == [0, 1, 2]
    assert find_classes([read_labels([True, False], (2,), "", "y"), read_labels([0, 2], (2,), "", "y")]).tolist() == [
        0,
        1,
        2,
    ]


def test_hidden_everywhere_is_hidden_for_any_classes():
    for labels in (hidden_labels((3,), "y"), read_labels([None] * 3, (3,), "", "y")):
        states = as_states(labels, check_classes(["a", "b"]))
        assert states.tolist() == [-1, -1, -1]
        assert not has_observed_label(states)
    assert not has_observed_label(np.ones((2, 3), bool))
    assert has_observed_label(np.array([-1, 0]))


def test_single_states_and_weights():
    sets = np.array([[True, False, False], [True, False, True], [True, True, True]])
    assert single_states(sets).tolist() == [0, -1, -1]
    weights = np.array([1.0, 2.0, 5.0])
    assert weights_of_states(sets, weights).tolist() == [1.0, 3.0, pytest.approx(8 / 3)]
    assert weights_of_states(np.array([2, -1, 0]), weights).tolist() == [5.0, 1.0, 1.0]
    classes = np.array([0, 1, 2])
    # 4 labels in all, 3 and 1 of two classes that occur: 4 / (2 * 3) and 4 / (2 * 1).
    result = weigh_classes([np.array([0, 0, 2]), np.array([-1, 0])], classes, "balanced")
    assert result.tolist() == [pytest.approx(2 / 3), 1.0, 2.0]
    assert weigh_classes([], classes, {1: 4}).tolist() == [1.0, 4.0, 1.0]
    assert weigh_classes([], classes, None) is None


def refuse(message):
    return pytest.raises(InvalidInputError, match=f"^{re.escape(message)}")


BAD_FORMS = {
    "ragged": ([[0, 1], [0]], "y is a ragged list"),
    "shape": ([0, 1, 1], "y has shape (3,) but X has 4; use -1 for a hidden label."),
    "fractions": ([[0.5, 1], [0, 1]], "y: expected integers"),
    "mixed objects": (np.array([["a", 1], [None, "b"]], object), "y[0, 1] is 1, an integer, but y[0, 0] is 'a', a str"),
    "mixed list": ([["a", "b"], [3, "b"]], "y[1, 0] is 3, an integer, but y[0, 0] is 'a', a string. Use one kind"),
    "mixed set": ([["a", None], [frozenset({3}), "b"]], "y[1, 0] has 3, an integer, but y[0, 0] is 'a', a string."),
    "missing": (np.array([["a", np.nan], [None, "b"]], object), "y[0, 1] is NaN, which is not a label. Use None"),
    "missing in a list": ([["a", "b"], ["a", float("nan")]], "y[1, 1] is NaN, which is not a label. Use None"),
    "missing numbers": (np.array([[1, np.nan], [None, 0]], object), "y[0, 1] is NaN, which is not a label. Use None"),
    "missing floats": (np.array([[1.0, 0.0], [np.nan, 0.0]]), "y[1, 0] is NaN, which is not a label. Use None"),
    "no labels": (
        np.array([["a", ("b",)], [None, "b"]], object),
        "y[0, 1] is ('b',), of type tuple, but labels must be",
    ),
}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_bad_forms(name):
    given, message = BAD_FORMS[name]
    with refuse(message):
        read_labels(given, (2, 2), "X has 4", "y")


BAD_CLASSES = {
    "minus one and one": ([-1, 1, 1, -1], "the labels are -1 and 1, but -1 means hidden. Use 0 and 1"),
    "hidden": ([-1, -1, -1, -1], "all labels are hidden."),
    "nothing known": ([None] * 4, "all labels are hidden."),
    "one class": (
        [3, 3, 3, 3],
        "the classes are [3]. Pass labels of at least two classes, or list them with classes=.",
    ),
    "minus one among strings": (["a", "-1", "b", "a"], "'-1' is among the strings. Use None"),
    "sets of another kind": ([0, 1, frozenset({"a"}), 1], "y[2] has 'a', a string, but y[0] is 0, an integer."),
}


@pytest.mark.parametrize("name", BAD_CLASSES)
def test_invalid_labels_without_classes(name):
    given, message = BAD_CLASSES[name]
    with refuse(message):
        find_classes([read_labels(given, (4,), "", "y")])


BAD_STATES = {
    "outside": ([0, 5, 1, 0], "y[1] is 5, but the classes are [0, 1]. Use -1 for a hidden label"),
    "below": ([0, 1, -2, 0], "y[2] is -2, but the classes are [0, 1]."),
    "another kind": (["a", "b", "a", "a"], "y[0] is 'a', but the classes are [0, 1]."),
    "empty set": ([0, 1, frozenset(), 0], "y[2] allows no class."),
    "set outside": ([0, 1, frozenset({0, 7}), 0], "y[2] has 7, but the classes are [0, 1]."),
    "hidden in a set": ([0, 1, frozenset({0, -1}), 0], "y[2] has -1, but the classes are [0, 1]."),
    "no class": (np.zeros((4, 2), bool), "y[0] allows no class."),
    "width": (np.ones((4, 3), bool), "y is a mask over 3 classes, but there are 2: [0, 1]."),
}


@pytest.mark.parametrize("name", BAD_STATES)
def test_labels_outside_the_classes(name):
    given, message = BAD_STATES[name]
    with refuse(message):
        as_states(read_labels(given, (4,), "", "y"), np.array([0, 1]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 0], "classes must be distinct strings, or distinct integers of at least 0, got [0, 0]."),
        ([-1, 1], "classes must be distinct strings, or distinct integers of at least 0, got [-1, 1]."),
        ([[0, 1]], "classes must be distinct strings"),
        (["a"], "the classes are ['a']. Pass labels of at least two"),
        ([0.5, 1], "classes: expected integers"),
        (np.array(["a", 1], object), "classes: expected integers"),
    ],
)
def test_invalid_classes(given, message):
    with refuse(message):
        check_classes(given)


def test_invalid_class_weights():
    states, classes = [np.array([0, 1])], np.array(["a", "b"])
    for weights, message in (
        ("even", "class_weight must be None, 'balanced' or a dict label -> weight, got 'even'."),
        ({"c": 1.0}, "class_weight has a weight for 'c', but the classes are ['a', 'b']. Use these as keys."),
        ({"a": -1.0}, "class_weight of 'a' is -1.0, but weights must be finite numbers of at least 0."),
        ({"a": np.nan}, "class_weight of 'a' is nan, but"),
        ({"a": "much"}, "class_weight of 'a' is 'much', but"),
    ):
        with refuse(message):
            weigh_classes(states, classes, weights)


def test_layout_takes_labels_by_type_only_where_there_are_types():
    plain, named = Layout({"node": (2,)}, {}), Layout({"a": (2,), "b": (1,)}, {}, has_types=True)
    assert plain.split_by_type([0, 1], "y") == {"node": [0, 1]}
    assert named.split_by_type({"b": [1]}, "y") == {"b": [1]}
    assert named.join_types({"b": 1, "a": 2}) == {"a": 2, "b": 1}
    with refuse("y is a dict with keys ['node'], but the variables have no types."):
        plain.split_by_type({"node": [0, 1]}, "y")
    with refuse("y is of type list, but there are several types of variables. Pass a dict"):
        named.split_by_type([0, 1], "y")
    with refuse("y has labels of 'c', but the types are ['a', 'b']."):
        named.split_by_type({"c": [0]}, "y")


LABEL = st.sampled_from(["sky", "tree", "road", "a"])
ANY = st.one_of(LABEL, st.none(), st.frozensets(LABEL, min_size=1))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(ANY, min_size=1, max_size=8), st.permutations(["sky", "tree", "road", "a"]))
def test_states_allow_the_classes_of_the_labels(labels, names):
    """The allowed classes of the states are those of the labels, for any labels."""
    classes = check_classes(names)
    states = as_states(read_labels(np.array([*labels, None], object)[:-1], (len(labels),), "", "y"), classes)
    for state, label in zip(states, labels, strict=True):
        if states.ndim == 2:
            allowed = set(classes[state])
        else:
            allowed = set(classes) if state == -1 else {classes[state]}
        assert allowed == (set(names) if label is None else set(label) if isinstance(label, frozenset) else {label})
