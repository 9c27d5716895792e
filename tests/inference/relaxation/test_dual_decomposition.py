"""Dual bounds compared with an independent relaxation, enumeration, and the definition of the dual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.contracts.asking import ask
from tests.oracles.enumeration import enumerate_model
from tests.oracles.local_polytope import write_out
from tests.random_models import random_models
from tests.zoo import FORESTS, INFEASIBLE, ZOO

import intarsia
from intarsia import Status
from intarsia._core.clock import Clock
from intarsia.graph import reduce_graph
from intarsia.inference.relaxation.dual_decomposition import improve
from intarsia.inference.relaxation.dual_sweeps import DualSweeps


def full_tables(graph, theta):
    """Return the model with a full table for every factor."""
    alone = intarsia.FactorGraph(graph.n_states, graph.scope_ptr, graph.scope_idx)
    tables = [graph.factor_table(theta, c).reshape(-1) for c in range(graph.n_factors)]
    return alone, np.concatenate([theta[: graph.variable_ptr[-1]], *tables])


def dual_value(graph, theta, messages):
    """Compute the dual D of the docstring of the class, in plain NumPy."""
    at, total = 0, 0.0
    field = [graph.variable(theta, v).copy() for v in range(graph.n_variables)]
    for c in range(graph.n_factors):
        table = graph.factor_table(theta, c).copy()
        for axis, v in enumerate(graph.scope(c)):
            k = int(graph.n_states[v])
            delta = messages[at : at + k]
            field[v] += delta
            table -= delta.reshape([-1 if a == axis else 1 for a in range(table.ndim)])
            at += k
        total += table.max()
    return total + sum(block.max() for block in field)


@given(random_models(max_assignments=400))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_bounds_and_value(model):
    reduction = reduce_graph(model[0])
    graph, theta = reduction.graph, reduction.lower(model[1])
    best = enumerate_model(graph, theta).best_score
    result = ask(graph, theta, "dual_decomposition", "map", max_iter=3000, tol=1e-5)
    if result.status is Status.INFEASIBLE:
        assert best == -np.inf
        return
    size = max(1.0, np.abs(theta[np.isfinite(theta)]).max(initial=0.0))
    tiny = 1e-9 * max(size, abs(result.upper_bound))
    assert result.score <= best + tiny
    assert result.upper_bound >= best - tiny
    if result.n_iter:
        assert (result.history["upper_bound"] >= best - tiny).all()
        assert (result.history["lower_bound"] <= best + tiny).all()
        assert (np.diff(result.history["upper_bound"]) <= tiny).all()
    value = write_out(graph, theta).value
    assert result.upper_bound >= value - 1e-6 * size
    if result.status is Status.EXACT:
        assert result.score == pytest.approx(best, abs=tiny)
    elif result.converged:
        assert result.upper_bound <= value + 1e-4 * max(size, abs(value))


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_reaches_the_relaxation_where_it_is_fractional(n_states, seed):
    graph = intarsia.graph.complete_graph(8, n_states)
    theta = np.random.default_rng(seed).standard_normal(graph.n_theta)
    value = intarsia.infer(graph, theta, "lp_relaxation", "map").upper_bound
    best = intarsia.infer(graph, theta, "brute_force", "map").score
    for random_state in range(10):
        result = intarsia.infer(graph, theta, "dual_decomposition", "map", max_iter=5000, random_state=random_state)
        assert result.converged
        assert value - 1e-9 <= result.upper_bound <= value * (1 + 1e-4)
        assert result.score == pytest.approx(best)  # random forests of a small graph find the best labelling


@pytest.mark.parametrize("model", ["grid", "grid_three_states", "three_way_factor", "unequal_state_counts", "potts"])
def test_bound_is_the_dual_function_at_the_messages(model):
    graph, theta = full_tables(*ZOO[model]())
    for n in (1, 2, 60):
        result = ask(graph, theta, "dual_decomposition", "map", max_iter=n)
        assert dual_value(graph, theta, result.messages) == pytest.approx(result.upper_bound, abs=1e-9)


@pytest.mark.parametrize("kind", ["potts", "truncated_linear", "truncated_quadratic"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_parametric_factors_equal_their_tables(kind, sign):
    rng = np.random.default_rng(1)
    graph = intarsia.from_edges(4, [[0, 1], [1, 2], [2, 0], [3, 1], [2, 3]], kind=kind, truncation=2.0)
    theta = graph.pack(rng.standard_normal((4, 4)), sign * rng.uniform(0.5, 2.0, 5))
    for n in (1, 3, 50):  # unsmoothed sweeps, then smoothed ones
        one, other = (
            ask(*m, "dual_decomposition", "map", max_iter=n) for m in ((graph, theta), full_tables(graph, theta))
        )
        np.testing.assert_allclose(one.history["upper_bound"], other.history["upper_bound"], rtol=1e-9)
        assert one.score == pytest.approx(other.score)


@pytest.mark.parametrize("model", sorted(FORESTS - INFEASIBLE))
def test_forests_are_exact_after_two_sweeps(model):
    graph, theta = ZOO[model]()
    result = intarsia.infer(graph, theta, "dual_decomposition", "map")
    assert result.status is Status.EXACT
    assert result.n_iter <= 2
    assert result.score == pytest.approx(enumerate_model(graph, theta).best_score)


def test_large_grid_is_close_to_the_relaxation():
    graph = intarsia.grid_graph(9, 14, 3)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    value = intarsia.infer(graph, theta, "lp_relaxation", "map").upper_bound
    best = intarsia.infer(graph, theta, "junction_tree", "map").score
    result = intarsia.infer(graph, theta, "dual_decomposition", "map", random_state=0)
    assert value - 1e-9 <= result.upper_bound <= value * (1 + 1e-4)
    assert best * 0.998 <= result.score <= best + 1e-9
    assert result.history["temperature"][0] == 0.0 < result.history["temperature"].max()


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-5])
def test_converged_bounds_are_close_to_the_relaxation(tol):
    """Slow progress at low temperatures must not be reported as convergence."""
    graph = intarsia.grid_graph(6, 6, 21)
    theta = np.random.default_rng(5).standard_normal(graph.n_theta)
    value = intarsia.infer(graph, theta, "lp_relaxation", "map").upper_bound
    result = intarsia.infer(graph, theta, "dual_decomposition", "map", tol=tol, max_moves=0)
    assert result.converged
    assert value - 1e-9 <= result.upper_bound <= value * (1 + tol)


def test_warm_start_saves_sweeps():
    graph = intarsia.grid_graph(8, 8, 3)
    rng = np.random.default_rng(2)
    theta = rng.standard_normal(graph.n_theta)
    earlier = intarsia.infer(graph, theta, "dual_decomposition", "map")
    changed = theta + 0.01 * rng.standard_normal(graph.n_theta)
    cold = intarsia.infer(graph, changed, "dual_decomposition", "map", max_iter=5, tol=0.5)
    warm = intarsia.infer(graph, changed, "dual_decomposition", "map", max_iter=5, tol=0.5, warm_start=earlier)
    value = intarsia.infer(graph, changed, "lp_relaxation", "map").upper_bound
    assert value - 1e-9 <= warm.history["upper_bound"][0] < cold.history["upper_bound"][0]


def test_warm_start_from_a_model_with_hard_zeros():
    """Messages of a model with hard zeros are a valid start for a model without them."""
    graph, theta = ZOO["hard_zeros"]()
    earlier = ask(graph, theta, "dual_decomposition", "map", evidence=None)
    soft = np.where(np.isinf(theta), 1.0, theta)
    result = ask(graph, soft, "dual_decomposition", "map", warm_start=earlier)
    assert result.upper_bound >= enumerate_model(graph, soft).best_score - 1e-9


def test_a_contradiction_in_an_evaluation_of_the_bound_ends_the_run(monkeypatch):
    """Smoothed sweeps need not notice it: without a labelling, the run would go on until its limit."""
    graph = intarsia.grid_graph(12, 12, 2)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    theta[: graph.variable_ptr[-1]] *= 0.1
    run, temperatures = DualSweeps.run, []

    def contradicting(self, t, delta):
        temperatures.append(t)
        return np.nan if t == 0.0 and max(temperatures) > 0.0 else run(self, t, delta)

    monkeypatch.setattr(DualSweeps, "run", contradicting)
    result = ask(graph, theta, "dual_decomposition", "map", max_moves=0)
    assert max(temperatures) > 0.0
    assert temperatures[-1] == 0.0
    assert result.status is Status.INFEASIBLE


def test_contradictions_are_detected():
    graph = intarsia.chain_graph(3, 2)
    differ = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    theta = graph.pack(tables=[differ, differ])
    result = ask(graph, theta, "dual_decomposition", "map", evidence={0: 0, 2: 1})
    assert result.status is Status.INFEASIBLE
    result = ask(*ZOO["infeasible"](), "dual_decomposition", "map")  # only the search detects the contradiction
    assert result.status is Status.INFEASIBLE
    assert result.assignment is None


@given(random_models(forest=True, zeros=False))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_one_move_of_a_forest_is_exact(model):
    reduction = reduce_graph(model[0])
    graph, theta = reduction.graph, reduction.lower(model[1])
    if graph.n_variables == 0 or graph.max_scope > 2:
        return
    labelling = np.zeros(graph.n_variables, np.int64)
    improve(graph, theta, labelling, np.random.default_rng(0), Clock(), max_moves=1)
    assert graph.score(theta, labelling) == pytest.approx(enumerate_model(graph, theta).best_score)


@given(random_models(zeros=False))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_moves_never_lower_the_score_and_beat_single_changes(model):
    reduction = reduce_graph(model[0])
    graph, theta = reduction.graph, reduction.lower(model[1])
    if graph.n_variables == 0:
        return
    rng = np.random.default_rng(3)
    labelling = np.array([rng.integers(k) for k in graph.n_states], dtype=np.int64)
    before = graph.score(theta, labelling)
    for _ in range(5):
        improve(graph, theta, labelling, rng, Clock(), max_moves=1)
        after = graph.score(theta, labelling)
        assert after >= before - 1e-9 * max(1.0, abs(before))
        before = after
    improve(graph, theta, labelling, rng, Clock(), max_moves=400, patience=60)
    score = graph.score(theta, labelling)
    for v in range(graph.n_variables):
        for x in range(int(graph.n_states[v])):
            changed = labelling.copy()
            changed[v] = x
            assert graph.score(theta, changed) <= score + 1e-9 * max(1.0, abs(score))
