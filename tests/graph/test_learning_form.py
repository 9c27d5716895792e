"""Learning form: the maps are adjoint, and inference on it agrees with inference on the original graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.oracles.enumeration import enumerate_model
from tests.random_models import random_models
from tests.zoo import ZOO

from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph, grid_graph, learning_form
from intarsia.graph.reduction import in_normal_form


def check(graph, theta, evidence=None):
    form = learning_form(graph, evidence)
    lowered = form.graph
    assert in_normal_form(lowered)
    assert np.array_equal(lowered.table_of_factor, np.arange(lowered.n_factors))
    assert not lowered.table_kind.any()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(graph.n_theta), rng.standard_normal(lowered.n_theta)
    # <M a, b> = <a, M^T b>, and raise_mu is the same map plus a constant.
    assert form.lower(a) @ b == pytest.approx(a @ form.pull_back(b), rel=1e-10, abs=1e-10)
    constant = form.raise_mu(np.zeros(lowered.n_theta))
    assert np.allclose(form.raise_mu(b) - constant, form.pull_back(b), atol=1e-12)
    # The score of a labelling is the score of its free variables plus the constant.
    y = np.where(form.reduction.states >= 0, form.reduction.states, rng.integers(0, graph.n_states))
    free = form.lower_labels(y)
    assert graph.score(a, y) == pytest.approx(lowered.score(form.lower(a), free) + a @ constant, abs=1e-10)
    assert np.allclose(form.raise_mu(lowered.statistics(free)), graph.statistics(y))
    assert not np.isnan(form.lower(theta)).any()
    return form


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name):
    graph, theta = ZOO[name]()
    check(graph, theta)
    if graph.n_variables > 2:
        check(graph, theta, {1: int(graph.n_states[1]) - 1})


@pytest.mark.parametrize("name", ["shared_chain", "potts", "truncated_linear", "same_scope_twice", "hard_zeros"])
@pytest.mark.parametrize("evidence", [None, {0: 1}])
def test_marginals_are_the_same(name, evidence):
    graph, theta = ZOO[name]()
    form = learning_form(graph, evidence)
    there = enumerate_model(form.graph, form.lower(theta))
    if evidence:
        theta = theta.copy()
        graph.variable(theta, 0)[np.arange(graph.n_states[0]) != 1] = -np.inf
    here = enumerate_model(graph, theta)
    assert np.allclose(form.raise_mu(there.mu), here.mu, atol=1e-12)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(random_models())
def test_random_models(model):
    check(*model)


def test_a_graph_in_learning_form_is_returned_unchanged():
    graph = grid_graph(2, 2, 2)
    form = learning_form(graph)
    assert form.is_identity
    assert form.graph is graph
    theta = graph.zeros()
    assert form.lower(theta) is theta
    assert learning_form(graph) is form


def test_labels_may_be_sets():
    form = learning_form(chain_graph(3, 2), {1: 0})
    assert form.lower_labels([1, 0, -1]).tolist() == [1, -1]
    assert form.lower_labels(np.array([[1, 0], [0, 1], [1, 1]], dtype=bool)).tolist() == [True, False, True, True]
    with pytest.raises(InvalidInputError, match=r"shape \(2,\)"):
        form.lower_labels([0, 1])
    with pytest.raises(InvalidInputError, match="3 booleans"):
        form.lower_labels(np.ones(3, dtype=bool))


def test_a_grid_stays_a_grid():
    form = learning_form(grid_graph(3, 4, 2, shared=True))
    assert form.graph.grid_shape == (3, 4)
