"""Best labelling by branch and cut, compared with enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.contracts.asking import ask
from tests.oracles.enumeration import enumerate_model
from tests.random_models import random_models

import intarsia
from intarsia import Status


@given(random_models(max_assignments=400))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_equals_enumeration(model):
    graph, theta = model
    truth = enumerate_model(graph, theta)
    result = ask(graph, theta, "integer_program", "map")
    if truth.best_score == -np.inf:
        assert result.status is Status.INFEASIBLE
        return
    assert result.status is Status.EXACT
    assert result.score == pytest.approx(truth.best_score, abs=1e-7 * max(1.0, np.abs(truth.scores).max()))
    assert result.lower_bound == pytest.approx(result.score, rel=1e-12)
    assert result.upper_bound == pytest.approx(result.score, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_frustrated_models(seed):
    graph = intarsia.graph.complete_graph(7, 3)
    theta = np.random.default_rng(seed).standard_normal(graph.n_theta)
    result = intarsia.infer(graph, theta, "integer_program", "map")
    assert result.status is Status.EXACT
    assert result.score == pytest.approx(intarsia.infer(graph, theta, "brute_force", "map").score)
    assert intarsia.infer(graph, theta, "lp_relaxation", "map").upper_bound > result.score + 0.1


def test_time_limit_returns_bounds_and_a_labelling():
    graph = intarsia.grid_graph(12, 12, 3)
    theta = 2 * np.random.default_rng(0).standard_normal(graph.n_theta)
    best = intarsia.infer(graph, theta, "junction_tree", "map").score
    for limit in (1e-9, 0.05, 0.5):
        result = ask(graph, theta, "integer_program", "map", time_limit=limit)
        assert result.status in (Status.TIME_LIMIT, Status.EXACT)
        assert result.score <= best + 1e-9
        assert result.upper_bound >= best - 1e-9
        assert np.isfinite([result.score, result.upper_bound]).all()


def test_warm_start_keeps_the_labelling():
    graph = intarsia.grid_graph(12, 12, 3)
    theta = 2 * np.random.default_rng(0).standard_normal(graph.n_theta)
    earlier = intarsia.infer(graph, theta, "junction_tree", "map")
    result = ask(graph, theta, "integer_program", "map", warm_start=earlier, time_limit=1e-9)
    assert result.score == pytest.approx(earlier.score)


def test_contradicting_factors_are_infeasible():
    graph = intarsia.chain_graph(3, 2)
    differ = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    result = intarsia.infer(graph, graph.pack(tables=[differ, differ]), "integer_program", "map", evidence={0: 0, 2: 1})
    assert result.status is Status.INFEASIBLE
