"""Proximal L-BFGS: sparse minima satisfy the optimality conditions and agree with an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from intarsia._kernels.coordinate_descent import descend_coordinates
from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.learning.lbfgs import remember_pair
from intarsia.learning.proximal_lbfgs import ProximalLBFGS, _hessian


def least_squares(seed, n, d):
    rng = np.random.default_rng(seed)
    matrix, target = rng.normal(size=(n, d)), rng.normal(size=n)
    return lambda w: (0.5 * float(((matrix @ w - target) ** 2).sum()), matrix.T @ (matrix @ w - target))


def by_split(smooth, d, l1):
    """w = u - v with u, v >= 0, by an independent bounded solver."""

    def split(both):
        value, slope = smooth(both[:d] - both[d:])
        return value + l1 * both.sum(), np.concatenate([slope + l1, -slope + l1])

    result = minimize(
        split,
        np.zeros(2 * d),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * 2 * d,
        options={"ftol": 0, "gtol": 1e-9},
    )
    return result.x[:d] - result.x[d:], result.fun


@pytest.mark.parametrize("l1", [0.0, 0.7, 5.0, 1e4])
def test_conditions_of_optimality(l1):
    smooth = least_squares(3, 30, 12)
    result = ProximalLBFGS(l1=l1, tol=1e-8).minimize(smooth, np.zeros(12))
    assert result.status is Status.CONVERGED
    slope = smooth(result.point)[1]
    used = result.point != 0
    np.testing.assert_allclose(slope[used], -l1 * np.sign(result.point[used]), atol=2e-8)
    assert (np.abs(slope[~used]) <= l1 + 2e-8).all()
    other, value = by_split(smooth, 12, l1)
    assert result.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(result.point, other, atol=1e-4)


def test_leaves_orthants():
    """Starts with all signs wrong."""
    smooth = least_squares(5, 40, 6)
    best = ProximalLBFGS(l1=1.0, tol=1e-9).minimize(smooth, np.zeros(6))
    result = ProximalLBFGS(l1=1.0, tol=1e-9).minimize(smooth, -10.0 * best.point - 1.0)
    np.testing.assert_allclose(result.point, best.point, atol=1e-7)


def test_value_never_rises_and_history_is_of_the_whole_function():
    smooth = least_squares(1, 20, 8)
    result = ProximalLBFGS(l1=2.0).minimize(smooth, np.ones(8))
    assert result.history["risk"][0] == pytest.approx(smooth(np.ones(8))[0] + 16.0)
    assert (np.diff(result.history["risk"]) <= 0).all()
    assert result.value == pytest.approx(smooth(result.point)[0] + 2.0 * np.abs(result.point).sum())


def test_an_interrupted_search_resumes_exactly():
    smooth = least_squares(2, 20, 8)
    whole = ProximalLBFGS(l1=1.0, tol=1e-10).minimize(smooth, np.zeros(8))
    kept = {}

    def watch(search):
        if search.n_iter == 4:
            kept.update({name: np.array(array) for name, array in search.arrays().items()})

    ProximalLBFGS(l1=1.0, tol=1e-10, max_iter=4).minimize(smooth, np.zeros(8), watch=watch)
    rest = ProximalLBFGS(l1=1.0, tol=1e-10).minimize(smooth, np.zeros(8), resume=kept)
    np.testing.assert_array_equal(rest.point, whole.point)
    assert rest.n_iter == whole.n_iter


@pytest.mark.parametrize("n_updates", [1, 3, 9])
def test_hessian_is_that_of_the_bfgs_updates(n_updates):
    """The compact form equals the updates of a dense matrix, one after the other, with the latest pairs."""
    rng = np.random.default_rng(n_updates)
    curvature = np.diag(rng.uniform(1, 9, size=7))
    memory, pairs = {}, []
    for _ in range(n_updates):
        new, old = rng.normal(size=(2, 7))
        gradients = curvature @ new, curvature @ old
        remember_pair(memory, (new, old), gradients, 4, products=True)
        pairs.append((new - old, gradients[0] - gradients[1]))
    step, change = pairs[-1]
    dense = np.eye(7) * (change @ change) / (step @ change)
    for step, change in pairs[-4:]:
        old_change = dense @ step
        dense += np.outer(change, change) / (change @ step) - np.outer(old_change, old_change) / (step @ old_change)
    active = np.array([0, 2, 3, 6])
    scale, factors, scaled = _hessian(memory, active)
    np.testing.assert_allclose(scale * np.eye(4) - factors @ scaled.T, dense[np.ix_(active, active)], rtol=1e-8)


def test_coordinate_descent_solves_the_model():
    """Against the conditions of optimality of the quadratic model plus the penalty."""
    rng = np.random.default_rng(0)
    start, gradient, l1 = 0.3 * rng.normal(size=6), 3.0 * rng.normal(size=6), 2.0
    factors, middle = rng.normal(size=(6, 2)), np.diag([0.3, -0.2])
    matrix = 9.0 * np.eye(6) - factors @ middle @ factors.T
    assert np.linalg.eigvalsh(matrix).min() > 0
    point = np.empty(6)
    descend_coordinates(start, gradient, 9.0, factors, factors @ middle, l1, 1000, 1e-13, point)
    slope = gradient + matrix @ (point - start)
    used = point != 0
    assert 0 < used.sum() < 6
    np.testing.assert_allclose(slope[used], -l1 * np.sign(point[used]), atol=1e-10)
    assert (np.abs(slope[~used]) <= l1 + 1e-10).all()


def test_bad_settings_raise():
    with pytest.raises(InvalidInputError, match=r"ProximalLBFGS: l1 must be a number in \[0, inf\), got -1"):
        ProximalLBFGS(l1=-1).minimize(least_squares(0, 4, 2), np.zeros(2))
