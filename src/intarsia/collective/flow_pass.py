"""Marginals of cells and of moves in one pass, for tables that are tilted anew at every call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intarsia._kernels.collective import NEGLIGIBLE, multiply_flows, pass_dense, subtract_tilt
from intarsia._validation import FloatArray
from intarsia.collective.oracle import SAFE, Messages, WalkOracle
from intarsia.collective.tables import MoveTables


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
