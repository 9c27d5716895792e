"""Scores that are any linear function of the weights, given as a matrix, with a fixed part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.models.feature_matrix import check_features


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
