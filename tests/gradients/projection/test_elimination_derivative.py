"""Derivatives of marginals by elimination against the covariance of all labellings, on every model of the zoo."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradients.projection.projection_models import directional_error
from tests.oracles.enumeration import enumerate_model
from tests.zoo import INFEASIBLE, ZOO

from intarsia.gradients.projection.elimination_derivative import EliminationDerivative
from intarsia.gradients.projection.oracle_derivative import OracleDerivative
from intarsia.graph import learning_form
from intarsia.inference.infer import run_inference
from intarsia.inference.registry import METHODS

FEASIBLE = sorted(set(ZOO) - INFEASIBLE - {"no_variables"})


@pytest.mark.parametrize("name", FEASIBLE)
def test_products_are_those_of_the_covariance(name):
    graph, theta = ZOO[name]()
    form = learning_form(graph)
    scores = form.lower(theta)
    exact = enumerate_model(form.graph, scores)
    statistics = np.array([form.graph.statistics(y) for y in exact.labellings])
    probability = np.exp(exact.scores - exact.log_partition)
    covariance = (statistics * probability[:, None]).T @ statistics - np.outer(exact.mu, exact.mu)
    directions = np.random.default_rng(0).standard_normal((3, 2, form.graph.n_theta))
    pair = EliminationDerivative(form.graph, np.stack([scores, scores]))
    np.testing.assert_allclose(pair.mu[1], exact.mu, atol=1e-12)
    np.testing.assert_allclose(pair.product(directions), directions @ covariance, atol=1e-11)
    single = EliminationDerivative(form.graph, scores)
    np.testing.assert_allclose(single.product(directions[:, 0]), directions[:, 0] @ covariance, atol=1e-11)


def test_a_graph_without_variables_has_no_derivatives():
    graph, theta = ZOO["no_variables"]()
    assert OracleDerivative(graph, theta, METHODS.resolve("tree")).product(np.empty(0)).shape == (0,)


@pytest.mark.parametrize("name", ["shared_chain", "one_state_variables", "same_scope_twice", "potts", "constraints"])
def test_products_in_the_layout_of_the_user(name):
    graph, theta = ZOO[name]()
    weight = np.random.default_rng(1).standard_normal(graph.n_theta)
    temperature = 0.7

    def loss(scores):
        return float(weight @ run_inference(graph, scores, METHODS.resolve("junction_tree", {"temperature": 0.7})).mu)

    derivative = OracleDerivative(graph, theta, METHODS.resolve("junction_tree"), temperature)
    assert directional_error(loss, theta, derivative.product(weight)) < 1e-8


@pytest.mark.parametrize(
    "name", ["grid", "complete", "unequal_state_counts", "three_way_factor", "potts", "disconnected"]
)
def test_tree_reweighted_oracle_against_finite_differences(name):
    graph, theta = ZOO[name]()
    weight = np.random.default_rng(2).standard_normal(graph.n_theta)
    oracle = METHODS.resolve("tree_reweighted", {"tol": 1e-14, "max_iter": 20000})
    derivative = OracleDerivative(graph, theta, oracle)
    error = directional_error(
        lambda scores: float(weight @ run_inference(graph, scores, oracle).mu), theta, derivative.product(weight), 1e-3
    )
    assert error < 1e-7
