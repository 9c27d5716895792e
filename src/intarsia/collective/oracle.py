"""Marginals of a single walker by forward-backward passes along a chain or tree, in linear or log domain."""

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

# If two messages overlap by less than this, the pass is repeated in the log domain. Entries set to 0 then sum to
# less than 1e-100.
SAFE_OVERLAP = 1e-75


@dataclass(frozen=True, eq=False)
class Messages:
    """Result of a forward-backward pass: marginals (T, s), log Z, and the messages from which flows are computed.

    `leaving[t]` (T - 1, s) is the forward message into the move that ends in step t + 1, and `backward[t]` the backward
    message at step t; both are logarithms if `logarithmic`. `scores` are the scores of the cells.
    """

    marginals: FloatArray
    log_partition: float
    leaving: FloatArray
    backward: FloatArray
    scores: FloatArray
    logarithmic: bool


class WalkOracle:
    """Marginal oracle of a single walker, for changing scores of the cells.

    Parameters
    ----------
    tables : MoveTables
        Scores of moves; their exponentials are computed once.
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
        """Compute the marginals at these scores of cells (T, s); None if no path is possible."""
        if not self.logarithmic:
            messages = self._pass_linear(scores)
            if messages is not None:
                return messages
        messages = self._pass_log_domain(scores)
        # Once the log domain was needed, later calls of a search use it too, because their scores are similar.
        self.logarithmic = messages is not None
        return messages

    def _pass_linear(self, scores: FloatArray) -> Messages | None:
        """Run the pass in the linear domain; None if it would underflow or no path is possible."""
        tables = self.tables
        maxima = scores.max(axis=1, keepdims=True)
        if not (maxima > -np.inf).all():
            return None
        weights = np.exp(scores - maxima)
        weights[weights < NEGLIGIBLE] = 0.0
        forward, backward = np.empty_like(weights), np.empty_like(weights)
        leaving = forward[:-1]
        if tables.parents is not None:
            ptr, idx, _ = tables.pattern()
            leaving = np.empty_like(weights[1:])
            log_z, smallest_overlap = pass_tree(
                ptr, idx, self._exponentials, tables.table_of_step, tables.parents, weights, forward, backward, leaving
            )
        elif tables.dense:
            log_z, smallest_overlap = pass_dense(self._exponentials, tables.table_of_step, weights, forward, backward)
        elif tables.reach is not None:
            log_z, smallest_overlap = pass_banded(self._exponentials, tables.table_of_step, weights, forward, backward)
        else:
            log_z, smallest_overlap = pass_sparse(
                tables.ptr, tables.idx, self._exponentials, tables.table_of_step, weights, forward, backward
            )
        if not smallest_overlap > SAFE_OVERLAP:
            return None
        marginals = forward * backward
        marginals /= marginals.sum(axis=1, keepdims=True)
        return Messages(marginals, log_z + float(maxima.sum()) + self._offset, leaving, backward, scores, False)

    def _pass_log_domain(self, scores: FloatArray) -> Messages | None:
        """Run the pass in the log domain; None if no path is possible."""
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

    def flow(self, messages: Messages, t: int) -> FloatArray:
        """Return the probability of each stored move into step t + 1."""
        with np.errstate(divide="ignore"):
            leaving = messages.leaving[t] if messages.logarithmic else np.log(messages.leaving[t])
            entering = messages.backward[t + 1] if messages.logarithmic else np.log(messages.backward[t + 1])
        theta = self.tables.theta[self.tables.table_of_step[t]]
        entering = entering + messages.scores[t + 1]
        if self.tables.dense:
            logs = leaving[:, None] + theta + entering
        else:
            logs = leaving[self.tables.rows()] + theta + entering[self.tables.idx]
        flow: FloatArray = np.exp(logs - logs.max())
        return flow / flow.sum()

    def all_flows(self, messages: Messages) -> FloatArray:
        """Return the probabilities of all moves at every step, (T - 1, n_moves) or (T - 1, s, s)."""
        n = self.tables.table_of_step.size
        return np.array([self.flow(messages, t) for t in range(n)]).reshape(n, *self.tables.theta.shape[1:])

    def sum_of_flows(self, messages: Messages, table: int) -> FloatArray:
        """Return the expected number of uses of each move over the steps of one table, without storing single flows."""
        tables = self.tables
        steps = np.flatnonzero(tables.table_of_step == table)
        if messages.logarithmic:
            total = np.zeros_like(tables.theta[table])
            for t in steps:
                total += self.flow(messages, int(t))
            return total
        maxima = messages.scores.max(axis=1, keepdims=True)
        entering = np.exp(messages.scores - maxima)[steps + 1] * messages.backward[steps + 1]
        leaving = messages.leaving[steps]
        values = np.exp(tables.theta[table] - self._maxima[table])
        # The flow of each step sums to 1, so its total is divided out of the forward message.
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
    """Marginal oracle of walkers in cells and on moves, for observed moves, where every table changes with each call.

    The exponentials of the tables are computed in a buffer, and all numbers of walkers are stored in one vector.

    Parameters
    ----------
    tables : MoveTables
        Dense tables, one per step.
    n_walkers : float
        Number of walkers by which marginals and flows are multiplied.
    """

    def __init__(self, tables: MoveTables, n_walkers: float) -> None:
        self.tables, self.n_walkers = tables, n_walkers
        self._theta = np.ascontiguousarray(tables.theta.reshape(len(tables.theta), -1))
        self._buffer = np.empty_like(self._theta)

    def __call__(self, scores: FloatArray, tilt: FloatArray) -> tuple[Messages, FloatArray] | None:
        """Return the messages, and the walkers in cells, then on moves; None if no path is possible."""
        messages_and_walkers = self._pass_linear(scores, tilt) if self.tables.parents is None else None
        if messages_and_walkers is not None:
            return messages_and_walkers
        oracle = self.oracle_at(tilt)
        messages = oracle(scores)
        if messages is None:
            return None
        probabilities = np.concatenate([messages.marginals.reshape(-1), oracle.all_flows(messages).reshape(-1)])
        return messages, self.n_walkers * probabilities

    def oracle_at(self, tilt: FloatArray) -> WalkOracle:
        """Return the oracle of the tables minus a tilt."""
        return WalkOracle(replace(self.tables, theta=self.tables.theta - tilt.reshape(self.tables.theta.shape)))

    def _pass_linear(self, scores: FloatArray, tilt: FloatArray) -> tuple[Messages, FloatArray] | None:
        """Run the pass in the linear domain; None if it would underflow or no path is possible."""
        maxima = scores.max(axis=1, keepdims=True)
        if not (maxima > -np.inf).all():
            return None
        offset = subtract_tilt(self._theta, tilt.reshape(self._theta.shape), self._buffer) + float(maxima.sum())
        tables = np.exp(self._buffer, out=self._buffer).reshape(self.tables.theta.shape)
        weights = np.exp(scores - maxima)
        weights[weights < NEGLIGIBLE] = 0.0
        forward, backward = np.empty_like(weights), np.empty_like(weights)
        log_z, smallest_overlap = pass_dense(tables, self.tables.table_of_step, weights, forward, backward)
        if not smallest_overlap > SAFE_OVERLAP:
            return None
        marginals = forward * backward
        marginals /= marginals.sum(axis=1, keepdims=True)
        walkers = np.empty(scores.size + tilt.size)
        np.multiply(marginals.reshape(-1), self.n_walkers, out=walkers[: scores.size])
        flows = walkers[scores.size :].reshape(tables.shape)
        multiply_flows(tables, forward[:-1], weights[1:] * backward[1:], self.n_walkers, flows)
        return Messages(marginals, log_z + offset, forward[:-1], backward, scores, False), walkers
