"""Features of pixels and of neighbouring pixels against loops written from their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import ndimage

from intarsia.exceptions import InvalidInputError
from intarsia.graph import grid_graph
from intarsia.models.image_features import edge_features, histogram_of_gradients, pixel_features, sinusoidal_expansion

SHAPES = [(1, 1), (1, 4), (4, 1), (2, 2), (5, 7)]
LIMITS = [0.1, 0.3, 0.5]


def picture(shape, seed=0):
    return np.random.default_rng(seed).random((*shape, 3))


@pytest.mark.parametrize("scale", [1.0, math.pi])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_sinusoidal_expansion_equals_its_definition(d, scale):
    base = np.random.default_rng(d).normal(size=(3, 4, d))
    result = sinusoidal_expansion(base, scale=scale)
    assert result.shape == (3, 4, 2 * 2**d)
    assert result.dtype == np.float32
    for place in np.ndindex(3, 4):
        angles = [
            scale * sum(s for s, taken in zip(base[place], c, strict=True) if taken)
            for c in itertools.product([0, 1], repeat=d)
        ]
        expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        np.testing.assert_allclose(result[place], expected, atol=1e-6)


def test_sinusoidal_expansion_takes_rows_as_well():
    base = np.random.default_rng(1).random((6, 3))
    assert np.array_equal(sinusoidal_expansion(base), sinusoidal_expansion(base.reshape(2, 3, 3)).reshape(6, 16))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (np.zeros((2, 0)), r"shape \(2, 0\)"),
        (np.zeros((2, 17)), r"shape \(2, 17\)"),
        (np.float64(1.0), r"shape \(\)"),
        ([[0.0, 1.0], [math.nan, 0.0]], r"base\[1, 0\] is nan"),
        ([["a"]], "expected numbers"),
    ],
)
def test_sinusoidal_expansion_raises_for_invalid_features(base, message):
    with pytest.raises(InvalidInputError, match=message):
        sinusoidal_expansion(base)


def test_sinusoidal_expansion_raises_for_invalid_scale():
    with pytest.raises(InvalidInputError, match="scale"):
        sinusoidal_expansion([[0.0]], scale=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_pixel_features_are_colour_position_and_edges(shape):
    rgb = picture(shape)
    result = pixel_features(rgb, cell=3, scale=2.0)
    assert result.shape == (*shape, 100)
    assert result.dtype == np.float32
    for r, c in np.ndindex(shape):
        position = [r / (shape[0] - 1) if shape[0] > 1 else 0.0, c / (shape[1] - 1) if shape[1] > 1 else 0.0]
        base = np.array([*rgb[r, c], *position])
        angles = [2.0 * base @ choice for choice in itertools.product([0, 1], repeat=5)]
        np.testing.assert_allclose(result[r, c, :64], np.concatenate([np.sin(angles), np.cos(angles)]), atol=1e-6)
    assert np.array_equal(result[..., 64:], histogram_of_gradients(rgb, cell=3))


def edges_by_definition(rgb, colour, sobel):
    """Compute a row for each factor of the grid graph, with the Sobel filter of SciPy."""
    height, width, _ = rgb.shape
    responses = [
        np.hypot(*(ndimage.sobel(rgb[..., k], axis=axis, mode="nearest") / 4 for axis in (0, 1))) for k in range(3)
    ]
    response = np.max(responses, axis=0).ravel()
    pixels = rgb.reshape(-1, 3)
    rows = []
    for i, j in grid_graph(height, width, 2).scope_idx.reshape(-1, 2):
        base = [1.0]
        base += [float(math.dist(pixels[i], pixels[j]) > t) for t in colour]
        if sobel is not None:
            base += [float(max(response[i], response[j]) > t) for t in sobel]
        nothing = [0.0] * len(base)
        side_by_side = i // width == j // width
        rows.append(base + nothing if side_by_side else nothing + base)
    n_base = 1 + len(colour) + (len(sobel) if sobel is not None else 0)
    return np.array(rows).reshape(-1, 2 * n_base)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sobel", [True, False])
def test_edge_features_equal_their_definition(shape, sobel):
    rgb = picture(shape)
    result = edge_features(rgb, sobel=sobel, colour_thresholds=[0.2, 0.5, 0.9], sobel_thresholds=LIMITS)
    expected = edges_by_definition(rgb, [0.2, 0.5, 0.9], LIMITS if sobel else None)
    assert result.dtype == np.float32
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)
    together = edge_features(
        rgb, sobel=sobel, colour_thresholds=[0.2, 0.5, 0.9], sobel_thresholds=LIMITS, by_direction=False
    )
    half = expected.shape[1] // 2
    assert np.array_equal(together, expected[:, :half] + expected[:, half:])


@pytest.mark.parametrize(("sobel", "by_direction", "n"), [(True, True, 42), (False, True, 22), (True, False, 21)])
def test_defaults_have_the_published_number_of_features(sobel, by_direction, n):
    assert edge_features(picture((3, 4)), sobel=sobel, by_direction=by_direction).shape == (17, n)


def test_transposition_swaps_horizontal_and_vertical():
    rgb = picture((4, 6))
    result = edge_features(rgb)
    turned = edge_features(rgb.transpose(1, 0, 2))
    horizontal, vertical = result[: 4 * 5, :21], result[4 * 5 :, 21:]
    assert np.array_equal(turned[: 6 * 3, :21], vertical.reshape(3, 6, 21).transpose(1, 0, 2).reshape(-1, 21))
    assert np.array_equal(turned[6 * 3 :, 21:], horizontal.reshape(4, 5, 21).transpose(1, 0, 2).reshape(-1, 21))
    assert not turned[: 6 * 3, 21:].any()


def test_edge_features_at_a_step():
    """Grey 0 | 0.5: the pair across it differs by 0.5 sqrt 3 = 0.87; Sobel is 0.5 on both sides, 0 further away."""
    step = np.repeat([[0.0, 0.0, 0.0, 0.5, 0.5, 0.5]], 3, axis=0)
    result = edge_features(step, colour_thresholds=[0.86, 0.88], sobel_thresholds=[0.49, 0.51])
    across = [1.0, 1.0, 0.0, 1.0, 0.0]
    beside = [1.0, 0.0, 0.0, 1.0, 0.0]
    plain = [1.0, 0.0, 0.0, 0.0, 0.0]
    nothing = [0.0] * 5
    rows = [*[b + nothing for b in (plain, beside, across, beside, plain)] * 3]
    rows += [nothing + b for b in (plain, plain, beside, beside, plain, plain)] * 2
    assert np.array_equal(result, np.array(rows))


@pytest.mark.parametrize("function", [pixel_features, edge_features, histogram_of_gradients])
def test_bytes_floats_and_grey_agree(function):
    grey = np.random.default_rng(3).integers(0, 256, (4, 5)).astype(np.uint8)
    expected = function(grey / 255.0)
    assert np.array_equal(function(grey), expected)
    assert np.array_equal(function(np.stack([grey] * 3, axis=2)), expected)
    assert np.isfinite(expected).all()


@pytest.mark.parametrize("function", [pixel_features, edge_features, histogram_of_gradients])
@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((2, 2, 4)), r"shape \(2, 2, 4\).*alpha"),
        (np.zeros((2, 2, 2, 3)), "one image at a time"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.array([[0.0, 0.5], [math.nan, 2.0]]), r"image\[1, 0\] is nan"),
        (np.array([[0.0, 255.0]]), r"image\[0, 1\] is 255.0.*Divide"),
        (np.array([[0.0, -0.1]]), r"image\[0, 1\] is -0.1"),
        (np.zeros((2, 2), dtype=np.int64), "dtype int64"),
        (np.array([["a"]]), "dtype <U1"),
    ],
)
def test_invalid_images(function, image, message):
    with pytest.raises(InvalidInputError, match=f"{function.__name__}: .*{message}"):
        function(image)


@pytest.mark.parametrize("thresholds", [[0.2, 0.1], [0.1, 0.1], [-0.1], [math.nan], [math.inf], [[0.1]], 0.1])
@pytest.mark.parametrize("name", ["colour_thresholds", "sobel_thresholds"])
def test_invalid_thresholds(name, thresholds):
    with pytest.raises(InvalidInputError, match=f"edge_features: {name}"):
        edge_features(picture((2, 2)), **{name: thresholds})
