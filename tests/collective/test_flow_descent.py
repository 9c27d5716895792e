"""Kernel steps on squared errors of flows: compared with general steps, and their optimum with a search over paths."""

import numpy as np
import pytest
from scipy.optimize import nnls
from tests.collective.test_infer_flows import RATE, SIGMA, instance
from tests.oracles.collective_paths import cell_totals, move_totals

from intarsia._core.clock import Clock
from intarsia._kernels.mirror_flows import exponential
from intarsia.collective import GaussianNoise, PoissonNoise, infer_flows, move_tables
from intarsia.collective.flow_descent import FlowDescent, MirrorSteps
from intarsia.collective.problem import CollectiveProblem
from intarsia.collective.search import MirrorDescent
from intarsia.inference import Status


def problem(seed, noise=None, weight=0.0, blocked=False):
    theta, scores, counts = instance(seed, n_steps=4, missing=0.0, shared=False)
    if blocked:
        theta[1, 0] = -np.inf
        theta[1, 0, 2] = 0.0
    flows = np.random.default_rng(seed).poisson(4.0, size=(3, 3, 3)).astype(float)
    noise = GaussianNoise(SIGMA, RATE) if noise is None else noise
    return CollectiveProblem(move_tables(theta, 4), scores, counts, flows, 30.0, noise, weight)


def test_exponentials_of_the_kernel():
    x = np.concatenate([np.linspace(-570, 600, 4001), np.linspace(-1, 1, 101)])
    ours = np.array([exponential(one) for one in x])
    np.testing.assert_allclose(ours / np.exp(x), 1.0, atol=2e-13)
    np.testing.assert_allclose(ours[-101:], np.exp(x[-101:]), rtol=5e-16)
    assert [exponential(one) for one in (-np.inf, -580.0, 0.0)] == [0.0, 0.0, 1.0]
    assert exponential(1e300) < np.inf


def first(here, seed=1):
    return MirrorSteps(here).evaluate_noise(here.evaluate(0.1 * np.random.default_rng(seed).normal(size=here.y.size)))


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("steepness", [0.3, 5.0])
def test_kernel_steps_equal_general_steps(blocked, steepness):
    here = problem(3, blocked=blocked)
    now, flows = first(here), FlowDescent(here, 0.97)
    general = MirrorDescent(here, now.point, Clock())
    general.current, general.steepness, general.decay = now, steepness, 0.5
    flows.begin(now, steepness, 0.5)
    for _ in range(3):
        value = general.current.value
        general.sweep()
        calls = here.n_calls
        made, safe = flows.advance(1, 0.0)
        found, expected = flows.current_trial(), general.current
        assert safe
        assert made[0, 0] == pytest.approx(expected.value, rel=1e-12)
        assert made[0, 1] == pytest.approx((value - expected.value) / (1 + abs(expected.value)), rel=1e-6, abs=1e-13)
        assert here.n_calls > calls
        assert flows.steepness == pytest.approx(general.steepness)
        assert found.point.log_partition == pytest.approx(expected.point.log_partition, rel=1e-12)
        np.testing.assert_allclose(found.point.walkers, expected.point.walkers, rtol=1e-10, atol=1e-12)
        possible = np.concatenate([here.scores.ravel(), here.tables.theta.ravel()]) > -np.inf
        np.testing.assert_allclose(found.point.tilt[possible], expected.point.tilt[possible], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.slope, expected.slope, rtol=1e-9, atol=1e-9)


def test_many_steps_equal_single_steps():
    here = problem(6)
    start, together, one_by_one = first(here), FlowDescent(here, 0.97), FlowDescent(here, 0.97)
    together.begin(start, 0.1, 0.5)
    one_by_one.begin(start, 0.1, 0.5)
    singles = np.concatenate([one_by_one.advance(1, 0.0)[0] for _ in range(40)])
    calls = here.n_calls
    made, _ = together.advance(40, 0.0)
    np.testing.assert_array_equal(made[:, :2], singles[:, :2])
    assert made[-1, 2] == here.n_calls > calls + 40  # some of them were repeated
    assert (np.diff(made[:, 0]) < 0).all()
    together.begin(start, 0.1, 0.5)
    stopped = together.advance(40, made[9, 1])[0]
    assert len(stopped) <= 10
    assert (stopped[:-1, 1] > made[9, 1]).all()


def test_a_step_beyond_the_double_range_is_left_to_the_log_domain():
    here = problem(4)
    now, flows = first(here), FlowDescent(here, 0.97)
    flows.begin(now, 1e-7, 0.5)
    made, safe = flows.advance(5, 0.0)
    assert not safe
    assert len(made) == 0
    np.testing.assert_allclose(flows.current_trial().point.tilt, now.point.tilt, rtol=1e-6, atol=1e-6)  # nothing moved
    search = MirrorDescent(here, now.point, Clock())
    search.steepness = 1e-7
    loop = search.run(30, 1e-12, None)
    assert loop.n_iter == len(search.history["objective"]) == 30
    assert search.best_objective < now.value
    assert search.best_objective == pytest.approx(here.noise_value(search.best), rel=1e-12)


def test_limits_of_time_and_iterations(monkeypatch):
    here = problem(5)
    monkeypatch.setattr("intarsia.collective.flow_descent._BLOCK", 7.0 * here.y.size)
    loop = MirrorDescent(here, first(here).point, Clock(1e-9)).run(10**7, 0.0, None)
    assert loop.status is Status.TIME_LIMIT
    assert loop.n_iter == 7
    reports = []
    search = MirrorDescent(here, first(here).point, Clock())
    loop = search.run(20, 0.0, lambda k, residual: reports.append(k))
    assert loop.status is Status.MAX_ITER
    assert reports == [7, 14, 20]
    assert [len(column) for column in search.history.values()] == [20] * 5


def test_squared_errors_reach_the_optimum_over_paths():
    theta, scores, counts = instance(5, n_steps=3, missing=0.0)
    flows = np.random.default_rng(6).poisson(4.0, size=(2, 3, 3)).astype(float)
    result = infer_flows(
        theta, counts, 30.0, noise=GaussianNoise(SIGMA, RATE), scores=scores, flow_counts=flows, model_weight=0.0,
        method="mirror_descent", tol=1e-13, max_iter=20_000,
    )  # fmt: skip
    # Non-negative least squares over numbers of walkers on all paths, with a row of large weight for their total.
    units = np.eye(27)
    rows = [np.concatenate([cell_totals(q, 3, 3).ravel(), move_totals(q, 3, 3).ravel()]) for q in units]
    target = np.concatenate([counts.ravel(), flows.ravel()])
    system = np.vstack([RATE * np.array(rows).T / SIGMA, np.full((1, 27), 1e4)])
    _, norm = nnls(system, np.append(target / SIGMA, 30.0 * 1e4))
    constant = target.size * 0.5 * np.log(2 * np.pi * SIGMA**2)
    assert result.objective == pytest.approx(0.5 * norm**2 + constant, rel=1e-6)
    assert (np.diff(result.history["objective"]) <= 1e-9).all()


def test_only_complete_squared_errors_use_the_kernel():
    assert problem(3).is_least_squares_of_flows
    assert not problem(3, weight=0.5).is_least_squares_of_flows
    assert not problem(3, noise=PoissonNoise()).is_least_squares_of_flows
