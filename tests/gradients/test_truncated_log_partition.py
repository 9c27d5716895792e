"""Estimate of log Z by a truncated run: the value of the inference method, and its exact gradient."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.gradients.marginal_losses import lowered, mixed_rho
from tests.oracles.finite_differences import central_differences, relative_error
from tests.zoo import HARD_ZEROS

import intarsia
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.gradients import truncated_log_partition
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.tree_reweighted import TreeReweighted

NAMES = ["grid", "grid_three_states", "three_way_factor", "four_way_factor", "unequal_state_counts", "isolated_node"]


@pytest.mark.parametrize("method", ["bp", "trw", "trw_hot", "mean_field"])
@pytest.mark.parametrize("name", [*NAMES, *sorted(HARD_ZEROS)])
def test_value_and_gradient(name, method):
    graph, theta = lowered(name)
    if method == "mean_field" and name in HARD_ZEROS:
        return
    inference = {
        "bp": BeliefPropagation(),
        "trw": TreeReweighted(rho=mixed_rho(graph)),
        "trw_hot": TreeReweighted(temperature=1.5),
        "mean_field": MeanField(),
    }[method]
    for n_iter in (0, 2):
        value, gradient = truncated_log_partition(graph, theta, inference, n_iter)
        expected = central_differences(lambda t, n=n_iter: truncated_log_partition(graph, t, inference, n)[0], theta)
        assert relative_error(gradient, expected) < 1e-6
        if method != "mean_field":  # which skips variables that hardly change, so that its sweeps differ
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                result = intarsia.infer(graph, theta, inference, max_iter=n_iter, tol=0.0)
            assert value == pytest.approx(result.log_partition, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("method", ["belief_propagation", "tree_reweighted", "mean_field"])
def test_at_convergence_the_gradient_is_mu(method):
    graph, theta = lowered("grid_three_states")
    result = intarsia.infer(graph, theta, method, tol=1e-13)
    value, gradient = truncated_log_partition(graph, theta, method, 300)
    assert value == pytest.approx(result.log_partition, abs=1e-9)
    assert np.allclose(gradient, result.mu, atol=1e-8)


def test_infeasible_and_refused():
    graph, theta = lowered("infeasible_variable")
    value, gradient = truncated_log_partition(graph, theta, "belief_propagation", 2)
    assert value == -np.inf
    assert not gradient.any()
    with pytest.raises(NotSupportedError, match="cannot differentiate"):
        truncated_log_partition(graph, theta, "junction_tree", 2)
