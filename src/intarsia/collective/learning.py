"""From expected flows to probabilities of moves: the maximisation step of hard EM."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from intarsia._validation import FloatArray
from intarsia.collective.moves import Moves


def fit_weights(moves: Moves, flows: FloatArray, first: FloatArray, l2: float) -> FloatArray:
    r"""Weights whose log-linear choice of moves makes given flows most probable, by L-BFGS.

    Minimises :math:`-\sum_{ij} n_{ij} \log p_w(j | i) + \lambda |w|^2 / 2` with
    :math:`p_w(j|i) \propto \exp(w \cdot \phi_{ij})`.

    Parameters
    ----------
    moves : Moves
        With features.
    flows : float array (n_moves,)
        Expected number of uses of each move.
    first : float array (n_features,)
        Where the search begins.
    l2 : float
        Strength of the ridge.

    Examples
    --------
    >>> from intarsia.collective.moves import moves_within
    >>> line = moves_within([[0.0], [1.0]], 1.0, ["stay"])
    >>> fit_weights(line, np.array([3.0, 1.0, 1.0, 3.0]), np.zeros(1), 0.0).round(4)      # log(3 / 1)
    array([1.0986])
    """
    scale = max(float(flows.sum()), 1e-300)  # so that the tolerance does not depend on the number of walkers
    leaving = np.add.reduceat(flows, moves.ptr[:-1])[moves.rows]

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        logs = moves.log_softmax(moves.features @ w)
        slope = moves.features.T @ (leaving * np.exp(logs) - flows)
        return (-float(flows @ logs) + 0.5 * l2 * float(w @ w)) / scale, (slope + l2 * w) / scale

    found = minimize(
        objective,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "gtol": 1e-9, "ftol": 1e-14},
    )
    # A line search that fails at the last digits must not lose what was there before.
    return found.x if found.fun <= objective(first)[0] else first


def fit_table(moves: Moves, flows: FloatArray, smoothing: float) -> FloatArray:
    """Log-probabilities of moves that make given flows most probable, with `smoothing` added to each flow.

    Examples
    --------
    >>> from intarsia.collective.moves import all_moves
    >>> np.exp(fit_table(all_moves(2), np.array([3.0, 1.0, 0.0, 0.0]), 1.0)).round(4)
    array([0.6667, 0.3333, 0.5   , 0.5   ])
    """
    with np.errstate(divide="ignore"):
        return moves.log_softmax(np.log(flows + smoothing))
