"""The fast backward pass with products far from 1, compared with the one in the log domain."""

import numpy as np
import pytest

from intarsia.gradients.pairwise_reversal import PairwiseReversal
from intarsia.gradients.reversal import GeneralReversal
from intarsia.graph import chain_graph, from_edges
from intarsia.inference.messages.pairwise_messages import fits_pairwise

SWEEPS = 3


def gradient_of(run, slope):
    assert run.forward(SWEEPS)
    mu = run.marginals()
    run.pull_beliefs(mu, slope, True)
    run.back()
    return run.gradient()


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("strength", [1.0, 40.0, 130.0])
def test_strong_scores(n_states, strength, damping):
    # With alternating signs neither marginals nor products are close to 1.
    graph = chain_graph(6, n_states)
    rng = np.random.default_rng(0)
    agree = np.where(np.eye(n_states) > 0, strength, 0.0)
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    theta = graph.pack(rng.standard_normal((6, n_states)) * strength / 10, signs[:, None, None] * agree)
    compare(graph, theta, rng.standard_normal(graph.n_theta), damping)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_neighbours_that_contradict_each_other(damping):
    # Both states of the hub have a probability of about exp(-220) before normalization, so that products of
    # messages must be scaled.
    graph = from_edges([2] * 5, [[0, 1], [0, 2], [3, 0], [0, 4]])
    pull = np.array([[0.0, 0.0], [150.0, 0.0], [149.0, 0.0], [0.0, 150.0], [0.0, 149.5]])
    theta = graph.pack(pull, np.tile(110.0 * np.eye(2), (4, 1, 1)))
    compare(graph, theta, np.random.default_rng(1).standard_normal(graph.n_theta), damping)


def compare(graph, theta, slope, damping):
    rho = np.ones(graph.n_factors)
    assert fits_pairwise(graph, theta, rho)
    fast = gradient_of(PairwiseReversal(graph, theta, rho, damping), slope)
    slow = gradient_of(GeneralReversal(graph, theta, rho, damping), slope)
    assert np.isfinite(fast).all()
    np.testing.assert_allclose(fast, slow, rtol=1e-7, atol=1e-12)
