"""Marginals of one walker: forward-backward along a chain or tree, in the linear domain while that is safe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._kernels.collective import (
    NEGLIGIBLE,
    multiply_flows,
    pass_banded,
    pass_dense,
    pass_logarithms,
    pass_sparse,
    pass_tree,
    subtract_tilt,
    sum_sparse_flows,
)
from intarsia.collective.tables import MoveTables

# Messages that share less than this are passed again in logarithms. What was set to 0 is then below 1e-100 in all.
SAFE = 1e-75


@dataclass(frozen=True, eq=False)
class Messages:
    """What one pass leaves: marginals (T, s), log Z, and the messages from which flows follow.

    `leaving[t]` (T - 1, s) is what a walker brings to the move that ends in step t + 1, `backward[t]` what awaits it
    after step t; both are logarithms if `logarithmic`. `scores` are those of the cells.
    """

    marginals: FloatArray
    log_partition: float
    leaving: FloatArray
    backward: FloatArray
    scores: FloatArray
    logarithmic: bool


class WalkOracle:
    """Marginals of one walker for changing scores of the cells.

    Parameters
    ----------
    tables : MoveTables
        Scores of moves; their exponentials are taken once.
    """

    def __init__(self, tables: MoveTables) -> None:
        self.tables = tables
        self.logarithmic = False
        self._maxima = tables.maxima
        self._offset = float(self._maxima[tables.table_of_step].sum())
        self._exponentials = tables.exponentials()
        if tables.parents is not None:
            self._exponentials = self._exponentials.reshape(len(tables.theta), -1)

    def __call__(self, scores: FloatArray) -> Messages | None:
        """Marginals at these scores of cells (T, s); None when no path is possible."""
        if not self.logarithmic:
            found = self._linear(scores)
            if found is not None:
                return found
        found = self._logarithms(scores)
        # Once needed, logarithms stay: later calls of a search are near this one.
        self.logarithmic = found is not None
        return found

    def _linear(self, scores: FloatArray) -> Messages | None:
        tables = self.tables
        top = scores.max(axis=1, keepdims=True)
        if not (top > -np.inf).all():
            return None
        weights = np.exp(scores - top)
        weights[weights < NEGLIGIBLE] = 0.0
        forward, backward = np.empty_like(weights), np.empty_like(weights)
        leaving = forward[:-1]
        if tables.parents is not None:
            ptr, idx, _ = tables.pattern()
            leaving = np.empty_like(weights[1:])
            log_z, least = pass_tree(
                ptr, idx, self._exponentials, tables.table_of_step, tables.parents, weights, forward, backward, leaving
            )
        elif tables.dense:
            log_z, least = pass_dense(self._exponentials, tables.table_of_step, weights, forward, backward)
        elif tables.reach is not None:
            log_z, least = pass_banded(self._exponentials, tables.table_of_step, weights, forward, backward)
        else:
            log_z, least = pass_sparse(
                tables.ptr, tables.idx, self._exponentials, tables.table_of_step, weights, forward, backward
            )
        if not least > SAFE:
            return None
        marginals = forward * backward
        marginals /= marginals.sum(axis=1, keepdims=True)
        return Messages(marginals, log_z + float(top.sum()) + self._offset, leaving, backward, scores, False)

    def _logarithms(self, scores: FloatArray) -> Messages | None:
        tables = self.tables
        forward, backward, leaving = np.empty_like(scores), np.empty_like(scores), np.empty_like(scores[1:])
        log_z = pass_logarithms(
            *tables.pattern(), tables.table_of_step, tables.parent_of_step, scores, forward, backward, leaving
        )
        if log_z == -np.inf:
            return None
        marginals = np.exp(forward + backward - log_z)
        marginals /= marginals.sum(axis=1, keepdims=True)
        return Messages(marginals, float(log_z), leaving, backward, scores, True)

    # ---------------------------------------------------------------- flows, on request

    def flow(self, found: Messages, t: int) -> FloatArray:
        """Probability of each stored move into step t + 1."""
        with np.errstate(divide="ignore"):
            leaving = found.leaving[t] if found.logarithmic else np.log(found.leaving[t])
            entering = found.backward[t + 1] if found.logarithmic else np.log(found.backward[t + 1])
        theta = self.tables.theta[self.tables.table_of_step[t]]
        entering = entering + found.scores[t + 1]
        if self.tables.dense:
            logs = leaving[:, None] + theta + entering
        else:
            logs = leaving[self.tables.rows()] + theta + entering[self.tables.idx]
        flow: FloatArray = np.exp(logs - logs.max())
        return flow / flow.sum()

    def all_flows(self, found: Messages) -> FloatArray:
        """Probabilities of all moves at every step, (T - 1, n_moves) or (T - 1, s, s)."""
        n = self.tables.table_of_step.size
        return np.array([self.flow(found, t) for t in range(n)]).reshape(n, *self.tables.theta.shape[1:])

    def sum_of_flows(self, found: Messages, table: int) -> FloatArray:
        """Expected number of uses of each move over the steps of one table; no flow of a single step is kept."""
        tables = self.tables
        steps = np.flatnonzero(tables.table_of_step == table)
        if found.logarithmic:
            total = np.zeros_like(tables.theta[table])
            for t in steps:
                total += self.flow(found, int(t))
            return total
        top = found.scores.max(axis=1, keepdims=True)
        entering = np.exp(found.scores - top)[steps + 1] * found.backward[steps + 1]
        leaving = found.leaving[steps]
        values = np.exp(tables.theta[table] - self._maxima[table])
        # Each step's flow sums to 1: the passed message, weighed by what leaves, is its total.
        if tables.dense:
            leaving = leaving / ((leaving @ values) * entering).sum(axis=1, keepdims=True)
            return values * (leaving.T @ entering)
        matrix: Any = tables.matrix(values)
        leaving = leaving / ((leaving @ matrix) * entering).sum(axis=1, keepdims=True)
        total = np.empty(values.size)
        sum_sparse_flows(
            tables.ptr, tables.idx, values, np.ascontiguousarray(leaving.T), np.ascontiguousarray(entering.T), total
        )
        return total


class FlowPass:
    """Walkers in cells and on moves where counts of moves change every table.

    Nothing is kept of the exponentials of the tables but room, and all numbers of walkers lie in one vector.

    Parameters
    ----------
    tables : MoveTables
        Dense, one for each step.
    n_walkers : float
        To which marginals and flows are scaled.
    """

    def __init__(self, tables: MoveTables, n_walkers: float) -> None:
        self.tables, self.n_walkers = tables, n_walkers
        self._theta = np.ascontiguousarray(tables.theta.reshape(len(tables.theta), -1))
        self._room = np.empty_like(self._theta)

    def __call__(self, scores: FloatArray, tilt: FloatArray) -> tuple[Messages, FloatArray] | None:
        """Messages, and walkers in cells, then on moves; None when no path is possible."""
        found = self._linear(scores, tilt) if self.tables.parents is None else None
        if found is not None:
            return found
        oracle = self.oracle_at(tilt)
        messages = oracle(scores)
        if messages is None:
            return None
        shares = np.concatenate([messages.marginals.reshape(-1), oracle.all_flows(messages).reshape(-1)])
        return messages, self.n_walkers * shares

    def oracle_at(self, tilt: FloatArray) -> WalkOracle:
        """The oracle of the tables less a tilt."""
        return WalkOracle(replace(self.tables, theta=self.tables.theta - tilt.reshape(self.tables.theta.shape)))

    def _linear(self, scores: FloatArray, tilt: FloatArray) -> tuple[Messages, FloatArray] | None:
        top = scores.max(axis=1, keepdims=True)
        if not (top > -np.inf).all():
            return None
        offset = subtract_tilt(self._theta, tilt.reshape(self._theta.shape), self._room) + float(top.sum())
        tables = np.exp(self._room, out=self._room).reshape(self.tables.theta.shape)
        weights = np.exp(scores - top)
        weights[weights < NEGLIGIBLE] = 0.0
        forward, backward = np.empty_like(weights), np.empty_like(weights)
        log_z, least = pass_dense(tables, self.tables.table_of_step, weights, forward, backward)
        if not least > SAFE:
            return None
        marginals = forward * backward
        marginals /= marginals.sum(axis=1, keepdims=True)
        walkers = np.empty(scores.size + tilt.size)
        np.multiply(marginals.reshape(-1), self.n_walkers, out=walkers[: scores.size])
        flows = walkers[scores.size :].reshape(tables.shape)
        multiply_flows(tables, forward[:-1], weights[1:] * backward[1:], self.n_walkers, flows)
        return Messages(marginals, log_z + offset, forward[:-1], backward, scores, False), walkers
