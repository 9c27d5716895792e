"""Log-linear choice among described options, and its fit to elite choices (Eq. 2 and 11 of Rohanimanesh2009)."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray

_INNER_ITER = 20  # iterations of L-BFGS: it starts near the optimum, and the result is smoothed anyway


def fit_choice(weights: FloatArray, features: FloatArray, counts: FloatArray, l2: float) -> FloatArray:
    """Return the weights that minimise `cross_entropy`, by L-BFGS from the current weights.

    Examples
    --------
    >>> fit_choice(np.zeros(1), np.array([[1.0], [0.0]]), np.array([0.75, 0.25]), 1e-6).round(3).tolist()  # log 3
    [1.099]
    """
    from scipy.optimize import minimize

    result = minimize(
        cross_entropy, weights, (features, counts, l2), jac=True, method="L-BFGS-B", options={"maxiter": _INNER_ITER}
    )
    return np.asarray(result.x, dtype=np.float64)


def cross_entropy(weights: FloatArray, features: FloatArray, counts: FloatArray, l2: float) -> tuple[float, FloatArray]:
    r"""Return the negative penalised log-likelihood of the elite choices, and its gradient (Rohanimanesh2009, Eq. 2).

    :math:`-\sum_k c_k \log Q_k + \frac r2 |\lambda|^2` with :math:`Q \propto \exp(\psi \lambda)`.

    Examples
    --------
    >>> value, gradient = cross_entropy(np.zeros(1), np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), 0.1)
    >>> round(value, 4), gradient.tolist()
    (0.6931, [-0.5])
    """
    log_q = log_softmax(features @ weights)
    total = counts.sum()
    value = -counts @ log_q + 0.5 * l2 * weights @ weights
    return float(value), np.asarray(features.T @ (total * np.exp(log_q) - counts) + l2 * weights)


def log_softmax(scores: FloatArray) -> FloatArray:
    """Return the logarithm of the softmax; an empty array stays empty.

    Examples
    --------
    >>> log_softmax(np.log(np.array([1.0, 3.0]))).round(6).tolist() == np.log([0.25, 0.75]).round(6).tolist()
    True
    """
    if scores.size == 0:
        return scores
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
