"""Hard zeros, scores of +-1000 and ties on a few hundred random models: every guarantee of a result must hold.

Every method runs for each of its tasks, with every schedule and several dampings, and is compared with enumeration.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.contracts.asking import ask
from tests.contracts.claims import broken_claims, settings_of
from tests.oracles.enumeration import enumerate_model

pytest.importorskip("hypothesis")
from tests.random_models import stress_model

import intarsia
from intarsia import Status
from intarsia.exceptions import NotSupportedError
from intarsia.graph import from_edges
from intarsia.inference import method_class, method_names

N_MODELS, N_GROUPS = 240, 12


def broken_on(seed):
    graph, theta = stress_model(seed)
    truth = enumerate_model(graph, theta)
    for method in method_names():
        tasks = [task for task in ("marginals", "map") if getattr(method_class(method), f"gives_{task}")]
        settings = settings_of(method)
        # All settings on every model would take a minute, so the settings alternate.
        for k, task in enumerate(tasks):
            setting = settings[(seed // len(tasks) + k) % len(settings)]
            try:
                result = ask(graph, theta, method, task, **setting)
            except NotSupportedError:
                continue
            for fault in broken_claims(result, graph, theta, truth):
                yield f"seed {seed}, {method}, {task}, {setting}: {fault}"


@pytest.mark.parametrize("group", range(N_GROUPS))
def test_all_guarantees_hold(group):
    faults = [fault for seed in range(group, N_MODELS, N_GROUPS) for fault in broken_on(seed)]
    assert not faults, "\n".join(faults)


def test_models_cover_all_cases():
    models = [stress_model(seed) for seed in range(N_MODELS)]
    shares = [np.isneginf(theta).mean() for _, theta in models]
    assert np.mean([0.1 < share < 0.55 for share in shares]) > 0.6
    sizes = [np.abs(theta[np.isfinite(theta)]).max(initial=0.0) for _, theta in models]
    assert max(sizes) >= 1000
    assert min(sizes) <= 10
    feasible = [enumerate_model(*model).scores.size > 0 for model in models[:60]]
    assert 0.5 < np.mean(feasible) < 1.0
    assert any(graph.is_forest for graph, _ in models)
    assert any(graph.max_scope == 3 for graph, _ in models)


@pytest.mark.parametrize("schedule", ["forward_backward", "parallel", "residual"])
@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_converged_marginals_agree_to_the_tolerance(schedule, damping):
    """With strong couplings, a message can be constant in a state that it makes improbable and neighbours probable."""
    graph, tol = intarsia.grid_graph(3, 3, 2), 1e-5
    for seed in (0, 2, 7, 9):
        theta = 4.0 * np.random.default_rng(seed).standard_normal(graph.n_theta)
        result = ask(graph, theta, "tree_reweighted", tol=tol, schedule=schedule, damping=damping, max_iter=5000)
        assert result.converged
        for c in range(graph.n_factors):
            joint = result.factor_marginals(c)
            for axis, v in enumerate(graph.scope(c).tolist()):
                np.testing.assert_allclose(joint.sum(axis=1 - axis), result.marginals(v), atol=1.001 * tol, rtol=0)


def test_damping_removes_impossible_states():
    """State 1 is impossible at every variable of a cycle, which follows from the previous variable."""
    graph = from_edges(2, [[0, 1], [1, 2], [2, 3], [3, 0]])
    equal = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    theta = graph.pack(variables=[[0, -np.inf], [0, 30], [0, 30], [0, 30]], tables=[equal] * 4)
    for method in ("belief_propagation", "tree_reweighted"):
        result = ask(graph, theta, method, damping=0.9)
        assert result.converged
        assert [result.marginals(v).tolist() for v in range(4)] == [[1.0, 0.0]] * 4


def test_diverging_messages_yield_distributions_and_a_bound():
    graph, theta = stress_model(1536)
    truth = enumerate_model(graph, theta)
    for max_iter in (1000, 5000):
        result = ask(graph, theta, "tree_reweighted", schedule="parallel", max_iter=max_iter)
        assert result.status is Status.MAX_ITER
        assert result.upper_bound >= truth.log_partition
        assert not broken_claims(result, graph, theta, truth)


@pytest.mark.parametrize("method", ["belief_propagation", "tree_reweighted"])
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
def test_forests_are_exact_to_the_last_digits(method, damping):
    graph = intarsia.graph.tree_graph([-1, 0, 0, 1, 1, 2], 3)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta = rng.uniform(-1000.0, 1000.0, graph.n_theta) * rng.choice([0.001, 1.0])
        truth = enumerate_model(graph, theta)
        result = ask(graph, theta, method, damping=damping, tol=1e-4)
        assert result.log_partition_is == "exact"
        assert result.log_partition == pytest.approx(truth.log_partition, rel=1e-12, abs=1e-12)
        best = ask(graph, theta, method, "map", damping=damping, tol=1e-4)
        assert best.status is Status.EXACT
        assert best.score == pytest.approx(truth.best_score, rel=1e-12)


@pytest.mark.parametrize("method", ["brute_force", "tree", "junction_tree"])
def test_exact_methods_keep_twelve_digits_where_large_scores_cancel(method):
    """Scores of +-1000 nearly cancel; the reference adds them without rounding (`math.fsum`)."""
    graph = intarsia.chain_graph(6, 3)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        theta = rng.uniform(-1000.0, 1000.0, graph.n_theta)
        theta -= enumerate_model(graph, theta).log_partition / graph.n_variables * np.repeat([1.0, 0.0], [18, 45])
        truth = enumerate_model(graph, theta).log_partition
        assert abs(truth) < 1.0
        assert ask(graph, theta, method).log_partition == pytest.approx(truth, abs=2e-12)
