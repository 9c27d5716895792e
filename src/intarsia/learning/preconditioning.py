"""Curvature of a risk as far as the features tell it, so that a search takes steps of the right length everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse

from intarsia._validation import FloatArray
from intarsia.learning.example import Example
from intarsia.models.block_scores import Block, BlockScores

# Blocks with more features than this have only their diagonal taken: a full matrix would be slow to invert.
WIDEST = 1000
# Curvature that is assumed at least, relative to the largest: directions in which the features never vary.
LEAST = 1e-8


class FeatureCurvature:
    r"""Inverse of a rough Hessian of the risk: second moments of the features, and the ridge.

    For scores :math:`\theta_c = G v_c` with uniform marginals over m entries the curvature of a logistic loss in each
    row of G is at most

    .. math:: \tfrac1m (1 - \tfrac1m) \tfrac1N \sum_c v_c v_c^\top + \lambda I.

    Features that go together, such as rising thresholds of one quantity, have a badly conditioned matrix of moments;
    this takes it out of the search, at the price of one product with a (q, q) matrix for each row and iteration.

    Parameters
    ----------
    examples : list of Example
        Those of the risk, all with a `BlockScores`.
    mass : float
        N.
    ridge : float
        :math:`\lambda`.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> one = example(LinearScores(chain_graph(2, 2), [[10.0], [10.0]]), [0, 1])
    >>> curvature = FeatureCurvature([one], mass=2.0, ridge=0.0)
    >>> curvature.solve(np.array([25.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(6).tolist()     # 1/2 * 1/2 * 100 = 25
    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, examples: Sequence[Example], mass: float, ridge: float) -> None:
        self._blocks: list[tuple[tuple[int, int], FloatArray]] = []
        models = [one.scores for one in examples]
        weights = [one.weight for one in examples]
        blocks = [model.blocks for model in models if isinstance(model, BlockScores)]
        for kind in zip(*blocks, strict=True):
            moments = sum(weight * _moments(block) for weight, block in zip(weights, kind, strict=True)) / mass
            share = 1.0 / max(kind[0].n_entries, 2)
            self._blocks.append((kind[0].shape, _inverse(share * (1.0 - share) * np.asarray(moments), ridge)))

    def solve(self, gradient: FloatArray) -> FloatArray:
        """The gradient times the inverse."""
        found, at = np.empty_like(gradient), 0
        for shape, inverse in self._blocks:
            part = slice(at, at + shape[0] * shape[1])
            rows = gradient[part].reshape(shape)
            found[part] = (rows @ inverse if inverse.ndim == 2 else rows * inverse).reshape(-1)
            at = part.stop
        return found


def has_features(examples: Sequence[Example]) -> bool:
    """Whether the scores are products of features and weights, so that the features tell of the curvature."""
    return all(isinstance(one.scores, BlockScores) for one in examples)


def _moments(block: Block) -> FloatArray:
    """Sum of the outer products of a block's features; of their squares where there are too many."""
    features: Any = block.features
    width = block.shape[1]
    is_sparse = bool(sparse.issparse(block.features))
    if width > WIDEST:
        squares = features.multiply(features) if is_sparse else np.square(features, dtype=np.float64)
        return np.asarray(squares.sum(axis=0), dtype=np.float64).reshape(-1)
    if is_sparse:
        return np.asarray((features.T @ features).todense(), dtype=np.float64)
    found = np.zeros((width, width))
    for at in range(0, features.shape[0], 1024):  # features in single precision are not copied whole
        part = features[at : at + 1024].astype(np.float64, copy=False)
        found += part.T @ part
    return found


def _inverse(curvature: FloatArray, ridge: float) -> FloatArray:
    largest = float(np.abs(curvature).max(initial=0.0))
    least = max(ridge, LEAST * largest) or 1.0
    if curvature.ndim == 1:
        return 1.0 / (curvature + least)
    factor = linalg.cho_factor(curvature + least * np.eye(len(curvature)), lower=True)
    return np.asarray(linalg.cho_solve(factor, np.eye(len(curvature))))
