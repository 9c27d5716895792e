"""Possible moves between cells with their features, and estimates of their probabilities from flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial import cKDTree

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray, as_float_array, check_choice, check_number, frozen
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Moves:
    """Possible moves between cells as a CSR pattern, with features of each move.

    Attributes
    ----------
    ptr, idx : int arrays (n_cells + 1,) and (n_moves,)
        Moves ptr[i]..ptr[i + 1] - 1 start in cell i and end in the cells idx of these positions.
    features : float array (n_moves, n_features)
        Features from which the score of a move is computed.
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
        """Cell from which each move starts."""
        return np.repeat(np.arange(self.n_cells), np.diff(self.ptr))

    def matrix(self, values: FloatArray) -> Any:
        """Return one number per move as a CSR array (s, s)."""
        return sparse.csr_array((values, self.idx, self.ptr), shape=(self.n_cells, self.n_cells))

    def log_softmax(self, scores: FloatArray) -> FloatArray:
        """Compute log-probabilities of moves from scores, normalised over the moves that start in the same cell.

        Examples
        --------
        >>> np.exp(all_moves(2).log_softmax(np.log([1.0, 3.0, 1.0, 1.0])))
        array([0.25, 0.75, 0.5 , 0.5 ])
        """
        rows = self.rows
        maxima = np.maximum.reduceat(scores, self.ptr[:-1])
        shifted = scores - maxima[rows]
        return shifted - np.log(np.add.reduceat(np.exp(shifted), self.ptr[:-1]))[rows]


@errors_from("make_moves")
def make_moves(possible: Any, features: Mapping[str, Any] | None = None) -> Moves:
    """Build moves from a matrix of possible moves and matrices of features.

    Parameters
    ----------
    possible : array or sparse matrix (s, s)
        Nonzero where a move is possible. Every cell needs at least one move; staying is a move.
    features : dict of str to array or sparse matrix (s, s), optional
        Features; their values at the possible moves are used.

    Examples
    --------
    >>> make_moves([[1, 1], [0, 1]], {"leave": [[0, 1], [1, 0]]}).features.tolist()
    [[0.0], [1.0], [0.0]]
    """
    pattern: Any = sparse.csr_array(possible if sparse.issparse(possible) else np.asarray(possible))  # type: ignore[arg-type]
    pattern.eliminate_zeros()
    pattern.sort_indices()
    if pattern.ndim != 2 or pattern.shape[0] != pattern.shape[1] or not pattern.shape[0]:
        raise InvalidInputError(f"possible has shape {pattern.shape}. Pass a square matrix.")
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    columns = []
    for name, values in (features or {}).items():
        if np.shape(values) != pattern.shape:
            raise InvalidInputError(
                f"feature {name!r} must have shape {pattern.shape}, got {np.shape(values)}. Pass one value "
                f"per pair of cells."
            )
        matrix: Any = sparse.csr_array(values) if sparse.issparse(values) else np.asarray(values)  # type: ignore[call-overload]
        columns.append(np.asarray(matrix[rows, pattern.indices], dtype=float).reshape(-1))
    return _checked_moves(pattern.indptr, pattern.indices, columns, tuple(features or {}))


@errors_from("all_moves")
def all_moves(n_cells: int) -> Moves:
    """Return all moves between any two cells, without features.

    Examples
    --------
    >>> all_moves(3).ptr.tolist()
    [0, 3, 6, 9]
    """
    check_number(n_cells, "n_cells", low=1, integer=True)
    return make_moves(np.ones((int(n_cells), int(n_cells)), dtype=np.int8))


@errors_from("moves_within")
def moves_within(positions: ArrayLike, radius: float, features: Sequence[str] = ("stay", "distance")) -> Moves:
    """Return the moves between cells at most `radius` apart, with geometric features.

    Parameters
    ----------
    positions : array (s, n_axes)
        Coordinates of the cells.
    radius : float
        Longest move, in units of the positions.
    features : sequence of str
        Any of "stay" (1 if the move ends where it starts), "distance" (divided by the radius), "squared_distance" (the
        square of it), and "axis_0", "axis_1", ... (displacement divided by the radius).

    Examples
    --------
    >>> moves_within([[0, 0], [0, 1], [5, 5]], 2.0, ["axis_1"]).features.ravel().tolist()
    [0.0, 0.5, -0.5, 0.0, 0.0]
    """
    points = as_float_array(positions, "positions")
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise InvalidInputError(f"positions must be finite with shape (n_cells, n_axes), got {points.shape}.")
    check_number(radius, "radius", low=0.0, open_low=True)
    feature_names = ("stay", "distance", "squared_distance", *(f"axis_{k}" for k in range(points.shape[1])))
    for name in features:
        check_choice(name, feature_names, "feature")
    # The radius is enlarged slightly, so that rounding does not drop moves of exactly this length.
    neighbours_of_cell: Any = cKDTree(points).query_ball_point(points, radius * (1.0 + 1e-9), return_sorted=True)
    ptr = np.concatenate([[0], np.cumsum([len(neighbours) for neighbours in neighbours_of_cell])])
    idx = np.concatenate([np.asarray(neighbours, dtype=np.int64) for neighbours in neighbours_of_cell])
    rows = np.repeat(np.arange(len(points)), np.diff(ptr))
    shift = (points[idx] - points[rows]) / radius
    distance = np.sqrt((shift * shift).sum(axis=1))
    values = {"stay": (rows == idx).astype(float), "distance": distance, "squared_distance": distance**2}
    values |= {f"axis_{k}": shift[:, k] for k in range(points.shape[1])}
    return _checked_moves(ptr, idx, [values[name] for name in features], tuple(features))


def _checked_moves(ptr: Any, idx: Any, columns: list[FloatArray], names: tuple[str, ...]) -> Moves:
    """Return the moves; raise if a cell has no move or a feature is not finite."""
    ptr, idx = np.asarray(ptr, dtype=np.int64), np.asarray(idx, dtype=np.int64)
    empty = np.diff(ptr) == 0
    if empty.any():
        raise InvalidInputError(
            f"no move starts in cell {int(np.argmax(empty))}. Allow staying there, or remove the cell."
        )
    features = np.stack(columns, axis=1) if columns else np.empty((idx.size, 0))
    bad = ~np.isfinite(features)
    if bad.any():
        move, column = np.argwhere(bad)[0]
        raise InvalidInputError(
            f"feature {names[column]!r} of move {move} is {features[move, column]}. Pass finite numbers."
        )
    return Moves(frozen(ptr.copy()), frozen(idx.copy()), frozen(np.ascontiguousarray(features)), names)


def fit_weights(moves: Moves, flows: FloatArray, first: FloatArray, l2: float) -> FloatArray:
    r"""Fit the weights of a log-linear model of moves to flows by L-BFGS.

    Minimises :math:`-\sum_{ij} n_{ij} \log p_w(j | i) + \lambda |w|^2 / 2` with
    :math:`p_w(j|i) \propto \exp(w \cdot \phi_{ij})`.

    Parameters
    ----------
    moves : Moves
        Moves with features.
    flows : float array (n_moves,)
        Expected number of uses of each move.
    first : float array (n_features,)
        Initial weights.
    l2 : float
        L2 regularization: `l2 / 2 |w|^2` is added to the summed loss.

    Examples
    --------
    >>> line = moves_within([[0.0], [1.0]], 1.0, ["stay"])
    >>> fit_weights(line, np.array([3.0, 1.0, 1.0, 3.0]), np.zeros(1), 0.0).round(4)      # log(3 / 1)
    array([1.0986])
    """
    from scipy.optimize import minimize

    scale = max(float(flows.sum()), 1e-300)  # so that the tolerance does not depend on the number of walkers
    outflow = np.add.reduceat(flows, moves.ptr[:-1])[moves.rows]

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        logs = moves.log_softmax(moves.features @ w)
        slope = moves.features.T @ (outflow * np.exp(logs) - flows)
        return (-float(flows @ logs) + 0.5 * l2 * float(w @ w)) / scale, (slope + l2 * w) / scale

    solution = minimize(
        objective,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "gtol": 1e-9, "ftol": 1e-14},
    )
    # A line search can fail at the last digits; then the initial weights are better.
    return solution.x if solution.fun <= objective(first)[0] else first


def fit_table(moves: Moves, flows: FloatArray, smoothing: float) -> FloatArray:
    """Return the log-probabilities of moves that make flows most probable, with `smoothing` added to each flow.

    Examples
    --------
    >>> np.exp(fit_table(all_moves(2), np.array([3.0, 1.0, 0.0, 0.0]), 1.0)).round(4)
    array([0.6667, 0.3333, 0.5   , 0.5   ])
    """
    with np.errstate(divide="ignore"):
        return moves.log_softmax(np.log(flows + smoothing))
