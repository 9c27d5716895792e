"""L-BFGS reaches known minima, restarts after bad directions, and keeps its best point when interrupted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from sklearn.base import clone

from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.learning import LBFGS
from intarsia.learning.lbfgs import lbfgs_direction, remember_pair, stored_rows


def rosenbrock(x):
    return float(rosen(x)), rosen_der(x)


def test_reaches_the_minimum():
    result = LBFGS(tol=1e-8).minimize(rosenbrock, np.zeros(5))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.point, 1.0, atol=1e-6)
    assert result.gradient_norm <= 1e-8


def test_long_vectors_reach_the_minimum_with_pairs_in_single_precision():
    n = 12_000
    rng = np.random.default_rng(0)
    scale, minimum = np.geomspace(0.5, 5.0, n), rng.normal(size=n)

    def quartic(x):
        off = x - minimum
        return float(scale @ (off**2 + off**4)), scale * (2 * off + 4 * off**3)

    result = LBFGS(tol=1e-8, max_iter=2000).minimize(quartic, np.zeros(n))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.point, minimum, atol=1e-7)


def test_pairs_of_long_vectors_take_half_the_memory_and_give_the_same_direction():
    """Against the two-loop recursion on the exact pairs in double precision."""
    n, rng, memory, pairs = 10_000, np.random.default_rng(0), {}, []
    diagonal = rng.uniform(0.1, 10.0, size=n)
    for _ in range(5):
        new, old = rng.normal(size=(2, n))
        remember_pair(memory, (new, old), (diagonal * new, diagonal * old), 3)
        pairs.append((new - old, diagonal * new - diagonal * old))
    assert memory["ring"].nbytes == 2 * 3 * n * 4
    gradient = rng.normal(size=n)
    direction, coefficients = -gradient, []
    for step, change in reversed(pairs[-3:]):
        coefficients.append(step @ direction / (step @ change))
        direction = direction - coefficients[-1] * change
    step, change = pairs[-1]
    direction = direction * (step @ change) / (change @ change)
    for (step, change), coefficient in zip(pairs[-3:], reversed(coefficients), strict=True):
        direction = direction + (coefficient - change @ direction / (step @ change)) * step
    np.testing.assert_allclose(lbfgs_direction(gradient, memory), direction, rtol=1e-4, atol=1e-6)


def test_a_pair_without_curvature_replaces_no_other():
    memory, rng = {}, np.random.default_rng(0)
    for new, old in rng.normal(size=(4, 2, 5)):
        remember_pair(memory, (new, old), (new, old), 3)
    before = {name: array.copy() for name, array in memory.items()}
    new, old = rng.normal(size=(2, 5))
    for change in (old - new, np.full(5, np.nan)):
        remember_pair(memory, (new, old), (change, np.zeros(5)), 3)
    for name, array in memory.items():
        np.testing.assert_array_equal(array, before[name])
    assert stored_rows(memory) == [1, 2, 0]


def test_history_has_a_row_for_the_start_and_each_iteration():
    result = LBFGS().minimize(rosenbrock, np.zeros(3))
    assert {rows.size for rows in result.history.values()} == {result.n_iter + 1}
    assert result.history["risk"][0] == rosenbrock(np.zeros(3))[0]
    assert (np.diff(result.history["risk"]) <= 0).all()
    assert (np.diff(result.history["evaluations"]) >= 1).all()
    assert (np.diff(result.history["seconds"]) >= 0).all()
    assert result.history["gradient_norm"][-1] == result.gradient_norm


def test_restarts_after_a_bad_direction():
    """Temporarily wrong gradients spoil the stored curvature; without a restart the search would end there."""
    calls = 0

    def misled(x):
        nonlocal calls
        calls += 1
        value, gradient = rosenbrock(x)
        return value, -gradient if 20 <= calls < 35 else gradient

    result = LBFGS(tol=1e-6).minimize(misled, np.zeros(4))
    assert result.n_restarts >= 1
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.point, 1.0, atol=1e-4)


def test_stalls_if_the_gradient_stays_wrong():
    result = LBFGS().minimize(lambda x: (float(x @ x), -2.0 * x), np.ones(2))
    assert result.status is Status.STALLED
    assert result.value <= 2.0


def test_stops_at_max_iter():
    result = LBFGS(max_iter=3).minimize(rosenbrock, np.zeros(5))
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 3
    none = LBFGS(max_iter=0).minimize(rosenbrock, np.zeros(5))
    assert none.n_iter == 0
    np.testing.assert_array_equal(none.point, 0.0)


def test_interrupt_keeps_the_best_point():
    seen = []

    def broken_off(x):
        if len(seen) == 12:
            raise KeyboardInterrupt
        seen.append(rosenbrock(x)[0])
        return rosenbrock(x)

    result = LBFGS().minimize(broken_off, np.zeros(5))
    assert result.status is Status.INTERRUPTED
    assert result.value == min(seen) == rosenbrock(result.point)[0]

    def at_once(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LBFGS().minimize(at_once, np.zeros(2))


def test_the_start_is_not_changed():
    start = np.zeros(3)
    LBFGS().minimize(rosenbrock, start)
    np.testing.assert_array_equal(start, 0.0)


def test_bad_input_raises():
    with pytest.raises(InvalidInputError, match="value at the start is inf"):
        LBFGS().minimize(lambda x: (np.inf, x), np.zeros(2))
    for wrong in ({"max_iter": -1}, {"tol": -1.0}, {"memory": 0}):
        with pytest.raises(InvalidInputError, match=f"LBFGS: {next(iter(wrong))}"):
            LBFGS(**wrong).minimize(rosenbrock, np.zeros(2))
    assert clone(LBFGS(max_iter=7)).max_iter == 7


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_step_to_a_value_that_is_not_finite_is_too_long(bad):
    """-log(1 - x) - 100 x is lowest at 0.99 and is `bad` from 1 on, where the first step of 1 ends."""

    def wall(x):
        if x[0] >= 1.0:
            return bad, np.full(1, bad)
        return float(-np.log1p(-x[0]) - 100.0 * x[0]), 1.0 / (1.0 - x) - 100.0

    result = LBFGS(tol=1e-6).minimize(wall, np.zeros(1))
    assert result.status is Status.CONVERGED
    assert result.point[0] == pytest.approx(0.99, abs=1e-6)
    assert np.isfinite(result.history["risk"]).all()


def test_stalls_if_all_neighbours_are_infinite():
    result = LBFGS().minimize(lambda x: (0.0 if (x == 0.0).all() else np.nan, np.ones(2)), np.zeros(2))
    assert result.status is Status.STALLED
    assert result.value == 0.0
    with pytest.raises(InvalidInputError, match="gradient at the start is not finite"):
        LBFGS().minimize(lambda x: (0.0, np.array([np.nan])), np.zeros(1))


def test_as_few_evaluations_as_scipy():
    """An ill-conditioned logistic regression; both stop at the same gradient."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)) * np.logspace(0.0, 1.0, 40)
    y = np.sign(X @ rng.normal(size=40) + 5.0 * rng.normal(size=300))
    n_theirs = 0

    def logistic(w):
        z = y * (X @ w)
        value = float(np.logaddexp(0.0, -z).mean() + 5e-4 * w @ w)
        return value, -X.T @ (y / (1.0 + np.exp(z))) / 300 + 1e-3 * w

    def theirs(w):
        nonlocal n_theirs
        n_theirs += 1
        return logistic(w)

    ours = LBFGS(tol=1e-6).minimize(logistic, np.zeros(40))
    options = {"gtol": 1e-6, "ftol": 0.0, "maxfun": 10**5}
    result = minimize(theirs, np.zeros(40), jac=True, method="L-BFGS-B", options=options)
    assert ours.status is Status.CONVERGED
    np.testing.assert_allclose(ours.point, result.x, atol=1e-3)
    assert ours.value == pytest.approx(result.fun, rel=1e-8)
    assert ours.history["evaluations"][-1] <= 1.5 * n_theirs


def test_resumes_from_its_arrays():
    """A search resumed from stored arrays equals the uninterrupted one to the last bit."""
    kept = []
    whole = LBFGS(tol=1e-8).minimize(rosenbrock, np.zeros(5), watch=lambda search: kept.append(search.arrays()))
    for arrays in kept[::5]:
        result = LBFGS(tol=1e-8).minimize(rosenbrock, np.full(5, 7.0), resume=arrays)
        np.testing.assert_array_equal(result.point, whole.point)
        np.testing.assert_array_equal(result.history["evaluations"], whole.history["evaluations"])


@pytest.mark.parametrize("seed", [3, 4, 6])
def test_noise_of_an_objective_that_is_itself_a_search_ends_the_line_search(seed):
    """Two evaluations of one point may differ by rounding, so that a bracket of the line search is empty."""
    rng, curvature = np.random.default_rng(seed), np.arange(1.0, 5.0)

    def noisy(x):
        value = 0.5 * float(x @ (curvature * x)) + 1.0 + 1e-11 * rng.normal()
        return value, curvature * x * (1 + 1e-9 * rng.normal(size=4)) + 1e-9 * rng.normal(size=4)

    result = LBFGS(tol=1e-14, max_iter=200).minimize(noisy, np.ones(4))
    assert result.value == pytest.approx(1.0, abs=1e-9)
