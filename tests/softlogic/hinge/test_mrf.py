"""Hinge-loss Markov random fields: values computed by hand, and errors on invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import HingeLossMRF, LinearRows

ROW = LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.25])  # x0 - x1 + 1/4


def naive(matrix, const, weight, power, x):
    return sum(w * max(0.0, float(a @ x + b)) ** p for a, b, w, p in zip(matrix, const, weight, power, strict=True))


def test_objective_and_features_agree_with_a_loop():
    rng = np.random.default_rng(0)
    matrix, const, x = rng.standard_normal((9, 4)), rng.standard_normal(9), rng.random(4)
    group, power = rng.integers(0, 3, 9), rng.integers(1, 3, 9)
    by_group = np.array([0.5, 2.0, 0.0])
    model = HingeLossMRF(4, LinearRows.from_scipy(matrix, const), 1.0, power, term_group=group, group_names="abc")
    weighted = model.with_weights(by_group)
    expected = naive(matrix, const, by_group[group], power, x)
    assert weighted.objective(x) == pytest.approx(expected, abs=1e-12)
    assert by_group @ weighted.features(x) == pytest.approx(expected, abs=1e-12)
    for k in range(3):
        alone = naive(matrix, const, (group == k).astype(float), power, x)
        assert model.features(x)[k] == pytest.approx(alone, abs=1e-12)


def test_with_weights_shares_all_other_arrays():
    model = HingeLossMRF(2, ROW, 1.0, 1, term_group=[0])
    other = model.with_weights([7.0])
    assert other.terms is model.terms
    assert other.power is model.power
    assert (model.weight[0], other.weight[0]) == (1.0, 7.0)
    with pytest.raises(ValueError, match="read-only"):
        other.weight[0] = 1.0


def test_max_violation_covers_constraints_and_bounds():
    model = HingeLossMRF(2, LinearRows.empty(), [], [], equalities=ROW, inequalities=ROW)
    assert model.max_violation([0.25, 0.5]) == 0.0
    assert model.max_violation([0.0, 1.0]) == 0.75  # only the equality is violated
    assert model.max_violation([1.0, 0.5]) == 0.75
    assert model.max_violation([1.5, 1.75]) == 0.75  # outside the unit box
    assert model.max_violation([-0.5, -0.25]) == 0.5


def test_empty_models_and_rows_without_variables():
    nothing = HingeLossMRF(0, LinearRows.empty(), [], [])
    assert nothing.objective([]) == 0.0
    assert nothing.max_violation([]) == 0.0
    assert nothing.features([]).size == 0
    constant = HingeLossMRF(1, LinearRows([0, 0], [], [], [3.0]), 2.0, 2)
    assert constant.objective([0.5]) == 18.0


def test_number_of_groups_follows_names_then_group_numbers_then_terms():
    two = LinearRows([0, 1, 2], [0, 0], [1.0, 1.0], [0.0, 0.0])
    assert HingeLossMRF(1, two, 1.0, 1).n_groups == 2
    assert HingeLossMRF(1, two, 1.0, 1, term_group=[0, 4]).n_groups == 5
    named = HingeLossMRF(1, two, 1.0, 1, term_group=[0, 1], group_names=["a", "b", "c"])
    assert named.n_groups == 3
    assert named.name_of_group(2) == "c"
    assert HingeLossMRF(1, two, 1.0, 1).name_of_group(1) == "group 1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_variables": -1}, "n_variables"),
        ({"n_variables": 1}, r"terms, row 0, contains variable 1, but there are 1 variables"),
        ({"weight": [-0.5]}, r"weight\[0\] is -0.5"),
        ({"weight": [np.nan]}, r"weight\[0\] is nan"),
        ({"weight": [np.inf]}, r"weight\[0\] is inf"),
        ({"weight": [1.0, 2.0]}, r"weight has shape \(2,\), expected \(1,\)"),
        ({"power": 3}, r"power\[0\] is 3"),
        ({"power": [1.5]}, r"power\[0\] is 1.5"),
        ({"power": [1, 1]}, r"power has shape"),
        ({"terms": [[1.0]]}, r"terms must be LinearRows, got list"),
        ({"term_group": [0, 1]}, r"term_group has shape \(2,\)"),
        ({"term_group": [-1]}, r"term_group\[0\] is -1"),
        ({"term_group": [2], "group_names": ["a"]}, r"term_group\[0\] is 2, expected a group from 0 to 0"),
        ({"equalities": LinearRows([0, 1], [5], [1.0], [0.0])}, r"equalities, row 0, contains variable 5"),
        ({"inequality_group": [0]}, r"inequality_group has shape \(1,\), expected \(0,\)"),
    ],
)
def test_invalid_input_raises(changes, message):
    arguments = {"n_variables": 2, "terms": ROW, "weight": 1.0, "power": 1}
    with pytest.raises(InvalidInputError, match=message):
        HingeLossMRF(**(arguments | changes))


@pytest.mark.parametrize("weights", [[-1.0], [np.nan], [np.inf], [1.0, 2.0]])
def test_invalid_group_weights_raise(weights):
    with pytest.raises(InvalidInputError, match="group_weights"):
        HingeLossMRF(2, ROW, 1.0, 1).with_weights(weights)


def test_points_of_the_wrong_shape_raise():
    with pytest.raises(InvalidInputError, match=r"x has shape \(3,\), expected \(2,\)"):
        HingeLossMRF(2, ROW, 1.0, 1).objective([0.0, 0.0, 0.0])
