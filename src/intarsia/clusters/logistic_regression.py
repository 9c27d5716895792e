"""Logistic regression by Newton's method, for the few features of a pair of records."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray

_MAX_ITER = 100
# Stop when a Newton step can lower the loss by less than this fraction of the number of rows.
_TOLERANCE = 1e-12


def fit_logistic_regression(X: FloatArray, y: FloatArray, l2: float) -> tuple[FloatArray, float]:
    """Return the coefficients and the intercept that minimize the regularized log loss.

    The objective is ``sum(log(1 + exp(-s (X w + b)))) + l2 / 2 |w|^2`` with s = 1 where y is 1 and s = -1 where it is
    0; the intercept b is not regularized. It equals scikit-learn's `LogisticRegression` with ``C = 1 / l2``, whose
    import would take longer than this fit.

    Parameters
    ----------
    X : (n_rows, n_features) array
        Features.
    y : (n_rows,) array
        True or 1 for the positive class; both classes must occur.
    l2 : float
        Precision of the Gaussian prior on the coefficients, above 0.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> coefficients, intercept = fit_logistic_regression(X, np.array([0, 1, 0, 1]), l2=1.0)
    >>> bool(coefficients[0] > 0)
    True
    """
    design = np.column_stack([X, np.ones(len(X))])
    labels = np.asarray(y, dtype=np.float64)
    penalty = np.append(np.full(X.shape[1], l2), 0.0)
    weights = np.zeros(design.shape[1])
    scores = design @ weights
    loss = _loss(scores, labels, weights, penalty)
    for _ in range(_MAX_ITER):
        probabilities = 0.5 * (1.0 + np.tanh(0.5 * scores))
        gradient = design.T @ (probabilities - labels) + penalty * weights
        curvature = probabilities * (1.0 - probabilities)
        hessian = (design.T * curvature) @ design + np.diag(penalty)
        hessian[-1, -1] += np.finfo(np.float64).tiny + 1e-12 * len(X)
        step = np.linalg.solve(hessian, -gradient)
        decrease = -gradient @ step
        if decrease <= _TOLERANCE * len(X):
            weights = weights + step
            break
        length = 1.0
        while length > 1e-10:
            candidate = weights + length * step
            candidate_scores = design @ candidate
            candidate_loss = _loss(candidate_scores, labels, candidate, penalty)
            if candidate_loss <= loss - 1e-4 * length * decrease:
                break
            length /= 2.0
        else:
            break
        weights, scores, loss = candidate, candidate_scores, candidate_loss
    return weights[:-1], float(weights[-1])


def _loss(scores: FloatArray, labels: FloatArray, weights: FloatArray, penalty: FloatArray) -> float:
    """Return the regularized log loss."""
    return float(np.sum(np.logaddexp(0.0, scores) - labels * scores) + 0.5 * penalty @ weights**2)
