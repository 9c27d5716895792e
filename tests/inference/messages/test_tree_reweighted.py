import warnings

import numpy as np
import pytest
from tests.oracles.convex import solve_tree_reweighted
from tests.oracles.enumeration import enumerate_model
from tests.zoo import INFEASIBLE, ZOO, random_theta

import intarsia
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.graph.spanning_trees import appearance_probabilities


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_solves_the_convex_problem(seed, scale):
    graph = intarsia.grid_graph(3, 3, 2)
    theta = random_theta(graph, seed, scale)
    rho = (
        np.full(12, 0.5)
        if seed % 2
        else appearance_probabilities(intarsia.from_edges(2, graph.scope_idx.reshape(-1, 2)))
    )
    value, nodes, joints = solve_tree_reweighted(graph, theta, rho)
    result = intarsia.infer(graph, theta, "tree_reweighted", rho=rho)
    assert result.converged
    assert result.log_partition == pytest.approx(value, abs=1e-6)
    for i in range(9):
        np.testing.assert_allclose(result.marginals(i), nodes[i], atol=1e-5)
    for c in range(12):
        np.testing.assert_allclose(result.factor_marginals(c), joints[c], atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(ZOO) - INFEASIBLE))
@pytest.mark.parametrize("schedule", ["forward_backward", "parallel", "residual"])
def test_upper_bound_at_every_sweep(name, schedule):
    """`upper_bound` holds from the first sweep on; `log_partition_is` is a bound only after convergence."""
    graph, theta = ZOO[name]()
    truth = enumerate_model(graph, theta).log_partition
    slack = 1e-9 * (1 + abs(truth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for max_iter in [0, 1, 2, 3, 5, 10, 1000]:
            result = intarsia.infer(graph, theta, "tree_reweighted", schedule=schedule, max_iter=max_iter)
            assert result.upper_bound >= truth - slack
            if result.log_partition_is == "upper bound":
                assert result.converged
                assert result.log_partition >= truth - slack
            elif result.log_partition_is == "exact":
                assert result.log_partition == pytest.approx(truth, rel=1e-9, abs=1e-9)


def test_bound_tightens_with_convergence():
    graph, theta = ZOO["grid"]()
    with pytest.warns(ConvergenceWarning, match=r"max_iter \(now 2\) or damping"):
        early = intarsia.infer(graph, theta, "tree_reweighted", max_iter=2)
    late = intarsia.infer(graph, theta, "tree_reweighted")
    assert early.log_partition_is == "estimate"
    assert late.upper_bound < early.upper_bound < np.inf


def test_solution_does_not_depend_on_the_start():
    graph, theta = ZOO["complete"]()
    cold = intarsia.infer(graph, theta, "tree_reweighted")
    other = intarsia.infer(graph, random_theta(graph, 99, 3.0), "tree_reweighted", tol=1e-3)
    warm = intarsia.infer(graph, theta, "tree_reweighted", warm_start=other)
    np.testing.assert_allclose(cold.mu, warm.mu, atol=1e-6)


def test_invalid_rho_makes_log_z_an_estimate():
    graph, theta = ZOO["grid"]()
    result = intarsia.infer(graph, theta, "tree_reweighted", rho=1.0)
    assert result.log_partition_is == "estimate"
    assert result.upper_bound == np.inf
    bethe = intarsia.infer(graph, theta, "belief_propagation")
    np.testing.assert_allclose(result.mu, bethe.mu, atol=1e-8)


@pytest.mark.parametrize("rho", [0.0, 1.5, np.full(12, -0.1), np.full(11, 0.5), np.nan])
def test_rho_out_of_range_raises(rho):
    graph, theta = ZOO["grid"]()
    with pytest.raises(InvalidInputError, match="rho"):
        intarsia.infer(graph, theta, "tree_reweighted", rho=rho)


def test_rho_with_evidence_and_merged_factors():
    graph, theta = ZOO["same_scope_twice"]()
    truth = enumerate_model(graph, theta, {2: 1}).log_partition
    result = intarsia.infer(graph, theta, "tree_reweighted", rho=np.array([0.3, 0.3, 0.5, 0.3]), evidence={2: 1})
    assert result.log_partition_is in ("upper bound", "exact")
    assert result.log_partition >= truth - 1e-9


def test_bound_holds_for_scores_of_any_size():
    """Ratios of marginals beyond exp(700) must not be truncated in the upper bound."""
    graph = intarsia.chain_graph(3, 2)
    inf = np.inf
    theta = np.array([-400, 100, 500, -1000, -inf, -600, -inf, 100, -inf, 0, -400, -inf, -600, -1000.0])
    truth = enumerate_model(graph, theta).log_partition
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for max_iter in range(4):
            for damping in (0.0, 0.7):
                result = intarsia.infer(graph, theta, "tree_reweighted", max_iter=max_iter, damping=damping)
                assert result.upper_bound >= truth - 1e-9


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("scale", [10.0, 30.0])
def test_converged_is_a_bound_also_for_strong_couplings(seed, scale):
    graph = intarsia.grid_graph(2, 2, 2)
    theta = random_theta(graph, seed, scale)
    truth = enumerate_model(graph, theta).log_partition
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = intarsia.infer(graph, theta, "tree_reweighted")
    if result.converged:
        assert result.log_partition_is == "upper bound"
        assert truth - 1e-9 * abs(truth) <= result.log_partition


def test_computed_rho_is_accepted_as_a_setting():
    graph = intarsia.from_edges(2, [[0, 1], [1, 0], [1, 2], [0, 2]])
    theta = random_theta(graph, 4)
    rho = appearance_probabilities(graph)
    default, with_rho = (intarsia.infer(graph, theta, "tree_reweighted", rho=r) for r in (None, rho))
    assert with_rho.log_partition_is == "upper bound"
    assert with_rho.log_partition == pytest.approx(default.log_partition, rel=1e-9)
