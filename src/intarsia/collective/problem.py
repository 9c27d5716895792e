"""The convex problem of a collective model: objective, dual, and their values at a point of the search."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array
from intarsia.collective.noise import Noise
from intarsia.collective.oracle import FlowPass, Messages, WalkOracle
from intarsia.collective.tables import MoveTables
from intarsia.exceptions import IntarsiaError, InvalidInputError, NotSupportedError


@dataclass(frozen=True, eq=False)
class Point:
    """Model with tilted scores, and its expected numbers of walkers at the observed cells and moves.

    The tilt is a vector over the observed counts that is subtracted from the scores theta (exponential tilting); times
    the model weight it is the dual multiplier of the counts. Messages can be None during a search;
    `CollectiveProblem.messages_at` recomputes them.
    """

    tilt: FloatArray
    walkers: FloatArray
    log_partition: float
    messages: Messages | None = None


class CollectiveProblem:
    r"""Convex problem over the numbers n of walkers in cells and on moves, given counts of N walkers.

    .. math:: w \big(-\langle\theta, n\rangle - H(n)\big) + \sum_k f(n_k; y_k)

    is minimised, where H(n) is N times the entropy of the path of one walker. Flat vectors hold one entry per observed
    count: cells first, then moves.

    Parameters
    ----------
    tables : MoveTables
        Scores of moves.
    scores : float array (T, s)
        Scores of cells.
    counts : float array (T, s)
        Counts of cells, NaN where nothing was observed.
    flow_counts : float array (T - 1, s, s) or None
        Counts of moves, NaN where nothing was observed; for dense tables only.
    n_walkers : float
        Number N of walkers.
    noise : Noise
        Noise model with negative log-likelihood f.
    model_weight : float
        Weight w of the model; with 0 only the noise term is minimised.
    """

    def __init__(
        self,
        tables: MoveTables,
        scores: FloatArray,
        counts: FloatArray,
        flow_counts: FloatArray | None,
        n_walkers: float,
        noise: Noise,
        model_weight: float,
    ) -> None:
        self.noise, self.n_walkers, self.model_weight = noise, n_walkers, model_weight
        self.n_calls = 0
        self._check(tables, scores, counts)
        self.scores = scores
        if noise.exact:
            _check_totals(counts, n_walkers)
            self.scores = np.where(counts == 0, -np.inf, scores)  # no path passes through a cell with count 0
            counts = np.where(counts == 0, np.nan, counts)
        observed = np.flatnonzero(~np.isnan(counts))
        y = counts.reshape(-1)[observed]
        _check_reach(tables, self.scores, counts, noise)
        self._flow_pass: FlowPass | None = None
        self._size = counts.size
        if flow_counts is not None:
            # Every step gets its own table, because every table is tilted differently.
            tables = replace(
                tables, theta=tables.theta[tables.table_of_step], table_of_step=np.arange(len(tables.table_of_step))
            )
            moves, y_moves = self._check_flow_counts(tables, flow_counts)
            observed, y = np.concatenate([observed, counts.size + moves]), np.concatenate([y, y_moves])
            self._size += tables.theta.size
            self._flow_pass = FlowPass(tables, n_walkers)
        self.y, self.tables = y, tables
        # Indices of the observed counts in the vector of all cells, then all moves; None if all are observed.
        self._observed: IntArray | None = None if observed.size == self._size else observed
        self._oracle = WalkOracle(tables)

    def evaluate(self, tilt: FloatArray) -> Point | None:
        """Call the oracle at theta minus a tilt; None if no path is possible."""
        self.n_calls += 1
        cell_tilt, move_tilt = self._full_tilt(tilt)
        scores = self.scores - cell_tilt
        if self._flow_pass is not None:
            messages_and_walkers = self._flow_pass(scores, move_tilt)
            if messages_and_walkers is None:
                return None
            messages, walkers = messages_and_walkers
        else:
            cell_messages = self._oracle(scores)
            if cell_messages is None:
                return None
            messages, walkers = cell_messages, self.n_walkers * cell_messages.marginals.reshape(-1)
        return Point(
            tilt, walkers if self._observed is None else walkers[self._observed], messages.log_partition, messages
        )

    @property
    def is_least_squares_of_flows(self) -> bool:
        """Whether all cells and moves of a chain were counted with Gaussian noise, and the model weight is 0."""
        complete = self._flow_pass is not None and self._observed is None and self.tables.parents is None
        return complete and self.noise.linear_gaussian is not None and self.model_weight == 0

    def messages_at(self, point: Point) -> Messages:
        """Return the messages of a point that is known to be feasible."""
        evaluated = point if point.messages is not None else self.evaluate(point.tilt)
        if evaluated is None or evaluated.messages is None:
            raise IntarsiaError("CollectiveProblem: a feasible point became infeasible, which is a bug. Report it.")
        return evaluated.messages

    def oracle_at(self, point: Point) -> WalkOracle:
        """Return the oracle of a point, for its flows."""
        return self._oracle if self._flow_pass is None else self._flow_pass.oracle_at(self._full_tilt(point.tilt)[1])

    def _full_tilt(self, tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the tilt of all cells (T, s) and of all moves, 0 where nothing was observed."""
        full = tilt
        if self._observed is not None:
            full = np.zeros(self._size)
            full[self._observed] = tilt
        n = self.scores.size
        return full[:n].reshape(self.scores.shape), full[n:]

    def noise_value(self, point: Point) -> float:
        """Return the sum of f; 0 for exact counts, whose errors are measured by `count_error`."""
        return 0.0 if self.noise.exact else float(self.noise.negative_log_likelihood(point.walkers, self.y).sum())

    def objective(self, point: Point, noise_value: float) -> float:
        """Return the objective, using `-<theta, n> - H(n) = -N log Z - <tilt, n>`, since n are marginals of a tree."""
        if self.model_weight == 0:
            return noise_value
        model = -self.n_walkers * point.log_partition - float(point.tilt @ point.walkers)
        return self.model_weight * model + noise_value

    def lower_bound(self, point: Point) -> float:
        """Return the dual at the multipliers w x tilt, a lower bound on the objective of any numbers of walkers."""
        conjugates = float(self.noise.conjugate(self.model_weight * point.tilt, self.y).sum())
        return -self.model_weight * self.n_walkers * point.log_partition - conjugates

    def rounding_error(self, point: Point) -> float:
        """Return a bound on the rounding error of objective and dual: their terms cancel if the tilt is huge."""
        if self.model_weight == 0:
            return 0.0
        terms = self.n_walkers * abs(point.log_partition) + float(np.abs(point.tilt) @ point.walkers)
        return 16.0 * np.finfo(np.float64).eps * self.model_weight * terms

    def count_error(self, point: Point) -> float:
        """Return the largest error of an exact count as a fraction of the walkers."""
        return float(np.abs(point.walkers - self.y).max(initial=0.0)) / self.n_walkers

    def objective_upper_bound(self) -> float:
        """Return an upper bound on the objective of every feasible n without noise, by the smallest score of a path."""
        smallest_score = np.where(self.scores > -np.inf, self.scores, np.inf).min(axis=1).sum()
        theta = np.where(self.tables.theta > -np.inf, self.tables.theta, np.inf)
        smallest_score += theta.reshape(len(theta), -1).min(axis=1)[self.tables.table_of_step].sum()
        return self.model_weight * self.n_walkers * -float(smallest_score)

    def _check(self, tables: MoveTables, scores: FloatArray, counts: FloatArray) -> None:
        """Raise if the shapes of tables, scores and counts do not match."""
        if counts.shape[1] != tables.n_cells:
            raise InvalidInputError(
                f"counts have {counts.shape[1]} cells, but theta has {tables.n_cells}. Pass one column per cell."
            )
        if scores.shape != counts.shape:
            raise InvalidInputError(
                f"scores of cells have shape {scores.shape}, but counts have {counts.shape}. Pass equal shapes."
            )

    def _check_flow_counts(self, tables: MoveTables, flow_counts: ArrayLike) -> tuple[IntArray, FloatArray]:
        """Return the indices and values of the observed moves; raise if a count is invalid."""
        flows = as_float_array(flow_counts, "flow_counts")
        s, n = tables.n_cells, len(tables.table_of_step)
        if flows.shape != (n, s, s):
            raise InvalidInputError(
                f"flow_counts has shape {flows.shape}, expected ({n}, {s}, {s}). Pass one table per pair of steps."
            )
        if not tables.dense or self.noise.exact:
            raise NotSupportedError(
                "flow_counts need dense tables and noise other than 'exact'. Pass theta as an array, or other noise."
            )
        self.noise.check(flows[~np.isnan(flows)], "flow_counts")
        observed = np.flatnonzero(~np.isnan(flows))
        y: FloatArray = flows.reshape(-1)[observed]
        blocked = self.noise.needs_walkers(y) & (tables.theta.reshape(-1)[observed] == -np.inf)
        if blocked.any():
            t, i, j = np.unravel_index(observed[int(np.argmax(blocked))], flows.shape)
            raise InvalidInputError(
                f"flow_counts[{t}, {i}, {j}] is {flows[t, i, j]:g}, but theta is -inf for this move. Set the count "
                f"to 0 or NaN, or allow the move."
            )
        return observed, y


def _check_totals(counts: FloatArray, n_walkers: float) -> None:
    """Raise if exact counts of a step do not sum to the number of walkers."""
    total, complete = np.nansum(counts, axis=1), ~np.isnan(counts).any(axis=1)
    slack = 1e-9 * n_walkers
    bad = (total > n_walkers + slack) | (complete & (total < n_walkers - slack))
    if bad.any():
        t = int(np.argmax(bad))
        raise InvalidInputError(
            f"exact counts of step {t} sum to {total[t]:g}, but there are {n_walkers:g} walkers. Make the "
            f"counts consistent, or use noise='poisson' or 'gaussian'."
        )


def _check_reach(tables: MoveTables, scores: FloatArray, counts: FloatArray, noise: Noise) -> None:
    """Raise for a positive count that no path can reach, with which the search would diverge."""
    if tables.dense and np.isfinite(tables.theta).all() and np.isfinite(scores).all():
        return
    reach = reachable(tables, scores)
    observed = ~np.isnan(counts)
    positive = np.zeros(counts.shape, dtype=bool)
    positive[observed] = noise.needs_walkers(counts[observed])
    bad = positive & ~reach
    if reach.any(axis=1).all() and bad.any():
        t, i = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise InvalidInputError(
            f"counts[{t}, {i}] is {counts[t, i]:g}, but no possible path passes through this cell at this step. Allow "
            f"longer moves, set the count to NaN, or use noise='gaussian'."
        )


def reachable(tables: MoveTables, scores: FloatArray) -> NDArray[np.bool_]:
    """Return for each step which cells lie on a possible path.

    Examples
    --------
    >>> from intarsia.collective.tables import move_tables
    >>> one_way = move_tables([[0.0, 0.0], [-np.inf, 0.0]], n_steps=2)
    >>> reachable(one_way, np.array([[-np.inf, 0.0], [0.0, 0.0]]))
    array([[False,  True],
           [False,  True]])
    """
    open_moves = [tables.matrix((table_scores > -np.inf).astype(float)) for table_scores in tables.theta]
    reach = scores > -np.inf
    parents = tables.parent_of_step
    for t in range(len(scores) - 1, 0, -1):
        reach[parents[t]] &= (open_moves[tables.table_of_step[t - 1]] @ reach[t].astype(float)) > 0
    for t in range(1, len(scores)):
        reach[t] &= (reach[parents[t]].astype(float) @ open_moves[tables.table_of_step[t - 1]]) > 0
    return reach
