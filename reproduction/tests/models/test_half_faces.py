"""Regressions of lower halves of faces against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia_reproduction.models.soft_rules.half_faces import (
    REGRESSIONS,
    ExplainedVariance,
    hold_out_persons,
    regress,
    regress_out_of_fold,
)


def test_ridge_regression_explains_a_linear_map():
    rng = np.random.default_rng(0)
    linear = rng.random((6, 4)) / 6.0
    above, new_above = rng.random((40, 6)), rng.random((30, 6))
    person = np.arange(40) // 4
    predicted, settings = regress("ridge", above, above @ linear, person, new_above)
    score = ExplainedVariance(new_above @ linear, (above @ linear).mean(axis=0), np.arange(30) // 3)
    assert score(predicted) > 0.999
    assert settings["alpha"] == pytest.approx(0.01)  # the smallest
    assert score((above @ linear).mean(axis=0)[None]) == pytest.approx(0.0)


@pytest.mark.parametrize("key", REGRESSIONS)
def test_predictions_come_from_other_persons(key):
    """Each person has two equal faces, unlike all others: only the face of the same person would predict it."""
    rng = np.random.default_rng(0)
    above, below = np.repeat(rng.random((20, 5)), 2, axis=0), np.repeat(rng.random((20, 3)), 2, axis=0)
    person = np.repeat(np.arange(20), 2)
    score = ExplainedVariance(below, below.mean(axis=0), person)
    assert score(regress_out_of_fold(key, above, below, person)) < 0.2


def test_intervals_are_over_persons():
    rng = np.random.default_rng(0)
    truth = rng.random((20, 3))
    person = np.arange(20) // 5
    score = ExplainedVariance(truth, np.full(3, 0.5), person)
    predicted = 0.5 + 0.5 * (truth - 0.5)
    assert score.interval(predicted) == pytest.approx((0.75, 0.75))  # equal for all persons
    predicted[person == 0] = 0.5
    low, high = score.interval(predicted)
    assert low < score(predicted) < high <= 0.75
    difference, low, high = score.difference(predicted, predicted)
    assert (difference, low, high) == (0.0, 0.0, 0.0)


def test_whole_persons_are_held_out():
    person = np.random.default_rng(0).integers(0, 30, 60)
    mask = hold_out_persons(person)
    assert 6 <= mask.sum() < 15
    assert not set(person[mask]) & set(person[~mask])
