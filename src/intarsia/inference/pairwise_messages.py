"""The fast path: sum-product on pairwise graphs with equal state counts; see `_kernels/pairwise_messages.py`."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.pairwise_messages import order_slots, row_spans, sweep_binary, sweep_equal
from intarsia._validation import FloatArray, IntArray
from intarsia.graph import FactorGraph, FactorKind
from intarsia.inference.general_messages import GeneralMessages

# Products of normalised messages stay above exp(-SAFE_RANGE), far from underflow at exp(-708).
SAFE_RANGE = 600.0


class PairwiseMessages:
    """Messages in the linear domain, by slot; hands over to `GeneralMessages` for the marginals."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: float, start: FloatArray | None = None) -> None:
        self.graph = graph
        self.theta = theta
        self.rho = rho
        self.k = int(graph.n_states[0])
        self.potts = bool(graph.table_kind[0] == FactorKind.POTTS)
        self.slot_ptr, self.middle, self.pair_of_slot, self.opposite = _slots(graph)
        self.first_axis = self.pair_of_slot % 2 == 0
        self.table_of_slot = graph.table_of_factor[self.pair_of_slot // 2]
        split = int(graph.variable_ptr[-1])
        unary = theta[:split].reshape(-1, self.k)
        self.unary = np.exp(unary - row_spans(unary)[0][:, None])
        if self.potts:
            strength = theta[split:] / rho
            self.tables = np.exp(np.stack([-np.maximum(strength, 0), np.minimum(strength, 0)], axis=1))
            self.table_top = np.zeros(graph.n_tables)
        else:
            tables = theta[split:].reshape(-1, self.k**2)
            self.table_top = row_spans(tables)[0]
            self.tables = tables - self.table_top[:, None]
            if rho != 1.0:
                self.tables /= rho
            np.exp(self.tables, out=self.tables)
        n_messages = graph.scope_idx.size
        if start is None:
            self.messages = np.full((n_messages, self.k), 1.0 / self.k)
        else:
            self.messages = np.exp(start.reshape(n_messages, self.k)[self.pair_of_slot])
        self.root = {0.5: 1, 0.25: 2}.get(rho, 0)
        self._spare: FloatArray | None = None

    def sweep(self, schedule: str, damping: float) -> float:
        """Update every message once; returns the residual, NaN when the model is infeasible."""
        old = new = self.messages
        if schedule == "parallel":
            if self._spare is None:
                self._spare = np.empty_like(self.messages)
            new = self._spare
        residual = 0.0
        for forward in (True, False):
            where = (
                self.slot_ptr, self.middle, self.opposite, self.table_of_slot, self.first_axis, self.tables, self.unary,
                self.rho, self.root, damping, old, new,
            )  # fmt: skip
            change = (
                sweep_binary(forward, *where)
                if self.k == 2 and not self.potts
                else sweep_equal(forward, self.potts, *where)
            )
            if change < 0:
                return np.nan
            residual = max(residual, change)
        if new is not old:
            self.messages, self._spare = new, old
        return residual

    def into_general(self) -> GeneralMessages:
        """The same messages in the form that marginals are read from; this object is used up (memory matters here)."""
        graph = self.graph
        by_pair = np.empty((self.pair_of_slot.size, self.k))
        by_pair[self.pair_of_slot] = self.messages
        del self.messages, self._spare, self.table_of_slot, self.first_axis
        with np.errstate(divide="ignore"):
            np.log(by_pair, out=by_pair)
        tables = None
        if not self.potts:
            starts = graph.table_of_factor * self.k**2
            tables = (self.tables.reshape(-1), starts, self.table_top[graph.table_of_factor] / self.rho)
        rho = np.full(graph.n_factors, self.rho)
        return GeneralMessages(graph, self.theta, rho, False, by_pair.reshape(-1), tables)


def fits_pairwise(graph: FactorGraph, theta: FloatArray, rho: FloatArray) -> bool:
    """Whether the fast path applies: shapes, one rho, no hard zero in a table, and no product that could underflow."""
    if graph.n_factors == 0 or graph.n_variables == 0:
        return False
    widths = np.diff(graph.scope_ptr)
    k = int(graph.n_states[0])
    kinds = graph.table_kind
    same = bool(
        (widths == 2).all() and (graph.n_states == k).all() and (kinds == kinds[0]).all() and (rho == rho[0]).all()
    )
    if not same or kinds[0] not in (FactorKind.TABLE, FactorKind.POTTS):
        return False
    split = int(graph.variable_ptr[-1])
    if not np.isfinite(theta[split:].sum()):
        return False
    if kinds[0] == FactorKind.POTTS:
        span = np.abs(theta[split:])
    else:
        span = row_spans(theta[split:].reshape(-1, k * k))[1]
    unary_span = row_spans(theta[:split].reshape(-1, k))[1]
    # A normalised message is at least exp(-span / rho) / k; a cavity is a product of those at its variable.
    message_span = span / rho[0] + np.log(k)
    if float(message_span.max()) * 2 > SAFE_RANGE:
        return False
    most = float(message_span.max())
    degree = np.bincount(graph.scope_idx, minlength=graph.n_variables)
    if float((degree * most + unary_span).max()) + most < SAFE_RANGE:
        return True
    at_variable = np.bincount(
        graph.scope_idx, np.repeat(message_span[graph.table_of_factor], 2), minlength=graph.n_variables
    )
    return float((at_variable + unary_span).max()) + most < SAFE_RANGE


def _slots(graph: FactorGraph) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    known: tuple[IntArray, IntArray, IntArray, IntArray] | None = graph.__dict__.get("_slots")
    if known is None:
        known = graph.__dict__["_slots"] = order_slots(graph.scope_idx, graph.n_variables)
    return known
