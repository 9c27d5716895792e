"""How many errors SampleRank can make on the pairs of states it met (Rohanimanesh2009, Theorems 1 and 2)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, nnls

from intarsia._core.validation import FloatArray


def separable_bound(differences: FloatArray) -> float | None:
    r"""Bound :math:`R^2 / \delta^2` of Theorem 1 at the largest margin; None where no weights rank all pairs.

    Parameters
    ----------
    differences : float array (n_pairs, n_features)
        Features of the better state less those of the worse one.

    Notes
    -----
    The least weights with :math:`d \cdot w \ge 1` for all d have the length :math:`1 / \delta`; their dual is a
    problem of non-negative least squares, whose residual vanishes where there are none.

    Examples
    --------
    >>> round(separable_bound(np.array([[2.0, 0.0], [0.0, 1.0]])), 6)    # margin 2 / sqrt(5)
    5.0
    >>> separable_bound(np.array([[1.0], [-1.0]])) is None
    True
    """
    given = np.unique(differences, axis=0)
    longest = float(np.linalg.norm(given, axis=1).max())
    equations = np.vstack([given.T / longest, np.ones(len(given))])
    wanted = np.zeros(len(equations))
    wanted[-1] = 1.0
    residual = equations @ nnls(equations, wanted, maxiter=100 * len(given))[0] - wanted
    if -residual[-1] < 1e-10:
        return None
    margins = given @ (residual[:-1] / residual[-1] * -1.0) / longest
    if margins.min() <= 0.0:
        return None
    length = float(np.linalg.norm(residual[:-1] / residual[-1]))
    return float((length / margins.min()) ** 2)  # differences were divided by R


def ranking_bound(differences: FloatArray) -> float:
    r"""Bound of Theorem 2, for one pass over any pairs: the least :math:`(R + D_{U, \delta})^2 / \delta^2`.

    With :math:`w = U / \delta` its root is :math:`R |w| + |(1 - \langle d, w \rangle)_+|`, which is convex; weights
    short of the best ones give a larger bound, which holds as well. At most it is the number of pairs (w = 0).

    Examples
    --------
    >>> ranking_bound(np.array([[1.0], [-1.0]]))                     # nothing can be learned: both may be errors
    2.0
    >>> round(ranking_bound(np.array([[2.0, 0.0]] * 9)), 3)          # one error teaches all
    1.0
    """
    longest = float(np.linalg.norm(differences, axis=1).max())
    scaled = differences / longest

    def root(w: FloatArray) -> tuple[float, FloatArray]:
        short = np.maximum(1.0 - scaled @ w, 0.0)
        missed, length = float(np.linalg.norm(short)), float(np.linalg.norm(w))
        slope = w / length if length > 0.0 else np.zeros_like(w)
        if missed > 0.0:
            slope = slope - scaled.T @ short / missed
        return length + missed, slope

    n = len(differences)
    # The kink at 0 is a bad place to begin; a step along the sum of the differences is none.
    starts = [scale * scaled.mean(axis=0) for scale in (1.0, 10.0)]
    found = [minimize(root, w, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun for w in starts]
    return float(min(n, min(found) ** 2))
