"""Weight updates compared with hand-computed steps, and symmetry breaking of latent variables."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.learning.subgradient import break_symmetry, warn_if_unmoved

ALL = np.ones(2, dtype=bool)


def test_steps_are_scaled_clipped_and_averaged():
    steps = ProjectedSubgradient(adagrad=False, step_size=0.5).begin(np.array([1.0, 1.0]), np.array([1.0, 10.0]), ALL)
    np.testing.assert_allclose(steps.move(np.array([-2.0, -2.0])), [2.0, 1.1])
    assert steps.last_change == pytest.approx(0.5)  # a change of 1, relative to the largest weight 2
    np.testing.assert_allclose(steps.move(np.array([6.0, -2.0])), [0.0, 1.2])
    np.testing.assert_allclose(steps.mean, [1.0, 1.15])
    assert steps.n_steps == 2


def test_mean_without_steps_is_the_start_and_fixed_weights_are_constant():
    steps = ProjectedSubgradient(adagrad=False).begin(np.array([1.0, 3.0]), np.ones(2), np.array([True, False]))
    np.testing.assert_array_equal(steps.mean, [1.0, 3.0])
    assert steps.move(np.array([1.0, 1.0]))[1] == 3.0


def test_adagrad_divides_by_the_root_of_the_sum_of_squares():
    steps = ProjectedSubgradient(step_size=0.1, adagrad=True).begin(np.ones(2), np.array([1.0, 2.0]), ALL)
    np.testing.assert_allclose(steps.move(np.array([3.0, 0.0])), [0.9, 1.0])  # the first step has length step_size
    np.testing.assert_allclose(steps.move(np.array([4.0, 2.0])), [0.9 - 0.1 * 4 / 5, 0.9])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0.0}, "step_size must be a number in"),
        ({"max_iter": 0}, r"max_iter must be an integer in \[1"),
        ({"max_admm_iter": 0}, "max_admm_iter"),
        ({"tol": -1.0}, "tol"),
        ({"record_every": 1.5}, "record_every"),
    ],
)
def test_invalid_settings_raise_at_use(settings, message):
    given = clone(ProjectedSubgradient(**settings))
    with pytest.raises(InvalidInputError, match=message):
        given.begin(np.ones(2), np.ones(2), ALL)


def test_symmetry_breaking_stays_within_its_fraction():
    weights, learned = np.array([1.0, 1.0, 0.0, 10.0, 5.0]), np.array([True, True, True, True, False])
    one = break_symmetry(weights, learned, 0.1, np.random.default_rng(1))
    again = break_symmetry(weights, learned, 0.1, np.random.default_rng(1))
    other = break_symmetry(weights, learned, 0.1, np.random.default_rng(2))
    np.testing.assert_array_equal(one, again)
    assert (one[:4] != other[:4]).any()
    assert one[0] != one[1]
    assert one[4] == 5.0
    assert (one >= 0.0).all()
    assert (np.abs(one - weights) <= 0.1 * np.maximum(weights, 1.0)).all()


def test_unchanged_and_equal_latent_variables_raise_a_warning():
    half = np.full(3, 0.5)
    with pytest.warns(ConvergenceWarning, match=r"none of the 3 latent variables changed.*Start with larger weights"):
        warn_if_unmoved(np.array([0.5, 0.502, 0.5]), half)
    with pytest.warns(ConvergenceWarning, match=r"all 3 latent variables have the same value.*symmetry_breaking"):
        warn_if_unmoved(np.array([0.9, 0.9, 0.901]), half)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_unmoved(np.array([0.9, 0.5, 0.5]), half)
        warn_if_unmoved(np.array([0.9]), half[:1])
        warn_if_unmoved(np.zeros(0), np.zeros(0))
