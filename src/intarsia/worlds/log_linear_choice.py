"""Log-linear choice among described options, and its fit to elite choices (Eq. 2 and 11 of Rohanimanesh2009)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from intarsia._core.validation import FloatArray

_INNER_ITER = 20  # iterations of L-BFGS: it starts near the optimum, and the result is smoothed anyway
_LOCK = RLock()


def fit_choice(weights: FloatArray, features: FloatArray, counts: FloatArray, l2: float) -> FloatArray:
    """Return the weights that minimise `cross_entropy`, by L-BFGS from the current weights.

    Examples
    --------
    >>> fit_choice(np.zeros(1), np.array([[1.0], [0.0]]), np.array([0.75, 0.25]), 1e-6).round(3).tolist()  # log 3
    [1.099]
    """
    return minimize_small(cross_entropy, weights, _INNER_ITER, args=(features, counts, l2), jac=True)


def minimize_small(function: Callable[..., Any], start: FloatArray, max_iter: int, **settings: Any) -> FloatArray:
    """Minimize by L-BFGS of SciPy without threads of BLAS: for few parameters they only wait for each other.

    Examples
    --------
    >>> minimize_small(lambda x: float((x - 2.0) @ (x - 2.0)), np.zeros(1), 10).round(3)
    array([2.])
    """
    from scipy.optimize import minimize

    with _LOCK, _blas().limit(limits=1, user_api="blas"):  # the limit is one of the process
        result = minimize(function, start, method="L-BFGS-B", options={"maxiter": max_iter}, **settings)
    return np.asarray(result.x, dtype=np.float64)


@cache
def _blas() -> ThreadpoolController:
    """Return the loaded libraries with threads; called after SciPy's have been loaded."""
    return ThreadpoolController()


def cross_entropy(weights: FloatArray, features: FloatArray, counts: FloatArray, l2: float) -> tuple[float, FloatArray]:
    r"""Return the negative penalised log-likelihood of the elite choices, and its gradient (Rohanimanesh2009, Eq. 2).

    :math:`-\sum_k c_k \log Q_k + \frac r2 |\lambda|^2` with :math:`Q \propto \exp(\psi \lambda)`.

    Examples
    --------
    >>> value, gradient = cross_entropy(np.zeros(1), np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), 0.1)
    >>> round(value, 4), gradient.tolist()
    (0.6931, [-0.5])
    """
    log_q = log_probabilities(features, weights)
    total = counts.sum()
    value = -counts @ log_q + 0.5 * l2 * weights @ weights
    return float(value), np.asarray(features.T @ (total * np.exp(log_q) - counts) + l2 * weights)


def log_probabilities(features: FloatArray, weights: FloatArray) -> FloatArray:
    r"""Return the log-probability of each option, :math:`\log Q` with :math:`Q \propto \exp(\psi \lambda)`.

    Examples
    --------
    >>> np.exp(log_probabilities(np.log([[1.0], [3.0]]), np.ones(1))).round(6)
    array([0.25, 0.75])
    """
    # BLAS would start threads for such small products, which wait for each other where other programs run.
    scores = np.einsum("ki,i->k", features, weights)
    if scores.size == 0:
        return scores
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
