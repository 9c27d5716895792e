"""Shortcuts of the fast messages on pairwise graphs: they change the time of a run, not its result."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.inference.messages import pairwise_messages
from intarsia.inference.messages.pairwise_messages import PairwiseMessages, fits_pairwise


@pytest.mark.parametrize("n_states", [2, 3])
def test_messages_are_returned_in_the_order_of_the_pairs(n_states):
    graph = intarsia.grid_graph(4, 5, n_states)
    theta = np.random.default_rng(0).normal(size=graph.n_theta)
    state = PairwiseMessages(graph, theta, 1.0)
    for _ in range(3):
        state.sweep("forward_backward", 0.0)
    expected = np.empty((graph.scope_idx.size, n_states))
    for slot, pair in enumerate(state.layout.pair_of_slot):
        expected[pair] = np.log(state.messages[slot])
    np.testing.assert_array_equal(state.log_messages(), expected.reshape(-1))
    logs = state.finish()
    np.testing.assert_array_equal(logs, expected.reshape(-1))
    assert logs.base is None  # otherwise the result copies it


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_from_the_range_of_all_scores_admits_no_model_that_the_spans_exclude(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    graph = intarsia.grid_graph(3, 3, 2)
    theta = rng.normal(size=graph.n_theta) * 10.0 ** rng.uniform(0.5, 2.5)
    if seed % 3 == 0:
        theta[rng.integers(0, 18)] = -np.inf
    rho = np.full(graph.n_factors, rng.choice([1.0, 0.5]))
    quick = fits_pairwise(graph, theta, rho)
    monkeypatch.setattr(pairwise_messages, "_largest_degree", lambda graph: 1e9)  # never use the bound
    assert quick == fits_pairwise(graph, theta, rho)


def test_a_variable_without_a_possible_state_is_found():
    graph = intarsia.grid_graph(2, 2, 2)
    theta = graph.zeros()
    theta[2:4] = -np.inf
    assert intarsia.infer(graph, theta, "belief_propagation").status.name == "INFEASIBLE"
    theta[2] = 0.0
    assert intarsia.infer(graph, theta, "belief_propagation").marginals(1).tolist() == [1.0, 0.0]
