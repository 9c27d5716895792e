import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from tests.inference.exact_checks import check_against_enumeration, check_samples
from tests.random_models import random_models
from tests.zoo import ZOO, factors

import intarsia
from intarsia._kernels import elimination_plan, symbolic
from intarsia.exceptions import InvalidInputError, TooLargeError


@pytest.mark.parametrize("name", ZOO)
def test_agrees_with_plain_enumeration(name):
    check_against_enumeration(*ZOO[name](), "junction_tree")


@pytest.mark.parametrize("ordering", ["min_fill", "min_degree"])
@pytest.mark.parametrize("name", ["grid", "four_way_factor", "potts", "huge_potentials"])
def test_orderings(name, ordering):
    check_against_enumeration(*ZOO[name](), "junction_tree", ordering=ordering, n_restarts=0)


@pytest.mark.parametrize("name", ["grid", "potts", "three_way_factor", "one_state_variables", "same_scope_twice"])
def test_evidence_and_temperature(name):
    graph, theta = ZOO[name]()
    check_against_enumeration(graph, theta, "junction_tree", evidence={1: 1, 3 % graph.n_variables: 0}, temperature=0.5)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(random_models())
def test_random_models(model):
    check_against_enumeration(*model, "junction_tree")


@pytest.mark.parametrize("name", ["grid", "hard_zeros", "four_way_factor", "huge_potentials"])
def test_samples(name):
    check_samples(*ZOO[name](), "junction_tree")


def test_grid_agrees_with_transfer_matrix():
    """Compare an 8 x 40 grid with products of transfer matrices in the log domain."""
    height, width = 8, 40
    graph = intarsia.grid_graph(height, width, 2)
    theta = 2.0 * np.random.default_rng(3).standard_normal(graph.n_theta)
    states = (np.arange(2**height)[:, None] >> np.arange(height)) & 1
    unary = theta[: 2 * height * width].reshape(height, width, 2)
    tables = theta[2 * height * width :].reshape(-1, 2, 2)
    right = tables[: height * (width - 1)].reshape(height, width - 1, 2, 2)
    down = tables[height * (width - 1) :].reshape(height - 1, width, 2, 2)
    total = None
    for j in range(width):
        column = sum(unary[i, j, states[:, i]] for i in range(height))
        column = column + sum(down[i, j, states[:, i], states[:, i + 1]] for i in range(height - 1))
        if total is None:
            total = column
        else:
            step = sum(right[i, j - 1][np.ix_(states[:, i], states[:, i])] for i in range(height))
            total = column + np.logaddexp.reduce(total[:, None] + step, axis=0)
    result = intarsia.infer(graph, theta, "junction_tree")
    assert result.log_partition == pytest.approx(np.logaddexp.reduce(total), rel=1e-12)
    last = np.exp(total - np.logaddexp.reduce(total))
    for i in range(height):
        expected = np.bincount(states[:, i], last)
        np.testing.assert_allclose(result.marginals(i * width + width - 1), expected, atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 40.0])  # the second needs the log domain
def test_wide_buckets(scale):
    """Compare buckets of 2**14 entries, with factors inside, outside and across a block, with one NumPy array."""
    n = 14
    rng = np.random.default_rng(5)
    scopes = [tuple(rng.permutation(n)[: rng.integers(2, 5)].tolist()) for _ in range(30)]
    scopes += [(i, j) for i in range(n) for j in range(i)]
    graph = factors([2] * n, list({tuple(sorted(scope)): scope for scope in scopes}.values()))
    theta = scale * rng.standard_normal(graph.n_theta)
    theta[rng.random(graph.n_theta) < 0.05] = -np.inf
    joint = np.zeros([2] * n)
    for v in range(n):
        joint += graph.variable(theta, v).reshape([2 if a == v else 1 for a in range(n)])
    for c in range(graph.n_factors):
        scope = graph.scope(c)
        table = graph.factor_table(theta, c).transpose(np.argsort(scope))
        joint += table.reshape([2 if a in scope else 1 for a in range(n)])
    log_partition = np.logaddexp.reduce(joint, axis=None)
    joint = np.exp(joint - log_partition)
    result = intarsia.infer(graph, theta, "junction_tree", n_best=20)
    assert result.log_partition == pytest.approx(log_partition, rel=1e-12)
    for c in range(graph.n_factors):
        scope = graph.scope(c)
        expected = joint.sum(axis=tuple(a for a in range(n) if a not in scope)).transpose(np.argsort(np.argsort(scope)))
        np.testing.assert_allclose(result.factor_marginals(c), expected, atol=1e-11)
    best = np.sort(joint, axis=None)[::-1][:20]
    np.testing.assert_allclose(np.exp(result.best_scores - log_partition), best, rtol=1e-9)


@pytest.mark.parametrize(("block", "fewest_rows"), [(1, 1), (4, 2), (24, 2)])
@pytest.mark.parametrize("name", sorted(set(ZOO) - {"infeasible_variable"}))
def test_small_blocks(monkeypatch, name, block, fewest_rows):
    """Test every way to split a bucket into blocks and rows, with factors over outer axes, rows and both."""
    monkeypatch.setattr(elimination_plan, "BLOCK", block)
    monkeypatch.setattr(elimination_plan, "FEWEST_ROWS", fewest_rows)
    check_against_enumeration(*ZOO[name](), "junction_tree")


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_small_blocks_in_dense_graphs(monkeypatch, scale):
    monkeypatch.setattr(elimination_plan, "BLOCK", 16)
    monkeypatch.setattr(elimination_plan, "FEWEST_ROWS", 2)
    graph = intarsia.from_edges([2, 3, 2, 2, 3, 2, 2], list(itertools.combinations(range(7), 2)))
    theta = scale * np.random.default_rng(1).standard_normal(graph.n_theta)
    theta[np.random.default_rng(2).random(graph.n_theta) < 0.03] = -np.inf
    check_against_enumeration(graph, theta, "junction_tree")


@pytest.mark.parametrize("name", ["hard_zeros", "three_way_tree", "truncated_quadratic"])
def test_compiled_plans(monkeypatch, name):
    """Large graphs use compiled plans; small graphs run the same loops uncompiled."""
    monkeypatch.setattr(symbolic, "SMALL", 0)
    check_against_enumeration(*ZOO[name](), "junction_tree")


def test_marginals_are_the_gradient_of_log_z():
    graph = intarsia.grid_graph(6, 6, 3, shared=True, kind="potts")
    rng = np.random.default_rng(4)
    theta = rng.standard_normal(graph.n_theta)
    mu = intarsia.infer(graph, theta, "junction_tree").mu
    direction, step = rng.standard_normal(graph.n_theta), 1e-5
    ahead, behind = (
        intarsia.infer(graph, theta + sign * step * direction, "junction_tree").log_partition for sign in (1, -1)
    )
    assert mu @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-7)


def test_dense_grid_raises_quickly():
    graph = intarsia.grid_graph(60, 60, 2, connectivity=8)
    intarsia.infer(intarsia.grid_graph(3, 3, 2), np.zeros(9 * 2 + 12 * 4), "junction_tree")  # compile
    start = time.perf_counter()
    with pytest.raises(
        TooLargeError, match=r"JunctionTree: the tables need .* GiB \(the largest has 2\*\*\d+ entries\)"
    ):
        intarsia.infer(graph, graph.zeros(), "junction_tree")
    assert time.perf_counter() - start < 20  # about one second, with a margin for a busy machine


def test_large_grid_raises_quickly():
    graph = intarsia.grid_graph(300, 300, 4)
    start = time.perf_counter()
    with pytest.raises(TooLargeError, match=r"need more than .* GiB"):
        intarsia.infer(graph, graph.zeros(), "junction_tree")
    assert time.perf_counter() - start < 20


def test_max_memory_is_respected():
    graph = intarsia.grid_graph(10, 10, 2)
    with pytest.raises(TooLargeError, match=r"max_memory=10000 bytes allows .* raise max_memory"):
        intarsia.infer(graph, graph.zeros(), "junction_tree", max_memory=1e4)
    result = intarsia.infer(graph, graph.zeros(), "junction_tree", max_memory=1e7)
    assert result.log_partition == pytest.approx(100 * np.log(2))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("ordering", "min_fil", "Did you mean 'min_fill'"),
        ("max_memory", 0, "max_memory must be a number"),
        ("n_restarts", -1, "n_restarts must be an integer"),
    ],
)
def test_bad_settings(setting, value, message):
    graph = intarsia.chain_graph(3, 2)
    with pytest.raises(InvalidInputError, match=message):
        intarsia.infer(graph, graph.zeros(), "junction_tree", **{setting: value})
