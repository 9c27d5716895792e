"""The fused step on squared errors of flows: against the general one, and its end against a search over paths."""

import numpy as np
import pytest
from scipy.optimize import nnls
from tests.collective.test_infer_flows import RATE, SIGMA, instance
from tests.oracles.collective_paths import cell_totals, move_totals

from intarsia._kernels.mirror_flows import exponential
from intarsia.collective import Gaussian, Poisson, infer_flows, move_tables
from intarsia.collective.mirror_steps import FlowSteps, MirrorSteps
from intarsia.collective.problem import CollectiveProblem


def problem(seed, noise=None, weight=0.0, blocked=False):
    theta, scores, counts = instance(seed, n_steps=4, missing=0.0, shared=False)
    if blocked:
        theta[1, 0] = -np.inf
        theta[1, 0, 2] = 0.0
    flows = np.random.default_rng(seed).poisson(4.0, size=(3, 3, 3)).astype(float)
    noise = Gaussian(SIGMA, RATE) if noise is None else noise
    return CollectiveProblem(move_tables(theta, 4), scores, counts, flows, 30.0, noise, weight, "here")


def test_exponentials():
    x = np.concatenate([np.linspace(-570, 600, 4001), np.linspace(-1, 1, 101)])
    ours = np.array([exponential(one) for one in x])
    np.testing.assert_allclose(ours / np.exp(x), 1.0, atol=2e-13)
    np.testing.assert_allclose(ours[-101:], np.exp(x[-101:]), rtol=5e-16)
    assert [exponential(one) for one in (-np.inf, -580.0, 0.0)] == [0.0, 0.0, 1.0]
    assert exponential(1e300) < np.inf


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("steepness", [0.3, 5.0])
def test_steps_are_those_of_the_general_way(blocked, steepness):
    here = problem(3, blocked=blocked)
    plain, fused = MirrorSteps(here), FlowSteps(here)
    now = plain.judge(here.evaluate(0.1 * np.random.default_rng(1).normal(size=here.y.size)))
    for _ in range(3):  # the second and third begin from where the kernel led
        expected, found = plain.step(now, steepness), fused.step(now, steepness)
        assert found[1:] == pytest.approx(expected[1:], rel=1e-9, abs=1e-9)
        assert found[0].value == pytest.approx(expected[0].value, rel=1e-12)
        assert found[0].along == pytest.approx(expected[0].along, rel=1e-9, abs=1e-9)
        assert found[0].point.log_partition == pytest.approx(expected[0].point.log_partition, rel=1e-12)
        for name in ("tilt", "walkers"):
            ours, theirs = getattr(found[0].point, name), getattr(expected[0].point, name)
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[0].slope, expected[0].slope, rtol=1e-9, atol=1e-9)
        oracle = here.oracle_at(found[0].point)
        flow = oracle.flow(here.messages_at(found[0].point), 2)
        np.testing.assert_allclose(30.0 * flow.reshape(-1), found[0].point.walkers[-9:], rtol=1e-9, atol=1e-12)
        now = found[0]


def test_a_step_beyond_the_double_range_is_made_in_logarithms():
    here = problem(4)
    now = FlowSteps(here).judge(here.evaluate(np.zeros(here.y.size)))
    expected, found = MirrorSteps(here).step(now, 1e-7), FlowSteps(here).step(now, 1e-7)
    assert np.abs(found[0].point.tilt).max() > 1e5
    assert found[0].point.messages.logarithmic
    np.testing.assert_allclose(found[0].point.walkers, expected[0].point.walkers)


def test_squares_alone_reach_the_least_over_paths():
    theta, scores, counts = instance(5, n_steps=3, missing=0.0)
    flows = np.random.default_rng(6).poisson(4.0, size=(2, 3, 3)).astype(float)
    result = infer_flows(
        theta, counts, 30.0, noise=Gaussian(SIGMA, RATE), scores=scores, flow_counts=flows, model_weight=0.0,
        method="mirror_descent", tol=1e-13, max_iter=20_000,
    )  # fmt: skip
    # Non-negative least squares over numbers of walkers on all paths; a heavy row for their total.
    units = np.eye(27)
    rows = [np.concatenate([cell_totals(q, 3, 3).ravel(), move_totals(q, 3, 3).ravel()]) for q in units]
    target = np.concatenate([counts.ravel(), flows.ravel()])
    system = np.vstack([RATE * np.array(rows).T / SIGMA, np.full((1, 27), 1e4)])
    _, norm = nnls(system, np.append(target / SIGMA, 30.0 * 1e4))
    constant = target.size * 0.5 * np.log(2 * np.pi * SIGMA**2)
    assert result.objective == pytest.approx(0.5 * norm**2 + constant, rel=1e-6)
    assert (np.diff(result.history["objective"]) <= 1e-9).all()


def test_only_squares_of_everything_take_the_short_way():
    assert problem(3).is_least_squares_of_flows
    assert not problem(3, weight=0.5).is_least_squares_of_flows
    assert not problem(3, noise=Poisson()).is_least_squares_of_flows
