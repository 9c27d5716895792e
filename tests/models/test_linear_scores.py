"""Scores from features against loops, their adjoint against finite differences, sparse against dense."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from tests.oracles.finite_differences import central_differences, relative_error

from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph, from_edges, grid_graph
from intarsia.models import LinearScores

GRAPHS = {
    "grid": lambda: grid_graph(3, 4, 3),
    "grid8": lambda: grid_graph(2, 3, 2, connectivity=8),
    "one node": lambda: grid_graph(1, 1, 2),
    "disconnected": lambda: from_edges(2, [[3, 1], [0, 2]], n_variables=6),
}


def make(graph, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(graph.n_variables, 4)) * (rng.random((graph.n_variables, 4)) < 0.5)
    v = rng.normal(size=(graph.n_factors, 2)) * (rng.random((graph.n_factors, 2)) < 0.5)
    k = int(graph.n_states[0])
    return u, v, rng.normal(size=(k, 4)), rng.normal(size=(k * k, 2))


@pytest.mark.parametrize("name", GRAPHS)
def test_theta_is_the_loop_over_nodes_and_edges(name):
    graph = GRAPHS[name]()
    u, v, F, G = make(graph)
    scores = LinearScores(graph, u, v)
    theta = scores.theta(scores.join(F, G))
    k = int(graph.n_states[0])
    for i in range(graph.n_variables):
        block = theta[graph.variable_ptr[i] : graph.variable_ptr[i + 1]]
        np.testing.assert_allclose(block, [sum(F[s, f] * u[i, f] for f in range(4)) for s in range(k)])
    for c in range(graph.n_factors):
        table = graph.table(theta, c)
        for a in range(k):
            for b in range(k):
                assert table[a, b] == pytest.approx(sum(G[a * k + b, f] * v[c, f] for f in range(2)))


@pytest.mark.parametrize("name", GRAPHS)
def test_pull_back_is_the_derivative(name):
    graph = GRAPHS[name]()
    u, v, F, G = make(graph)
    scores = LinearScores(graph, u, v)
    direction = np.random.default_rng(1).normal(size=graph.n_theta)
    weights = scores.join(F, G)
    # Not linear, so that the gradient in theta matters.
    expected = central_differences(lambda w: float(np.sin(scores.theta(w)) @ direction), weights)
    result = scores.pull_back(np.cos(scores.theta(weights)) * direction)
    assert relative_error(result, expected) < 1e-8


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize("name", GRAPHS)
def test_sparse_is_dense(name, kind):
    graph = GRAPHS[name]()
    u, v, F, G = make(graph)
    dense, thin = LinearScores(graph, u, v), LinearScores(graph, kind(u), kind(v))
    weights = dense.join(F, G)
    np.testing.assert_allclose(thin.theta(weights), dense.theta(weights), atol=1e-14)
    gradient = np.random.default_rng(2).normal(size=graph.n_theta)
    np.testing.assert_allclose(thin.pull_back(gradient), dense.pull_back(gradient), atol=1e-14)
    assert type(thin.pull_back(gradient)) is np.ndarray


def test_split_undoes_join():
    graph = grid_graph(3, 4, 3)
    u, v, F, G = make(graph)
    scores = LinearScores(graph, u, v)
    again = scores.split(scores.join(F, G))
    np.testing.assert_array_equal(again[0], F)
    np.testing.assert_array_equal(again[1], G)


def test_invalid_input():
    graph = chain_graph(3, 2)
    u = np.ones((3, 2))
    with pytest.raises(InvalidInputError, match=r"node_features has shape \(4, 2\), but the graph has 3 variables"):
        LinearScores(graph, np.ones((4, 2)))
    with pytest.raises(InvalidInputError, match=r"edge_features has shape \(3, 1\), but the graph has 2 factors"):
        LinearScores(graph, u, np.ones((3, 1)))
    holed = u.copy()
    holed[1, 0] = np.nan
    for given in (holed, sparse.csr_array(holed)):
        with pytest.raises(InvalidInputError, match=r"node_features\[1\] contains nan"):
            LinearScores(graph, given)
    with pytest.raises(InvalidInputError, match="expected numbers"):
        LinearScores(graph, [["a"], ["b"], ["c"]])
    with pytest.raises(InvalidInputError, match="they share the weights F"):
        LinearScores(from_edges([2, 3, 2], [[0, 1]]), u)
    for other in (chain_graph(3, 2, shared=True), chain_graph(3, 2, kind="potts")):
        with pytest.raises(InvalidInputError, match="one table per edge"):
            LinearScores(other, u)
    scores = LinearScores(graph, u)
    with pytest.raises(InvalidInputError, match="weights have shape"):
        scores.theta(np.zeros(3))
    with pytest.raises(InvalidInputError, match=r"G has shape \(2, 2\)"):
        scores.join(np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(InvalidInputError, match="gradient has shape"):
        scores.pull_back(np.zeros(3))


def test_many_rows_are_multiplied_in_parts():
    """There are enough rows for several slices, the last of which is shorter."""
    graph = grid_graph(70, 90, 5)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(graph.n_variables, 7)), rng.normal(size=(graph.n_factors, 3))
    scores = LinearScores(graph, u, v)
    F, G = rng.normal(size=(5, 7)), rng.normal(size=(25, 3))
    theta = scores.theta(scores.join(F, G))
    np.testing.assert_allclose(theta[: u.shape[0] * 5].reshape(-1, 5), u @ F.T, atol=1e-13)
    np.testing.assert_allclose(theta[u.shape[0] * 5 :].reshape(-1, 25), v @ G.T, atol=1e-13)
    gradient = rng.normal(size=graph.n_theta)
    dF, dG = scores.split(scores.pull_back(gradient))
    np.testing.assert_allclose(dF, gradient[: u.shape[0] * 5].reshape(-1, 5).T @ u, atol=1e-10)
    np.testing.assert_allclose(dG, gradient[u.shape[0] * 5 :].reshape(-1, 25).T @ v, atol=1e-10)
