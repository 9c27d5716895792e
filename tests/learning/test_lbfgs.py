"""The search reaches known minima, begins anew when a direction is bad, and loses nothing when it is broken off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der
from sklearn.base import clone

from intarsia.exceptions import InvalidInputError
from intarsia.inference.result import Status
from intarsia.learning import LBFGS


def rosenbrock(x):
    return float(rosen(x)), rosen_der(x)


def test_reaches_the_minimum():
    found = LBFGS(tol=1e-8).minimize(rosenbrock, np.zeros(5))
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.point, 1.0, atol=1e-6)
    assert found.gradient_norm <= 1e-8


def test_history_has_a_row_for_the_start_and_each_iteration():
    found = LBFGS().minimize(rosenbrock, np.zeros(3))
    assert {rows.size for rows in found.history.values()} == {found.n_iter + 1}
    assert found.history["risk"][0] == rosenbrock(np.zeros(3))[0]
    assert (np.diff(found.history["risk"]) <= 0).all()
    assert (np.diff(found.history["evaluations"]) >= 1).all()
    assert (np.diff(found.history["seconds"]) >= 0).all()
    assert found.history["gradient_norm"][-1] == found.gradient_norm


def test_begins_anew_on_a_bad_direction():
    """Wrong gradients for a while spoil the curvature that was gathered; a single run ends there."""
    calls = 0

    def misled(x):
        nonlocal calls
        calls += 1
        value, gradient = rosenbrock(x)
        return value, -gradient if 20 <= calls < 35 else gradient

    found = LBFGS(tol=1e-6).minimize(misled, np.zeros(4))
    assert found.n_restarts >= 1
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.point, 1.0, atol=1e-4)


def test_stalls_where_the_gradient_is_wrong_for_good():
    found = LBFGS().minimize(lambda x: (float(x @ x), -2.0 * x), np.ones(2))
    assert found.status is Status.STALLED
    assert found.value <= 2.0


def test_stops_at_max_iter():
    found = LBFGS(max_iter=3).minimize(rosenbrock, np.zeros(5))
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 3
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

    found = LBFGS().minimize(broken_off, np.zeros(5))
    assert found.status is Status.INTERRUPTED
    assert found.value == min(seen) == rosenbrock(found.point)[0]

    def at_once(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LBFGS().minimize(at_once, np.zeros(2))


def test_the_start_is_not_changed():
    start = np.zeros(3)
    LBFGS().minimize(rosenbrock, start)
    np.testing.assert_array_equal(start, 0.0)


def test_bad_input_is_told():
    with pytest.raises(InvalidInputError, match="value at the start is inf"):
        LBFGS().minimize(lambda x: (np.inf, x), np.zeros(2))
    for wrong in ({"max_iter": -1}, {"tol": -1.0}, {"memory": 0}):
        with pytest.raises(InvalidInputError, match=f"LBFGS: {next(iter(wrong))}"):
            LBFGS(**wrong).minimize(rosenbrock, np.zeros(2))
    assert clone(LBFGS(max_iter=7)).max_iter == 7
