"""Linear programming relaxation, compared with an independent program solved by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csc_array
from tests.contracts.asking import ask
from tests.oracles.enumeration import enumerate_model
from tests.oracles.local_polytope import write_out
from tests.random_models import random_models
from tests.zoo import FORESTS, INFEASIBLE, ZOO

import intarsia
from intarsia import Status
from intarsia._core import highs
from intarsia._core.clock import Clock
from intarsia.graph import reduce_graph
from intarsia.inference.relaxation.rounding import block_bound


def point_of(result):
    """Return the optimum as the columns of the independent program."""
    graph = result.graph
    joints = [result.factor_marginals(c).reshape(-1) for c in range(graph.n_factors)]
    return np.concatenate([result.mu[: graph.variable_ptr[-1]], *joints])


def frustrated(n_states=2, seed=0):
    """Return a random model with many loops, whose relaxation is not tight."""
    graph = intarsia.graph.complete_graph(9, n_states)
    theta = np.random.default_rng(seed).standard_normal(graph.n_theta)
    theta[: graph.variable_ptr[-1]] *= 0.1
    return graph, theta


@given(random_models(max_assignments=400))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_optimum_equals_an_independent_program(model):
    # The normal form merges factors over the same variables, which tightens the relaxation; so compare normal forms.
    reduction = reduce_graph(model[0])
    graph, theta = reduction.graph, reduction.lower(model[1])
    program, truth = write_out(graph, theta), enumerate_model(graph, theta)
    result = ask(graph, theta, "lp_relaxation", "map")
    value = program.value
    given = ask(*model, "lp_relaxation", "map")
    constant = reduction.constant(model[1])
    if constant > -np.inf:
        assert given.status is result.status
        assert given.upper_bound == pytest.approx(result.upper_bound + constant, abs=1e-6 * max(1.0, abs(constant)))
    loose = 1e-6 * max(1.0, np.abs(theta[np.isfinite(theta)]).max(initial=0.0))
    if result.status is Status.INFEASIBLE:
        assert truth.best_score == -np.inf
        return
    assert value > -np.inf
    assert result.upper_bound == pytest.approx(value, abs=loose)
    assert result.upper_bound >= truth.best_score - 1e-9 * max(1.0, abs(truth.best_score))
    assert result.score <= truth.best_score + 1e-9 * max(1.0, abs(truth.best_score))
    if result.score > -np.inf:
        assert program.is_vertex(point_of(result))
    if result.integral and result.status is Status.EXACT:
        assert result.score == pytest.approx(truth.best_score, abs=loose)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_states", [2, 3])
def test_fractional_optimum_is_a_vertex(n_states, seed):
    graph, theta = frustrated(n_states, seed)
    result = intarsia.infer(graph, theta, "lp_relaxation", "map")
    assert not result.integral
    assert result.status is Status.CONVERGED
    program = write_out(graph, theta)
    x = point_of(result)
    assert program.is_vertex(x)
    assert program.cost @ x == pytest.approx(program.value, rel=1e-7)
    assert theta @ result.mu == pytest.approx(result.upper_bound, rel=1e-7)
    assert result.score <= intarsia.infer(graph, theta, "brute_force", "map").score <= result.upper_bound


@pytest.mark.parametrize("model", sorted(FORESTS - INFEASIBLE))
def test_relaxation_of_a_forest_is_tight(model):
    graph, theta = ZOO[model]()
    result = intarsia.infer(graph, theta, "lp_relaxation", "map")
    assert result.status is Status.EXACT
    assert result.integral
    assert result.score == pytest.approx(enumerate_model(graph, theta).best_score)


def test_triangle_of_the_paper():
    """Kulesza2007: all marginals are 1/2 if half of the sum exceeds the largest coupling."""
    graph = intarsia.graph.complete_graph(3, 2)
    for strengths in ([1.0, 1.0, 1.0], [0.8, 1.0, 1.2], [0.3, 0.4, 1.0]):
        # Scores count edges whose ends differ.
        theta = graph.pack(tables=[[[0.0, w], [w, 0.0]] for w in strengths])
        result = intarsia.infer(graph, theta, "lp_relaxation", "map")
        # At least one edge of a triangle has equal labels; in the best labelling it is the weakest edge.
        assert result.score == pytest.approx(sum(strengths) - min(strengths))
        assert result.upper_bound == pytest.approx(sum(strengths))
        assert not result.integral
        np.testing.assert_allclose(result.mu[:6], 0.5)
    assert result.upper_bound / result.score == pytest.approx(1.7 / 1.4)


@pytest.mark.parametrize("shared", [False, True])
def test_marginals_of_single_factors_add_up(shared):
    graph = intarsia.graph.complete_graph(4, 3)
    graph = intarsia.FactorGraph(
        graph.n_states, graph.scope_ptr, graph.scope_idx, np.zeros(6, int) if shared else None,
        np.ones(1 if shared else 6, int),
    )  # fmt: skip
    unary = np.random.default_rng(3).uniform(0, 0.1, (4, 3))
    theta = graph.pack(unary, -np.ones(graph.n_tables))  # all pairs prefer to differ; three states are too few
    result = intarsia.infer(graph, theta, "lp_relaxation", "map", evidence={0: 1})
    assert not intarsia.infer(graph, theta, "lp_relaxation", "map").integral
    equal = sum(np.trace(result.factor_marginals(c)) for c in range(6))
    assert equal == pytest.approx(result.mu[graph.table_ptr[0] :].sum())
    for c in range(6):
        for axis, v in enumerate(graph.scope(c)):
            np.testing.assert_allclose(
                result.factor_marginals(c).sum(axis=1 - axis), result.marginals(int(v)), atol=1e-7
            )


def test_warm_start_follows_changing_scores():
    graph, theta = frustrated(3)
    earlier = intarsia.infer(graph, theta, "lp_relaxation", "map")
    rng = np.random.default_rng(1)
    for _ in range(5):
        theta = theta + 0.3 * rng.standard_normal(theta.size)
        cold = intarsia.infer(graph, theta, "lp_relaxation", "map")
        earlier = intarsia.infer(graph, theta, "lp_relaxation", "map", warm_start=earlier)
        assert earlier.upper_bound == pytest.approx(cold.upper_bound, rel=1e-9)
    # The state of another method is ignored.
    other = intarsia.infer(graph, theta, "belief_propagation", max_iter=2000, damping=0.5)
    again = intarsia.infer(graph, theta, "lp_relaxation", "map", warm_start=other)
    assert again.upper_bound == pytest.approx(cold.upper_bound, rel=1e-9)
    assert intarsia.infer(graph, theta, "belief_propagation", "map", damping=0.5, max_iter=2000, warm_start=again).score


def test_note_lists_contradicting_factors():
    builder = intarsia.GraphBuilder()
    for name in ("rain", "wet", "warm"):
        builder.variable(name, 2)
    never = -np.inf
    builder.factor(["rain", "wet"], [[0.0, 0.0], [never, 0.0]])
    builder.factor(["wet", "warm"], [[0.0, 0.0], [1.0, 2.0]])
    builder.factor(["rain", "wet"], [[never, never], [0.0, never]])
    graph, theta = builder.build()
    result = intarsia.infer(graph, theta, "lp_relaxation", "map")
    assert result.status is Status.INFEASIBLE
    assert result.mu is None
    assert result.integral is None
    assert "0 over ['rain', 'wet']" in result.note
    assert "2 over ['rain', 'wet']" in result.note
    assert "warm" not in result.note


def test_relaxation_without_a_labelling_is_infeasible():
    graph, theta = ZOO["infeasible"]()  # a triangle with two colours: marginals of 1/2 satisfy the relaxation
    result = intarsia.infer(graph, theta, "lp_relaxation", "map")
    assert result.status is Status.INFEASIBLE
    assert write_out(graph, theta).value == pytest.approx(0.0)


def test_scores_of_any_size():
    graph, theta = frustrated()
    plain = intarsia.infer(graph, theta, "lp_relaxation", "map")
    for scale in (1e-150, 1e-6, 1e6, 1e150):
        scaled = intarsia.infer(graph, scale * theta, "lp_relaxation", "map")
        assert scaled.upper_bound == pytest.approx(scale * plain.upper_bound, rel=1e-9)
        np.testing.assert_allclose(scaled.mu, plain.mu, atol=1e-7)


def test_marginals_raise():
    graph, theta = frustrated()
    with pytest.raises(intarsia.exceptions.NotSupportedError, match="LPRelaxation does not support task='marginals'"):
        intarsia.infer(graph, theta, "lp_relaxation")


def test_time_limit_counts_the_time_before_the_solver_runs(monkeypatch):
    limits, make_solver, make_solution = [], highs._make_solver, highs._make_solution
    clock = Clock(1000.0)

    def load_slowly(*arguments):
        solver = make_solver(*arguments)
        clock.start -= 400.0
        return solver

    def read_limit(highspy, solver, *arguments):
        limits.append(solver.getOptionValue("time_limit")[1])
        return make_solution(highspy, solver, *arguments)

    monkeypatch.setattr(highs, "_make_solver", load_slowly)
    monkeypatch.setattr(highs, "_make_solution", read_limit)
    one = np.ones(1)
    highs.solve_program(highs.Program(np.array([1.0, 2.0]), csc_array([[1.0, 1.0]]), one, one), clock)
    assert 500 < limits[0] <= 600


@given(random_models())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_bound_of_blocks_is_the_sum_of_their_largest_scores(model):
    reduction = reduce_graph(model[0])
    graph, theta = reduction.graph, reduction.lower(model[1])
    if graph.n_variables:
        variables = [graph.variable(theta, v).max() for v in range(graph.n_variables)]
        factors = [graph.factor_table(theta, c).max() for c in range(graph.n_factors)]
        np.testing.assert_allclose(block_bound(graph, theta), sum(variables) + sum(factors), atol=1e-12)
