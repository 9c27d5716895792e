"""Feature maps that are linear in the weights: features of nodes and edges, or any matrix and a fixed offset."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.models.block_scores import Block, BlockScores
from intarsia.models.feature_matrix import check_features


class LinearScores(BlockScores):
    r"""Linear feature map from weights to the log-potentials theta of a pairwise graph.

    With features :math:`u_i` of node i and :math:`v_{ij}` of edge (i, j),

    .. math:: \theta_i = F u_i, \qquad \theta_{ij} = G v_{ij},

    where F has a row for each state and G has a row for each pair of states, in C order. The weights are one flat
    vector: F in C order, then G. `theta` is the forward pass and `pull_back` the backward pass of a gradient; each
    costs one product of features and weights. Sparse features remain sparse, and features in single precision remain
    so.

    Parameters
    ----------
    graph : FactorGraph
        Pairwise graph in which all variables have the same number of states and every factor has a separate table.
    node_features : (n_variables, p) array or sparse matrix
        Features u, one row per variable.
    edge_features : (n_factors, q) array or sparse matrix, optional
        Features v, one row per factor. Default: one constant feature.

    Raises
    ------
    InvalidInputError
        If the graph does not have this form, shapes are mismatched, or a feature is NaN or infinite.

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
    >>> dF.tolist()                              # the sum of the features of both nodes
    [[4.0], [4.0]]
    """

    def __init__(self, graph: FactorGraph, node_features: Any, edge_features: Any = None) -> None:
        self.n_states = _common_states(graph)
        if edge_features is None:
            edge_features = np.ones((graph.n_factors, 1))
        n, m, class_name = graph.n_variables, graph.n_factors, "LinearScores"
        self.node_features = check_features(
            node_features, f"{class_name}: node_features", n, f"the graph has {n} variables"
        )
        self.edge_features = check_features(
            edge_features, f"{class_name}: edge_features", m, f"the graph has {m} factors"
        )
        # With equal numbers of states, theta consists of two matrices with one row per variable and per factor.
        blocks = [Block("F", self.node_features, self.n_states), Block("G", self.edge_features, self.n_states**2)]
        super().__init__(graph, blocks)


def _common_states(graph: FactorGraph) -> int:
    counts = np.unique(graph.n_states)
    if counts.size != 1:
        raise InvalidInputError(
            f"LinearScores: the variables have {counts.tolist()} states, but they share the weights F. "
            f"Pass a graph in which all variables have equally many states."
        )
    pairwise = bool((np.diff(graph.scope_ptr) == 2).all())
    has_separate_tables = (
        np.array_equal(graph.table_of_factor, np.arange(graph.n_tables)) and not graph.table_kind.any()
    )
    if not pairwise or not has_separate_tables:
        raise InvalidInputError(
            "LinearScores: some factor does not join two variables, shares its table or has a parametric table. Pass a "
            "pairwise graph with one table per edge, such as grid_graph(height, width, n_states)."
        )
    return int(counts[0])


class MatrixScores:
    r"""Linear feature map from weights to the log-potentials of a graph by any matrix, :math:`\theta = A w + b`.

    Use it for models that no other feature map covers: weights that are tied in unusual ways, scores that are fixed
    instead of learned, or impossible labels (-inf in the offset b). Each direction costs one sparse product.

    Parameters
    ----------
    graph : FactorGraph
        Structure of the model.
    matrix : (graph.n_theta, n_weights) array or sparse matrix
        Matrix A.
    fixed : (graph.n_theta,) array, optional
        Offset b, -inf for impossible states. Default: zero.

    Raises
    ------
    InvalidInputError
        If shapes are mismatched, or a number is NaN.

    Examples
    --------
    One weight for the agreement of two neighbours, and a fixed score for state 1 of the first:

    >>> from intarsia.graph import chain_graph
    >>> scores = MatrixScores(chain_graph(2, 2), [[0]] * 4 + [[1], [0], [0], [1]], fixed=[0, 0.5] + [0] * 6)
    >>> scores.theta(np.array([3.0])).tolist()
    [0.0, 0.5, 0.0, 0.0, 3.0, 0.0, 0.0, 3.0]
    >>> scores.pull_back(np.ones(8)).tolist()
    [2.0]
    """

    def __init__(self, graph: FactorGraph, matrix: Any, fixed: ArrayLike | None = None) -> None:
        from scipy import sparse  # takes long to import

        self.graph = graph
        n, reason = graph.n_theta, f"theta of the graph has {graph.n_theta} entries"
        self.matrix = sparse.csr_array(check_features(matrix, "MatrixScores: matrix", n, reason))
        self.fixed = graph.zeros() if fixed is None else graph.check_theta(fixed).copy()

    @property
    def n_weights(self) -> int:
        """Length of the vector of weights."""
        return int(self.matrix.shape[1])

    def theta(self, weights: FloatArray) -> FloatArray:
        """Return the scores theta of the graph for these weights."""
        flat = as_float_array(weights, "MatrixScores: weights")
        if flat.shape != (self.n_weights,):
            raise InvalidInputError(
                f"MatrixScores: weights have shape {flat.shape}, but the matrix has {self.n_weights} columns. "
                f"Pass one weight per column."
            )
        return np.asarray(self.matrix @ flat + self.fixed)

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient with respect to the weights from that with respect to theta."""
        return np.asarray(self.matrix.T @ gradient)
