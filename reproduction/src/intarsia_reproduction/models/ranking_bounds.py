"""Bounds on the errors of SampleRank on the pairs of states that it compared (Rohanimanesh2009, Theorems 1 and 2)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, nnls

from intarsia._core.validation import FloatArray


def separable_bound(differences: FloatArray) -> float | None:
    r"""Compute the bound :math:`R^2 / \delta^2` of Theorem 1; None if no weights rank all pairs correctly.

    Parameters
    ----------
    differences : float array (n_pairs, n_features)
        Features of the better state minus those of the worse state.

    Notes
    -----
    The shortest weights with :math:`d \cdot w \ge 1` for all d have the norm :math:`1 / \delta`. The dual is a
    non-negative least squares problem, whose residual is zero if no such weights exist.

    Examples
    --------
    >>> round(separable_bound(np.array([[2.0, 0.0], [0.0, 1.0]])), 6)    # margin 2 / sqrt(5)
    5.0
    >>> separable_bound(np.array([[1.0], [-1.0]])) is None
    True
    """
    unique = np.unique(differences, axis=0)
    longest = float(np.linalg.norm(unique, axis=1).max())
    equations = np.vstack([unique.T / longest, np.ones(len(unique))])
    target = np.zeros(len(equations))
    target[-1] = 1.0
    residual = equations @ nnls(equations, target, maxiter=100 * len(unique))[0] - target
    if -residual[-1] < 1e-10:
        return None
    margins = unique @ (residual[:-1] / residual[-1] * -1.0) / longest
    if margins.min() <= 0.0:
        return None
    length = float(np.linalg.norm(residual[:-1] / residual[-1]))
    return float((length / margins.min()) ** 2)  # the differences were divided by R


def ranking_bound(differences: FloatArray) -> float:
    r"""Compute the bound of Theorem 2 for one pass over any pairs: the least :math:`(R + D_{U, \delta})^2 / \delta^2`.

    With :math:`w = U / \delta` its square root is :math:`R |w| + |(1 - \langle d, w \rangle)_+|`, which is convex.
    Weights that are not optimal give a larger bound, which is valid as well. It is at most the number of pairs (w = 0).

    Examples
    --------
    >>> ranking_bound(np.array([[1.0], [-1.0]]))                     # no weights rank both: two errors
    2.0
    >>> round(ranking_bound(np.array([[2.0, 0.0]] * 9)), 3)          # one update suffices
    1.0
    """
    longest = float(np.linalg.norm(differences, axis=1).max())
    scaled = differences / longest

    def root(w: FloatArray) -> tuple[float, FloatArray]:
        hinges = np.maximum(1.0 - scaled @ w, 0.0)
        hinge_norm, weight_norm = float(np.linalg.norm(hinges)), float(np.linalg.norm(w))
        gradient = w / weight_norm if weight_norm > 0.0 else np.zeros_like(w)
        if hinge_norm > 0.0:
            gradient = gradient - scaled.T @ hinges / hinge_norm
        return weight_norm + hinge_norm, gradient

    n = len(differences)
    # The function has a kink at 0, so the search starts on the line along the mean of the differences.
    starts = [scale * scaled.mean(axis=0) for scale in (1.0, 10.0)]
    minima = [minimize(root, w, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun for w in starts]
    return float(min(n, min(minima) ** 2))
