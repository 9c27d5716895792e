"""Trees of steps, compared with a minimisation over all choices of cells, proportional fitting, and chains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.collective.test_infer_flows import NOISES, gaussian, instance
from tests.oracles.collective_paths import least_objective, path_scores, proportional_fitting

from intarsia.collective import CollectiveChain, GaussianNoise, infer_flows, make_moves
from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status

SHAPES = {"star": [-1, 0, 0, 0], "fork": [-1, 0, 1, 1], "crossed": [-1, 0, 0, 1]}


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_optimum_is_reached(method, name, shape):
    theta, scores, counts = instance(11, shared=shape == "fork")
    noise, written_out = NOISES[name]
    parents = SHAPES[shape]
    result = infer_flows(
        theta, counts, 30.0, noise=noise, scores=scores, parents=parents, method=method, tol=1e-12, max_iter=5000
    )
    full = np.broadcast_to(theta, (3, 3, 3))
    least, cells, moves = least_objective(full, scores, 30.0, *written_out(counts), parents=parents)
    assert result.objective == pytest.approx(least, rel=1e-8, abs=1e-6)
    np.testing.assert_allclose(result.walkers, cells, atol=1e-3)
    for t in range(3):
        np.testing.assert_allclose(result.flows(t), moves[t], atol=1e-3)
    if shape == "fork":
        np.testing.assert_allclose(result.sum_of_flows(), moves.sum(axis=0), atol=3e-3)


def test_observed_moves_in_a_tree():
    theta, scores, counts = instance(12, n_steps=3)
    flows = np.random.default_rng(6).poisson(4.0, size=(2, 3, 3)).astype(float)
    parents = [-1, 0, 0]
    result = infer_flows(
        theta, counts, 30.0, noise=GaussianNoise(3.0, 0.7), scores=scores, flow_counts=flows, parents=parents, tol=1e-11
    )
    full = np.broadcast_to(theta, (2, 3, 3))
    least, _, moves = least_objective(full, scores, 30.0, *gaussian(counts, flows), parents=parents)
    assert result.objective == pytest.approx(least, rel=1e-8, abs=1e-6)
    np.testing.assert_allclose(result.flows(1), moves[1], atol=1e-3)


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_exact_counts_equal_proportional_fitting(seed):
    rng = np.random.default_rng(seed)
    parents = [-1, 0, int(rng.integers(0, 2)), int(rng.integers(0, 3))]
    theta, scores = rng.normal(size=(3, 3, 3)), rng.normal(size=(4, 3))
    counts = rng.multinomial(20, [0.3, 0.3, 0.4], size=4).astype(float)
    counts[1] = np.nan
    result = infer_flows(theta, counts, 20.0, noise="exact", scores=scores, parents=parents, tol=1e-9)
    cells, moves = proportional_fitting(theta, scores, counts, 400, parents)
    np.testing.assert_allclose(result.walkers, cells, atol=1e-5)
    np.testing.assert_allclose(result.flows(2), moves[2], atol=1e-5)


@pytest.mark.parametrize("spread", [1.0, 400.0])
def test_log_partition_equals_enumeration_beyond_the_double_range(spread):
    rng = np.random.default_rng(4)
    parents = [-1, 0, 1, 1, 0]
    theta, scores = spread * rng.normal(size=(4, 2, 2)), spread * rng.normal(size=(5, 2))
    result = infer_flows(theta, np.full((5, 2), np.nan), 1.0, scores=scores, parents=parents)
    every = path_scores(theta, scores, parents)
    log_z = every.max() + np.log(np.exp(every - every.max()).sum())
    assert result.objective == pytest.approx(-log_z, rel=1e-12)


def test_a_chain_passed_as_a_tree_equals_the_chain():
    theta, scores, counts = instance(13, n_steps=5)
    chain = infer_flows(theta, counts, 30.0, scores=scores, tol=1e-11)
    named = infer_flows(theta, counts, 30.0, scores=scores, parents=[-1, 0, 1, 2, 3], tol=1e-11)
    assert named.objective == chain.objective
    # The chain with its middle as the root: step 2 has children 1 and 3. Moves to 1 and 0 are reversed.
    order, parents = [2, 1, 3, 0, 4], [-1, 0, 0, 1, 2]
    turned = np.stack([theta[0].T, theta[0], theta[0].T, theta[0]])
    hung = infer_flows(turned, counts[order], 30.0, scores=scores[order], parents=parents, tol=1e-11)
    assert hung.objective == pytest.approx(chain.objective, rel=1e-10)
    np.testing.assert_allclose(hung.walkers, chain.walkers[order], atol=1e-4)
    np.testing.assert_allclose(hung.flows(0), chain.flows(1).T, atol=1e-4)


def test_sparse_tables_and_unreachable_cells():
    s = 12
    near = np.abs(np.subtract.outer(np.arange(s), np.arange(s))) <= 1
    theta = np.where(near, np.random.default_rng(5).normal(size=(s, s)), -np.inf)
    stored = sparse.coo_array((theta[near], np.nonzero(near)), shape=(s, s))
    counts = np.random.default_rng(6).poisson(3.0, size=(4, s)).astype(float)
    thin = infer_flows(stored, counts, 40.0, parents=[-1, 0, 0, 2], tol=1e-11)
    full = infer_flows(np.where(near, theta, -400.0), counts, 40.0, parents=[-1, 0, 0, 2], tol=1e-11)
    assert thin.objective == pytest.approx(full.objective, rel=1e-9)
    np.testing.assert_allclose(thin.flows(2).toarray(), full.flows(2), atol=1e-4)
    one_way = [[0.0, 0.0], [-np.inf, 0.0]]
    with pytest.raises(InvalidInputError, match=r"counts\[2, 0\] is 3, but no possible path"):
        infer_flows(one_way, [[0, 5], [0, 5], [3, 2]], 5.0, scores=[[-np.inf, 0], [0, 0], [0, 0]], parents=[-1, 0, 0])


def test_learning_on_a_star():
    """Every child is sampled from the parent's cell with one table, which must be recovered."""
    rng = np.random.default_rng(7)
    table = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.05, 0.05, 0.9]])
    n = np.zeros((7, 3))
    n[0] = [6000, 3000, 1000]
    for t in range(1, 7):
        n[t] = sum(rng.multinomial(int(n[0, i]), table[i]) for i in range(3))
    stay = make_moves(np.ones((3, 3)), {"stay": np.eye(3)})
    model = CollectiveChain(stay, noise="exact", parents=[-1] + [0] * 6, n_walkers=10_000, tol=1e-7).fit(n)
    assert model.status_ is Status.CONVERGED
    assert (np.diff(model.history_["objective"]) <= 1e-6 * 10_000).all()
    # A single weight: the best log odds of staying against any other move, under the true table.
    stays = (n[0] / n[0].sum()) @ np.diag(table)
    assert model.weights_[0, 0] == pytest.approx(np.log(2 * stays / (1 - stays)), abs=0.4)
    np.testing.assert_allclose(model.predict(n), n, atol=1e-2)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, 0], r"parents has shape \(2,\), but there are 3 steps"),
        ([0, 0, 1], r"parents\[0\] is 0, expected -1"),
        ([-1, 2, 0], r"parents\[1\] is 2, expected one of 0\.\.0"),
        ([-1, 0, -1], r"parents\[2\] is -1, expected one of 0\.\.1"),
    ],
)
def test_invalid_parents(parents, message):
    with pytest.raises(InvalidInputError, match=message):
        infer_flows(np.zeros((2, 2)), np.ones((3, 2)), parents=parents)
