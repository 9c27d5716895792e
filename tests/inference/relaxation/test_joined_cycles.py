"""Cycles joined into tables: equal scores, and a bound between the best score and the standard relaxation."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from tests.random_models import random_models

import intarsia
from intarsia.datasets.counterexamples import triangle_scores
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.graph import reduce_graph
from intarsia.inference.relaxation.joined_cycles import join_cycles


def bound(graph, theta, **wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return intarsia.infer(graph, theta, "dual_decomposition", task="map", **wanted)


def frustrated(n):
    """Return a cycle of binary variables in which all pairs prefer to agree, except one."""
    graph = intarsia.from_edges(2, [[v, (v + 1) % n] for v in range(n)])
    tables = np.array([np.eye(2)] * (n - 1) + [1 - np.eye(2)])
    return graph, graph.pack(tables=tables)


def test_triangle_of_the_paper_is_solved():
    scores = triangle_scores((4.0, 3.0, 3.0))
    graph, theta = scores.graph, scores.theta(np.ones(3))
    assert intarsia.infer(graph, theta, "lp_relaxation", task="map").upper_bound == pytest.approx(5.0)
    best = intarsia.infer(graph, theta, "integer_program", task="map")
    result = bound(graph, theta, longest_cycle=3)
    assert result.status is intarsia.Status.EXACT
    assert result.upper_bound == pytest.approx(best.score)
    assert result.score == pytest.approx(4.0)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_frustrated_cycle_needs_a_table_of_its_length(n):
    graph, theta = frustrated(n)
    exact = intarsia.infer(graph, theta, "integer_program", task="map").score
    assert exact == n - 1
    assert bound(graph, theta, longest_cycle=n - 1).upper_bound == pytest.approx(n)
    joined = bound(graph, theta, longest_cycle=n)
    assert joined.upper_bound == pytest.approx(exact)
    assert joined.score == pytest.approx(exact)


def test_squares_of_a_grid_lower_the_bound():
    graph = intarsia.grid_graph(5, 5, 2)
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], graph.n_factors)
    theta = graph.pack(0.1 * rng.standard_normal((25, 2)), signs[:, None, None] * (2 * np.eye(2) - 1))
    best = intarsia.infer(graph, theta, "integer_program", task="map").score
    relaxed = intarsia.infer(graph, theta, "lp_relaxation", task="map").upper_bound
    tight = bound(graph, theta, longest_cycle=4)
    assert best - 1e-9 <= tight.upper_bound < relaxed - 0.2 * (relaxed - best)
    assert tight.history["upper_bound"].min() >= best - 1e-9
    assert tight.score <= best + 1e-9


@settings(max_examples=25, deadline=None, derandomize=True)
@given(random_models(max_scope=2, max_states=3, max_factors=9, zeros=False))
def test_equal_scores_and_a_bound_between_relaxation_and_optimum(model):
    graph, theta = model
    reduction = reduce_graph(graph)
    normal, scores = reduction.graph, reduction.lower(theta)
    if normal.n_variables == 0:
        return
    joined, joint = join_cycles(normal, scores, 4)
    states = np.array(list(product(*[range(k) for k in normal.n_states])))
    expected = normal.score(scores, states)
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(joined.score(joint, states), expected, atol=1e-9 * size)
    relaxed = intarsia.infer(graph, theta, "lp_relaxation", task="map").upper_bound
    best = intarsia.infer(graph, theta, "brute_force", task="map").score
    result = bound(graph, theta, longest_cycle=4)
    largest = max(1.0, float(np.abs(theta).max()), abs(best))
    assert best - 1e-7 * largest <= result.upper_bound <= relaxed + 2e-3 * largest
    assert result.score <= best + 1e-7 * largest


def test_every_factor_is_in_one_table_only():
    graph = intarsia.graph.complete_graph(5, 2)
    theta = np.random.default_rng(1).standard_normal(graph.n_theta)
    joined, joint = join_cycles(graph, theta, 3)
    assert joined.max_scope == 3
    assert joined.n_theta == 5 * 2 + 2 * 8 + 4 * 4  # two triangles without a common edge, and four single edges
    y = np.array([0, 1, 1, 0, 1])
    assert joined.score(joint, y) == pytest.approx(graph.score(theta, y))


def test_large_tables_are_not_created():
    graph = intarsia.graph.complete_graph(3, 30)
    assert join_cycles(graph, graph.zeros(), 3)[0] is graph


@pytest.mark.parametrize("wrong", [-1, 2.5])
def test_invalid_length_raises(wrong):
    with pytest.raises(InvalidInputError, match="longest_cycle"):
        bound(*frustrated(3), longest_cycle=wrong)
