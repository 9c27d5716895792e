"""Possible moves between cells with their features, and the probabilities of moves estimated from expected flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from intarsia._core.validation import FloatArray, IntArray, as_float_array, check_choice, check_number, frozen
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Moves:
    """Possible moves as a CSR pattern, with a row of features for each.

    Attributes
    ----------
    ptr, idx : int arrays (n_cells + 1,) and (n_moves,)
        Moves ptr[i]..ptr[i + 1] leave cell i and lead to the cells idx.
    features : float array (n_moves, n_features)
        What the score of a move depends on.
    names : tuple of str
        Names of the features.

    Examples
    --------
    >>> line = moves_within([[0.0], [1.0], [2.0]], radius=1.0)
    >>> line.n_cells, line.idx.tolist(), line.names
    (3, [0, 1, 0, 1, 2, 1, 2], ('stay', 'distance'))
    """

    ptr: IntArray
    idx: IntArray
    features: FloatArray
    names: tuple[str, ...] = ()

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.ptr.size - 1

    @property
    def rows(self) -> IntArray:
        """Cell that each move leaves."""
        return np.repeat(np.arange(self.n_cells), np.diff(self.ptr))

    def matrix(self, values: FloatArray) -> Any:
        """One number per move as a CSR array (s, s)."""
        return sparse.csr_array((values, self.idx, self.ptr), shape=(self.n_cells, self.n_cells))

    def log_softmax(self, scores: FloatArray) -> FloatArray:
        """Log-probabilities of moves from their scores, over the moves that leave the same cell.

        Examples
        --------
        >>> np.exp(all_moves(2).log_softmax(np.log([1.0, 3.0, 1.0, 1.0])))
        array([0.25, 0.75, 0.5 , 0.5 ])
        """
        rows = self.rows
        top = np.maximum.reduceat(scores, self.ptr[:-1])
        shifted = scores - top[rows]
        return shifted - np.log(np.add.reduceat(np.exp(shifted), self.ptr[:-1]))[rows]


def make_moves(possible: Any, features: Mapping[str, Any] | None = None) -> Moves:
    """Moves from a matrix of what is possible, and matrices of features.

    Parameters
    ----------
    possible : array or sparse matrix (s, s)
        Nonzero where a move can be. Every cell needs one; staying is a move.
    features : dict of str to array or sparse matrix (s, s), optional
        Their values at the possible moves are taken.

    Examples
    --------
    >>> make_moves([[1, 1], [0, 1]], {"leave": [[0, 1], [1, 0]]}).features.tolist()
    [[0.0], [1.0], [0.0]]
    """
    pattern: Any = sparse.csr_array(possible if sparse.issparse(possible) else np.asarray(possible))  # type: ignore[arg-type]
    pattern.eliminate_zeros()
    pattern.sort_indices()
    if pattern.ndim != 2 or pattern.shape[0] != pattern.shape[1] or not pattern.shape[0]:
        raise InvalidInputError(f"make_moves: possible has shape {pattern.shape}; give a square matrix.")
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    columns = []
    for name, values in (features or {}).items():
        if np.shape(values) != pattern.shape:
            raise InvalidInputError(f"make_moves: feature {name!r} has shape {np.shape(values)}, not {pattern.shape}.")
        taken: Any = sparse.csr_array(values) if sparse.issparse(values) else np.asarray(values)  # type: ignore[call-overload]
        columns.append(np.asarray(taken[rows, pattern.indices], dtype=float).reshape(-1))
    return _checked(pattern.indptr, pattern.indices, columns, tuple(features or {}))


def all_moves(n_cells: int) -> Moves:
    """Every cell can be reached from every cell; no features.

    Examples
    --------
    >>> all_moves(3).ptr.tolist()
    [0, 3, 6, 9]
    """
    check_number(n_cells, "all_moves: n_cells", low=1, integer=True)
    return make_moves(np.ones((int(n_cells), int(n_cells)), dtype=np.int8))


def moves_within(positions: ArrayLike, radius: float, features: Sequence[str] = ("stay", "distance")) -> Moves:
    """Moves between cells at most `radius` apart, with features of their geometry.

    Parameters
    ----------
    positions : array (s, n_axes)
        Where the cells are.
    radius : float
        Longest move, in units of the positions.
    features : sequence of str
        Of "stay" (1 for no move), "distance", "squared_distance" (both over the radius), and "axis_0", "axis_1", ...
        (displacement over the radius).

    Examples
    --------
    >>> moves_within([[0, 0], [0, 1], [5, 5]], 2.0, ["axis_1"]).features.ravel().tolist()
    [0.0, 0.5, -0.5, 0.0, 0.0]
    """
    at = as_float_array(positions, "moves_within: positions")
    if at.ndim != 2 or not at.size or not np.isfinite(at).all():
        raise InvalidInputError(f"moves_within: positions must be finite and have shape (cells, axes), got {at.shape}.")
    check_number(radius, "moves_within: radius", low=0.0, open_low=True)
    known = ("stay", "distance", "squared_distance", *(f"axis_{k}" for k in range(at.shape[1])))
    for name in features:
        check_choice(name, known, "moves_within: feature")
    # A little more than the radius, so that rounding does not cut off moves of exactly that length.
    near: Any = cKDTree(at).query_ball_point(at, radius * (1.0 + 1e-9), return_sorted=True)
    ptr = np.concatenate([[0], np.cumsum([len(one) for one in near])])
    idx = np.concatenate([np.asarray(one, dtype=np.int64) for one in near])
    rows = np.repeat(np.arange(len(at)), np.diff(ptr))
    shift = (at[idx] - at[rows]) / radius
    distance = np.sqrt((shift * shift).sum(axis=1))
    values = {"stay": (rows == idx).astype(float), "distance": distance, "squared_distance": distance**2}
    values |= {f"axis_{k}": shift[:, k] for k in range(at.shape[1])}
    return _checked(ptr, idx, [values[name] for name in features], tuple(features))


def _checked(ptr: Any, idx: Any, columns: list[FloatArray], names: tuple[str, ...]) -> Moves:
    ptr, idx = np.asarray(ptr, dtype=np.int64), np.asarray(idx, dtype=np.int64)
    empty = np.diff(ptr) == 0
    if empty.any():
        raise InvalidInputError(
            f"moves: no move leaves cell {int(np.argmax(empty))}. Let walkers stay, or leave the cell out."
        )
    features = np.stack(columns, axis=1) if columns else np.empty((idx.size, 0))
    bad = ~np.isfinite(features)
    if bad.any():
        move, column = np.argwhere(bad)[0]
        raise InvalidInputError(f"moves: feature {names[column]!r} of move {move} is {features[move, column]}.")
    return Moves(frozen(ptr.copy()), frozen(idx.copy()), frozen(np.ascontiguousarray(features)), names)


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
        Precision of the Gaussian prior: `l2 / 2 |w|^2` beside the summed loss.

    Examples
    --------
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
    >>> np.exp(fit_table(all_moves(2), np.array([3.0, 1.0, 0.0, 0.0]), 1.0)).round(4)
    array([0.6667, 0.3333, 0.5   , 0.5   ])
    """
    with np.errstate(divide="ignore"):
        return moves.log_softmax(np.log(flows + smoothing))
