"""Reliability curve and calibration error against a direct computation and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import calibration_error, reliability_curve


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    confidence = rng.random(500) ** 0.5
    return rng.random(500) < confidence**2, confidence


@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_curve_equals_scikit_learn(predictions, n_bins):
    correct, confidence = predictions
    curve = reliability_curve(correct, confidence, n_bins=n_bins)
    accuracy, mean = calibration_curve(correct, confidence, n_bins=n_bins)
    np.testing.assert_allclose(curve.accuracy, accuracy)
    np.testing.assert_allclose(curve.confidence, mean)
    assert curve.count.sum() == 500


def test_error_equals_the_definition(predictions):
    correct, confidence = predictions
    total = 0.0
    for b in range(10):
        inside = (confidence >= b / 10) & (confidence < (b + 1) / 10)
        if inside.any():
            total += inside.sum() / 500 * abs(confidence[inside].mean() - correct[inside].mean())
    assert calibration_error(correct, confidence) == pytest.approx(total)


def test_quantile_bins_have_equal_counts(predictions):
    curve = reliability_curve(*predictions, n_bins=10, strategy="quantile")
    assert curve.count.tolist() == [50] * 10
    assert (np.diff(curve.confidence) > 0).all()


def test_calibrated_predictions_have_a_small_error():
    rng = np.random.default_rng(1)
    confidence = rng.random(200_000)
    assert calibration_error(rng.random(200_000) < confidence, confidence) < 0.01


def test_no_predictions_and_the_largest_confidence():
    assert calibration_error([], []) == 0.0
    assert reliability_curve([True], [1.0]).count.tolist() == [1]


@pytest.mark.parametrize(
    ("correct", "confidence", "match"),
    [
        ([True], [0.5, 0.6], "Pass two vectors of equal length"),
        ([True], [1.5], r"confidence\[0\] is 1.5"),
        ([True], [np.nan], r"confidence\[0\] is nan"),
        ([0.5], [0.5], "must contain True and False"),
    ],
)
def test_invalid_predictions(correct, confidence, match):
    with pytest.raises(InvalidInputError, match=match):
        reliability_curve(correct, confidence)
