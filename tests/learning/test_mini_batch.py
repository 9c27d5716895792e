"""Mini-batch optimizers: steps computed by hand, the minimum of SciPy, and no result worse than the start."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.learning.training_sets import noisy_grids

from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import Status
from intarsia.learning import LBFGS, SGD, Adam, RiskMinimizer
from intarsia.losses import ContrastiveDivergence


def bowl(x):
    return float(x @ x), 2.0 * x


def test_sgd_by_hand():
    """Two steps by hand: x - s g, then v = m g + g' and a smaller learning rate."""
    result = SGD(step_size=0.1, momentum=0.5, decay=1.0, max_iter=2, tol=0.0).minimize(bowl, np.array([1.0]))
    first = 1.0 - 0.1 * 2.0
    second = first - 0.1 / 2.0 * (0.5 * 2.0 + 2.0 * first)
    np.testing.assert_allclose(result.history["risk"], [1.0, first**2, second**2])
    np.testing.assert_allclose(result.point, second)


def test_adam_by_hand():
    """Two steps by hand, with moments corrected for their start at zero."""
    result = Adam(step_size=0.1, beta1=0.5, beta2=0.75, decay=0.0, max_iter=2, tol=0.0).minimize(bowl, np.array([1.0]))
    first = 1.0 - 0.1
    g, h = 2.0, 2.0 * first
    mean, square = (0.5 * 0.5 * g + 0.5 * h) / 0.75, (0.75 * 0.25 * g * g + 0.25 * h * h) / (1.0 - 0.75**2)
    np.testing.assert_allclose(result.point, first - 0.1 * mean / np.sqrt(square), rtol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD(step_size=0.3, batch_size=2, max_iter=400, decay=0.1, tol=1e-3),
        Adam(batch_size=2, max_iter=400, decay=0.2, tol=5e-3),
        SGD(step_size=0.3, batch_size=100, max_iter=400, decay=0.0, tol=1e-6),
    ],
    ids=["sgd", "adam", "whole"],
)
def test_reaches_the_minimum_of_a_convex_risk(optimizer):
    """The exact likelihood with an L2 penalty is strictly convex; SciPy computes its minimum independently."""
    learner = RiskMinimizer(loss="likelihood", l2=3.6, optimizer=optimizer)
    examples = noisy_grids(shape=(2, 3))
    result = learner.minimize(examples, "junction_tree")
    risk = learner.risk(examples, "junction_tree")
    exact = minimize(risk, np.zeros(risk.n_weights), jac=True, method="L-BFGS-B", options={"gtol": 1e-8})
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.point, exact.x, atol=30.0 * optimizer.tol)
    assert result.history["evaluations"][-1] == result.n_iter + 1


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_results_do_not_depend_on_threads(kind):
    def fit(n_jobs=1, random_state=0):
        learner = RiskMinimizer(
            optimizer=kind(batch_size=2, max_iter=3, tol=1.0), l2=7.2, n_jobs=n_jobs, random_state=random_state
        )
        weights, state = np.zeros(8), None
        for _ in range(2):
            weights, state, _ = learner.step(noisy_grids(), "tree_reweighted", weights, state)
        return weights

    np.testing.assert_array_equal(fit(), fit(n_jobs=2))
    assert (fit() != fit(random_state=1)).any()


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_learning_rate_far_too_large_is_halved(kind):
    result = kind(step_size=1e4, max_iter=60, decay=0.0, tol=1e-3).minimize(bowl, np.array([3.0, -1.0]))
    assert result.value < 1.0
    assert (result.history["risk"] <= 10.0).all()


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_points_that_are_not_finite_are_never_returned(kind, bad):
    """The function rises to +inf at 1 and is `bad` beyond, where a first step of 15 ends."""

    def wall(x):
        if x[0] >= 1.0:
            return bad, np.full(1, bad)
        return float(-np.log1p(-x[0]) - 4.0 * x[0]), 1.0 / (1.0 - x) - 4.0  # lowest at 3/4

    result = kind(step_size=5.0, max_iter=300, decay=0.1, tol=1e-3).minimize(wall, np.zeros(1))
    assert result.status is Status.CONVERGED
    assert result.point[0] == pytest.approx(0.75, abs=1e-3)
    assert np.isfinite(result.history["risk"]).all()


def test_step_continues_from_its_state():
    """Two calls of `step` on all data equal two passes of the fit."""
    examples = noisy_grids()
    learner = RiskMinimizer(optimizer=Adam(batch_size=4, max_iter=2, tol=1e-9))
    with pytest.warns(UserWarning, match="MAX_ITER after 2 iterations"):
        result = learner.minimize(examples, "tree_reweighted")
    weights, state, first = learner.step(examples, "tree_reweighted", np.zeros(result.point.size))
    weights, state, second = learner.step(examples, "tree_reweighted", weights, state)
    np.testing.assert_array_equal(weights, result.point)
    assert second < first


def test_bad_settings_raise():
    for optimizer, setting in [
        (SGD(step_size=0.0), "SGD: step_size"),
        (SGD(momentum=1.0), "SGD: momentum"),
        (Adam(batch_size=0), "Adam: batch_size"),
        (Adam(beta2=1.0), "Adam: beta2"),
        (SGD(decay=-1.0), "SGD: decay"),
        (SGD(max_iter=-1), "SGD: max_iter"),
    ]:
        with pytest.raises(InvalidInputError, match=setting):
            optimizer.minimize(bowl, np.zeros(2))
    with pytest.raises(NotSupportedError, match="To learn incrementally, use one of: SGD, Adam"):
        RiskMinimizer(optimizer=LBFGS()).step(noisy_grids(), "tree_reweighted", np.zeros(8))
    with pytest.raises(InvalidInputError, match=r"start has shape \(3,\), but 8 finite weights"):
        RiskMinimizer(optimizer="sgd").step(noisy_grids(), "tree_reweighted", np.zeros(3))


def test_values_that_do_not_belong_to_the_gradient_are_not_compared():
    """From 0 each step goes half the way to 1, where the gradient is 0; the value is lowest in between."""

    def astray(x):
        return float((x[0] - 0.5) ** 2), x - 1.0

    sgd = SGD(step_size=0.5, momentum=0.0, decay=0.0, max_iter=4)
    assert sgd.minimize(astray, np.zeros(1)).point == 0.5
    result = sgd.minimize(astray, np.zeros(1), by_value=False)
    assert (result.point[0], result.value, result.gradient_norm) == (0.9375, 0.4375**2, 0.0625)
    above = sgd.minimize(lambda x: (float(x[0]), x - 1.0), np.zeros(1), by_value=False)
    assert above.point == 0.9375  # although its value is above that of the start


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_contrastive_divergence_ends_where_its_gradient_is_zero():
    learner = RiskMinimizer(
        loss=ContrastiveDivergence(n_chains=20), l2=1.6, optimizer=SGD(step_size=0.5, max_iter=20), gradient="auto"
    )
    result = learner.minimize(noisy_grids(4, shape=(2, 2)), "tree_reweighted")
    lowest = np.argmin(result.history["risk"])
    assert result.value == result.history["risk"][-1] > result.history["risk"][lowest]
    assert result.gradient_norm < result.history["gradient_norm"][lowest]


def test_a_loss_without_values_to_compare_is_refused():
    examples = noisy_grids(2)
    with pytest.raises(NotSupportedError, match=r"LBFGS compares values.*ContrastiveDivergence.*one of: SGD, Adam\."):
        RiskMinimizer(loss="contrastive_divergence").risk(examples, "tree_reweighted")
    learner = RiskMinimizer(loss="contrastive_divergence", optimizer="adam", validation_fraction=0.5)
    with pytest.raises(NotSupportedError, match="early stopping needs a loss whose lower values are better"):
        learner.minimize(examples, "tree_reweighted")
