"""Scores that are linear in the weights: features of nodes and edges, or any matrix with a fixed part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.models.block_scores import Block, BlockScores
from intarsia.models.feature_matrix import check_features


class LinearScores(BlockScores):
    r"""Map from weights to theta of one pairwise graph, and the pull-back of a gradient.

    With features :math:`u_i` of node i and :math:`v_{ij}` of edge (i, j),

    .. math:: \theta_i = F u_i, \qquad \theta_{ij} = G v_{ij},

    where F has a row for each state and G one for each pair of states, in C order. All weights are one flat vector:
    F in C order, then G. Cost: one product of features and weights each way; sparse features stay sparse, and those in
    single precision stay so in memory.

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
        self.n_states = _common_states(graph)
        if edge_features is None:
            edge_features = np.ones((graph.n_factors, 1))
        n, m, here = graph.n_variables, graph.n_factors, "LinearScores"
        self.node_features = check_features(node_features, f"{here}: node_features", n, f"the graph has {n} variables")
        self.edge_features = check_features(edge_features, f"{here}: edge_features", m, f"the graph has {m} factors")
        # Equal state counts make the two parts of theta matrices with a row for each variable, or factor.
        blocks = [Block("F", self.node_features, self.n_states), Block("G", self.edge_features, self.n_states**2)]
        super().__init__(graph, blocks)


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


class MatrixScores:
    r"""Map from weights to theta of one graph by a matrix: :math:`\theta = A w + b`.

    For models that no template fits: weights tied in unusual ways, scores that are known and not learnt, labels that
    cannot be (-inf in the fixed part). Cost: one sparse product each way.

    Parameters
    ----------
    graph : FactorGraph
        What is connected.
    matrix : (graph.n_theta, n_weights) array or sparse matrix
        A.
    fixed : (graph.n_theta,) array, optional
        b, 0 by default; -inf marks the impossible.

    Raises
    ------
    InvalidInputError
        If shapes disagree, or a number is NaN.

    Examples
    --------
    One weight that makes two neighbours agree, next to a fixed preference of the first:

    >>> from intarsia.graph import chain_graph
    >>> scores = MatrixScores(chain_graph(2, 2), [[0]] * 4 + [[1], [0], [0], [1]], fixed=[0, 0.5] + [0] * 6)
    >>> scores.theta(np.array([3.0])).tolist()
    [0.0, 0.5, 0.0, 0.0, 3.0, 0.0, 0.0, 3.0]
    >>> scores.pull_back(np.ones(8)).tolist()
    [2.0]
    """

    def __init__(self, graph: FactorGraph, matrix: Any, fixed: ArrayLike | None = None) -> None:
        self.graph = graph
        n, reason = graph.n_theta, f"theta of the graph has {graph.n_theta} entries"
        self.matrix = sparse.csr_array(check_features(matrix, "MatrixScores: matrix", n, reason))
        self.fixed = graph.zeros() if fixed is None else graph.check_theta(fixed).copy()

    @property
    def n_weights(self) -> int:
        """Length of the weights."""
        return int(self.matrix.shape[1])

    def theta(self, weights: FloatArray) -> FloatArray:
        """Scores of the graph for these weights."""
        flat = as_float_array(weights, "MatrixScores: weights")
        if flat.shape != (self.n_weights,):
            raise InvalidInputError(
                f"MatrixScores: weights have shape {flat.shape}, but the matrix has {self.n_weights} columns."
            )
        return np.asarray(self.matrix @ flat + self.fixed)

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the weights from one in theta: the adjoint of the linear part."""
        return np.asarray(self.matrix.T @ gradient)
