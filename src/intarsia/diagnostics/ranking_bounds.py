"""Bounds on the errors of SampleRank on the pairs of states that it compared (Rohanimanesh2009, Theorems 1 and 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize, nnls

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError


@errors_from("separable_ranking_bound")
def separable_ranking_bound(differences: ArrayLike) -> float | None:
    r"""Compute the bound :math:`R^2 / \delta^2` of Theorem 1; None if no weights rank all pairs correctly.

    SampleRank with the update `"perceptron"` and any proposer makes at most that many errors, in any number of passes.

    Parameters
    ----------
    differences : float array (n_pairs, n_features)
        Features of the better state minus those of the worse state, for each compared pair.

    Returns
    -------
    float or None
        The bound: the squared length R of the longest difference over the squared margin :math:`\delta`.

    Raises
    ------
    InvalidInputError
        If the differences are not a finite matrix with an entry other than 0.

    Notes
    -----
    The shortest weights with :math:`d \cdot w \ge 1` for all d have the norm :math:`1 / \delta`. The dual is a
    non-negative least squares problem, whose residual is zero if no such weights exist.

    Examples
    --------
    >>> round(separable_ranking_bound([[2.0, 0.0], [0.0, 1.0]]), 6)    # margin 2 / sqrt(5)
    5.0
    >>> separable_ranking_bound([[1.0], [-1.0]]) is None
    True
    """
    unique = np.unique(_read_differences(differences), axis=0)
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


@errors_from("ranking_bound")
def ranking_bound(differences: ArrayLike) -> float:
    r"""Compute the bound of Theorem 2 for one pass over any pairs: the least :math:`(R + D_{U, \delta})^2 / \delta^2`.

    SampleRank with the update `"perceptron"` makes at most that many errors on pairs that no weights may rank.

    Parameters
    ----------
    differences : float array (n_pairs, n_features)
        Features of the better state minus those of the worse state, for each comparison in order.

    Raises
    ------
    InvalidInputError
        If the differences are not a finite matrix with an entry other than 0.

    Notes
    -----
    With :math:`w = U / \delta` its square root is :math:`R |w| + |(1 - \langle d, w \rangle)_+|`, which is convex.
    Weights that are not optimal give a larger bound, which is valid as well. It is at most the number of pairs (w = 0).

    Examples
    --------
    >>> ranking_bound([[1.0], [-1.0]])                   # no weights rank both: two errors
    2.0
    >>> round(ranking_bound([[2.0, 0.0]] * 9), 3)          # one update suffices
    1.0
    """
    rows = _read_differences(differences)
    longest = float(np.linalg.norm(rows, axis=1).max())
    scaled = rows / longest

    def root(w: FloatArray) -> tuple[float, FloatArray]:
        hinges = np.maximum(1.0 - scaled @ w, 0.0)
        hinge_norm, weight_norm = float(np.linalg.norm(hinges)), float(np.linalg.norm(w))
        gradient = w / weight_norm if weight_norm > 0.0 else np.zeros_like(w)
        if hinge_norm > 0.0:
            gradient = gradient - scaled.T @ hinges / hinge_norm
        return weight_norm + hinge_norm, gradient

    n = len(rows)
    # The function has a kink at 0, so the search starts on the line along the mean of the differences.
    starts = [scale * scaled.mean(axis=0) for scale in (1.0, 10.0)]
    minima = [minimize(root, w, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun for w in starts]
    return float(min(n, min(minima) ** 2))


def _read_differences(differences: ArrayLike) -> FloatArray:
    rows = as_float_array(differences, "differences")
    if rows.ndim != 2 or not np.isfinite(rows).all() or not rows.any():
        raise InvalidInputError(
            f"differences must be a finite matrix (n_pairs, n_features) with an entry other than 0, got shape "
            f"{rows.shape}. Pass a row for each pair: the features of the better state minus those of the worse state."
        )
    return rows
