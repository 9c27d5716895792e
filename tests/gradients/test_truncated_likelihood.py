"""Likelihood and EM through a fixed number of sweeps: exact gradients, and the surrogate in the limit."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradients.marginal_losses import lowered
from tests.oracles.finite_differences import central_differences, relative_error
from tests.oracles.likelihoods import negative_log_likelihood

from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients.back_propagation import BackPropagation
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import chain_graph
from intarsia.losses import LOSSES, training_labels
from intarsia.losses.likelihood import Likelihood, SurrogateEM

NAMES = ["grid", "grid_three_states", "three_way_factor", "unequal_state_counts", "isolated_node"]
LIKELIHOODS = [Likelihood(), SurrogateEM(), SurrogateEM(free="belief_propagation", clamped=None)]


def half_hidden(graph):
    y = np.arange(graph.n_variables) % graph.n_states
    y[::2] = -1
    return training_labels(graph, y)


@pytest.mark.parametrize("which", range(len(LIKELIHOODS)))
@pytest.mark.parametrize("method", ["tree_reweighted", "mean_field"])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_the_value(name, method, which):
    graph, theta = lowered(name)
    labels, loss = half_hidden(graph), LIKELIHOODS[which]
    for n_iter in (0, 1, 3):
        rule = TruncatedGradient(n_iter=n_iter)
        result = rule.value_and_gradient(graph, theta, labels, loss, method)
        expected = central_differences(
            lambda t, rule=rule: rule.value_and_gradient(graph, t, labels, loss, method).value, theta
        )
        assert relative_error(result.gradient, expected) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_many_sweeps_are_the_surrogate_likelihood(name):
    graph, theta = lowered(name)
    labels = half_hidden(graph)
    result = TruncatedGradient(n_iter=400).value_and_gradient(graph, theta, labels, Likelihood(), "tree_reweighted")
    value, gradient = Likelihood().value_and_gradient_theta(graph, theta, labels, inference="tree_reweighted")
    assert result.value == pytest.approx(value, abs=1e-6)
    assert np.allclose(result.gradient, gradient, atol=1e-5)


def test_a_chain_of_two_is_exact_after_one_sweep():
    graph = chain_graph(2, 3)
    theta = np.random.default_rng(0).normal(size=graph.n_theta)
    labels = training_labels(graph, [2, -1])
    result = TruncatedGradient(n_iter=1).value_and_gradient(graph, theta, labels, Likelihood(), "belief_propagation")
    assert result.value == pytest.approx(negative_log_likelihood(graph, theta, [{2}, {0, 1, 2}]), abs=1e-12)


def test_a_likelihood_above_one_is_returned_unchanged():
    # Without any sweep the marginals ignore the pairs of the chain, so that log Z is below the score of the labels.
    graph = chain_graph(2, 2)
    theta = graph.zeros()
    theta[-4:] = [8.0, 0.0, 0.0, 8.0]
    labels = training_labels(graph, [1, 1])
    rule = TruncatedGradient(n_iter=0)
    assert rule.value_and_gradient(graph, theta, labels, Likelihood(), "mean_field").value < 0.0


def test_unsupported_combinations_raise():
    graph = chain_graph(2, 2)
    labels = training_labels(graph, [0, 1])
    with pytest.raises(NotSupportedError, match="univariate_logistic"):
        BackPropagation().value_and_gradient(graph, graph.zeros(), labels, Likelihood(), "tree_reweighted")
    with pytest.raises(NotSupportedError, match="univariate_logistic"):
        TruncatedGradient().value_and_gradient(
            graph, graph.zeros(), labels, LOSSES.resolve("pseudo_likelihood"), "tree_reweighted"
        )
    with pytest.raises(NotSupportedError, match="TreeReweighted"):
        TruncatedGradient().value_and_gradient(graph, graph.zeros(), labels, Likelihood(), "junction_tree")


@pytest.mark.parametrize("y", [[1, 0, 0], [1, 0, -1], [[False, True], [True, False], [True, True]]])
def test_impossible_labels_are_refused(y):
    """As in closed form: no value would give a search a direction."""
    graph = chain_graph(3, 2)
    theta = graph.pack(tables=np.tile([[0.0, 0.0], [-np.inf, 0.0]], (2, 1, 1)))
    with pytest.raises(InvalidInputError, match=r"Likelihood: theta gives the labels a score of -inf\. Correct"):
        TruncatedGradient(n_iter=2).value_and_gradient(
            graph, theta, training_labels(graph, y), Likelihood(), "belief_propagation"
        )
