"""OWL-QN: sparse minima satisfy the optimality conditions and agree with an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.learning.owl_qn import OWLQN


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
    result = OWLQN(l1=l1, tol=1e-8).minimize(smooth, np.zeros(12))
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
    best = OWLQN(l1=1.0, tol=1e-9).minimize(smooth, np.zeros(6))
    result = OWLQN(l1=1.0, tol=1e-9).minimize(smooth, -10.0 * best.point - 1.0)
    np.testing.assert_allclose(result.point, best.point, atol=1e-7)


def test_value_never_rises_and_history_is_of_the_whole_function():
    smooth = least_squares(1, 20, 8)
    result = OWLQN(l1=2.0).minimize(smooth, np.ones(8))
    assert result.history["risk"][0] == pytest.approx(smooth(np.ones(8))[0] + 16.0)
    assert (np.diff(result.history["risk"]) <= 0).all()
    assert result.value == pytest.approx(smooth(result.point)[0] + 2.0 * np.abs(result.point).sum())


def test_an_interrupted_search_resumes_exactly():
    smooth = least_squares(2, 20, 8)
    whole = OWLQN(l1=1.0, tol=1e-10).minimize(smooth, np.zeros(8))
    kept = {}

    def watch(search):
        if search.n_iter == 4:
            kept.update({name: np.array(array) for name, array in search.arrays().items()})

    OWLQN(l1=1.0, tol=1e-10, max_iter=4).minimize(smooth, np.zeros(8), watch=watch)
    rest = OWLQN(l1=1.0, tol=1e-10).minimize(smooth, np.zeros(8), resume=kept)
    np.testing.assert_array_equal(rest.point, whole.point)
    assert rest.n_iter == whole.n_iter


def test_bad_settings_raise():
    with pytest.raises(InvalidInputError, match=r"OWLQN: l1 must be a number in \[0, inf\), got -1"):
        OWLQN(l1=-1).minimize(least_squares(0, 4, 2), np.zeros(2))
