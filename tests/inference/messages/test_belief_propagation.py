import warnings

import numpy as np
import pytest
from tests.oracles import message_passing as plain
from tests.oracles.enumeration import enumerate_model
from tests.zoo import FORESTS, INFEASIBLE, ZOO, factors, random_theta

import intarsia
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference.messages.general_messages import GeneralMessages
from intarsia.inference.messages.pairwise_messages import PairwiseMaxMessages, PairwiseMessages, fits_pairwise

SCHEDULES = ["forward_backward", "parallel", "residual"]
FINITE = [
    "chain", "tree", "grid", "grid_three_states", "eight_connected_grid", "three_way_factor", "four_way_factor",
    "unequal_state_counts", "potts", "truncated_linear", "truncated_quadratic", "complete", "three_way_tree",
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", sorted(FORESTS - INFEASIBLE - {"no_variables"}))
def test_exact_on_forests(name, schedule):
    graph, theta = ZOO[name]()
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "belief_propagation", schedule=schedule)
    assert result.converged
    assert result.log_partition_is == "exact"
    assert result.log_partition == pytest.approx(truth.log_partition, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-8)
    best = intarsia.infer(graph, theta, "belief_propagation", task="map", schedule=schedule)
    assert best.score == pytest.approx(truth.best_score, abs=1e-9)
    assert best.upper_bound == pytest.approx(truth.best_score, abs=1e-9)


def _as_dict(graph, flat):
    sizes = graph.n_states[graph.scope_idx]
    blocks = np.split(flat, np.cumsum(sizes)[:-1])
    return {(int(graph.factor_of_pair[p]), int(graph.scope_idx[p])): b for p, b in enumerate(blocks)}


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("rho", [1.0, 0.5, "mixed"])
@pytest.mark.parametrize("schedule", ["forward_backward", "parallel"])
def test_three_sweeps_follow_the_update_of_the_paper(name, rho, schedule):
    graph, theta = ZOO[name]()
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.3, 1.0, graph.n_factors) if rho == "mixed" else np.full(graph.n_factors, rho)
    sweep = plain.parallel_sweep if schedule == "parallel" else plain.forward_backward_sweep
    expected = plain.start_messages(graph)
    states = [GeneralMessages(graph, theta, weights, False)]
    if fits_pairwise(graph, theta, weights):
        states.append(PairwiseMessages(graph, theta, float(weights[0])))
    for _ in range(3):
        previous, expected = expected, sweep(graph, theta, weights, expected)
        residual = max(np.abs(expected[key] - previous[key]).max() for key in expected)
        for state in states:
            assert state.sweep(schedule, 0.0) == pytest.approx(residual, abs=1e-12)
    nodes, joints = plain.beliefs(graph, theta, weights, expected)
    for state in states:
        for key, message in _as_dict(graph, np.exp(state.log_messages())).items():
            np.testing.assert_allclose(message, expected[key], atol=1e-12)
        result = state.beliefs()
        assert result.objective == pytest.approx(plain.objective(graph, theta, weights, nodes, joints), rel=1e-10)
        np.testing.assert_allclose(np.concatenate(nodes), result.mu[: graph.variable_ptr[-1]], atol=1e-12)
        np.testing.assert_allclose(result.mu, plain.statistics(graph, nodes, joints), atol=1e-12)
        again = state.general().beliefs()
        assert again.inconsistency == pytest.approx(result.inconsistency, abs=1e-12)
        assert again.upper_bound == pytest.approx(result.upper_bound, rel=1e-12)


def test_fast_path_is_used_where_it_applies():
    for name, expected in [("grid", True), ("potts", True), ("hard_zeros", False), ("huge_potentials", False),
                           ("truncated_linear", True), ("three_way_factor", False)]:  # fmt: skip
        graph, theta = ZOO[name]()
        assert fits_pairwise(graph, theta, np.ones(graph.n_factors)) is expected, name


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rho", [1.0, 0.3])
def test_variable_with_many_neighbours(k, rho):
    star = intarsia.graph.star_graph(14, k)
    graph = intarsia.from_edges(k, np.vstack([star.scope_idx.reshape(-1, 2) + 3, [[0, 5], [1, 3], [2, 3]]]))
    theta = random_theta(graph, 0)
    weights = np.full(graph.n_factors, rho)
    fast, slow = PairwiseMessages(graph, theta, rho), GeneralMessages(graph, theta, weights, False)
    for schedule in ("forward_backward", "parallel"):
        for damping in (0.0, 0.4):
            assert fast.sweep(schedule, damping) == pytest.approx(slow.sweep(schedule, damping), abs=1e-12)
    np.testing.assert_allclose(fast.log_messages(), slow.messages, atol=1e-9)


PARAMETRIC = [
    ("potts", np.inf), ("truncated_linear", 2.0), ("truncated_linear", 1.5), ("truncated_linear", np.inf),
    ("truncated_linear", 0.5), ("truncated_quadratic", 6.0), ("truncated_quadratic", np.inf),
    ("truncated_quadratic", 0.5),
]  # fmt: skip


@pytest.mark.parametrize("name", ["grid", "potts", "truncated_linear", "truncated_quadratic", "hard_zeros", "repulsive",
                                  "hard_implications", "huge_potentials", "eight_connected_grid", "star"])  # fmt: skip
@pytest.mark.parametrize("rho", [1.0, 0.4])
@pytest.mark.parametrize("schedule", ["forward_backward", "parallel"])
def test_fast_max_product_equals_the_general_one(name, rho, schedule):
    graph, theta = ZOO[name]()
    fast = PairwiseMaxMessages(graph, theta, rho)
    slow = GeneralMessages(graph, theta, np.full(graph.n_factors, rho), True)
    for damping in (0.0, 0.0, 0.3):
        assert fast.sweep(schedule, damping) == pytest.approx(slow.sweep(schedule, damping), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(fast.log_messages(), slow.messages, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("task", ["marginals", "map"])
@pytest.mark.parametrize(("kind", "truncation"), PARAMETRIC)
@pytest.mark.parametrize("sign", [1.0, -0.5, 40.0])
def test_parametric_kinds_equal_their_tables(task, kind, truncation, sign):
    graph = intarsia.grid_graph(3, 3, 7, kind=kind, truncation=truncation)
    rng = np.random.default_rng(3)
    theta = graph.pack(rng.standard_normal((9, 7)), sign * np.abs(rng.standard_normal(graph.n_factors)))
    full = intarsia.grid_graph(3, 3, 7)
    tables = np.stack([graph.factor_table(theta, c) for c in range(graph.n_factors)])
    settings = {"max_iter": 6, "tol": 0.0, "damping": 0.1}
    with pytest.warns(intarsia.exceptions.ConvergenceWarning):
        one = intarsia.infer(graph, theta, "belief_propagation", task=task, **settings)
    with pytest.warns(intarsia.exceptions.ConvergenceWarning):
        two = intarsia.infer(full, full.pack(theta[:63], tables), "belief_propagation", task=task, **settings)
    np.testing.assert_allclose(one.messages, two.messages, atol=1e-9)
    np.testing.assert_allclose(one.mu[:63], two.mu[:63], atol=1e-9)
    if task == "marginals":
        assert one.log_partition == pytest.approx(two.log_partition, rel=1e-10)
        unit = graph.pack(tables=np.ones(graph.n_factors))
        for c in range(graph.n_factors):
            statistic = graph.factor_table(unit, c)
            assert one.mu[graph.table_ptr[c]] == pytest.approx((statistic * two.factor_marginals(c)).sum(), abs=1e-9)


@pytest.mark.parametrize("name", ["grid", "three_way_factor", "potts", "hard_zeros", "complete"])
def test_all_schedules_and_damping_reach_the_same_fixed_point(name):
    graph, theta = ZOO[name]()
    reference = intarsia.infer(graph, theta, "belief_propagation")
    for schedule in SCHEDULES:
        result = intarsia.infer(graph, theta, "belief_propagation", schedule=schedule, damping=0.3)
        assert result.converged
        np.testing.assert_allclose(result.mu, reference.mu, atol=1e-6)
        assert result.log_partition == pytest.approx(reference.log_partition, abs=1e-6)


def test_warm_start_converges_immediately():
    graph, theta = ZOO["grid"]()
    cold = intarsia.infer(graph, theta, "belief_propagation")
    warm = intarsia.infer(graph, theta, "belief_propagation", warm_start=cold)
    assert warm.n_iter == 1 < cold.n_iter
    np.testing.assert_allclose(warm.mu, cold.mu, atol=1e-8)


def test_extreme_scores_are_not_mistaken_for_hard_zeros():
    """A chain whose middle state is exp(-900) less probable from both sides underflows in the linear domain."""
    graph = intarsia.chain_graph(3, 2)
    table = np.array([[0.0, -900.0], [-900.0, 0.0]])
    theta = graph.pack([[0, -np.inf], [0, 0], [-np.inf, 0]], [table, table])
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "belief_propagation")
    assert result.log_partition == pytest.approx(truth.log_partition, rel=1e-12)
    np.testing.assert_allclose(result.mu, truth.mu, atol=1e-12)


def test_arc_inconsistency_is_infeasible():
    graph = intarsia.chain_graph(2, 2)
    theta = graph.pack([[0, -np.inf], [0, -np.inf]], [[[-np.inf, 0], [0, 0]]])
    for task in ("marginals", "map"):
        result = intarsia.infer(graph, theta, "belief_propagation", task=task)
        assert result.status is intarsia.Status.INFEASIBLE


def test_infeasible_although_messages_converge():
    """An odd cycle has no two-colouring, although every arc is consistent."""
    graph, theta = ZOO["infeasible"]()
    for method in ("belief_propagation", "tree_reweighted"):
        for task in ("marginals", "map"):
            assert intarsia.infer(graph, theta, method, task=task).status is intarsia.Status.INFEASIBLE


def test_decoding_by_beliefs_selects_the_first_of_ties():
    graph, theta = ZOO["ties"]()
    result = intarsia.infer(graph, theta, "belief_propagation", task="map", rounding="beliefs")
    assert result.assignment.tolist() == [0] * 6


def test_order_of_scopes_does_not_matter():
    """Reversing every scope does not change the result."""
    scopes = [(0, 1, 2), (2, 3, 4, 5), (5, 1), (4, 0)]
    graph = factors([2, 3, 2, 2, 3, 2], scopes)
    theta = random_theta(graph, 5)
    mirror = factors([2, 3, 2, 2, 3, 2], [s[::-1] for s in scopes])
    tables = [graph.table(theta, c).T.reshape(-1) for c in range(4)]
    mirrored = np.concatenate([theta[: graph.variable_ptr[-1]], *tables])
    one = intarsia.infer(graph, theta, "belief_propagation")
    two = intarsia.infer(mirror, mirrored, "belief_propagation")
    assert one.log_partition == pytest.approx(two.log_partition, rel=1e-9)
    for c in range(4):
        np.testing.assert_allclose(one.factor_marginals(c), two.factor_marginals(c).T, atol=1e-8)


@pytest.mark.parametrize("name", ["repulsive", "eight_connected_grid", "hard_zeros", "three_way_factor", "potts"])
def test_no_single_change_improves_the_labelling(name):
    graph, theta = ZOO[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = intarsia.infer(graph, theta, "belief_propagation", task="map", max_iter=1)
    for v in range(graph.n_variables):
        for x in range(graph.n_states[v]):
            other = best.assignment.copy()
            other[v] = x
            assert graph.score(theta, other) <= best.score + 1e-12


@pytest.mark.parametrize("damping", [0.9, 0.999999])
def test_damping_does_not_fake_convergence(damping):
    graph = intarsia.chain_graph(10, 2)
    theta = random_theta(graph, 2, 2.0)
    truth = enumerate_model(graph, theta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = intarsia.infer(graph, theta, "belief_propagation", damping=damping, tol=1e-6)
    assert not result.converged or np.abs(result.mu - truth.mu).max() < 1e-4


@pytest.mark.parametrize("method", ["belief_propagation", "tree_reweighted"])
def test_potts_weights_of_minus_infinity_mean_different_states(method):
    graph = intarsia.from_edges(3, [[0, 1], [1, 2], [2, 3], [3, 0]], kind="potts")
    theta = graph.pack(np.random.default_rng(1).standard_normal((4, 3)), np.full(4, -np.inf))
    truth = enumerate_model(graph, theta)
    best = intarsia.infer(graph, theta, method, task="map")
    assert best.score == pytest.approx(truth.best_score)
    assert np.isfinite(intarsia.infer(graph, theta, method).log_partition)
