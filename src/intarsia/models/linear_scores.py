"""Scores that are linear in features of nodes and of edges, with weights shared by all nodes and all edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from intarsia._validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


class LinearScores:
    r"""Map from weights to theta of one pairwise graph, and the pull-back of a gradient.

    With features :math:`u_i` of node i and :math:`v_{ij}` of edge (i, j),

    .. math:: \theta_i = F u_i, \qquad \theta_{ij} = G v_{ij},

    where F has a row for each state and G one for each pair of states, in C order. All weights are one flat vector:
    F in C order, then G. Cost: one product of features and weights each way; sparse features stay sparse.

    Parameters
    ----------
    graph : FactorGraph
        Every variable with the same number of states k, every factor over two variables with a table of its own.
    node_features : (n_variables, p) array or sparse matrix
        u, a row for each variable.
    edge_features : (n_factors, q) array or sparse matrix, optional
        v, a row for each factor; by default one constant feature.

    Raises
    ------
    InvalidInputError
        If the graph is not of this form, the shapes disagree, or a feature is NaN or infinite.

    References
    ----------
    Domke2013, section 8.1.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> scores = LinearScores(chain_graph(2, 2), [[1.0], [3.0]])
    >>> F, G = [[0.0], [0.5]], [[1.0], [0.0], [0.0], [1.0]]
    >>> theta = scores.theta(scores.join(F, G))
    >>> theta.tolist()
    [0.0, 0.5, 0.0, 1.5, 1.0, 0.0, 0.0, 1.0]
    >>> dF, dG = scores.split(scores.pull_back(np.ones(8)))
    >>> dF.tolist()                              # both nodes' features add up
    [[4.0], [4.0]]
    """

    def __init__(self, graph: FactorGraph, node_features: Any, edge_features: Any = None) -> None:
        self.graph = graph
        self.n_states = _common_states(graph)
        if edge_features is None:
            edge_features = np.ones((graph.n_factors, 1))
        self.node_features = _check_features(node_features, graph.n_variables, "node_features", "variables")
        self.edge_features = _check_features(edge_features, graph.n_factors, "edge_features", "factors")

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of F and G."""
        k = self.n_states
        return (k, self.node_features.shape[1]), (k * k, self.edge_features.shape[1])

    @property
    def n_weights(self) -> int:
        """Length of the flat vector of weights."""
        return sum(rows * columns for rows, columns in self.shapes)

    def split(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F and G as views of the flat weights."""
        flat = as_float_array(weights, "LinearScores: weights")
        if flat.shape != (self.n_weights,):
            raise InvalidInputError(
                f"LinearScores: weights have shape {flat.shape}, but F {self.shapes[0]} and G {self.shapes[1]} need "
                f"({self.n_weights},). Make them with join(F, G)."
            )
        node_shape, edge_shape = self.shapes
        cut = node_shape[0] * node_shape[1]
        return flat[:cut].reshape(node_shape), flat[cut:].reshape(edge_shape)

    def join(self, F: Any, G: Any) -> FloatArray:
        """Flat weights of F and G."""
        parts = []
        for given, shape, name in zip((F, G), self.shapes, "FG", strict=True):
            matrix = as_float_array(given, f"LinearScores: {name}")
            if matrix.shape != shape:
                raise InvalidInputError(
                    f"LinearScores: {name} has shape {matrix.shape}, but these features need {shape}."
                )
            parts.append(matrix.reshape(-1))
        return np.concatenate(parts)

    def theta(self, weights: FloatArray) -> FloatArray:
        """Scores of the graph for these weights."""
        F, G = self.split(weights)
        theta = self.graph.zeros()
        cut = int(self.graph.variable_ptr[-1])
        # Equal state counts make the two parts of theta matrices, so the products are their rows, in order.
        theta[:cut] = np.asarray(self.node_features @ F.T).reshape(-1)
        theta[cut:] = np.asarray(self.edge_features @ G.T).reshape(-1)
        return theta

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the flat weights from one in theta: the adjoint of `theta`."""
        slope = as_float_array(gradient, "LinearScores: gradient")
        if slope.shape != (self.graph.n_theta,):
            raise InvalidInputError(
                f"LinearScores: the gradient has shape {slope.shape}, but this graph needs ({self.graph.n_theta},)."
            )
        cut, k = int(self.graph.variable_ptr[-1]), self.n_states
        nodes = self.node_features.T @ slope[:cut].reshape(-1, k)
        edges = self.edge_features.T @ slope[cut:].reshape(-1, k * k)
        return np.concatenate([np.asarray(nodes).T.reshape(-1), np.asarray(edges).T.reshape(-1)])

    def __repr__(self) -> str:
        return f"LinearScores({self.graph!r}, F {self.shapes[0]}, G {self.shapes[1]})"


def _common_states(graph: FactorGraph) -> int:
    counts = np.unique(graph.n_states)
    if counts.size != 1:
        raise InvalidInputError(
            f"LinearScores: the variables have {counts.tolist()} states, but one F serves all of them. "
            f"Give a graph with one number of states."
        )
    pairwise = bool((np.diff(graph.scope_ptr) == 2).all())
    own = np.array_equal(graph.table_of_factor, np.arange(graph.n_tables)) and not graph.table_kind.any()
    if not pairwise or not own:
        raise InvalidInputError(
            "LinearScores: some factor does not join two variables, shares its table or has a parametric one. Give a "
            "pairwise graph with a table for each edge, such as grid_graph(height, width, n_states)."
        )
    return int(counts[0])


def _check_features(given: Any, n_rows: int, name: str, what: str) -> Any:
    """Features as a float64 array or CSR matrix with one finite row for each of `n_rows`."""
    matrix: Any = given
    if sparse.issparse(given):
        matrix = sparse.csr_array(matrix.tocsr()).astype(np.float64)
        values = matrix.data
    else:
        matrix = as_float_array(given, f"LinearScores: {name}")
        values = matrix
    if matrix.ndim != 2 or matrix.shape[0] != n_rows:
        raise InvalidInputError(
            f"LinearScores: {name} has shape {matrix.shape}, but the graph has {n_rows} {what}. "
            f"Give one row for each, shape ({n_rows}, number of features)."
        )
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite.reshape(-1)))
        row = (
            int(np.searchsorted(matrix.indptr, at, side="right")) - 1
            if sparse.issparse(given)
            else at // matrix.shape[1]
        )
        raise InvalidInputError(
            f"LinearScores: {name}[{row}] contains {values.reshape(-1)[at]}. Features must be finite; fill in or drop "
            f"what is missing."
        )
    return matrix
