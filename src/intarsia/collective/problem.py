"""The objective of a collective model, its dual, and what one call of the oracle says of both."""

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
    """The model whose scores are theta less a tilt at what was observed, and the walkers it expects there.

    Messages may be missing while a search is under way; `CollectiveProblem.messages_at` makes them again.
    """

    tilt: FloatArray
    walkers: FloatArray
    log_partition: float
    messages: Messages | None = None


class CollectiveProblem:
    r"""Counts of N walkers, and what is to be minimised over the numbers n of walkers in cells and on moves.

    .. math:: w \big(-\langle\theta, n\rangle - H(n)\big) + \sum_k f(n_k; y_k)

    where H(n) is N times the entropy of one walker's path. Flat vectors run over what was observed: cells first, then
    moves.

    Parameters
    ----------
    tables : MoveTables
        Scores of moves.
    scores : float array (T, s)
        Scores of cells.
    counts : float array (T, s)
        NaN where nothing was looked for.
    flow_counts : float array (T - 1, s, s) or None
        Counts of moves, likewise; for dense tables.
    n_walkers : float
        N.
    noise : Noise
        f.
    model_weight : float
        w; 0 leaves the noise alone.
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
            self.scores = np.where(counts == 0, -np.inf, scores)  # nobody passes where nobody was
            counts = np.where(counts == 0, np.nan, counts)
        seen = np.flatnonzero(~np.isnan(counts))
        y = counts.reshape(-1)[seen]
        _check_reach(tables, self.scores, counts, noise)
        self._flow_pass: FlowPass | None = None
        self._size = counts.size
        if flow_counts is not None:
            # Every step has a table of its own, for each is tilted in its own way.
            tables = replace(
                tables, theta=tables.theta[tables.table_of_step], table_of_step=np.arange(len(tables.table_of_step))
            )
            moves, y_moves = self._observe_moves(tables, flow_counts)
            seen, y = np.concatenate([seen, counts.size + moves]), np.concatenate([y, y_moves])
            self._size += tables.theta.size
            self._flow_pass = FlowPass(tables, n_walkers)
        self.y, self.tables = y, tables
        # Places of what was observed in the vector of all cells, then all moves; None for everything.
        self._seen: IntArray | None = None if seen.size == self._size else seen
        self._oracle = WalkOracle(tables)

    def evaluate(self, tilt: FloatArray) -> Point | None:
        """Call the oracle at theta less a tilt; None when no path is possible."""
        self.n_calls += 1
        at_cells, at_moves = self._spread(tilt)
        scores = self.scores - at_cells
        if self._flow_pass is not None:
            both = self._flow_pass(scores, at_moves)
            if both is None:
                return None
            found, walkers = both
        else:
            alone = self._oracle(scores)
            if alone is None:
                return None
            found, walkers = alone, self.n_walkers * alone.marginals.reshape(-1)
        return Point(tilt, walkers if self._seen is None else walkers[self._seen], found.log_partition, found)

    @property
    def is_least_squares_of_flows(self) -> bool:
        """Whether all cells and moves of a chain were counted with Gaussian noise, and the model does not count."""
        complete = self._flow_pass is not None and self._seen is None and self.tables.parents is None
        return complete and self.noise.linear_gaussian is not None and self.model_weight == 0

    def messages_at(self, point: Point) -> Messages:
        """Messages of a point that was found possible before."""
        found = point if point.messages is not None else self.evaluate(point.tilt)
        if found is None or found.messages is None:
            raise IntarsiaError("CollectiveProblem: a point that was possible is not any more.")
        return found.messages

    def oracle_at(self, point: Point) -> WalkOracle:
        """The oracle that made a point, for its flows."""
        return self._oracle if self._flow_pass is None else self._flow_pass.oracle_at(self._spread(point.tilt)[1])

    def _spread(self, tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The tilt of all cells (T, s) and of all moves: 0 where nothing was observed."""
        full = tilt
        if self._seen is not None:
            full = np.zeros(self._size)
            full[self._seen] = tilt
        n = self.scores.size
        return full[:n].reshape(self.scores.shape), full[n:]

    def noise_value(self, point: Point) -> float:
        """Sum of f; 0 for exact counts, whose errors are told apart."""
        return 0.0 if self.noise.exact else float(self.noise.negative_log_likelihood(point.walkers, self.y).sum())

    def objective(self, point: Point, noise_value: float) -> float:
        """Since n is that of a tree, `-<theta, n> - H(n) = -N log Z - <tilt, n>`."""
        if self.model_weight == 0:
            return noise_value
        model = -self.n_walkers * point.log_partition - float(point.tilt @ point.walkers)
        return self.model_weight * model + noise_value

    def lower_bound(self, point: Point) -> float:
        """Value of the dual at the multipliers w x tilt: no numbers of walkers have a smaller objective."""
        conjugates = float(self.noise.conjugate(self.model_weight * point.tilt, self.y).sum())
        return -self.model_weight * self.n_walkers * point.log_partition - conjugates

    def count_error(self, point: Point) -> float:
        """Largest share of walkers by which an exact count is missed."""
        return float(np.abs(point.walkers - self.y).max(initial=0.0)) / self.n_walkers

    def cannot_exceed(self) -> float:
        """Bound on the objective of every feasible n, noise left out: no path has less than the least score."""
        least = np.where(self.scores > -np.inf, self.scores, np.inf).min(axis=1).sum()
        theta = np.where(self.tables.theta > -np.inf, self.tables.theta, np.inf)
        least += theta.reshape(len(theta), -1).min(axis=1)[self.tables.table_of_step].sum()
        return self.model_weight * self.n_walkers * -float(least)

    def _check(self, tables: MoveTables, scores: FloatArray, counts: FloatArray) -> None:
        if counts.shape[1] != tables.n_cells:
            raise InvalidInputError(
                f"counts have {counts.shape[1]} cells, but theta has {tables.n_cells}. Give a column per cell."
            )
        if scores.shape != counts.shape:
            raise InvalidInputError(
                f"scores of cells have shape {scores.shape}, but counts {counts.shape}. Give one for each."
            )

    def _observe_moves(self, tables: MoveTables, flow_counts: ArrayLike) -> tuple[IntArray, FloatArray]:
        flows = as_float_array(flow_counts, "flow_counts")
        s, n = tables.n_cells, len(tables.table_of_step)
        if flows.shape != (n, s, s):
            raise InvalidInputError(
                f"flow_counts has shape {flows.shape}, expected ({n}, {s}, {s}): a table per pair of steps."
            )
        if not tables.dense or self.noise.exact:
            raise NotSupportedError(
                "counts of moves need a dense table and noise that is not exact. Give theta as an array."
            )
        self.noise.check(flows[~np.isnan(flows)], "flow_counts")
        seen = np.flatnonzero(~np.isnan(flows))
        y: FloatArray = flows.reshape(-1)[seen]
        blocked = self.noise.needs_someone(y) & (tables.theta.reshape(-1)[seen] == -np.inf)
        if blocked.any():
            t, i, j = np.unravel_index(seen[int(np.argmax(blocked))], flows.shape)
            raise InvalidInputError(f"flow_counts[{t}, {i}, {j}] is {flows[t, i, j]:g}, but theta forbids this move.")
        return seen, y


def _check_totals(counts: FloatArray, n_walkers: float) -> None:
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
    """Refuse counts that no path can explain; the search would run to infinity."""
    if tables.dense and np.isfinite(tables.theta).all() and np.isfinite(scores).all():
        return
    reach = reachable(tables, scores)
    seen = ~np.isnan(counts)
    needed = np.zeros(counts.shape, dtype=bool)
    needed[seen] = noise.needs_someone(counts[seen])
    bad = needed & ~reach
    if reach.any(axis=1).all() and bad.any():
        t, i = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise InvalidInputError(
            f"counts[{t}, {i}] is {counts[t, i]:g}, but no possible path passes there at that step. Allow "
            f"longer moves, make the count NaN, or use noise='gaussian'."
        )


def reachable(tables: MoveTables, scores: FloatArray) -> NDArray[np.bool_]:
    """Which cells lie on a path without impossible moves, by step.

    Examples
    --------
    >>> from intarsia.collective.tables import move_tables
    >>> one_way = move_tables([[0.0, 0.0], [-np.inf, 0.0]], n_steps=2)
    >>> reachable(one_way, np.array([[-np.inf, 0.0], [0.0, 0.0]]))
    array([[False,  True],
           [False,  True]])
    """
    open_moves = [tables.matrix((one > -np.inf).astype(float)) for one in tables.theta]
    reach = scores > -np.inf
    parents = tables.parent_of_step
    for t in range(len(scores) - 1, 0, -1):
        reach[parents[t]] &= (open_moves[tables.table_of_step[t - 1]] @ reach[t].astype(float)) > 0
    for t in range(1, len(scores)):
        reach[t] &= (reach[parents[t]].astype(float) @ open_moves[tables.table_of_step[t - 1]]) > 0
    return reach
