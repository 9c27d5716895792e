"""Dense histograms of gradients against a loop written from the definition, and under mirrors and rotations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.models.image_features import histogram_of_gradients

SHAPES = [(1, 1), (1, 6), (5, 1), (2, 3), (7, 6)]


def picture(shape, seed=0):
    return np.random.default_rng(seed).random((*shape, 3))


def by_definition(rgb, n, cell, clip, noise):
    """Compute the histograms by loops over pixels, cells and voters."""
    height, width, _ = rgb.shape
    votes = np.zeros((height, width, n))
    for r in range(height):
        for c in range(width):
            up, down = rgb[max(r - 1, 0), c], rgb[min(r + 1, height - 1), c]
            left, right = rgb[r, max(c - 1, 0)], rgb[r, min(c + 1, width - 1)]
            gradients = [((right[k] - left[k]) / 2, (down[k] - up[k]) / 2) for k in range(3)]
            dx, dy = max(gradients, key=lambda g: math.hypot(*g))
            angle = math.atan2(dy, dx) % math.pi
            for k in range(n):
                apart = abs(angle - k * math.pi / n)
                apart = min(apart, math.pi - apart)
                votes[r, c, k] = math.hypot(dx, dy) * max(0.0, 1 - apart * n / math.pi)
    out = np.zeros((height, width, 4 * n))
    for r in range(height):
        for c in range(width):
            block = []
            for row_side, column_side in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
                total, histogram = 0.0, np.zeros(n)
                for i in range(height):
                    for j in range(width):
                        weight = max(0.0, 1 - abs(i - r - row_side * cell / 2) / cell)
                        weight *= max(0.0, 1 - abs(j - c - column_side * cell / 2) / cell)
                        total += weight
                        histogram += weight * votes[i, j]
                block.append(histogram / total)
            v = np.concatenate(block)
            v = np.minimum(v / math.sqrt(v @ v + noise**2), clip)
            out[r, c] = v / math.sqrt(v @ v + noise**2)
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cell", [1, 2, 2.5, 3, 8])
def test_equals_the_definition(shape, cell):
    rgb = picture(shape)
    result = histogram_of_gradients(rgb, n_orientations=5, cell=cell, clip=0.3, noise=0.02)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, by_definition(rgb, 5, cell, 0.3, 0.02), atol=2e-6)


def test_defaults_give_nine_directions_in_four_cells():
    assert histogram_of_gradients(picture((4, 5))).shape == (4, 5, 36)


@pytest.mark.parametrize("slope", [0.0, 20.0, 40.0, 90.0, 100.0, 160.0])
def test_a_ramp_votes_for_its_direction(slope):
    """A linear ramp at `slope` degrees has direction slope / 20 of nine, or lies between two directions."""
    row, column = np.mgrid[:21, :21] / 100
    ramp = 0.5 + column * math.cos(math.radians(slope)) + row * math.sin(math.radians(slope))
    result = histogram_of_gradients(ramp, cell=3, clip=1.0, noise=1e-9)[10, 10].reshape(4, 9)
    place = slope / 20
    votes = np.zeros(9)
    votes[int(place) % 9] += 1 - place % 1
    votes[(int(place) + 1) % 9] += place % 1
    np.testing.assert_allclose(result, np.tile(votes / np.linalg.norm(votes) / 2, (4, 1)), atol=1e-5)


def blocks(image, **settings):
    result = histogram_of_gradients(image, n_orientations=8, cell=3, **settings)
    return result.reshape(*result.shape[:2], 2, 2, 8)


BACKWARDS = (-np.arange(8)) % 8


def test_mirror_swaps_the_cells_and_the_directions():
    image = picture((6, 9))
    mirrored = blocks(image[:, ::-1])
    np.testing.assert_allclose(mirrored, blocks(image)[:, ::-1, :, ::-1][..., BACKWARDS], atol=1e-6)


def test_transposition_swaps_the_cells_and_the_directions():
    image = picture((6, 9))
    swapped = blocks(image).transpose(1, 0, 3, 2, 4)[..., (4 - np.arange(8)) % 8]
    np.testing.assert_allclose(blocks(image.transpose(1, 0, 2)), swapped, atol=1e-6)


def test_half_a_turn_keeps_the_directions():
    image = picture((6, 9))
    np.testing.assert_allclose(blocks(image[::-1, ::-1]), blocks(image)[::-1, ::-1, ::-1, ::-1], atol=1e-6)


def test_negative_image_has_the_same_features():
    image = picture((6, 9))
    np.testing.assert_allclose(blocks(1 - image), blocks(image), atol=1e-6)


def test_contrast_does_not_matter_above_the_noise():
    image = picture((6, 9))
    np.testing.assert_allclose(blocks(0.5 * image, noise=1e-6), blocks(image, noise=1e-6), atol=1e-5)
    faint = blocks(1e-4 * image, noise=0.1)
    assert 0 < np.abs(faint).max() < 0.01


@pytest.mark.parametrize("shape", SHAPES)
def test_constant_image_is_zero(shape):
    assert not histogram_of_gradients(np.full(shape, 0.3)).any()
    assert not histogram_of_gradients(np.full((*shape, 3), 200, dtype=np.uint8)).any()


def test_one_direction_takes_all_votes():
    result = histogram_of_gradients(picture((4, 4)), n_orientations=1, cell=2, noise=0.01)
    np.testing.assert_allclose(result, by_definition_one(picture((4, 4))), atol=2e-6)


def by_definition_one(rgb):
    # One direction equals the sum of two directions before the normalisation.
    two = by_definition(rgb, 2, 2, np.inf, 1e12) * 1e24
    v = two.reshape(4, 4, 4, 2).sum(axis=3)
    v = np.minimum(v / np.sqrt((v**2).sum(axis=2, keepdims=True) + 1e-4), 0.2)
    return v / np.sqrt((v**2).sum(axis=2, keepdims=True) + 1e-4)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n_orientations": 0}, "n_orientations"),
        ({"n_orientations": 2.5}, "n_orientations"),
        ({"cell": 0.5}, "cell"),
        ({"cell": math.nan}, "cell"),
        ({"clip": 0}, "clip"),
        ({"noise": 0}, "noise"),
    ],
)
def test_invalid_settings_are_named(settings, named):
    with pytest.raises(InvalidInputError, match=f"histogram_of_gradients: {named}"):
        histogram_of_gradients(picture((3, 3)), **settings)
