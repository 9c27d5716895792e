import numpy as np
import pytest
from hypothesis import given, settings
from tests.oracles.enumeration import enumerate_model
from tests.random_models import random_models
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO

import intarsia
from intarsia._kernels.gibbs import partition_into_forests
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, TooLargeError
from intarsia.inference.sampling import gibbs
from intarsia.inference.sampling.gibbs import Gibbs

PAIRWISE = [name for name in ZOO if name not in INFEASIBLE and ZOO[name]()[0].max_scope <= 2]
# Single-site chains cannot leave their start in these models; r_hat and the note report it.
STUCK = {"hard_zeros", "hard_zeros_three_way", "huge_potentials", "constraints"}


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("block", ["auto", "single"])
@pytest.mark.parametrize("name", [name for name in ZOO if name not in INFEASIBLE | STUCK])
def test_marginals_within_their_error(name, block):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "gibbs", block=block, random_state=1, tol=0.01, max_iter=30_000)
    if graph.n_variables == 0:
        return
    truth = enumerate_model(graph, theta)
    assert result.converged
    assert result.log_partition is None
    assert result.log_partition_is is None
    assert result.r_hat <= 1.01
    assert result.residual <= 0.01
    assert (result.mu_error >= 0).all()
    assert (np.abs(result.mu - truth.mu) <= 5 * result.mu_error + 1e-9).all()
    for v in range(graph.n_variables):
        assert result.marginals(v).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in PAIRWISE if name not in STUCK | {"no_variables", "one_node"}])
def test_forest_blocks(name):
    reduced = intarsia.graph.reduce_graph(ZOO[name]()[0]).graph
    block_of, block_ptr, order, parent_pair = partition_into_forests(
        reduced.n_variables, *reduced.pairs_by_variable, reduced.scope_idx
    )
    assert sorted(order.tolist()) == list(range(reduced.n_variables))
    edges = reduced.scope_idx.reshape(-1, 2)
    inside = edges[block_of[edges[:, 0]] == block_of[edges[:, 1]]]
    rank = np.empty(reduced.n_variables, int)
    rank[order] = np.arange(reduced.n_variables)
    children = [v for v in range(reduced.n_variables) if parent_pair[v] >= 0]
    parents = [int(reduced.scope_idx[parent_pair[v] ^ 1]) for v in children]
    # Every inner edge joins a child to its parent, and the parent comes earlier in the order: a forest.
    assert sorted(map(sorted, inside.tolist())) == sorted(map(sorted, zip(children, parents, strict=True)))
    assert all(rank[p] < rank[v] and block_of[p] == block_of[v] for v, p in zip(children, parents, strict=True))
    assert (np.diff(block_of[order]) >= 0).all()
    np.testing.assert_array_equal(np.bincount(block_of), np.diff(block_ptr))


@pytest.mark.parametrize("block", ["tree", "single"])
def test_joint_distribution_of_samples(block):
    """Chi-squared test of complete labellings of a small loop, with strong thinning."""
    graph, theta = intarsia.from_edges([2, 3, 2], [[0, 1], [2, 1], [2, 0]]), None
    theta = 0.7 * np.random.default_rng(4).standard_normal(graph.n_theta)
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "gibbs", block=block, n_samples=4000, thinning=15, random_state=2)
    assert result.samples.shape == (4000, 3)
    number = np.ravel_multi_index(tuple(result.samples.T), (2, 3, 2))
    expected = 4000 * np.exp(truth.scores - truth.log_partition)
    counts = np.bincount(number, minlength=12)
    assert ((counts - expected) ** 2 / expected).sum() < 35  # 11 degrees of freedom: fails for 2 in 10,000 seeds


def test_forests_sample_trees_independently():
    graph, theta = ZOO["tied_tree"]()
    result = intarsia.infer(graph, theta, "gibbs", random_state=0, tol=0.005, max_iter=30_000)
    n = 4 * (result.n_iter - 100)
    independent = np.sqrt(result.mu[:12] * (1 - result.mu[:12]) / n)
    assert (result.mu_error[:12] < 2 * independent).all()
    assert (result.mu_error[:12] >= independent * 0.999).all()


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("block", ["tree", "single"])
def test_errors_are_calibrated(block):
    """Over seeds, (estimate - truth) / error has a standard deviation near 1."""
    graph = intarsia.from_edges(2, [[0, 1], [1, 2], [2, 0]])
    theta = graph.pack([[0, 0.4], [0, -0.3], [0, 0.2]], np.tile([[0.6, 0.0], [0.0, 0.6]], (3, 1, 1)))
    truth = enumerate_model(graph, theta)
    z = []
    for seed in range(60):
        result = intarsia.infer(graph, theta, "gibbs", block=block, random_state=seed, tol=0, max_iter=1124)
        z.append((result.mu - truth.mu)[[1, 3, 5, 6, 10]] / result.mu_error[[1, 3, 5, 6, 10]])
    spread = np.sqrt(np.mean(np.square(z)))
    assert 0.75 < spread < 1.35
    assert abs(np.mean(z)) < 0.4


def test_r_hat_detects_chains_that_do_not_mix():
    graph = intarsia.grid_graph(4, 4, 2)
    theta = graph.pack(tables=np.tile([[4.0, 0.0], [0.0, 4.0]], (graph.n_factors, 1, 1)))
    with pytest.warns(ConvergenceWarning, match="Gibbs did not converge: stopped at max_iter"):
        result = intarsia.infer(graph, theta, "gibbs", block="single", max_iter=2000, random_state=0, n_chains=6)
    assert result.status is intarsia.Status.MAX_ITER
    assert result.r_hat > 1.5
    # The truth is 1/2 by symmetry; the errors must cover the distance.
    assert (np.abs(result.mu[:32] - 0.5) <= 5 * result.mu_error[:32]).all()


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(HARD_ZEROS | {"huge_potentials"}))
def test_hard_zeros_are_never_sampled(name):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "gibbs", n_samples=40, random_state=0, max_iter=2000)
    assert np.isfinite(graph.score(theta, result.samples)).all()
    assert not np.isnan(result.mu).any()
    assert (result.mu[theta == -np.inf] == 0).all()
    if name in HARD_ZEROS:
        assert "mixing is not guaranteed" in result.note


@pytest.mark.parametrize("name", sorted(INFEASIBLE))
def test_infeasible(name):
    graph, theta = ZOO[name]()
    assert intarsia.infer(graph, theta, "gibbs").status is intarsia.Status.INFEASIBLE


@pytest.mark.parametrize("block", ["tree", "single"])
def test_same_seed_same_answer(block):
    graph, theta = ZOO["grid_three_states"]()
    one, two = (intarsia.infer(graph, theta, "gibbs", block=block, random_state=9, n_samples=5) for _ in range(2))
    np.testing.assert_array_equal(one.mu, two.mu)
    np.testing.assert_array_equal(one.mu_error, two.mu_error)
    np.testing.assert_array_equal(one.samples, two.samples)
    other = intarsia.infer(graph, theta, "gibbs", block=block, random_state=10)
    assert (other.mu != one.mu).any()


def test_evidence_and_temperature():
    graph, theta = ZOO["grid"]()
    evidence = {1: 1, 3: 0}
    result = intarsia.infer(graph, theta, "gibbs", evidence=evidence, temperature=0.5, random_state=0)
    truth = enumerate_model(graph, theta, evidence, temperature=0.5)
    assert (np.abs(result.mu - truth.mu) <= 5 * result.mu_error + 1e-9).all()
    assert result.mu_error[2] == 0  # evidence has no error


@pytest.mark.parametrize("name", ["truncated_linear", "truncated_quadratic", "potts"])
def test_errors_of_parametric_factors_with_evidence(name):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "gibbs", evidence={1: 4 % graph.n_states[1]}, random_state=0)
    truth = enumerate_model(graph, theta, {1: 4 % graph.n_states[1]})
    assert (result.mu_error >= 0).all()
    assert (np.abs(result.mu - truth.mu) <= 5 * result.mu_error + 1e-9).all()


def test_time_limit_returns_the_current_result():
    graph = intarsia.grid_graph(60, 60, 3)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    intarsia.infer(intarsia.grid_graph(2, 2, 3), intarsia.grid_graph(2, 2, 3).zeros(), "gibbs")  # compile
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        result = intarsia.infer(graph, theta, "gibbs", tol=1e-9, max_iter=10**7, time_limit=0.5, n_samples=3)
    assert result.status is intarsia.Status.TIME_LIMIT
    assert result.seconds < 3
    assert result.samples.shape == (3, 3600)
    assert result.marginals(0).sum() == pytest.approx(1)


def test_ctrl_c_returns_the_current_result():
    graph, theta = ZOO["grid"]()
    problem = make_problem(graph, theta)
    calls = []

    def interrupt(sweeps, error):
        calls.append(sweeps)
        if len(calls) == 3:
            raise KeyboardInterrupt

    problem.report = interrupt
    answer = Gibbs(tol=0.0).run(problem)
    assert answer.status is intarsia.Status.INTERRUPTED
    assert answer.n_iter == 100 + 4 * 128
    assert answer.mu is not None


def make_problem(graph, theta):
    from intarsia.inference.method import Problem

    return Problem(graph, graph, np.arange(graph.n_factors), theta, "marginals", np.random.default_rng(0))


def test_tree_blocks_raise_above_scope_two():
    graph, theta = ZOO["three_way_factor"]()
    with pytest.raises(TooLargeError, match="needs a pairwise graph, but a factor joins 3 variables"):
        intarsia.infer(graph, theta, "gibbs", block="tree")


@pytest.mark.parametrize(
    "chosen",
    [
        {"n_chains": 1}, {"burn_in": -1}, {"max_iter": 10}, {"tol": -1}, {"max_r_hat": 0.9}, {"thinning": 0},
        {"block": "trees"}, {"temperature": 0},
    ],
)  # fmt: skip
def test_bad_settings(chosen):
    graph, theta = ZOO["grid"]()
    with pytest.raises(InvalidInputError, match="Gibbs"):
        intarsia.infer(graph, theta, Gibbs(**chosen))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(random_models(max_assignments=300))
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_random_models(model):
    """No NaN, no impossible states, and marginals within the error wherever the chains can mix."""
    graph, theta = model
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "gibbs", random_state=0, n_samples=8, max_iter=4000)
    if truth.log_partition == -np.inf:
        assert result.status is intarsia.Status.INFEASIBLE
        return
    assert not np.isnan(result.mu).any()
    assert np.isfinite(graph.score(theta, result.samples)).all()
    mild = theta[np.isfinite(theta)]
    if not result.note and result.converged and np.ptp(mild, axis=0) < 6 and result.mu_error is not None:
        assert (np.abs(result.mu - truth.mu) <= 6 * result.mu_error + 1e-9).all()


@pytest.mark.parametrize("hard_zeros", [0.0, 0.2])
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_converged_marginals_are_right(hard_zeros):
    """Random models with scores from 0.1 to 100, in which all chains may be in one of several modes."""
    n_converged = 0
    for seed in range(100):
        rng = np.random.default_rng([3, seed])
        graph = intarsia.graph.complete_graph(int(rng.integers(3, 7)), 2)
        same = np.tile(np.eye(2), (graph.n_tables, 1, 1)) * rng.uniform(0.2, 1.0, (graph.n_tables, 1, 1))
        fields = rng.normal(size=(graph.n_variables, 2)) * rng.choice([0.01, 0.1])
        theta = graph.pack(fields, same) * 10 ** rng.uniform(-1, 2)
        theta[2 * graph.n_variables :][rng.random(4 * graph.n_tables) < hard_zeros] = -np.inf
        result = intarsia.infer(graph, theta, "gibbs", random_state=seed, max_iter=3000)
        if result.status is intarsia.Status.CONVERGED:
            n_converged += 1
            split = slice(2 * graph.n_variables)
            error = np.abs(result.mu - enumerate_model(graph, theta).mu)[split]
            assert (error <= np.maximum(0.01, 6 * result.mu_error[split])).all(), seed
    assert n_converged > 25  # otherwise the test would test little


def test_chains_that_start_in_one_mode_do_not_converge(monkeypatch):
    """Three variables that agree: both labels have the same probability, and no chain ever changes its label."""
    graph = intarsia.graph.complete_graph(3, 2)
    theta = graph.pack(tables=np.tile(30.0 * np.eye(2), (3, 1, 1)))
    monkeypatch.setattr(gibbs, "random_labelling", lambda graph, theta, rng: np.zeros(3, dtype=np.int64))
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        result = intarsia.infer(graph, theta, "gibbs", block="single", max_iter=1000, random_state=0)
    assert result.status is intarsia.Status.MAX_ITER
    assert result.r_hat > 1.01
    assert 900 < result.n_iter <= 1000
