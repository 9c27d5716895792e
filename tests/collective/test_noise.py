"""Noise models: slopes by finite differences, conjugates by a search over n, round trip of coordinates."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm, poisson

from intarsia.collective import ExactNoise, GaussianNoise, PoissonNoise

SMOOTH = [PoissonNoise(0.7), GaussianNoise(2.0, 0.5)]
N, Y = np.array([0.5, 3.0, 9.0]), np.array([2.0, 0.0, 7.0])


def test_likelihoods_equal_scipy():
    np.testing.assert_allclose(-PoissonNoise(0.7).negative_log_likelihood(N, Y), poisson.logpmf(Y, 0.7 * N))
    np.testing.assert_allclose(-GaussianNoise(2.0, 0.5).negative_log_likelihood(N, Y), norm.logpdf(Y, 0.5 * N, 2.0))


@pytest.mark.parametrize("noise", SMOOTH, ids=["poisson", "gaussian"])
def test_slopes_equal_finite_differences(noise):
    h = 1e-6
    rise = noise.negative_log_likelihood(N + h, Y) - noise.negative_log_likelihood(N - h, Y)
    np.testing.assert_allclose(noise.slope(N, Y), rise / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("noise", SMOOTH, ids=["poisson", "gaussian"])
@pytest.mark.parametrize("y", [2.0, 7.0])
@pytest.mark.parametrize("multiplier", [-1.3, 0.2, 0.6])
def test_conjugate_equals_a_search(noise, y, multiplier):
    def loss(n):
        return noise.negative_log_likelihood(np.array([n]), np.array([y]))[0] - multiplier * n

    low = 1e-6 if isinstance(noise, PoissonNoise) else -200.0  # a Gaussian count has no lower bound
    found = minimize_scalar(loss, bounds=(low, 500.0), method="bounded", options={"xatol": 1e-10})
    at, counts = np.array([multiplier]), np.array([y])
    assert noise.conjugate(at, counts)[0] == pytest.approx(-found.fun, abs=1e-7)
    assert noise.conjugate_slope(at, counts)[0] == pytest.approx(found.x, abs=1e-3)


def test_conjugate_of_zero_counts():
    # sup over n >= 0 of (multiplier - rate) n is 0 up to the rate, infinite beyond
    value = PoissonNoise(0.7).conjugate(np.array([0.7, -3.0, 0.8]), np.zeros(3))
    np.testing.assert_array_equal(value, [0.0, 0.0, np.inf])
    assert PoissonNoise(0.7).conjugate(np.array([0.7]), np.array([1.0]))[0] == np.inf


@pytest.mark.parametrize("noise", [*SMOOTH, ExactNoise()], ids=["poisson", "gaussian", "exact"])
def test_coordinates_round_trip(noise):
    x = np.array([-0.8, 0.1, 1.2])
    y = np.array([2.0, 1.0, 7.0])
    multipliers, derivatives = noise.multipliers(x, y)
    np.testing.assert_allclose(noise.coordinates(multipliers, y), x)
    h = 1e-6
    rise = noise.multipliers(x + h, y)[0] - noise.multipliers(x - h, y)[0]
    np.testing.assert_allclose(derivatives, rise / (2 * h), rtol=1e-6)
