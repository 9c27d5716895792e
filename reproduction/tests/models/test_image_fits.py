"""Errors are counted at full resolution if the model labels blocks of pixels."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.metrics.pixels import error_rate, interpolate
from intarsia_reproduction.models.image_fits import Pictures, block_means


def test_error_rate_pools_all_labelled_pixels():
    rng = np.random.default_rng(0)
    truth = [rng.integers(-1, 3, size=shape) for shape in ((4, 5), (2, 3))]
    marginals = [rng.dirichlet(np.ones(3), size=labels.shape) for labels in truth]
    wrong = total = 0
    for beliefs, labels in zip(marginals, truth, strict=True):
        for pixel in np.ndindex(labels.shape):
            if labels[pixel] >= 0:
                total += 1
                wrong += max(range(3), key=lambda state: beliefs[pixel][state]) != labels[pixel]
    assert error_rate(marginals, truth) == wrong / total
    assert error_rate([np.eye(3)[np.maximum(labels, 0)] for labels in truth], truth) == 0.0


def test_interpolation_is_exact_for_a_ramp():
    """Interpolation between the centres of 2 x 2 blocks of a linear ramp restores the ramp, except at the border."""
    rows, columns = np.mgrid[:6, :8]
    ramp = 0.1 * rows + 0.01 * columns
    blocks = block_means(ramp, 2)
    for r, c in np.ndindex(3, 4):
        assert blocks[r, c] == pytest.approx(np.mean([ramp[2 * r + i, 2 * c + j] for i in (0, 1) for j in (0, 1)]))
    restored = interpolate(blocks[:, :, None], (6, 8))[:, :, 0]
    np.testing.assert_allclose(restored[1:-1, 1:-1], ramp[1:-1, 1:-1], atol=1e-12)


def test_incomplete_blocks_repeat_the_border():
    picture = np.arange(15.0).reshape(3, 5, 1)
    blocks = block_means(picture, 2)
    assert blocks.shape == (2, 3, 1)
    assert blocks[1, 2, 0] == 14.0  # four copies of the corner
    assert interpolate(blocks, (3, 5)).shape == (3, 5, 1)
    assert interpolate(picture, (3, 5)) is picture


def test_errors_are_counted_on_the_truth_at_full_size():
    small, full = np.zeros((1, 1), np.int64), np.ones((2, 2), np.int64)
    pictures = Pictures([None, None], [small, small], None, [full, full])
    assert pictures.counted[0] is full
    assert pictures.take([1]).counted[0] is full
    assert Pictures([None], [small]).take([0]).counted[0] is small
