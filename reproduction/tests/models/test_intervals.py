"""Bootstrap intervals of error rates against the normal approximation and the pairing of images."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia_reproduction.models.intervals import bootstrap_error


def test_interval_of_equal_images_is_that_of_their_mean():
    errors = np.random.default_rng(0).integers(0, 101, 400)
    counts = np.column_stack([errors, np.full(400, 100)])
    half = 1.96 * errors.std() / 10.0 / np.sqrt(400) / 10.0
    mean = errors.mean() / 100.0
    assert bootstrap_error(counts) == pytest.approx((mean - half, mean + half), abs=0.1 * half)


def test_large_images_count_more():
    counts = np.array([[0, 1000], [1, 1]] * 200)
    low, high = bootstrap_error(counts)
    assert low < 1 / 1001 < high < 0.01


def test_difference_is_paired():
    rng = np.random.default_rng(1)
    base = np.column_stack([rng.integers(0, 90, 300), np.full(300, 100)])
    worse = base + np.array([1, 0])  # one more wrong pixel in every image
    low, high = bootstrap_error(worse, base)
    assert low == pytest.approx(0.01) == high
