"""Weights psi as functions of the input: non-negative, with gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.oracles.finite_differences import central_differences

from intarsia.energies import ConstantPsi, LinearPsi, MeanMapPsi
from intarsia.exceptions import InvalidInputError

X = np.random.default_rng(0).standard_normal((5, 3))
KINDS = {"constant": ConstantPsi, "linear": LinearPsi, "mean_map": lambda **kw: MeanMapPsi(n_components=7, **kw)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positive", ["softplus", "clip", "drop"])
def test_values_and_gradients(kind, positive):
    psi = KINDS[kind](positive=positive)
    features = psi.features(X)
    start = psi.initial([0.5, 2.0], X)
    np.testing.assert_allclose(psi.values(start, features), [0.5, 2.0])
    weights = start + 0.1 * np.random.default_rng(1).standard_normal(start.shape)
    assert (psi.values(-5.0 * np.abs(start), features) >= 0).all()
    d_psi = np.array([0.7, -1.3])
    expected = central_differences(
        lambda w: float(d_psi @ psi.values(w.reshape(weights.shape), features)), weights.ravel()
    )
    np.testing.assert_allclose(psi.pull_back(weights, features, d_psi).ravel(), expected, atol=1e-8)


def test_dropped_preferences_can_return_and_clipped_preferences_stay_at_zero():
    features = np.ones(1)
    down = np.array([[-0.5]])
    assert ConstantPsi(positive="drop").values(down, features).tolist() == [0.0]
    assert ConstantPsi(positive="drop").pull_back(down, features, np.array([2.0])).tolist() == [[2.0]]
    assert ConstantPsi(positive="drop").project(down).tolist() == [[-0.5]]
    assert ConstantPsi(positive="clip").project(down).tolist() == [[0.0]]
    assert ConstantPsi(positive="clip").pull_back(np.zeros((1, 1)), features, np.array([2.0])).tolist() == [[2.0]]


def test_mean_map_uses_equal_random_features_for_every_input():
    psi = MeanMapPsi(n_components=50, random_state=3)
    a, b = psi.features(X[:2]), psi.features(X[2:])
    np.testing.assert_allclose(psi.features(X)[1:], (2 * a[1:] + 3 * b[1:]) / 5)


def test_bad_input():
    with pytest.raises(InvalidInputError, match=r"softplus.* is never 0"):
        ConstantPsi(positive="softplus").initial([0.0], None)
    with pytest.raises(InvalidInputError, match="positive='square' is not known"):
        ConstantPsi(positive="square").values(np.ones((1, 1)), np.ones(1))
    with pytest.raises(InvalidInputError, match="T > 0"):
        LinearPsi().features(np.empty((0, 3)))


@pytest.mark.parametrize(
    "psi", [ConstantPsi(), LinearPsi(), MeanMapPsi(n_components=7)], ids=["constant", "linear", "mean_map"]
)
def test_many_inputs_at_once(psi):
    """Features, psi and gradients of rows equal those of single inputs, also for sparse rows."""
    rng = np.random.default_rng(0)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(1, 5, 300))])  # more than one chunk
    matrix = rng.normal(size=(ptr[-1], 3))
    features = psi.features_of(matrix, ptr)
    np.testing.assert_allclose(features, psi.features_of(csr_array(matrix), ptr), atol=1e-12)
    weights, gradient = rng.normal(size=(2, features.shape[1])), rng.normal(size=(300, 2))
    strengths, total = psi.values(weights, features), np.zeros(weights.shape)
    for i in range(300):
        one = psi.features(matrix[ptr[i] : ptr[i + 1]])
        np.testing.assert_allclose(features[i], one, atol=1e-12)
        np.testing.assert_allclose(strengths[i], psi.values(weights, one), atol=1e-12)
        total += psi.pull_back(weights, one, gradient[i])
    np.testing.assert_allclose(psi.pull_back(weights, features, gradient), total, atol=1e-9)


def test_too_many_features_are_refused():
    wide = csr_array((1, 10**6))
    with pytest.raises(InvalidInputError, match=r"MeanMapPsi: .* a matrix of 1000000 x 1000 numbers.*Use ConstantPsi"):
        MeanMapPsi().features_of(wide, np.array([0, 1]))
