"""Linear readings of one mu or of many, against products with the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from intarsia.energies.binding.bound_energy import LinearMaps
from intarsia.energies.binding.label_index import subtract_from_all
from intarsia.graph import chain_graph, from_edges


def matrices(graph, seed=0):
    """Return matrices with counting rows, with other rows, and with both."""
    rng = np.random.default_rng(seed)
    k, n, split = 3, graph.n_variables, int(graph.variable_ptr[-1])
    counting = np.zeros((4, graph.n_theta))
    counting[:, :split] = np.tile(rng.integers(-2, 3, (4, k)), n)
    counting[1:, split:] = rng.integers(-1, 2, (3, graph.n_theta - split))
    other = rng.integers(-1, 2, (3, graph.n_theta)).astype(float)
    almost = counting[:1].copy()
    almost[0, split - 1] += 1.0
    kinds = {"counting": counting, "other": other, "both": np.concatenate([other, counting, almost])}
    for name in ("counting", "both"):  # variants that read variables only
        kinds[f"{name} of variables"] = np.where(np.arange(graph.n_theta) < split, kinds[name], 0.0)
    return kinds


@pytest.mark.parametrize("kind", ["counting", "other", "both", "counting of variables", "both of variables"])
@pytest.mark.parametrize("tables", [False, True])
def test_readings_and_subtraction_equal_matrix_products(kind, tables):
    graph = chain_graph(4, 3, shared=True) if tables else from_edges(3, [], n_variables=4)
    a = matrices(graph)[kind]
    maps = LinearMaps(graph, csr_array(a))
    rng = np.random.default_rng(1)
    mu, weights, theta = rng.random((5, graph.n_theta)), rng.normal(size=(5, len(a))), rng.random((5, graph.n_theta))
    np.testing.assert_allclose(maps.measure(mu), mu @ a.T, atol=1e-12)
    np.testing.assert_allclose(maps.measure(mu[0]), a @ mu[0], atol=1e-12)
    expected = theta - weights @ a
    one, apart = theta[0].copy(), np.empty(theta.shape)
    maps.subtract(weights[0], one, one)
    np.testing.assert_allclose(one, expected[0], atol=1e-12)
    maps.subtract(weights, theta, apart)
    np.testing.assert_allclose(apart, expected, atol=1e-12)
    maps.subtract(weights, theta, theta)
    np.testing.assert_allclose(theta, expected, atol=1e-12)


def test_a_single_variable_and_unequal_states():
    for graph in (from_edges(3, [], n_variables=1), from_edges([2, 3], [], n_variables=2)):
        a = np.random.default_rng(0).normal(size=(2, graph.n_theta))
        mu = np.random.default_rng(1).random(graph.n_theta)
        np.testing.assert_allclose(LinearMaps(graph, csr_array(a)).measure(mu), a @ mu, atol=1e-12)


def test_matrix_without_rows():
    maps = LinearMaps(chain_graph(3, 2), csr_array((0, 14)))
    theta = np.ones((2, 14))
    maps.subtract(np.zeros((2, 0)), theta, theta)
    assert maps.measure(theta).shape == (2, 0)
    assert (theta == 1.0).all()


def test_a_slice_of_rows_is_changed_in_place():
    theta = np.arange(12.0).reshape(2, 6)
    subtract_from_all(np.array([[1.0, 2.0], [3.0, 4.0]]), theta[:, :4], theta[:, :4])
    np.testing.assert_allclose(theta, [[-1, -1, 1, 1, 4, 5], [3, 3, 5, 5, 10, 11]])
