"""The shortest weights that satisfy linear inequalities, or a proof that there are none."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from intarsia._validation import FloatArray

# With rows of length 1, weights longer than the inverse are taken for none; a proof is told with its residual.
SMALLEST = 1e-7


def shortest_weights(rows: FloatArray, sides: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
    r"""Weights of least norm with `rows @ w >= sides`, or multipliers which prove that there are none.

    Least-distance programming by non-negative least squares (Lawson1974, Chapter 23): u >= 0 minimises
    :math:`\lVert (A^T u,\; b \cdot u - 1) \rVert`, with A the rows and b the sides. If the residual r is not 0, the
    weights are :math:`-r_{1..d} / r_{d+1}`; if it is 0, :math:`A^T u = 0` and :math:`b \cdot u = 1`, so that
    :math:`A w \ge b` would give :math:`0 \ge 1`.

    Parameters
    ----------
    rows : (m, d) array
        Coefficients.
    sides : (m,) array
        Right-hand sides.

    Returns
    -------
    weights : (d,) array or None
    multipliers : (m,) array or None
        Exactly one of the two is given.

    Examples
    --------
    >>> shortest_weights(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, 4.0]))[0].round(9).tolist()
    [3.0, 2.0]
    >>> shortest_weights(np.array([[1.0], [-2.0]]), np.array([1.0, 0.0]))[1].round(9).tolist()   # w >= 1 and w <= 0
    [1.0, 0.5]
    """
    lengths = np.linalg.norm(rows, axis=1)
    lengths[lengths == 0.0] = 1.0
    unit, bounds = rows / lengths[:, None], sides / lengths
    scale = float(np.abs(bounds).max(initial=0.0))
    if scale == 0.0:
        return np.zeros(rows.shape[1]), None
    bounds = bounds / scale
    system = np.vstack([unit.T, bounds])
    goal = np.zeros(system.shape[0])
    goal[-1] = 1.0
    found, _ = nnls(system, goal, maxiter=100 * max(system.shape))
    residual = system @ found - goal
    if np.linalg.norm(residual) > SMALLEST and residual[-1] < 0.0:
        return -scale * residual[:-1] / residual[-1], None
    multipliers = found / lengths
    return None, multipliers / float(multipliers @ sides)
